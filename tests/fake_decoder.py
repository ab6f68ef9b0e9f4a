"""A decoder whose text is known. It stands for a model in tests of everything that decodes.

Shapes: B rows, T new tokens, V vocabulary.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from waiting import PATIENCE

from api.service import LoadedModel
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import DataConfig, ModelConfig, Recipe
from calcgpt.inference.decoding import Floats
from calcgpt.tokenizer import CharTokenizer, Tokenizer
from calcgpt_lab.data.tokenizers import TOKENIZERS
from calcgpt_lab.model.decoding import Ints, TokenDecoder
from calcgpt_lab.model.gpt import GPT
from calcgpt_lab.model.stored import checkpoint_of
from datagen import notation, work
from datagen.operations import Operation

FILLER = "("  # written after the end of a completion


@dataclass
class Cache:
    """The tokens of each row so far."""

    rows: list[list[int]]

    def select(self, rows: Ints) -> None:
        """Keeps these rows."""
        self.rows = [self.rows[row] for row in rows.tolist()]


class FakeDecoder(TokenDecoder):
    """A decoder that is its own model: `next_token` maps the tokens of a row to the next
    one. If that is None, all tokens are equally probable."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        next_token: Callable[[list[int]], int | None],
        block_size: int = 512,
        logit: float = 14.0,
    ) -> None:
        """`logit` is the logit of the next token. All other tokens have 0."""
        self.config = ModelConfig(block_size=block_size, n_layer=1, n_embd=8, n_head=1)
        self.next_token = next_token
        self.batches: list[int] = []  # rows of each forward pass
        self.called = threading.Event()
        self.gate = threading.Event()  # a forward pass waits until it is set
        self.gate.set()
        self.fails_at = block_size + 1  # tokens of a row at which a forward pass raises
        self._n_vocabulary, self._logit = len(tokenizer), logit
        super().__init__(self, tokenizer)

    def new_cache(self, batch: int, n_token: int) -> Cache:
        """Returns an empty cache."""
        return Cache([[] for _ in range(batch)])

    def next_logits(self, tokens_BT: Ints, cache: Cache) -> Floats:
        """Returns the logits of the next token, (B, V)."""
        self.called.set()
        assert self.gate.wait(PATIENCE)
        self.batches.append(len(tokens_BT))
        logits_BV = np.zeros((len(tokens_BT), self._n_vocabulary), np.float32)
        for row, tokens in enumerate(tokens_BT.tolist()):
            cache.rows[row] = [*cache.rows[row], *tokens]
            if len(cache.rows[row]) >= self.fails_at:
                raise RuntimeError("a secret of the machine room")
            following = self.next_token(cache.rows[row])
            if following is not None:
                logits_BV[row, following] = self._logit
        return logits_BV


def right(prompt: str) -> str:
    """The completion of a model that answers at once and is always right."""
    return notation.render(notation.parse_prompt(prompt)).removeprefix(prompt)


def right_with_work(prompt: str) -> str:
    """The completion of a model that writes worked steps and is always right.

    Raises NotationError if the prompt is not a question.
    """
    notation.parse_prompt(prompt)
    [line] = work.render([prompt.encode()])
    return line.decode().removeprefix(prompt)


def wrong_at(operation: Operation, others: Callable[[str], str] = right) -> Callable[[str], str]:
    """The completions of a model that answers one operation with 42, and the others correctly."""

    def completion(prompt: str) -> str:
        is_wrong = notation.parse_prompt(prompt).op is operation
        return "2400000000$" if is_wrong else others(prompt)

    return completion


def completing_decoder(
    tokenizer: Tokenizer, completion: Callable[[str], str], block_size: int = 512
) -> FakeDecoder:
    """Returns a decoder that writes `completion(prompt)` after a prompt of the notation."""
    completion = lru_cache(10_000)(completion)

    def next_token(ids: list[int]) -> int | None:
        prompt, equals, written = tokenizer.decode(ids).partition("=")
        if not equals:  # the prompt is incomplete
            return None
        following = completion(prompt + equals)[len(written) :][:1] or FILLER
        return int(tokenizer.encode(following)[0])

    return FakeDecoder(tokenizer, next_token, block_size)


def notation_checkpoint(name: str = "fake") -> Checkpoint:
    """Returns a checkpoint for `completing_decoder` that answers at once. Its own model is not
    trained."""
    return _checkpoint(name, Recipe(model=_model_config(512)))


def worked_checkpoint(name: str = "worked", block_size: int = 512) -> Checkpoint:
    """Returns a checkpoint for `completing_decoder` that writes worked steps. Its own model is not
    trained."""
    data = DataConfig(mixture={"blog": 1.0}, format="scratchpad")
    recipe = Recipe(tokenizer="scratchpad", model=_model_config(block_size), data=data)
    return _checkpoint(name, recipe)


def _model_config(block_size: int) -> ModelConfig:
    return ModelConfig(n_layer=1, n_embd=8, n_head=1, block_size=block_size)


def _checkpoint(name: str, recipe: Recipe) -> Checkpoint:
    tokenizer = TOKENIZERS[recipe.tokenizer]("")
    model = GPT(recipe.model, len(tokenizer)).eval()
    metrics = {"parameters": model.n_parameters()}
    return checkpoint_of(name, recipe, tokenizer, model, metrics)


def calculator_model(completion: Callable[[str], str] = right, name: str = "fake") -> LoadedModel:
    """Returns a loaded model that calculates. By default it is always right, and answers at
    once."""
    return _loaded(notation_checkpoint(name), completion)


def worked_model(
    completion: Callable[[str], str] = right_with_work, name: str = "worked"
) -> LoadedModel:
    """Returns a loaded model that writes worked steps. By default it is always right."""
    return _loaded(worked_checkpoint(name), completion)


def task_checkpoint() -> Checkpoint:
    """Returns a checkpoint for `completing_decoder` that answers questions of the letters a, b."""
    arithmetic = notation_checkpoint("task")
    train = arithmetic.recipe.train.model_copy(update={"batches": "problems"})
    recipe = arithmetic.recipe.model_copy(update={"tokenizer": "chars", "train": train})
    metrics = {"examples": ["ab"]}
    return replace(arithmetic, recipe=recipe, tokenizer=CharTokenizer("$(,=ab"), metrics=metrics)


def task_model(written: dict[str, str]) -> LoadedModel:
    """Returns a loaded model of a task. `written` has what it writes after each prompt."""
    return _loaded(task_checkpoint(), written.__getitem__)


def _loaded(checkpoint: Checkpoint, completion: Callable[[str], str]) -> LoadedModel:
    block_size = checkpoint.recipe.model.block_size
    decoder = completing_decoder(checkpoint.tokenizer, completion, block_size)
    return LoadedModel(checkpoint, decoder, "fake")
