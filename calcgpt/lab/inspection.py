"""What goes on inside a model: where its heads look, and what its nonlinearities do.

Shapes: L layers, H heads, T tokens of text, S positions (the tokens, and what the attention scheme
puts between them), B problems, F units of a feed-forward network, N tokens and problems together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from calcgpt.checkpoint import Checkpoint
from calcgpt.config import DataConfig, ModelConfig, Recipe
from calcgpt.data.batches import ProblemLines
from calcgpt.data.problems import FreshProblems, read_problems
from calcgpt.data.tokenizer import CharTokenizer
from calcgpt.errors import ConfigError, DataError, UserError
from calcgpt.inference.calculator import Calculation, Calculator
from calcgpt.model.gpt import GPT, Block
from calcgpt.tables import text_table
from datagen.files import read_text
from datagen.notation import ALPHABET
from datagen.steps import STEPS_ALPHABET

INSERTED = "◆"  # the label of a token that the attention scheme put in: a landmark
DEAD = "dead: the input to the nonlinearity is never above 0 on any token; a ReLU then never fires"
BATCH = 32  # problems of a forward pass
BINS = 100  # of a histogram

Hook = Callable[[int, torch.Tensor, torch.Tensor], None]  # see `hooked`


@dataclass(frozen=True)
class AttentionMaps:
    """Where each head looked, at every position that the model read."""

    labels: list[str]  # of the S positions: the character, or INSERTED
    weights_LHSS: torch.Tensor  # rows look at columns; a row sums to 1


@dataclass(frozen=True)
class Values:
    """All values on one side of a layer's nonlinearity, over tokens and units."""

    mean: float
    variance: float  # over the number less one, as torch's `var` and the blog's
    min: float
    max: float
    counts: list[int]  # of BINS bins of equal width from min to max


@dataclass(frozen=True)
class LayerActivations:
    """A feed-forward network before and after its nonlinearity (the gate's, where it has one).

    A unit is dead if its input to the nonlinearity is never above 0 on any token: with ReLU it
    never fires and, having no gradient, does not learn to (the dying ReLU of the blog; Lu et al.
    2019). Where the mean after the nonlinearity is not 0, a bias shift passes to the next layer
    (ibid.; Clevert et al. 2016, section 2).
    """

    units: int
    dead: int
    before: Values
    after: Values

    @property
    def dead_share(self) -> float:
        return self.dead / self.units


@dataclass(frozen=True)
class Inspection:
    """A model seen from inside."""

    answer: Calculation
    maps: AttentionMaps  # of the answer
    problems: int  # that the activations are over
    source: str  # where these come from, in words
    tokens: int  # that were read of these, those that the attention scheme put in included
    layers: list[LayerActivations]

    def record(self) -> dict[str, Any]:
        """All numbers but the maps', for a JSON file."""
        layers = [{**asdict(layer), "dead_share": layer.dead_share} for layer in self.layers]
        return {
            "answer": self.answer.model_dump(),
            "read": "".join(self.maps.labels),
            "activations": {
                "problems": self.problems,
                "source": self.source,
                "tokens": self.tokens,
                "layers": layers,
            },
        }

    def table(self) -> str:
        """A row a layer: the dead units, and mean and variance before and after."""
        before_and_after = ["mean before", "after", "variance before", "after"]
        header = ["layer", "units", "dead", *before_and_after]
        rows = []
        for index, layer in enumerate(self.layers):
            before, after = layer.before, layer.after
            moments = [before.mean, after.mean, before.variance, after.variance]
            cells = [str(index), str(layer.units), f"{layer.dead_share:.1%}"]
            rows.append(cells + [f"{moment:.4f}" for moment in moments])
        return text_table(header, rows)


