"""Inspection of a model: where its attention heads look, and what its nonlinearities do.

Shapes: L layers, H heads, T tokens of text, S positions (the tokens and those that the attention
scheme inserts), B problems, F units of a feed-forward network, N positions of many problems.
"""

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

from calcgpt.base.errors import ConfigError, DataError, UserError
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import DataConfig, Recipe
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.results import Calculation
from calcgpt.tokenizer import CharTokenizer
from calcgpt_lab.data.batches import ProblemLines
from calcgpt_lab.data.problems import FreshProblems, read_problems
from calcgpt_lab.model.base import Block
from calcgpt_lab.model.gpt import GPT
from calcgpt_lab.model.sources import SourceTransformer, next_slots
from calcgpt_lab.tables import text_table
from datagen.notation import WORK_ALPHABET

INSERTED = "◆"  # the label of a token that the attention scheme inserted: a landmark
DEAD = "dead: the input to the nonlinearity is never above 0 on any token; a ReLU then never fires"
BINS = 100  # of a histogram

Hook = Callable[[int, torch.Tensor, torch.Tensor], None]  # see `hooked`
Transformer = GPT | SourceTransformer  # what has blocks


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of every head at every position that the model read."""

    labels: list[str]  # of the S positions: a character, or INSERTED
    #: A row looks at the columns and sums to 1 or, if there is a sink, to less.
    weights_LHSS: torch.Tensor


@dataclass(frozen=True)
class Statistics:
    """Statistics of all values on one side of a layer's nonlinearity, over tokens and units."""

    mean: float
    variance: float  # unbiased, as torch's `var` and the blog's
    min: float
    max: float
    counts: list[int]  # of BINS bins of equal width from min to max


@dataclass(frozen=True)
class LayerActivations:
    """A feed-forward network before and after its nonlinearity; with a gate, the gate's.

    A unit is dead if its input to the nonlinearity is never above 0 on any token. With ReLU it
    never fires, has no gradient and does not learn to fire (the dying ReLU: Lu et al. 2019). If the
    mean after the nonlinearity is not 0, the next layer gets a bias shift (Clevert et al. 2016,
    section 2).
    """

    units: int
    dead: int
    before: Statistics
    after: Statistics

    @property
    def dead_share(self) -> float:
        return self.dead / self.units


@dataclass(frozen=True)
class Inspection:
    """The attention of a model on one problem, and its activations on many."""

    answer: Calculation
    maps: AttentionMaps  # of the answer
    problems: int  # whose activations were measured
    source: str  # of these problems, in words
    tokens: int  # positions read of these problems, inserted ones included
    layers: list[LayerActivations]

    def record(self) -> dict[str, Any]:
        """Returns all numbers except the attention maps, for a JSON file."""
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
        """Returns a table of the dead units, means and variances of each layer."""
        header = ["layer", "units", "dead", "mean before", "after", "variance before", "after"]
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
    """Returns the attention of the model on `expression`, and its activations over `n` problems.

    The problems are the first of the file `data`, or drawn: see `draw_problems`.

    Raises ConfigError if the model has no layers. Raises DataError if it does not read problems by
    characters, if its weights are damaged, or if it cannot read the problems. Raises
    ExpressionError for a bad expression and UserError unless it has one operation.
    """
    model, name = checkpoint.model, checkpoint.name
    if not isinstance(model, Transformer):
        architecture = checkpoint.recipe.model.architecture
        raise ConfigError(f"{name} has no layers to inspect: its architecture is {architecture!r}")
    tokenizer = checkpoint.tokenizer
    if not (isinstance(tokenizer, CharTokenizer) and tokenizer.is_notation()):
        raise DataError(f"{name} cannot be inspected: it does not read problems by characters")
    answer = Calculator(checkpoint).calculate(expression)
    if len(answer.nodes) != 1:
        raise UserError("give exactly one operation, such as 12.5*3")
    node = answer.nodes[0]
    recipe = checkpoint.recipe
    if data:
        texts = [f"{line.prompt}{line.completion}" for line in read_problems(data, n)]
    else:
        texts = draw_problems(recipe, tokenizer, n, seed)
    try:
        lines = ProblemLines("\n".join(texts), tokenizer, model.config.block_size)
    except DataError as error:
        raise DataError(f"{data or name}: {error}") from None
    return Inspection(
        answer=answer,
        # The model writes the last character but never reads it.
        maps=attention_maps(model, tokenizer, f"{node.prompt}{node.output}"[:-1]),
        problems=len(lines),
        source=data.name if data else f"drawn, seed {seed}",
        tokens=int(_n_positions(model, lines.lengths).sum()),
        layers=activations(model, lines),
    )


