"""Circuits of a model that writes worked steps: what each attention head is for, and which neuron
represents a carry.

    python -m research.circuits CHECKPOINT [--n N] [--ablation mean|zero] \
        [--out FOLDER] [--json FILE]

- Ablation: the output of one head, or of all heads of a layer, is replaced by its mean, or by zero,
  while the model reads correct work. The rules whose characters it then predicts wrongly show what
  the head is for.
- Sources: a rule writes a character from a few earlier ones (`tools.cases.rules`). How much
  each head attends to each of the earlier characters shows where it looks.
- Carry: the feed-forward neuron that best separates columns of a sum with a carry from columns
  without one, and the neuron that does so for borrows in differences. They are chosen on one half
  of the lines and measured on the other. They, and all neurons that tell a carry clearly, are
  ablated, too: does the model then write digits of sums wrongly?

Shapes: L layers, H heads, D head width, F neurons of a layer, R rules, B lines, T tokens, N
positions.
Heads are named `layer.head`, from 0.

Ran at commit 6ccd8f9 and before, as a command of `calcgpt`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.measure import parser, positive, run, write
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig
from calcgpt.data.batches import NO_LOSS, ProblemLines
from calcgpt.data.tokenizer import CharTokenizer
from calcgpt.errors import ConfigError, DataError
from calcgpt.inference.drafts import Reading, read_lines
from calcgpt.lab.inspection import attention_weights, blocks_of, hooked
from calcgpt.model.gpt import GPT
from calcgpt.registry import resolve
from datagen.layout import layout, shape_of_line
from datagen.progress import progress_bar
from datagen.slots import NOWHERE
from research.carry_neurons import (
    CARRIES,
    CarryPositions,
    Floats,
    ablated_neurons,
    best_neuron,
    carry_positions,
    clear_neurons,
)
from research.case_lines import SOURCES, draw_lines
from research.circuits_report import RULES, Ablation, Circuits, draw_circuits
from tools.cases.lines import line_cases
from tools.cases.rules import LOCAL_STEPS, OFFSETS, Ints
from tools.certify import check_reading, check_testable

# In these rules, each axis names one source character.
DIGIT_RULES = (
    *("copied digit", "digit of a sum", "magnitude of a sum", "digit of a product"),
    *("carry of a product", "digit of a remainder", "carry of a remainder", "digit of a quotient"),
    *("marked digit", "marked magnitude of a sum", "digit of the last remainder"),
)
N_ATTENTION_LINES = 150  # lines of which all attention weights are computed
_STARTS = np.array([OFFSETS[name] for name in RULES])


def find_circuits(
    checkpoint: Checkpoint,
    n: int,
    ablation: Ablation = "mean",
    seed: int = 0,
    progress: Callable[[int], Any] = lambda n: None,
) -> Circuits:
    """Measures the heads and neurons of a model on `n` problems. One half of the problems gives the
    means and chooses the neurons, the other half is measured.

    Calls `progress` with the number of passes over half of the lines: see `n_passes`. Raises
    ConfigError if the model is not a transformer that writes worked steps, or if its attention
    inserts tokens.
    """
    check_testable(checkpoint)
    model, tokenizer = checkpoint.model, checkpoint.tokenizer.require_characters()
    if not isinstance(model, GPT):
        architecture = checkpoint.recipe.model.architecture
        raise ConfigError(f"{checkpoint.name} has no heads: its architecture is {architecture!r}")
    if model.scheme.n_inserted_ids:
        reason = f"attention {model.config.attention!r} inserts tokens between the characters"
        raise ConfigError(f"the circuits of {checkpoint.name} cannot be found: {reason}")
    lines = sample_lines(n, seed, model.config.block_size + 1)
    halves = [Lines(lines[0::2], tokenizer), Lines(lines[1::2], tokenizer)]
    means, selection = _recorded(model, halves[0])
    _, held_out = _recorded(model, halves[1])
    progress(2)
    neurons = {op: best_neuron(selection, held_out, op) for op in CARRIES}
    wrong = partial(count_wrong, model, halves[1])
    intact = wrong()
    progress(1)
    ablated: dict[str, Ints] = {}
    for name, layer, heads in ablation_targets(model.config):
        with ablated_heads(model, layer, heads, means[layer] if ablation == "mean" else None):
            ablated[name] = wrong()
        progress(1)
    clear = clear_neurons(selection)
    groups = {op: [(neuron.layer, neuron.index)] for op, neuron in neurons.items()}
    without_neurons: dict[str, Ints] = {}
    for name, group in {**groups, "clear": clear}.items():
        with ablated_neurons(model, group, selection):
            without_neurons[name] = wrong()
        progress(1)
    return Circuits(
        checkpoint=checkpoint.name,
        ablation=ablation,
        seed=seed,
        n_lines=len(halves[1].texts),
        n_position=np.bincount(halves[1].all_rules, minlength=len(RULES)),
        intact=intact,
        ablated=ablated,
        attention=attention_to_sources(model, tokenizer, halves[1].texts[:N_ATTENTION_LINES]),
        neurons=neurons,
        n_clear=len(clear),
        without_neurons=without_neurons,
    )


def ablation_targets(config: ModelConfig) -> list[tuple[str, int, range]]:
    """Returns what is ablated in turn: a name, the layer and its heads."""
    layers = range(config.n_layer)
    single = [(f"{i}.{h}", i, range(h, h + 1)) for i in layers for h in range(config.n_head)]
    return [*single, *((f"{layer}.*", layer, range(config.n_head)) for layer in layers)]


def n_passes(config: ModelConfig) -> int:
    """Returns how many times half of the lines are read."""
    return 6 + len(ablation_targets(config))  # recorded twice, whole, and without three groups


def sample_lines(n: int, seed: int, max_length: int) -> list[bytes]:
    """Returns n problems with their work, of all kinds in turns; see `case_lines.draw_lines`.
    Raises DataError if none of at most `max_length` characters is drawn."""
    lines: list[bytes] = []
    block = 0
    while len(lines) < n:
        if block == len(SOURCES) and not lines:
            raise DataError(f"no problem fits in the model's context, {max_length - 1} characters")
        drawn = [line for line in draw_lines(seed, block) if len(line) <= max_length]
        lines += drawn[: max(1, n // 20)]  # of each kind
        block += 1
    return lines[:n]


class Lines:
    """Lines, their tokens, and the cases and rules of their positions."""

    def __init__(self, texts: Sequence[bytes], tokenizer: CharTokenizer) -> None:
        self.texts = texts
        self.tokens = ProblemLines(b"".join(line + b"\n" for line in texts), tokenizer)
        self.digits = tokenizer.encode("0123456789").astype(np.int64)
        self.cases = line_cases(texts)
        self.all_rules = _rules(np.concatenate(self.cases))

    def cases_of(self, reading: Reading) -> Ints:
        """Returns the cases of the positions that were read, (N,)."""
        return np.concatenate([self.cases[row] for row in reading.rows])


def _rules(cases: Ints) -> Ints:
    return np.searchsorted(_STARTS, cases, side="right") - 1


def count_wrong(model: GPT, lines: Lines) -> Ints:
    """Returns how many positions of each rule the model would write wrongly, (R,)."""
    counts = np.zeros(len(RULES), np.int64)
    for reading in read_lines(model, lines.tokens):
        texts = [lines.texts[row] for row in reading.rows]
        right_N = check_reading(reading, texts, lines.digits).right
        np.add.at(counts, _rules(lines.cases_of(reading)), ~right_N)
    return counts


@contextmanager
def ablated_heads(
    model: GPT, layer: int, heads: range, mean_C: torch.Tensor | None = None
) -> Iterator[None]:
    """Replaces the output of some heads by its mean within the block, or by zero without a mean.
    `mean_C` has the means of all heads of the layer."""
    width = model.config.head_dim
    part = slice(heads.start * width, heads.stop * width)

    def replace(module: nn.Module, args: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        heads_BTC = args[0].clone()
        heads_BTC[..., part] = 0 if mean_C is None else mean_C[part]
        return (heads_BTC,)

    handle = blocks_of(model)[layer].attn.out.register_forward_pre_hook(replace)
    try:
        yield
    finally:
        handle.remove()


def _recorded(model: GPT, lines: Lines) -> tuple[list[torch.Tensor], CarryPositions]:
    """Returns the mean output of all heads over the positions of some lines, (C,) for each layer,
    and the neurons of their sums and differences."""
    blocks = blocks_of(model)
    outputs: dict[int, torch.Tensor] = {}
    modules = [*(block.attn.out for block in blocks), *(block.ff.down for block in blocks)]
    totals = [torch.zeros(model.config.n_embd, dtype=torch.float64) for _ in blocks]
    columns: list[CarryPositions] = []
    n_written = 0
    with hooked(modules, lambda index, taken, _: outputs.__setitem__(index, taken)):
        for reading in read_lines(model, lines.tokens):
            written_BT = torch.from_numpy(lines.tokens.arrays(reading.rows)[1] != NO_LOSS)
            for layer, total in enumerate(totals):
                total += outputs[layer][written_BT].sum(dim=0)
            n_written += int(written_BT.sum())
            neurons = (
                outputs[len(blocks) + layer][written_BT].numpy() for layer in range(len(blocks))
            )
            columns.append(carry_positions(lines.cases_of(reading), neurons))
    return [(total / n_written).float() for total in totals], CarryPositions.merge(columns)


def attention_to_sources(
    model: GPT, tokenizer: CharTokenizer, lines: Sequence[bytes]
) -> dict[str, Floats]:
    """Returns how much each head attends to each source of a rule before it is written: the mean
    weight over all positions that have this source, (L, H), by "rule: source"."""
    plain = model.with_plain_attention()
    shape = (model.config.n_layer, model.config.n_head)
    totals: dict[str, Floats] = {}
    counts: dict[str, int] = {}
    for line in lines:
        tokens_T = torch.from_numpy(tokenizer.encode(line.decode()).astype(np.int64))
        weights_LHTS = attention_weights(plain, tokens_T).double().numpy()
        for name, position, source in sources_of(line):
            totals.setdefault(name, np.zeros(shape))
            totals[name] += weights_LHTS[:, :, position - 1, source]
            counts[name] = counts.get(name, 0) + 1
    return {name: totals[name] / counts[name] for name in sorted(totals, key=_order)}


def _order(name: str) -> int:
    return DIGIT_RULES.index(name.partition(": ")[0])


def sources_of(line: bytes) -> Iterator[tuple[str, int, int]]:
    """Yields "rule: source", the position of a character and that of its source, for all characters
    that the rules of DIGIT_RULES write."""
    plan = layout(shape_of_line(line))
    for position in range(plan.prompt_length, len(plan.slots)):
        slot = plan.slots[position]
        rule = _RULE_OF.get(slot.kind)
        if rule is not None:
            for axis, source in zip(rule.read_axes, slot.sources, strict=False):
                if source != NOWHERE:
                    yield f"{rule.name}: {axis.name}", position, source


_RULE_OF = {kind: step for step in LOCAL_STEPS if step.name in DIGIT_RULES for kind in step.kinds}


def main() -> None:
    """Shows what each attention head of a model does."""
    options = parser("Show what each attention head of a model does.")
    options.add_argument("checkpoint")
    options.add_argument("--n", type=positive, default=1_000)
    options.add_argument("--ablation", choices=("mean", "zero"), default="mean")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, help="draw the tables and the neurons in this folder")
    given = options.parse_args()
    torch.set_num_threads(1)  # a token has too little work for more
    loaded = Checkpoint.load(resolve(given.checkpoint))
    passes = n_passes(loaded.recipe.model)
    with progress_bar(passes, True, desc="heads", unit="pass", leave=False) as bar:
        found = find_circuits(loaded, given.n, given.ablation, given.seed, bar.update)
    if given.out:
        print(*draw_circuits(given.out, found), sep="\n")
    write(given.json, found.record())
    print(found.table())


if __name__ == "__main__":
    run(main)
