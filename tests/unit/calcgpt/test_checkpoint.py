"""Checkpoints load as they were saved; damaged ones are refused with the name of the file."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.checkpoint import (
    ALSO,
    Checkpoint,
    check_replaceable,
    load_metrics,
    load_tensors,
    model_card,
    save_domain,
)
from calcgpt.config import Domain, ModelConfig, Recipe
from calcgpt.data.tokenizer import arithmetic_tokenizer, text_tokenizer
from calcgpt.errors import CheckpointError
from calcgpt.model.gpt import GPT
from calcgpt.registry import best, resolve, shipped_names
from datagen.files import MAX_JSON_BYTES, sha256

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
METRICS, CARD = "metrics.json", "README.md"
NEEDED = (CONFIG, TOKENIZER, WEIGHTS, METRICS)


def make(seed: int = 0, **fields: Any) -> Checkpoint:
    """A checkpoint with random weights."""
    sizes = {"n_layer": 1, "n_embd": 16, "n_head": 2, "block_size": 64}
    recipe = Recipe(model=ModelConfig(**{**sizes, **fields}))
    torch.manual_seed(seed)
    model = GPT(recipe.model, 21).eval()
    metrics = {"parameters": model.n_parameters(), "step": 3}
    return Checkpoint.of("made", recipe, arithmetic_tokenizer(), model, metrics)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refusal(folder: Path) -> str:
    """Returns the one-line error of a checkpoint that is refused."""
    with pytest.raises(CheckpointError) as caught:
        _ = Checkpoint.load(folder).model
    message = str(caught.value)
    assert "\n" not in message
    return message


def edit_json(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    table = json.loads(path.read_text())
    change(table)
    path.write_text(json.dumps(table))


def claim_config_hash(folder: Path) -> None:
    """Updates the hash of `config.json` in itself."""
    table = json.loads((folder / CONFIG).read_text())
    hashes = table.pop("sha256", None)
    if isinstance(hashes, dict):
        canonical = json.dumps(table, sort_keys=True)
        hashes[CONFIG] = hashlib.sha256(canonical.encode()).hexdigest()
        edit_json(folder / CONFIG, lambda table: table.update(sha256=hashes))


def claim_hash(folder: Path, name: str) -> None:
    """Updates the hash of a file in `config.json`."""
    digest = sha256(folder / name)
    edit_json(folder / CONFIG, lambda table: table["sha256"].update({name: digest}))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tie_embeddings": True, "head_bias": False},
        {"position": "rope", "feedforward": "swiglu", "norm": "rmsnorm", "n_kv_head": 1},
        {"position": "none", "qk_norm": True, "qkv_bias": True, "ff_bias": True},
    ],
    ids=["baseline", "tied", "rope-swiglu-mqa", "none-qk-norm"],
)
def test_a_checkpoint_loads_bit_for_bit(tmp_path: Path, fields: dict[str, Any]) -> None:
    saved = make(**fields)
    saved.save(tmp_path / "saved")
    loaded = Checkpoint.load(tmp_path / "saved")
    assert loaded.name == "saved"
    assert loaded.recipe == saved.recipe
    assert loaded.metrics == saved.metrics
    assert loaded.tokenizer.vocabulary == saved.tokenizer.vocabulary
    expected, actual = saved.model.state_dict(), loaded.model.state_dict()
    assert expected.keys() == actual.keys()
    assert all(torch.equal(expected[name], actual[name]) for name in expected)
    tokens = torch.randint(21, (2, 64))
    assert torch.equal(saved.model(tokens), loaded.model(tokens))
    assert not loaded.model.training


def test_tied_embeddings_stay_tied_and_are_stored_once(tmp_path: Path) -> None:
    make(tie_embeddings=True, head_bias=False).save(tmp_path / "tied")
    model = Checkpoint.load(tmp_path / "tied").model
    assert model.head.weight is model.token_embedding.weight
    assert "head.weight" not in load_tensors(tmp_path / "tied", WEIGHTS)


def test_the_same_checkpoint_gives_the_same_bytes(tmp_path: Path) -> None:
    make().save(tmp_path / "one" / "same")
    make().save(tmp_path / "two" / "same")
    assert content(tmp_path / "one" / "same") == content(tmp_path / "two" / "same")


def test_a_folder_holds_the_five_files_and_others_may_open_it(tiny_folder: Path) -> None:
    assert set(content(tiny_folder)) == {*NEEDED, CARD}
    assert tiny_folder.stat().st_mode & 0o777 == 0o755
    assert (tiny_folder / CARD).read_text().startswith("# tiny\n")


def test_extra_tensors_can_be_loaded(tmp_path: Path) -> None:
    extra = {"a": torch.arange(3), "b": torch.rand(2, 2).T}
    make().save(tmp_path / "saved", extra={"training.safetensors": extra})
    loaded = load_tensors(tmp_path / "saved", "training.safetensors")
    assert loaded.keys() == extra.keys()
    assert all(torch.equal(loaded[name], extra[name]) for name in extra)


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_file_is_named(tiny_copy: Path, name: str) -> None:
    (tiny_copy / name).unlink()
    message = refusal(tiny_copy)
    assert message.startswith(str(tiny_copy / name))
    assert "No such file" in message


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.95])
def test_a_truncated_file_is_named(tiny_copy: Path, name: str, keep: float) -> None:
    data = (tiny_copy / name).read_bytes()
    (tiny_copy / name).write_bytes(data[: int(keep * len(data))])
    assert str(tiny_copy / name) in refusal(tiny_copy)


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"[1, 2]", b'"text"', b"null", b"[" * 50])
def test_a_file_with_other_content_is_named(tiny_copy: Path, name: str, data: bytes) -> None:
    (tiny_copy / name).write_bytes(data)
    assert str(tiny_copy / name) in refusal(tiny_copy)


@pytest.mark.parametrize("name", NEEDED)
def test_a_folder_instead_of_a_file_is_named(tiny_copy: Path, name: str) -> None:
    (tiny_copy / name).unlink()
    (tiny_copy / name).mkdir()
    assert str(tiny_copy / name) in refusal(tiny_copy)


@pytest.mark.skipif(sys.platform == "win32", reason="makes a pipe")
@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("kind", ["pipe", "device", "too large"])
def test_what_might_never_end_is_not_read(tiny_copy: Path, name: str, kind: str) -> None:
    file = tiny_copy / name
    if kind == "too large":
        os.truncate(file, MAX_JSON_BYTES + 1)
        expected = "content differs" if name == WEIGHTS else "more than 268,435,456 bytes"
    else:
        file.unlink()
        os.mkfifo(file) if kind == "pipe" else file.symlink_to("/dev/zero")
        expected = "not a regular file"
    assert refusal(tiny_copy).startswith(f"{file}: {expected}")


@pytest.mark.parametrize("position", [0, 8, 200, 5000, -1])
def test_one_flipped_bit_in_the_weights_is_found(tiny_copy: Path, position: int) -> None:
    data = bytearray((tiny_copy / WEIGHTS).read_bytes())
    data[position] ^= 1
    (tiny_copy / WEIGHTS).write_bytes(data)
    assert str(tiny_copy / WEIGHTS) in refusal(tiny_copy)


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
    checkpoint.save(tmp_path / "nan")
    with pytest.raises(CheckpointError, match=r"'head.weight' has values that are not finite"):
        Checkpoint.load(tmp_path / "nan")


def test_a_checkpoint_of_an_earlier_version_has_no_hash_of_its_metrics(tiny_copy: Path) -> None:
    edit_json(tiny_copy / CONFIG, lambda table: table["sha256"].pop(METRICS))
    assert Checkpoint.load(tiny_copy).metrics


def test_a_changed_vocabulary_is_found(tiny_copy: Path) -> None:
    text = (tiny_copy / TOKENIZER).read_text()
    (tiny_copy / TOKENIZER).write_text(text.replace("=an", "=bn"))
    assert str(tiny_copy / TOKENIZER) in refusal(tiny_copy)


def test_weights_of_another_model_of_the_same_shape_are_found(
    tiny_copy: Path, tmp_path: Path
) -> None:
    make(seed=1).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / WEIGHTS, tiny_copy / WEIGHTS)
    assert "model.safetensors: content differs" in refusal(tiny_copy)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"n_embd": 32}, "config.json says"),
        ({"n_layer": 2}, "is not part of this model"),
        ({"head_bias": False}, "tensor 'head.bias' is missing"),
    ],
)
def test_weights_that_do_not_fit_the_config_are_refused_by_tensor(
    tiny_copy: Path, tmp_path: Path, fields: dict[str, Any], reason: str
) -> None:
    make(**fields).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / WEIGHTS, tiny_copy / WEIGHTS)
    claim_hash(tiny_copy, WEIGHTS)
    message = refusal(tiny_copy)
    assert message.startswith(f"{tiny_copy.name}/{WEIGHTS}: tensor")
    assert reason in message


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


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.update({key: table.pop(key) for key in sorted(table, reverse=True)}),
        lambda table: table.pop("calcgpt_version"),
    ],
    ids=["in another order", "of no version"],
)
def test_a_config_that_says_the_same_is_the_same(
    tiny_copy: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    before = Checkpoint.load(tiny_copy).recipe
    edit_json(tiny_copy / CONFIG, change)
    if "calcgpt_version" not in (tiny_copy / CONFIG).read_text():
        claim_config_hash(tiny_copy)
    assert Checkpoint.load(tiny_copy).recipe == before


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


@pytest.mark.parametrize("name", shipped_names())
def test_the_model_card_of_a_shipped_checkpoint_shows_its_metrics(name: str) -> None:
    folder = resolve(name)
    card = model_card(name, Checkpoint.load(folder).recipe, load_metrics(folder))
    assert (folder / CARD).read_text("utf-8") == card


def test_a_model_card_shows_the_scores_on_further_files() -> None:
    metrics = load_metrics(resolve("direct"))
    card = model_card("new", Recipe(), {**metrics, ALSO: {"hard.txt": metrics["test"]}})
    [row] = [line for line in card.splitlines() if line.startswith("| test, greedy |")]
    assert row.replace("| test,", "| hard.txt,") in card.splitlines()


def test_a_model_card_without_metrics_says_so() -> None:
    lines = model_card("new", Recipe(), {}).splitlines()
    assert any(line.startswith("- 0 parameters: ") for line in lines)
    assert any(line.startswith("- trained for ? steps ") for line in lines)


def test_a_checkpoint_with_scores_that_are_null_is_saved_again(tiny: Checkpoint) -> None:
    nothing = dict.fromkeys(("validation", "test", "also"))
    assert "| data |" not in model_card("mine", tiny.recipe, tiny.metrics | nothing)


def test_the_model_card_is_not_needed(tiny_copy: Path) -> None:
    (tiny_copy / CARD).write_bytes(b"\xff")
    assert Checkpoint.load(tiny_copy).metrics["step"] == 0
    (tiny_copy / CARD).unlink()
    assert Checkpoint.load(tiny_copy).metrics["step"] == 0


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
    else:
        # Files with a hash are unchanged; the others may have any valid content.
        assert name in (CONFIG, METRICS, CARD) or damaged == whole[name]
        message = f"loaded {loaded.name}"
    assert message
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


def test_a_torch_file_is_refused(tiny_copy: Path) -> None:
    torch.save({"head.bias": torch.zeros(21)}, tiny_copy / WEIGHTS)
    claim_hash(tiny_copy, WEIGHTS)
    assert str(tiny_copy / WEIGHTS) in refusal(tiny_copy)


def test_loading_calls_no_unpickler(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("something was unpickled")

    for owner, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler")):
        monkeypatch.setattr(owner, name, forbidden)
    monkeypatch.setattr(torch, "load", forbidden)
    assert Checkpoint.load(tiny_folder).name == "tiny"


@pytest.mark.parametrize(
    "step",
    [
        "safetensors.numpy.save_file",
        "calcgpt.checkpoint.sha256",
        "calcgpt.checkpoint.write_json",
        "calcgpt.checkpoint.model_card",
    ],
)
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_save_that_fails_leaves_the_old_checkpoint_and_nothing_else(
    tiny_copy: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: type[BaseException]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    before = content(tiny_copy)
    monkeypatch.setattr(step, fail)
    with pytest.raises(error):
        make(seed=1).save(tiny_copy)
    assert content(tiny_copy) == before
    assert list(tiny_copy.parent.iterdir()) == [tiny_copy]


def test_a_save_over_a_checkpoint_replaces_all_of_it(tiny_copy: Path) -> None:
    new = make(seed=1)
    new.save(tiny_copy, extra={"training.safetensors": {"a": torch.zeros(1)}})
    new.save(tiny_copy)
    assert set(content(tiny_copy)) == {*NEEDED, CARD}
    loaded = Checkpoint.load(tiny_copy)
    assert torch.equal(loaded.model.head.weight, new.model.head.weight)
    assert list(tiny_copy.parent.iterdir()) == [tiny_copy]


def test_a_text_model_is_a_checkpoint_too(tmp_path: Path) -> None:
    tokenizer, recipe = text_tokenizer("to be or not to be × ÷ é"), make().recipe
    saved = Checkpoint.of("text", recipe, tokenizer, GPT(recipe.model, len(tokenizer)), {})
    saved.save(tmp_path / "text")
    assert Checkpoint.load(tmp_path / "text").tokenizer.vocabulary == saved.tokenizer.vocabulary


def test_only_a_folder_of_ours_is_replaced_and_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    check_replaceable(out, "marker", force=False)  # nothing is there
    out.mkdir()
    for force in (False, True):
        with pytest.raises(CheckpointError, match="out exists and has no marker: it is left alone"):
            check_replaceable(out, "marker", force)
    (out / "marker").touch()
    with pytest.raises(CheckpointError, match="out exists; --force replaces it"):
        check_replaceable(out, "marker", force=False)
    check_replaceable(out, "marker", force=True)


def test_a_folder_with_the_config_of_another_program_is_left_alone(tiny_copy: Path) -> None:
    check_replaceable(tiny_copy, "config.json", force=True)
    (tiny_copy / "config.json").write_text('{"model_type": "llama"}')
    for force in (False, True):
        with pytest.raises(CheckpointError, match=r"config\.json is not ours: it is left alone"):
            check_replaceable(tiny_copy, "config.json", force)


def test_a_domain_is_saved_beside_the_recipe(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    make().save(first)
    before = Checkpoint.load(first)
    assert before.domain is None
    for domain in (Domain(digits=12, places=8), Domain(digits=9, places=2)):
        save_domain(first, domain)
        after = Checkpoint.load(first)
        assert (after.domain, after.recipe, after.metrics) == (
            domain,
            before.recipe,
            before.metrics,
        )
    after.save(second)
    assert Checkpoint.load(second).domain == domain
    assert content(first).keys() == content(second).keys()


def test_metrics_are_read_with_the_config_beside_them_or_alone(tiny_copy: Path) -> None:
    metrics = Checkpoint.load(tiny_copy).metrics
    assert load_metrics(tiny_copy) == metrics
    (tiny_copy / CONFIG).write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_metrics(tiny_copy)
    (tiny_copy / CONFIG).unlink()
    assert load_metrics(tiny_copy) == metrics


@pytest.mark.parametrize("domain", [{"digits": 0, "places": 2}, {"digits": 7}, 7, "x", []])
def test_a_damaged_domain_is_refused(tmp_path: Path, domain: object) -> None:
    make().save(tmp_path / "made")
    edit_json(tmp_path / "made" / CONFIG, lambda table: table.update(domain=domain))
    claim_config_hash(tmp_path / "made")
    assert "config.json: domain" in refusal(tmp_path / "made")


def test_a_domain_is_not_saved_in_what_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json"):
        save_domain(tmp_path, Domain(digits=12, places=8))
    assert not list(tmp_path.iterdir())
