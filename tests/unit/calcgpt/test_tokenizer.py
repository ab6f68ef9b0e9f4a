"""Characters to ids and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.base.errors import DataError
from calcgpt.errors import CheckpointError
from calcgpt.tokenizer import CharTokenizer, tokenizer_from_json
from calcgpt_lab.data.tokenizers import TOKENIZERS
from datagen.notation import ALPHABET, WORK_ALPHABET

ARITHMETIC = TOKENIZERS["arithmetic"]("")


def test_the_arithmetic_ids_are_the_positions_in_the_alphabet() -> None:
    assert ARITHMETIC.vocabulary == ALPHABET
    assert len(ARITHMETIC) == 21
    assert ARITHMETIC.encode("$(n").tolist() == [0, 1, 20]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_text_tokenizer_holds_the_characters_of_its_text(text: str) -> None:
    tokenizer = TOKENIZERS["chars"](text)
    assert set(tokenizer.vocabulary) == set(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer_from_json(tokenizer.to_json()).to_json() == tokenizer.to_json()


@pytest.mark.parametrize(
    ("text", "character", "position"), [("12x3", "x", 2), ("é", "é", 0), ("1+1=\n", "\n", 4)]
)
def test_an_unknown_character_is_named_with_its_position(
    text: str, character: str, position: int
) -> None:
    with pytest.raises(DataError) as caught:
        ARITHMETIC.encode(text)
    assert f"{character!r} at position {position}" in str(caught.value)


@pytest.mark.parametrize(("size", "dtype"), [(256, np.uint8), (257, np.uint16)])
def test_ids_take_the_smallest_type_that_holds_them(size: int, dtype: type) -> None:
    vocabulary = "".join(map(chr, range(256, 256 + size)))
    ids = CharTokenizer(vocabulary).encode(vocabulary)
    assert ids.dtype == dtype
    assert ids.tolist() == list(range(size))


def test_an_id_fits_in_16_bits() -> None:
    characters = [chr(code) for code in range(0x10000, 0x20001)]
    largest = CharTokenizer("".join(characters[:-1]))
    assert largest.encode(characters[-2]).tolist() == [65_535]
    with pytest.raises(ValueError, match="65,537 characters; the limit is 65,536"):
        CharTokenizer("".join(characters))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '"chars"',
        "{}",
        '{"type": "chars"}',
        '{"type": "bpe", "vocabulary": "ab"}',
        '{"type": "chars", "vocabulary": ""}',
        '{"type": "chars", "vocabulary": "ba"}',
        '{"type": "chars", "vocabulary": "aa"}',
        '{"type": "chars", "vocabulary": 5}',
        '{"type": "chars", "vocabulary": ["a", "b"]}',
        '{"type": ["chars"], "vocabulary": "ab"}',
        '{"type": {}, "vocabulary": "ab"}',
        '{"type": "tokenizer\\n", "vocabulary": "ab"}',
        '{"type": "words", "vocabulary": "ab"}',
        '{"type": 1e999}',
        '{"type": ' + "9" * 5_000 + "}",
        "[" * 100_000,
    ],
)
def test_json_of_anything_else_is_refused_in_one_line(content: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        tokenizer_from_json(content)
    assert "tokenizer" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", list(TOKENIZERS))
def test_every_tokenizer_is_read_back_as_what_it_was(name: str) -> None:
    tokenizer = TOKENIZERS[name]("to be or not to be " * 9, 300)
    content = tokenizer.to_json()
    again = tokenizer_from_json(content)
    assert type(again) is type(tokenizer)
    assert (len(again), again.to_json()) == (len(tokenizer), content)
    assert again.decode(range(len(again))) == tokenizer.decode(range(len(tokenizer)))


@pytest.mark.parametrize(
    ("vocabulary", "expected"),
    [
        (ALPHABET, True),
        (WORK_ALPHABET, True),
        (ALPHABET + "\n", True),
        (ALPHABET.replace("*", ""), True),  # a model that does not multiply
        (ALPHABET.replace("=", ""), False),
        (ALPHABET + "bcdefg", False),  # a text that has all of them, too
    ],
)
def test_the_notation_has_no_other_characters(vocabulary: str, expected: bool) -> None:
    tokenizer = CharTokenizer("".join(sorted(vocabulary)))
    assert tokenizer.is_notation() == expected
    assert CharTokenizer("$()+12=").is_notation("1+2")


@pytest.mark.parametrize("name", list(TOKENIZERS))
def test_a_text_is_decoded_in_parts(name: str) -> None:
    text = "to be or not to be " * 9
    tokenizer = TOKENIZERS[name](text, 300)
    known = text if name in ("bpe", "chars") else "$(12+3)=51$"
    ids = tokenizer.encode(known).tolist()
    decode = tokenizer.incremental_decoder()
    parts = [decode(ids[start : start + 3], False) for start in range(0, len(ids), 3)]
    assert "".join(parts) + decode([], True) == known


@pytest.mark.parametrize("name", list(TOKENIZERS))
def test_a_tokenizer_says_whether_its_tokens_are_characters(name: str) -> None:
    tokenizer = TOKENIZERS[name]("to be or not to be " * 9, 300)
    longest = max(len(tokenizer.decode([i])) for i in range(len(tokenizer)))
    assert tokenizer.is_char_level == (longest == 1)
