"""A decoder whose text is known: it stands for a model in tests, behind all that decodes.

It satisfies `Decoder` of `calcgpt.inference.generate`: batches, the shared prefix, rows that leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch

from api.models import LoadedModel
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import DataConfig, ModelConfig, Recipe
from calcgpt.data.tokenizer import TOKENIZERS, Tokenizer
from calcgpt.inference.calculator import Calculator
from calcgpt.model.gpt import GPT
from datagen import notation, steps
from datagen.arithmetic import Operation

ENDLESS = "("  # what is written where nothing is left to write
SURE = 14.0  # the logit of the character that comes next; all others have 0


@dataclass
class Texts:
    """The cache: what each row holds."""

    rows: list[str]

    def select(self, rows: torch.Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]


class Scripted:
    """Writes after each prompt what `completion` says."""

    def __init__(self, tokenizer: Tokenizer, completion: Callable[[str], str]) -> None:
        self.config = ModelConfig(block_size=512, n_layer=1, n_embd=8, n_head=1)
        self._tokenizer = tokenizer
        self._completion = lru_cache(10_000)(completion)
        self.batches: list[int] = []  # rows of each forward pass

    def new_cache(self, batch: int, n_token: int) -> Texts:
        return Texts([""] * batch)

    def __call__(
        self, tokens_BT: torch.Tensor, cache: Texts, last_only: bool = True
    ) -> torch.Tensor:
        self.batches.append(len(tokens_BT))
        logits_BTV = torch.zeros(*tokens_BT.shape, len(self._tokenizer))
        for row, tokens in enumerate(tokens_BT.tolist()):
            for place, token in enumerate(tokens):
                cache.rows[row] += self._tokenizer.decode([token])
                if following := self._next(cache.rows[row]):
                    logits_BTV[row, place, self._tokenizer.encode(following)[0]] = SURE
        return logits_BTV[:, -1:] if last_only else logits_BTV

    def _next(self, text: str) -> str:
        prompt, equals, written = text.partition("=")
        if not equals:  # a part of the prompt
            return ""
        return self._completion(prompt + equals)[len(written) :][:1] or ENDLESS


def right(digits: int | None) -> Callable[[str], str]:
    """What a model that is never wrong writes, in steps of so many digits if that is given."""

    def completion(prompt: str) -> str:
        problem = notation.parse_prompt(prompt)
        line = notation.render(problem) if digits is None else steps.render(problem, digits)
        return line.removeprefix(prompt)

    return completion


def wrong_at(operation: Operation, digits: int | None = None) -> Callable[[str], str]:
    """The same, but that it answers one operation with 42."""
    known = right(digits)

    def completion(prompt: str) -> str:
        if notation.parse_prompt(prompt).op is operation:
            return "2400000000$"
        return known(prompt)

    return completion


def scripted_checkpoint(digits: int | None = None, name: str = "scripted") -> Checkpoint:
    """A checkpoint of the notation that such a decoder goes with; its own model knows nothing."""
    config = ModelConfig(n_layer=1, n_embd=8, n_head=1, block_size=512)
    if digits is None:
        recipe = Recipe(model=config)
    else:
        data = DataConfig(mixture={"blog": 1.0}, format="steps", digits=digits)
        recipe = Recipe(tokenizer="steps", model=config, data=data)
    tokenizer = TOKENIZERS[recipe.tokenizer]("")
    model = GPT(config, len(tokenizer)).eval()
    return Checkpoint(name, recipe, tokenizer, model, {"parameters": model.n_parameters()})


def scripted_model(
    completion: Callable[[str], str] | None = None,
    digits: int | None = None,
    name: str = "scripted",
) -> LoadedModel:
    """What the service takes for a loaded model; by default one that is never wrong."""
    checkpoint = scripted_checkpoint(digits, name)
    decoder = Scripted(checkpoint.tokenizer, completion or right(digits))
    return LoadedModel(checkpoint, decoder, "scripted", Calculator(checkpoint, decoder))
