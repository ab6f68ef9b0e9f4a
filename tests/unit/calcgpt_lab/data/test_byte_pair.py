"""Byte-pair tokenizers: every text decodes to itself, the same text gives the same tokenizer, and
an invalid tokenizer.json is refused in one line."""

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from commands import RunCli
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from calcgpt.base.errors import ConfigError, DataError
from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError
from calcgpt.tokenizer import tokenizer_from_json
from calcgpt_lab.data.problems import split_line
from calcgpt_lab.data.tokenizers import BytePairTokenizer, byte_pair_tokenizer
from calcgpt_lab.evaluation.evaluate import evaluate
from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.saving import save
from calcgpt_lab.training.train import train

TEXT = "It's a sea shell;\n  she sells sea shells, été après été.\n\n  Shells: 12, 12 sold!\n" * 3
SMALL = (
    "tokenizer=bpe",
    "vocab_size=280",
    "model.n_layer=1",
    "train.batches=stream",
    "train.join_lines=false",
    "train.steps=2",
    "train.warmup_steps=0",
    "train.eval_batches=1",
)

shells = byte_pair_tokenizer(TEXT, 285)
# Any text, and texts of the characters that GPT-2's pattern and the cuts distinguish.
texts = st.text(st.characters(exclude_categories=["Cs"])) | st.text(
    "sea's 1\n\t\r\x1c\x85\u3000é🐚!"
)


def library(merges: list[tuple[str, str]]) -> tokenizers.Tokenizer:
    """The same tokenizer, set up as the library's documentation does for GPT-2."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {token: i for i, token in enumerate([*alphabet, *map("".join, merges)])}
    tokenizer = tokenizers.Tokenizer(models.BPE(ids, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


@given(texts)
def test_ids_are_those_of_the_library_and_every_text_comes_back(text: str) -> None:
    ids = shells.encode(text)
    assert ids.dtype == np.uint16
    assert ids.tolist() == library(list(shells.merges)).encode(text).ids
    assert shells.decode(ids) == text


@given(st.lists(st.lists(st.integers(0, 284), max_size=6), max_size=5))
def test_ids_in_parts_give_the_text_of_the_whole(parts: list[list[int]]) -> None:
    decode, text = shells.incremental_decoder(), ""
    for number, part in enumerate(parts):
        text += decode(part, False)
        ids = [token for earlier in parts[: number + 1] for token in earlier]
        assert shells.decode(ids).startswith(text)
    assert text + decode([], True) == shells.decode([token for part in parts for token in part])


def test_there_are_as_many_tokens_as_asked_for_if_the_text_has_them() -> None:
    assert len(shells) == 285
    assert len(byte_pair_tokenizer("no two", 285)) == 256  # no pair occurs twice
    assert len(byte_pair_tokenizer(TEXT, 256)) == 256


def test_without_merges_ids_are_bytes() -> None:
    tokenizer = byte_pair_tokenizer(TEXT, 256)
    assert tokenizer.encode("é\n").dtype == np.uint8
    assert [len(tokenizer.encode(text)) for text in ("", "a", "é", "🐚")] == [0, 1, 2, 4]


def test_a_character_that_was_cut_is_shown_as_such() -> None:
    tokenizer = byte_pair_tokenizer(TEXT, 256)
    assert tokenizer.decode(tokenizer.encode("é!")[1:]) == "�!"
    with pytest.raises(IndexError):
        shells.decode([285])


def test_a_lone_surrogate_is_named_with_its_position() -> None:
    with pytest.raises(DataError, match=r"'\\ud800' at position 2 is a lone surrogate"):
        shells.encode("ab\ud800")


def test_no_text_gives_no_tokenizer() -> None:
    with pytest.raises(ValueError, match="no text to learn from"):
        byte_pair_tokenizer("", 300)


def test_json_describes_a_tokenizer_completely() -> None:
    again = tokenizer_from_json(shells.to_json())
    assert isinstance(again, BytePairTokenizer)
    assert (again.vocabulary, again.merges) == (shells.vocabulary, shells.merges)


def with_merges(*merges: object) -> str:
    return json.dumps({"type": "bpe", "merges": merges})


@pytest.mark.parametrize(
    "content",
    [
        '{"type": "bpe"}',
        '{"type": "bpe", "merges": {}}',
        '{"type": "bpe", "merges": ' + "[" * 100_000,
        with_merges("a b", 5),
        with_merges("a \ud800"),
        with_merges("x\n y"),
        with_merges("ab"),
        with_merges(" a b"),
        with_merges("qq "),  # a token that is made of itself
        with_merges(" "),  # one that stands for nothing
        with_merges("a bc", "b c"),  # of a token that only the next one makes
        with_merges("a a", "a a"),
        with_merges(*(f"a {i}" for i in range(70_000))),
    ],
    ids=lambda content: f"{len(content)} characters",
)
def test_json_of_anything_else_is_refused_in_one_line(content: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        tokenizer_from_json(content)
    message = str(caught.value)
    assert "not a tokenizer" in message
    assert "\n" not in message
    assert len(message) < 200


def test_more_tokens_than_ids_are_refused() -> None:
    alphabet = list(byte_pair_tokenizer("a", 256).vocabulary)
    pairs = [(a, b) for a in alphabet for b in alphabet][: 2**16 - 256]
    assert len(BytePairTokenizer(pairs)) == 2**16
    pairs.append((alphabet[-1], alphabet[-1]))
    with pytest.raises(ValueError, match="at most 65,536"):
        BytePairTokenizer(pairs)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["train.batches=problems"], "tokenizer 'bpe' is for plain text"),
        (["data.mixture.blog=1"], "tokenizer 'bpe' is for plain text"),
        (["vocab_size=255"], "vocab_size: Input should be greater than or equal to 256"),
        (["vocab_size=65537"], "vocab_size: Input should be less than or equal to 65536"),
    ],
)
def test_a_recipe_that_cannot_use_it_is_refused(overrides: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        load_recipe("nano", (*SMALL, *overrides))
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of plain text."""
    folder = tmp_path_factory.mktemp("text")
    for name in ("train.txt", "val.txt"):
        (folder / name).write_text(TEXT * 4, "utf-8")
    return folder


