"""Checkpoints that are damaged, incomplete or hostile are refused, each with one line."""

import json
import math
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_folders import (
    CARD,
    CONFIG,
    METRICS,
    NEEDED,
    TOKENIZER,
    WEIGHTS,
    claim_config_hash,
    claim_hash,
    content,
    edit_json,
    make,
    refusal,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from calcgpt.checkpoint import Checkpoint, load_metrics
from calcgpt.errors import CheckpointError
from calcgpt.registry import best
from calcgpt_lab.model.stored import load_tensors
from calcgpt_lab.saving import save

# What stands in place of a file, and what is said of it.
REPLACED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "nothing": (lambda file: None, "No such file"),
    "a folder": (Path.mkdir, ""),
    "a pipe": (os.mkfifo, "not a regular file"),
    "a device": (lambda file: file.symlink_to("/dev/zero"), "not a regular file"),
    # No byte of it is read: that would take long.
    "too large": (lambda file: file.touch() or os.truncate(file, 10**10), "more than "),
    "no text": (lambda file: file.write_bytes(b"\xff\xfe\x00"), ""),
    **{
        text[:6]: (lambda file, text=text: file.write_text(text), "")
        for text in ("[1, 2]", '"text"', "null", "[" * 50)
    },
}


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("kind", REPLACED)
def test_what_stands_in_place_of_a_file_is_refused(tiny_copy: Path, name: str, kind: str) -> None:
    make, reason = REPLACED[kind]
    (tiny_copy / name).unlink()
    make(tiny_copy / name)
    message = refusal(tiny_copy)
    assert str(tiny_copy / name) in message
    assert reason in message


def test_one_flipped_bit_in_the_state_of_the_training_is_found(tmp_path: Path) -> None:
    file = tmp_path / "made" / "training.safetensors"
    save(make(), file.parent, extra={file.name: {"a": np.zeros(9)}})
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"training\.safetensors: content differs"):
        load_tensors(file.parent, file.name)


def test_any_flipped_bit_in_the_metrics_is_found_also_when_the_best_is_chosen(
    tiny_copy: Path,
) -> None:
    content = (tiny_copy / METRICS).read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1
        (tiny_copy / METRICS).write_bytes(damaged)
        for read in (load_metrics, Checkpoint.load) if position % 50 == 0 else (load_metrics,):
            with pytest.raises(CheckpointError, match=r"metrics\.json: content differs"):
                read(tiny_copy)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        best(tiny_copy.parent)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    checkpoint = make()
    checkpoint.arrays["head.weight"][3, 4] = value
    save(checkpoint, tmp_path / "nan")
    with pytest.raises(CheckpointError, match=r"'head.weight' has values that are not finite"):
        Checkpoint.load(tmp_path / "nan")


@pytest.mark.parametrize("fields", [{"n_embd": 32}, {"n_layer": 2}, {"head_bias": False}])
def test_weights_of_another_size_are_refused(
    tiny_copy: Path, tmp_path: Path, fields: dict[str, Any]
) -> None:
    n_value = Checkpoint.load(tiny_copy).n_parameters
    save(make(**fields), tmp_path / "other")
    shutil.copy(tmp_path / "other" / WEIGHTS, tiny_copy / WEIGHTS)
    claim_hash(tiny_copy, WEIGHTS)
    n_other = Checkpoint.load(tmp_path / "other").n_parameters
    expected = f"tiny/{WEIGHTS}: has {n_other:,} numbers, config.json says {n_value:,}"
    assert refusal(tiny_copy) == expected


Arrays = dict[str, NDArray[Any]]


def _merged(arrays: Arrays, *shape: int) -> Arrays:
    return {"head.weight": np.concatenate([a.ravel() for a in arrays.values()]).reshape(*shape)}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda a: _merged(a, -1), "tensor 'blocks.0.attn.out.bias' is missing"),
        (lambda a: {name.upper(): array for name, array in a.items()}, "is not part of"),
        (lambda a: {**a, "x" * 10**6: np.zeros(0, np.float32)}, "xx...' is not part of this model"),
        (
            lambda a: {**a, "head.weight": a["head.weight"].T},
            "tensor 'head.weight' is (16, 21), config.json says (21, 16)",
        ),
        (
            lambda a: {**a, "head.bias": a["head.bias"].astype(np.float16)},
            "tensor 'head.bias' has type F16, not F32",
        ),
    ],
    ids=["one", "names", "empty", "shape", "type"],
)
def test_weights_that_do_not_fit_the_config_are_refused_by_tensor(
    tiny_copy: Path, change: Callable[[Arrays], Arrays], reason: str
) -> None:
    arrays = change(load_file(tiny_copy / WEIGHTS))
    save_file({name: np.ascontiguousarray(a) for name, a in arrays.items()}, tiny_copy / WEIGHTS)
    claim_hash(tiny_copy, WEIGHTS)
    message = refusal(tiny_copy)
    assert f"{tiny_copy.name}/{WEIGHTS}: tensor" in message
    assert reason in message
    assert len(message) < 400


