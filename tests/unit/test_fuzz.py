"""Replays what fuzzing has found so far; `make fuzz` searches for more."""

import pytest

from tools.fuzz import read_corpus
from tools.fuzz_targets import TARGETS, seeds


def breaks_a_promise(name: str, data: bytes) -> bool:
    try:
        TARGETS[name](data)
    except Exception:
        return True
    return False


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_a_promise(name: str) -> None:
    inputs = read_corpus(name)
    assert inputs
    for data in [*inputs, *seeds(name)]:
        TARGETS[name](data)


@pytest.mark.parametrize(
    ("name", "target", "defect"),
    [
        ("expression", "calcgpt.inference.expression_tree.show", lambda tree: "0"),
        ("notation", "datagen.notation.render_answer", lambda value: "0"),
        ("work", "datagen.work_errors.first_error_of_completion", lambda prompt, text: None),
        ("checkpoint", "calcgpt.checkpoint.check_hash", lambda path, hashes: None),
        ("recipe", "calcgpt_lab.recipe._toml_value", lambda value: "1"),
    ],
)
def test_a_defect_is_noticed(
    name: str, target: str, defect: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, defect)
    assert any(breaks_a_promise(name, data) for data in [*seeds(name), *read_corpus(name)])
