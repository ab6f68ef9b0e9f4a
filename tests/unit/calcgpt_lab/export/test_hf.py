"""Export to `transformers`: what it refuses, and what its files say."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders

from calcgpt.base.errors import ConfigError
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig, Recipe, TrainConfig
from calcgpt.errors import CheckpointError
from calcgpt.tokenizer import CharTokenizer, Tokenizer
from calcgpt_lab.data.tokenizers import (
    arithmetic_tokenizer,
    byte_pair_tokenizer,
    scratchpad_tokenizer,
    text_tokenizer,
)
from calcgpt_lab.export import hf
from calcgpt_lab.export.gguf import export_gguf
from calcgpt_lab.export.hf import (
    EXAMPLE_PROMPT,
    export_hf,
    hf_card,
    hf_tokenizer,
    stop_id,
)
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.model.stored import checkpoint_of
from calcgpt_lab.recipe import load_preset

SMALL: dict[str, Any] = {"n_layer": 1, "n_embd": 24, "n_head": 2, "block_size": 64}
TEXT = "To be, or not to be:\nthat is the question.\n  Whether 'tis nobler,\n\n10 $ or 100 $?\n" * 3


def checkpoint(tokenizer: Tokenizer | None = None, **changes: Any) -> Checkpoint:
    """Returns a checkpoint with random weights."""
    tokenizer = tokenizer or arithmetic_tokenizer()
    recipe = Recipe(model=ModelConfig(**load_preset("llama").model_dump() | SMALL | changes))
    torch.manual_seed(0)
    model = build_model(recipe.model, len(tokenizer)).eval()
    return checkpoint_of("small", recipe, tokenizer, model, {"parameters": model.n_parameters()})


FORMATS = {"hf": export_hf, "gguf": export_gguf}


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"architecture": "bigram"}, "architecture is 'bigram', and a Llama has 'gpt'"),
        ({"position": "none"}, "position is 'none'"),
        ({"attention": "window"}, "attention is 'window'"),
        ({"norm_position": "post"}, "norm_position is 'post'"),
        ({"qk_norm": True}, "qk_norm is True"),
        ({"norm": "layernorm"}, "norm is 'layernorm'"),
        ({"feedforward": "geglu"}, "feedforward is 'geglu', and a Llama has 'swiglu'"),
        ({"qkv_bias": True}, "qkv_bias is True"),
        ({"attn_out_bias": True}, "attn_out_bias is True"),
        ({"ff_bias": True}, "ff_bias is True"),
        ({"head_bias": True}, "head_bias is True"),
    ],
    ids=str,
)
def test_what_is_no_llama_is_refused_in_one_line(
    target: str, changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        FORMATS[target](checkpoint(**changes), tmp_path / "there" / "out", False)
    assert str(error.value).startswith(f"export to {target}: {reason}")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Tokenizer], Any]:
    """Returns a function that exports a tokenizer and loads it with AutoTokenizer."""

    def export(tokenizer: Tokenizer) -> Any:
        from transformers import AutoTokenizer

        folder = tmp_path_factory.mktemp("export") / "out"
        export_hf(checkpoint(tokenizer), folder, False)
        return AutoTokenizer.from_pretrained(folder)

    return export


CHARACTERS = text_tokenizer(TEXT + "\t\r()=é∞😀\u0301")
BYTE_PAIRS = byte_pair_tokenizer(TEXT, 300)


@pytest.fixture(scope="module")
def of_characters(load: Callable[..., Any]) -> Any:
    return load(CHARACTERS)


@pytest.fixture(scope="module")
def of_byte_pairs(load: Callable[..., Any]) -> Any:
    return load(BYTE_PAIRS)


class TestTokenizers:
    @given(text=st.text(CHARACTERS.vocabulary))
    def test_of_characters(self, of_characters: Any, text: str) -> None:
        ids = CHARACTERS.encode(text).tolist()
        assert of_characters(text)["input_ids"] == ids
        assert of_characters.decode(ids) == text

    @given(text=st.text(st.characters(exclude_categories=["Cs"])) | st.text("the \n'$ "))
    def test_of_byte_pairs(self, of_byte_pairs: Any, text: str) -> None:
        ids = BYTE_PAIRS.encode(text).tolist()
        assert of_byte_pairs(text)["input_ids"] == ids
        assert of_byte_pairs.decode(ids) == text

    def test_a_character_that_is_not_known_is_an_error(self, load: Callable[..., Any]) -> None:
        with pytest.raises(Exception, match="Missing"):
            load(arithmetic_tokenizer())("$(1x2)=")

    def test_the_end_of_a_problem(self, load: Callable[..., Any]) -> None:
        loaded = load(scratchpad_tokenizer())
        assert (loaded.eos_token, loaded.pad_token, loaded.bos_token) == ("$", "$", None)
        assert loaded.padding_side == "left"
        batch = loaded(["1", "123"], padding=True)
        assert set(batch) == {"input_ids", "attention_mask"}
        assert batch["attention_mask"] == [[0, 0, 1], [1, 1, 1]]

    def test_other_text_has_no_end(self, load: Callable[..., Any]) -> None:
        for tokenizer in (text_tokenizer(TEXT), byte_pair_tokenizer(TEXT, 260)):
            assert stop_id(checkpoint(tokenizer)) is None
            loaded = load(tokenizer)
            assert (loaded.eos_token, loaded.pad_token) == (None, None)

    def test_a_task_ends_as_a_problem_does(self) -> None:
        of_task = checkpoint(text_tokenizer("twice 21=42$"))
        assert stop_id(of_task) is None
        recipe = Recipe(model=of_task.recipe.model, train=TrainConfig(batches="problems"))
        assert stop_id(replace(of_task, recipe=recipe)) == of_task.tokenizer.encode("$")[0]

    def test_another_class_of_tokenizer_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="no equivalent of object"):
            hf_tokenizer(object())


class TestTheFolder:
    def read(self, folder: Path, name: str) -> Any:
        return json.loads((folder / name).read_text("utf-8"))

    def test_says_all_that_decoding_needs(self, tmp_path: Path) -> None:
        assert export_hf(checkpoint(), tmp_path / "out", False) == (
            "a LlamaForCausalLM of transformers"
        )
        saved = self.read(tmp_path / "out", "generation_config.json")
        saved.pop("transformers_version")
        assert saved == {"do_sample": False, "eos_token_id": 0, "pad_token_id": 0, "max_length": 65}
        config = self.read(tmp_path / "out", "config.json")
        assert config["bos_token_id"] is None

    def test_its_card_shows_how_to_use_it(self, tmp_path: Path) -> None:
        export_hf(checkpoint(), tmp_path / "out", False)
        card = (tmp_path / "out" / "README.md").read_text("utf-8")
        assert card.startswith("---\nlicense:")
        assert f"\n# {checkpoint().name}\n" in card
        assert repr(EXAMPLE_PROMPT) in card
        assert "beside this file" not in card
        code = card.partition("```python\n")[2].partition("```")[0]
        compile(code, "README.md", "exec")

    def test_a_hub_reads_its_card(self) -> None:
        data = ModelCard(hf_card(checkpoint(), "out")).data
        assert (data.license, data.library_name) == ("mit", "transformers")
        assert data.pipeline_tag == "text-generation"

    def test_the_card_of_a_model_of_text_has_no_problem_in_it(self, tmp_path: Path) -> None:
        export_hf(checkpoint(text_tokenizer(TEXT)), tmp_path / "out", False)
        card = (tmp_path / "out" / "README.md").read_text("utf-8")
        assert "tokenizer('\\n', " in card
        assert "up to the end of the context" in card

    @pytest.mark.parametrize("block_size", [1, 2])
    def test_of_the_shortest_contexts(self, tmp_path: Path, block_size: int) -> None:
        export_hf(checkpoint(block_size=block_size), tmp_path / "out", False)

    def test_with_wrong_weights_is_not_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken = checkpoint()
        weights = hf.llama_weights(broken.model)
        last = list(weights)[-1]
        weights[last] = weights[last] + 0.01 * torch.randn_like(weights[last])
        monkeypatch.setattr(hf, "llama_weights", lambda model: weights)
        with pytest.raises(CheckpointError, match="is not written: as a Llama, its logits are off"):
            export_hf(broken, tmp_path / "out", False)
        assert list(tmp_path.iterdir()) == []

    def test_with_a_wrong_tokenizer_is_not_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        vocabulary = arithmetic_tokenizer().vocabulary
        longer = hf_tokenizer(CharTokenizer("".join(sorted({*vocabulary, "~"}))))
        swapped = hf_tokenizer(CharTokenizer("!" + vocabulary[1:]))
        spaced = hf_tokenizer(arithmetic_tokenizer())
        spaced.decoder = decoders.Replace("=", " = ")
        for wrong, difference in ((longer, "ids"), (swapped, "ids"), (spaced, "text")):
            monkeypatch.setattr(hf, "hf_tokenizer", lambda tokenizer, wrong=wrong: wrong)
            with pytest.raises(
                CheckpointError, match=f"its tokenizer gives (an)?other {difference}"
            ):
                export_hf(checkpoint(), tmp_path / "out", False)
        assert list(tmp_path.iterdir()) == []
