"""Checkpoints are saved and loaded as they were."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_folders import (
    CARD,
    CONFIG,
    METRICS,
    NEEDED,
    WEIGHTS,
    claim_config_hash,
    content,
    edit_json,
    make,
)

from calcgpt.checkpoint import Checkpoint, check_replaceable, load_metrics
from calcgpt.config import Recipe
from calcgpt.errors import CheckpointError
from calcgpt.registry import resolve, shipped_names
from calcgpt_lab.model.stored import checkpoint_of, load_tensors
from calcgpt_lab.saving import ALSO, model_card, save
from datagen.slots import N_KINDS, Kind


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
    save(saved, tmp_path / "saved")
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


def test_a_checkpoint_has_room_for_new_kinds_of_characters(tmp_path: Path) -> None:
    saved = Checkpoint.load(resolve("calculator"))
    full = saved.model.state_dict()["kinds.weight"]
    assert (len(full), full[len(Kind) :].any()) == (N_KINDS, False)
    assert saved.n_parameters == saved.model.n_parameters() == saved.metrics["parameters"]
    larger = {"kinds.weight": np.ones((N_KINDS + 1, full.shape[1]), np.float32)}
    save(dataclasses.replace(saved, arrays=saved.arrays | larger), tmp_path / "saved")
    n_stored = saved.n_parameters + (N_KINDS - len(Kind)) * full.shape[1]
    with pytest.raises(CheckpointError, match=f"has {n_stored + 32:,} .* says {n_stored:,}"):
        _ = Checkpoint.load(tmp_path / "saved").model


def test_tied_embeddings_stay_tied_and_are_stored_once(tmp_path: Path) -> None:
    save(make(tie_embeddings=True, head_bias=False), tmp_path / "tied")
    model = Checkpoint.load(tmp_path / "tied").model
    assert model.head.weight is model.token_embedding.weight
    assert "head.weight" not in load_tensors(tmp_path / "tied", WEIGHTS)


def test_the_same_checkpoint_gives_the_same_bytes(tmp_path: Path) -> None:
    save(make(), tmp_path / "one" / "same")
    save(make(), tmp_path / "two" / "same")
    assert content(tmp_path / "one" / "same") == content(tmp_path / "two" / "same")


def test_a_folder_holds_the_five_files_and_others_may_open_it(tiny_folder: Path) -> None:
    assert set(content(tiny_folder)) == {*NEEDED, CARD}
    assert tiny_folder.stat().st_mode & 0o777 == 0o755
    assert (tiny_folder / CARD).read_text().startswith("# tiny\n")


def test_others_may_read_the_weights_of_a_checkpoint(tmp_path: Path) -> None:
    save(make(), tmp_path / "made", extra={"training.safetensors": {"a": np.zeros(1)}})
    weights = (tmp_path / "made").glob("*.safetensors")
    assert [file.stat().st_mode & 0o777 for file in weights] == [0o644, 0o644]


def test_a_step_of_a_run_is_named_after_both(tmp_path: Path) -> None:
    save(make(), tmp_path / "mine" / "step-00000005")
    assert Checkpoint.load(tmp_path / "mine" / "step-00000005").name == "mine-step-00000005"


def test_a_checkpoint_has_a_copy_of_the_weights() -> None:
    first = make()
    taken = checkpoint_of("taken", first.recipe, first.tokenizer, first.model, {})
    with torch.no_grad():  # the training goes on
        first.model.head.bias += 1
    assert (taken.arrays["head.bias"] == first.arrays["head.bias"]).all()


def test_extra_tensors_can_be_loaded(tmp_path: Path) -> None:
    extra = {"a": np.arange(3), "b": np.eye(2)[::-1].T}
    save(make(), tmp_path / "saved", extra={"training.safetensors": extra})
    loaded = load_tensors(tmp_path / "saved", "training.safetensors")
    assert loaded.keys() == extra.keys()
    assert all(np.array_equal(loaded[name], extra[name]) for name in extra)


def test_a_checkpoint_of_an_earlier_version_has_no_hash_of_its_metrics(tiny_copy: Path) -> None:
    edit_json(tiny_copy / CONFIG, lambda table: table["sha256"].pop(METRICS))
    assert Checkpoint.load(tiny_copy).metrics


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


def test_a_checkpoint_with_scores_that_are_null_is_saved_again(tiny: Checkpoint) -> None:
    nothing = dict.fromkeys(("validation", "test", "also"))
    assert "| data |" not in model_card("mine", tiny.recipe, tiny.metrics | nothing)


def test_the_model_card_is_not_needed(tiny_copy: Path) -> None:
    (tiny_copy / CARD).write_bytes(b"\xff")
    assert Checkpoint.load(tiny_copy).metrics["step"] == 0
    (tiny_copy / CARD).unlink()
    assert Checkpoint.load(tiny_copy).metrics["step"] == 0


@pytest.mark.parametrize(
    "step",
    [
        "calcgpt_lab.saving.save_file",
        "calcgpt.base.files.sha256",
        "calcgpt.base.files.write_json",
        "calcgpt_lab.saving.model_card",
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
        save(make(seed=1), tiny_copy)
    assert content(tiny_copy) == before
    assert list(tiny_copy.parent.iterdir()) == [tiny_copy]


def test_a_save_over_a_checkpoint_replaces_all_of_it(tiny_copy: Path) -> None:
    new = make(seed=1)
    save(new, tiny_copy, extra={"training.safetensors": {"a": np.zeros(1)}})
    save(new, tiny_copy)
    assert set(content(tiny_copy)) == {*NEEDED, CARD}
    loaded = Checkpoint.load(tiny_copy)
    assert torch.equal(loaded.model.head.weight, new.model.head.weight)
    assert list(tiny_copy.parent.iterdir()) == [tiny_copy]


def test_only_a_folder_of_ours_is_replaced_and_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    check_replaceable(out, False, "marker")  # nothing is there
    out.mkdir()
    for force in (False, True):
        with pytest.raises(
            CheckpointError, match="out exists and has no marker: it is not replaced"
        ):
            check_replaceable(out, force, "marker")
    (out / "marker").touch()
    with pytest.raises(CheckpointError, match="out exists; --force replaces it"):
        check_replaceable(out, False, "marker")
    check_replaceable(out, True, "marker")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('{"model_type": "llama"}', "config.json"),
        ('{"version": "1.0", "model": {}}', "tokenizer.json"),
    ],
)
def test_a_folder_with_a_file_of_another_program_is_left_alone(
    tiny_copy: Path, content: str, name: str
) -> None:
    check_replaceable(tiny_copy, True, CARD, name)
    (tiny_copy / name).write_text(content)
    for force in (False, True):
        with pytest.raises(CheckpointError, match=f"calcgpt did not write its {name}: it is not"):
            check_replaceable(tiny_copy, force, CARD, name)


def test_metrics_are_read_with_the_config_beside_them_or_alone(tiny_copy: Path) -> None:
    metrics = Checkpoint.load(tiny_copy).metrics
    assert load_metrics(tiny_copy) == metrics
    (tiny_copy / CONFIG).write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_metrics(tiny_copy)
    (tiny_copy / CONFIG).unlink()
    assert load_metrics(tiny_copy) == metrics