def inspect(
    checkpoint: Checkpoint, expression: str, data: Path | None = None, n: int = 256, seed: int = 0
) -> Inspection:
    """Let the model answer `expression`, and look at where it looked; then at its activations over
    `n` problems: those of the file `data`, or drawn (see `drawn_problems`).

    Raises ConfigError for a model without layers, DataError for one that does not read problems a
    character at a time, for damaged weights and for problems that the model cannot read,
    ExpressionError for a bad expression, UserError for one of several operations.
    """
    model, name = checkpoint.model, checkpoint.name
    if not isinstance(model, GPT):
        kind = checkpoint.recipe.model.architecture
        raise ConfigError(f"{name} has no layers to inspect: its architecture is {kind!r}")
    tokenizer = checkpoint.tokenizer
    if not (isinstance(tokenizer, CharTokenizer) and set(ALPHABET) <= set(tokenizer.vocabulary)):
        raise DataError(f"{name} cannot be inspected: it does not read problems by characters")
    answer = Calculator(checkpoint).calculate(expression)
    node = answer.nodes[-1]
    if len(answer.nodes) > 1:
        raise UserError(f"only one operation can be inspected; this has {len(answer.nodes)}")
    recipe = checkpoint.recipe
    texts = file_problems(data, n) if data else drawn_problems(recipe, tokenizer, n, seed)
    try:
        lines = ProblemLines("\n".join(texts), tokenizer, model.config.block_size)
    except DataError as error:
        raise DataError(f"{data or name}: {error}") from None
    return Inspection(
        answer=answer,
        # The last character is written but, as nothing comes after it, never read.
        maps=attention_maps(model, tokenizer, f"{node.prompt}{node.output}"[:-1]),
        problems=len(lines),
        source=data.name if data else f"drawn, seed {seed}",
        tokens=int(_positions(model, lines.lengths).sum()),
        layers=activations(model, lines),
    )


def choose(config: ModelConfig, layer: int | None, head: int | None) -> tuple[range, range]:
    """The layers and the heads that are meant, each one or, by None, all; raises ConfigError for
    one that the model does not have."""
    chosen = []
    for name, index, count in (("layer", layer, config.n_layer), ("head", head, config.n_head)):
        if index is not None and not 0 <= index < count:
            raise ConfigError(f"there is no {name} {index}: the model's are 0 to {count - 1}")
        chosen.append(range(count) if index is None else range(index, index + 1))
    return chosen[0], chosen[1]


def attention_maps(model: GPT, tokenizer: CharTokenizer, text: str) -> AttentionMaps:
    """Where each head looks when the model reads `text`, a character a token."""
    tokens_T = torch.from_numpy(tokenizer.encode(text).astype("int64"))
    with_inserted = model.scheme.insert(tokens_T[None], 0)[0].tolist()
    labels = [tokenizer.decode([i]) if i < model.vocab_size else INSERTED for i in with_inserted]
    weights_LHSS = attention_weights(model, tokens_T)
    _check_finite(weights_LHSS)
    return AttentionMaps(labels, weights_LHSS)


@torch.inference_mode()
def attention_weights(model: GPT, tokens_T: torch.Tensor) -> torch.Tensor:
    """The weights of every head in one forward pass, (L,H,S,S)."""
    plain = model.with_plain_attention()
    seen: list[torch.Tensor] = []
    parts = [block.attn.weights_dropout for block in _blocks(plain)]
    with hooked(parts, lambda _, weights_BHSS, __: seen.append(weights_BHSS[0])):
        plain(tokens_T[None])
    return torch.stack(seen)


def drawn_problems(recipe: Recipe, tokenizer: CharTokenizer, n: int, seed: int) -> list[str]:
    """Training problems with exact labels, of the kind that the recipe draws; where it draws none,
    the blog's, worked out in steps if the tokenizer can write them.

    `n` lines, less those that are too long for the model; raises DataError if all are.
    """
    config = recipe.data
    if config is None:
        in_steps = set(STEPS_ALPHABET) <= set(tokenizer.vocabulary)
        config = DataConfig(format="steps" if in_steps else "direct", mixture={"blog": 1.0})
    problems = FreshProblems(config, seed)
    longest = recipe.model.block_size + 1  # the last character is not read
    texts = problems.render(problems.block(0, n)).decode().splitlines()
    fitting = [text for text in texts if len(text) <= longest]
    if not fitting:
        raise DataError(f"no problem fits in the model's context, {longest - 1} characters")
    return fitting


