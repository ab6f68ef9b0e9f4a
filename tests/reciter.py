"""A decoder that knows one text by heart, of whatever tokens: it stands for a model where the text
matters, and not what it is an answer to."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch

from api.models import LoadedModel
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig, Recipe
from calcgpt.data.tokenizer import Tokenizer
from calcgpt.model.gpt import GPT

ROOM = 64  # tokens of context
SURE = 50.0  # the logit of the token that follows; all others have 0


@dataclass
class Length:
    """The cache: how many tokens were read."""

    n: int = 0

    def select(self, rows: torch.Tensor) -> None:
        """All rows are alike."""


class Reciter:
    """A decoder that knows one text by heart, whatever it reads: a token's place decides which one
    follows. Where there is none left, token 0 does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.config = ModelConfig(n_layer=1, n_embd=8, n_head=1, block_size=ROOM)
        self._n_vocabulary = len(tokenizer)
        self.line: list[int] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.fails_at = ROOM

    def new_cache(self, batch: int, n_token: int) -> Length:
        return Length()

    def __call__(
        self, tokens_BT: torch.Tensor, cache: Length, last_only: bool = False
    ) -> torch.Tensor:
        assert self.may_go_on.wait(20)
        batch, n_new = tokens_BT.shape
        logits_BTV = torch.zeros(batch, n_new, self._n_vocabulary)
        for place in range(n_new):
            cache.n += 1
            token = self.line[cache.n] if cache.n < len(self.line) else 0
            logits_BTV[:, place, token] = SURE
        if cache.n >= self.fails_at:
            raise RuntimeError("a secret of the machine room")
        return logits_BTV[:, -1:] if last_only else logits_BTV


def reciter(name: str, tokenizer: Tokenizer) -> LoadedModel:
    """A loaded model of that tokenizer whose decoder is a Reciter; it has no end token."""
    recipe = Recipe(model=ModelConfig(n_layer=1, n_embd=8, n_head=1, block_size=ROOM))
    model = GPT(recipe.model, len(tokenizer)).eval()
    checkpoint = Checkpoint(name, recipe, tokenizer, model, {})
    return LoadedModel(checkpoint, Reciter(tokenizer), "recited", None)


def knows(model: LoadedModel, text: str) -> None:
    """From now on it recites this."""
    model.decoder.line = model.checkpoint.tokenizer.encode(text).tolist()
