"""Inspection of a model: where its attention heads look.

Shapes: B sequences, L layers, H heads, T tokens of text, S positions (the tokens and those that the
attention scheme inserts), R sources of a rule.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from calcgpt.base.errors import ConfigError, DataError, UserError
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.results import Calculation
from calcgpt.tokenizer import CharTokenizer
from calcgpt_lab.model.base import Block
from calcgpt_lab.model.gpt import GPT
from calcgpt_lab.model.sources import SourceTransformer, next_slots

INSERTED = "◆"  # the label of a token that the attention scheme inserted: a landmark

Hook = Callable[[int, torch.Tensor, torch.Tensor], None]  # see `hooked`
Transformer = GPT | SourceTransformer  # what has blocks


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of every head at every position that the model read."""

    labels: list[str]  # of the S positions: a character, or INSERTED
    #: A row looks at the columns and sums to 1 or, if there is a sink, to less.
    weights_LHSS: torch.Tensor


@dataclass(frozen=True)
class Inspection:
    """The answer of a model to one problem, and its attention as it writes it."""

    answer: Calculation
    maps: AttentionMaps


def inspect(checkpoint: Checkpoint, expression: str) -> Inspection:
    """Returns the attention of the model on `expression`.

    Raises ConfigError if the model has no layers. Raises DataError if it does not read problems by
    characters, or if its weights are damaged. Raises ExpressionError for a bad expression and
    UserError unless it has one operation.
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
    # The model writes the last character but never reads it.
    return Inspection(answer, attention_maps(model, tokenizer, f"{node.prompt}{node.output}"[:-1]))


def attention_maps(model: Transformer, tokenizer: CharTokenizer, text: str) -> AttentionMaps:
    """Returns where each head looks when the model reads `text`, one token per character."""
    tokens_T = tokens_S = torch.from_numpy(tokenizer.encode(text).astype("int64"))
    if isinstance(model, GPT):
        tokens_S = model.scheme.insert(tokens_T[None], 0)[0]
    labels = [
        tokenizer.decode([i]) if i < model.vocab_size else INSERTED for i in tokens_S.tolist()
    ]
    weights_LHSS = attention_weights(model, tokens_T)
    if not weights_LHSS.isfinite().all():
        raise DataError("the model's attention is not finite: its weights are damaged")
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