def file_problems(path: Path, n: int) -> list[str]:
    """The first `n` lines of a file of problems; raises DataError naming the first bad one."""
    read_problems(path, n)
    return read_text(path).splitlines()[:n]


def activations(model: GPT, lines: ProblemLines) -> list[LayerActivations]:
    """Each layer's activations over all tokens of `lines` that the model reads, padding left out.

    Raises DataError where they are not finite.
    """
    layers = [(_Stream(), _Stream()) for _ in model.blocks]
    # Twice through the model rather than once with everything kept: bins and deviations need the
    # extremes and the mean first.
    _pass(model, lines, layers, _Stream.extend)
    _pass(model, lines, layers, _Stream.spread)
    return [
        LayerActivations(
            units=len(before.high_F),
            dead=int((before.high_F <= 0).sum()),
            before=before.values(),
            after=after.values(),
        )
        for before, after in layers
    ]


class _Stream:
    """Values that come in pieces of shape (N,F): all once to `extend`, then all to `spread`."""

    def __init__(self) -> None:
        self.n, self.total, self.low = 0, 0.0, math.inf
        self.high_F = torch.tensor(-math.inf)  # of each unit; its shape comes with the first piece
        self.squares, self.counts = 0.0, np.zeros(BINS, np.int64)

    def extend(self, values_NF: torch.Tensor) -> None:
        _check_finite(values_NF)
        self.n += values_NF.numel()
        self.total += values_NF.sum(dtype=torch.float64).item()
        self.low = min(self.low, values_NF.min().item())
        self.high_F = torch.maximum(self.high_F, values_NF.amax(dim=0))

    def spread(self, values_NF: torch.Tensor) -> None:
        self.squares += (values_NF.double() - self.total / self.n).square().sum().item()
        span = self.low, self.high_F.max().item()
        self.counts += np.histogram(values_NF.numpy(), BINS, span)[0]

    def values(self) -> Values:
        return Values(
            mean=self.total / self.n,
            variance=self.squares / (self.n - 1),
            min=self.low,
            max=self.high_F.max().item(),
            counts=self.counts.tolist(),
        )


@torch.inference_mode()
def _pass(
    model: GPT,
    lines: ProblemLines,
    layers: Sequence[tuple[_Stream, _Stream]],
    take: Callable[[_Stream, torch.Tensor], None],
) -> None:
    """Read all lines; `take` gets each layer's activations, (N,F), before and after, of a batch at
    a time, padding left out."""
    order = np.argsort(lines.lengths, kind="stable")  # alike in length: little padding
    real_BS = torch.empty(0, 0, dtype=torch.bool)

    def hook(layer: int, before_BSF: torch.Tensor, after_BSF: torch.Tensor) -> None:
        for stream, values_BSF in zip(layers[layer], (before_BSF, after_BSF), strict=True):
            take(stream, values_BSF[real_BS])

    with hooked([block.ff.activation for block in _blocks(model)], hook):
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            n_positions_B = _positions(model, lines.lengths[rows])
            real_BS = torch.arange(int(n_positions_B.max())) < n_positions_B[:, None]
            model(lines.batch(rows)[0])


def _positions(model: GPT, lengths_B: NDArray[np.int64]) -> torch.Tensor:
    """How many positions the model reads of lines of these lengths, from their first on; (B,)."""
    n_token_B = lengths_B - 1  # the last character is only a target
    return torch.tensor([model.n_positions(n) for n in n_token_B.tolist()])


@contextmanager
def hooked(modules: Sequence[nn.Module], hook: Hook) -> Iterator[None]:
    """Within, `hook` gets the place of each of the modules that ran, its input and its output."""

    def call(
        place: int, module: nn.Module, args: tuple[torch.Tensor], output: torch.Tensor
    ) -> None:
        hook(place, args[0], output)

    handles = [m.register_forward_hook(partial(call, i)) for i, m in enumerate(modules)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _blocks(model: GPT) -> list[Block]:
    return [block for block in model.blocks if isinstance(block, Block)]


def _check_finite(values: torch.Tensor) -> None:
    if not values.isfinite().all():
        raise DataError("the model's activations are not finite: its weights are damaged")