@pytest.fixture(scope="module")
def trained(folder: Path) -> Path:
    """The last checkpoint of a run on that folder."""
    out = folder / "run"
    return train(load_recipe("nano", SMALL), folder, out, device="cpu", progress=False)


def test_a_trained_model_is_loaded_with_its_tokenizer(trained: Path) -> None:
    loaded = Checkpoint.load(trained)
    assert loaded.tokenizer.to_json() == byte_pair_tokenizer(TEXT * 4, 280).to_json()
    assert loaded.metrics["val_loss"] > 0
    ids = torch.from_numpy(loaded.tokenizer.encode("sea shells").astype(np.int64))[None]
    assert loaded.model(ids).shape == (1, ids.size(1), 280)
    saved = trained.parent.parent / "again"
    save(loaded, saved)
    assert (saved / "tokenizer.json").read_bytes() == (trained / "tokenizer.json").read_bytes()
    assert torch.equal(Checkpoint.load(saved).model(ids), loaded.model(ids))


def test_a_run_goes_on_with_its_own_vocabulary_alone(folder: Path, trained: Path) -> None:
    recipe = load_recipe("nano", (*SMALL, "vocab_size=270"))
    with pytest.raises(ConfigError, match="started with another vocabulary"):
        train(recipe, folder, trained.parent, resume=True, device="cpu", progress=False)


def test_problems_are_for_characters(
    trained: Path, data_folder: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    loaded = Checkpoint.load(trained)
    with pytest.raises(DataError, match="problems need one token per character"):
        evaluate(
            loaded.model, loaded.tokenizer, [split_line("$(0000000573*0000351.77)=12.4651020$")]
        )
    ended = run_cli("calc", "1+1", "--checkpoint", trained)
    assert ended.error.startswith("problems need one token per character")
    with pytest.raises(ConfigError, match=r"train\.eval_problems must be 0"):
        train(load_recipe("nano", SMALL), data_folder, tmp_path / "run", device="cpu")
    assert not list(tmp_path.glob("run/step-*"))
    recipe = load_recipe("nano", (*SMALL, "train.eval_problems=0"))
    train(recipe, data_folder, tmp_path / "run", device="cpu", progress=False)