def attention_maps(model: Transformer, tokenizer: CharTokenizer, text: str) -> AttentionMaps:
    """Returns where each head looks when the model reads `text`, one token per character."""
    tokens_T = tokens_S = torch.from_numpy(tokenizer.encode(text).astype("int64"))
    if isinstance(model, GPT):
        tokens_S = model.scheme.insert(tokens_T[None], 0)[0]
    labels = [
        tokenizer.decode([i]) if i < model.vocab_size else INSERTED for i in tokens_S.tolist()
    ]
    weights_LHSS = attention_weights(model, tokens_T)
    _check_finite(weights_LHSS)
    return AttentionMaps(labels, weights_LHSS)


@torch.inference_mode()
def attention_weights(model: Transformer, tokens_T: torch.Tensor) -> torch.Tensor:
    """Returns the attention weights of every head in one forward pass, (L,H,S,S)."""
    if isinstance(model, SourceTransformer):
        weights_LTRH = source_weights(model, tokens_T)
        line = "".join(model.config.characters[token] for token in tokens_T.tolist())
        sources_TR = torch.from_numpy(next_slots(line.encode()).sources).long()
        L, T, _, H = weights_LTRH.shape
        # One more column is for sources that do not exist: their weight is 0.
        weights_LHTS = torch.zeros(L, H, T, T + 1)
        columns_LHTR = (sources_TR % (T + 1)).expand(L, H, -1, -1)
        return weights_LHTS.scatter_add(3, columns_LHTR, weights_LTRH.permute(0, 3, 1, 2))[..., :T]
    return torch.stack([weights_BHSS[0] for weights_BHSS in _weights(model, tokens_T)])


@torch.inference_mode()
def source_weights(model: SourceTransformer, tokens_T: torch.Tensor) -> torch.Tensor:
    """Returns the attention of every head to each source, (L,T,R,H). The rest is the sink's."""
    return torch.stack([weights_BTRH[0] for weights_BTRH in _weights(model, tokens_T)])


def _weights(model: Transformer, tokens_T: torch.Tensor) -> list[torch.Tensor]:
    """Returns the attention weights of each layer, as its module has them."""
    plain = model.with_plain_attention() if isinstance(model, GPT) else model
    weights: list[torch.Tensor] = []
    modules = [block.attn.weights_dropout for block in blocks_of(plain)]
    with hooked(modules, lambda _, before, __: weights.append(before)):
        plain(tokens_T[None])
    return weights


def draw_problems(recipe: Recipe, tokenizer: CharTokenizer, n: int, seed: int) -> list[str]:
    """Returns up to `n` random training problems with exact labels: those of the first `n` that fit
    in the model's context.

    They follow the recipe's [data], or else the blog's distribution, with worked steps if the
    tokenizer can write them. Raises DataError if all problems are too long for the model.
    """
    config = recipe.data
    if config is None:
        has_work = tokenizer.has_characters(WORK_ALPHABET)
        config = DataConfig(format="scratchpad" if has_work else "direct", mixture={"blog": 1.0})
    problems = FreshProblems(config, seed)
    max_length = recipe.model.block_size + 1  # the last character is not read
    texts = problems.render(problems.block(0, n)).decode().splitlines()
    fitting = [text for text in texts if len(text) <= max_length]
    if not fitting:
        raise DataError(f"no problem fits in the model's context, {max_length - 1} characters")
    return fitting