@pytest.mark.parametrize("n_dimension", [9, 100_000])
def test_weights_of_many_dimensions_are_refused(tiny_copy: Path, n_dimension: int) -> None:
    stored = (tiny_copy / WEIGHTS).read_bytes()
    start = 8 + int.from_bytes(stored[:8], "little")
    values = stored[start:]
    shape = [len(values) // 4] + [1] * (n_dimension - 1)
    table = {"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, len(values)]}}
    header = json.dumps(table).encode()
    (tiny_copy / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + values)
    claim_hash(tiny_copy, WEIGHTS)
    expected = f"{tiny_copy / WEIGHTS}: tensor 'a' has {n_dimension:,} dimensions"
    assert refusal(tiny_copy) == expected


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda table: table.pop("sha256"), "'sha256' is missing"),
        (lambda table: table.update(sha256="none"), "'sha256' is missing"),
        (lambda table: table["model"].update(n_layer="one"), "model.n_layer"),
        (lambda table: table["model"].update(n_heads=2), "unknown field 'model.n_heads'"),
        (lambda table: table["model"].update(n_head=3), "not divisible"),
        (lambda table: table.update(model=[1]), "model"),
        (lambda table: table.update(weights="x"), "unknown field 'weights'"),
        (
            lambda table: table["sha256"].update({"../notes.txt": "0" * 64}),
            "'sha256' has '../notes.txt', which is not a file of a checkpoint",
        ),
    ],
)
def test_an_invalid_config_is_refused_with_the_reason(
    tiny_copy: Path, change: Callable[[dict[str, Any]], Any], reason: str
) -> None:
    edit_json(tiny_copy / CONFIG, change)
    claim_config_hash(tiny_copy)
    message = refusal(tiny_copy)
    assert message.startswith(str(tiny_copy / CONFIG))
    assert reason in message


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table["model"].update(n_head=4),  # every tensor keeps its shape
        lambda table: table["model"].update(rope_base=100.0),
        lambda table: table["model"].update(block_size=10**6),
        lambda table: table.update(description="another"),
    ],
)
def test_a_config_that_was_edited_is_refused(
    tiny_copy: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    edit_json(tiny_copy / CONFIG, change)
    assert refusal(tiny_copy) == f"{tiny_copy / CONFIG}: content differs from its own SHA-256"


@pytest.mark.parametrize("n_embd", [10_000, 10**23])
def test_a_size_beyond_the_weights_is_refused_before_it_is_allocated(
    tiny_copy: Path, n_embd: int
) -> None:
    edit_json(tiny_copy / CONFIG, lambda table: table["model"].update(n_embd=n_embd, n_layer=900))
    claim_config_hash(tiny_copy)
    assert len(refusal(tiny_copy)) < 300


def test_a_nested_tokenizer_is_refused(tiny_copy: Path) -> None:
    (tiny_copy / TOKENIZER).write_text("[" * 100_000)
    claim_hash(tiny_copy, TOKENIZER)
    assert str(tiny_copy / TOKENIZER) in refusal(tiny_copy)


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    assert "absent/config.json" in refusal(tmp_path / "absent")
    (tmp_path / "file").write_text("text")
    assert "file/config.json" in refusal(tmp_path / "file")


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Functions that remove, change or add bytes."""
    position = draw(st.floats(0, 1, exclude_max=True))
    byte = bytes([draw(st.integers(0, 255))])
    end = draw(st.sampled_from(["change", "remove", "insert", "cut", "replace"]))
    other = draw(st.binary(max_size=50))

    def damage(data: bytes) -> bytes:
        at = int(position * len(data))
        return {
            "change": data[:at] + byte + data[at + 1 :],
            "remove": data[:at] + data[at + 1 :],
            "insert": data[:at] + byte + data[at:],
            "cut": data[:at],
            "replace": other,
        }[end]

    return damage


@pytest.fixture(scope="module")
def whole(tiny_folder: Path) -> dict[str, bytes]:
    return content(tiny_folder)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@pytest.mark.parametrize("name", [*NEEDED, CARD])
@given(damage=damages())
def test_random_damage_never_ends_in_another_error(
    whole: dict[str, bytes], scratch: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    damaged = damage(whole[name])
    for other, data in whole.items():
        (scratch / other).write_bytes(damaged if other == name else data)
    try:
        loaded = Checkpoint.load(scratch)
    except CheckpointError as error:
        message = str(error)
        assert str(scratch / name) in message or name == CONFIG  # has the hashes of the others
    else:
        # Files with a hash are unchanged; the others may have any valid content.
        assert name in (CONFIG, METRICS, CARD) or damaged == whole[name]
        message = f"loaded {loaded.name}"
    assert "\n" not in message


class Malice:
    """An object that runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("name", NEEDED)
def test_a_pickle_is_refused_unread(tiny_copy: Path, tmp_path: Path, name: str) -> None:
    (tiny_copy / name).write_bytes(pickle.dumps(Malice(tmp_path / "harm")))
    if name != CONFIG:
        claim_hash(tiny_copy, name)
    assert str(tiny_copy / name) in refusal(tiny_copy)
    assert not (tmp_path / "harm").exists()