@torch.inference_mode()
def activations(
    model: Transformer, lines: ProblemLines, batch_size: int = 32
) -> list[LayerActivations]:
    """Returns each layer's activations over all tokens of `lines` that the model reads, without
    padding. Raises DataError if they are not finite."""
    layers = [(_RunningStatistics(), _RunningStatistics()) for _ in model.blocks]
    order = np.argsort(lines.lengths, kind="stable")  # similar lengths need little padding

    def hook(layer: int, before_BSF: torch.Tensor, after_BSF: torch.Tensor) -> None:
        for statistics, values_BSF in zip(layers[layer], (before_BSF, after_BSF), strict=True):
            add(statistics, values_BSF[is_token_BS])

    with hooked([block.ff.activation for block in blocks_of(model)], hook):
        # Two passes, so that no activations are stored: bins and deviations need the extremes and
        # the mean first.
        for add in (_RunningStatistics.add_extremes, _RunningStatistics.add_spread):  # noqa: B007
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                n_positions_B = _n_positions(model, lines.lengths[rows])
                is_token_BS = torch.arange(int(n_positions_B.max())) < n_positions_B[:, None]
                tokens_BT = lines.batch(rows)[0]
                if isinstance(model, SourceTransformer):  # what is asked is not written
                    is_token_BS &= model.text_features(tokens_BT)[..., 0] > 0
                model(tokens_BT)
    return [
        LayerActivations(
            units=len(before.max_F),
            dead=int((before.max_F <= 0).sum()),
            before=before.statistics(),
            after=after.statistics(),
        )
        for before, after in layers
    ]


class _RunningStatistics:
    """Statistics of values that come in batches of shape (N,F).

    Pass all batches to `add_extremes`, then all again to `add_spread`.
    """

    def __init__(self) -> None:
        self.n, self.total, self.min = 0, 0.0, math.inf
        self.max_F = torch.tensor(-math.inf)  # of each unit; gets its shape with the first batch
        self.squares, self.counts = 0.0, np.zeros(BINS, np.int64)

    def add_extremes(self, values_NF: torch.Tensor) -> None:
        _check_finite(values_NF)
        self.n += values_NF.numel()
        self.total += values_NF.sum(dtype=torch.float64).item()
        self.min = min(self.min, values_NF.min().item())
        self.max_F = torch.maximum(self.max_F, values_NF.amax(dim=0))

    def add_spread(self, values_NF: torch.Tensor) -> None:
        self.squares += (values_NF.double() - self.total / self.n).square().sum().item()
        limits = self.min, self.max_F.max().item()
        self.counts += np.histogram(values_NF.numpy(), BINS, limits)[0]

    def statistics(self) -> Statistics:
        return Statistics(
            mean=self.total / self.n,
            variance=self.squares / (self.n - 1),
            min=self.min,
            max=self.max_F.max().item(),
            counts=self.counts.tolist(),
        )


def _n_positions(model: Transformer, lengths_B: NDArray[np.int64]) -> torch.Tensor:
    """Returns how many positions the model reads of lines of these lengths; (B,)."""
    n_token_B = lengths_B - 1  # the last character is only a target
    return torch.tensor([model.n_positions(n) for n in n_token_B.tolist()])


@contextmanager
def hooked(modules: Sequence[nn.Module], hook: Hook) -> Iterator[None]:
    """Calls `hook` after each run of one of the modules, with its index, input and output."""

    def call(
        index: int, module: nn.Module, args: tuple[torch.Tensor], output: torch.Tensor
    ) -> None:
        hook(index, args[0], output)

    handles = [m.register_forward_hook(partial(call, i)) for i, m in enumerate(modules)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def blocks_of(model: Transformer) -> list[Block]:
    """Returns the blocks of a model, in order."""
    return [block for block in model.blocks if isinstance(block, Block)]


def _check_finite(values: torch.Tensor) -> None:
    if not values.isfinite().all():
        raise DataError("the model's activations are not finite: its weights are damaged")
