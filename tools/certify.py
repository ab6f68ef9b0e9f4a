"""Certifies a model rule by rule: does it write what the rules say, in every case of every rule?

    python -m tools.certify CHECKPOINT [--engine NAME] [--half] [--every N] [--json FILE]

A rule of worked steps reads a few characters, so it has a limited number of cases
(`tools.cases.rules`). Problems are constructed in which each case occurs between random neighbours
three times, and in at least three adversarial contexts (`tools.cases.contexts`). The model reads
their correct work and predicts each character from those before it. All characters are checked, not
only those that a problem was made for. With `--half`, the weights are rounded to 16 bits, as those
of the page are. `--every N` reads each N-th line only, for a quick look.

Several digits of a quotient can be right, so a line may have one that the model would not choose.
No question makes the model write what follows such a digit. So `own` counts only the characters
before which the model itself writes all of the line.

It is not a proof: a case that is right in six contexts may be wrong in a seventh. The leading
digits of quotients, `quotient digit`, are many, and need one context.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import parser, positive, run, write
from calcgpt.checkpoint import Checkpoint
from calcgpt.data.batches import ProblemLines
from calcgpt.data.tokenizer import CharTokenizer
from calcgpt.errors import ConfigError
from calcgpt.inference.browser import cast_weights, widened
from calcgpt.inference.drafts import Reading, read_lines
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.generate import Decoder, log_softmax
from calcgpt.registry import resolve
from calcgpt.tables import text_table
from datagen.progress import progress_bar
from tools.cases.contexts import Group
from tools.cases.lines import line_cases, quotient_choices
from tools.cases.other_contexts import groups
from tools.cases.rules import LOCAL_STEPS, N_CASES, QUOTIENT_CHOICE, Flags, Ints, LocalStep

SHARD = 200  # lines that are read together
MAX_SHOWN = 20  # wrong positions of a rule in the record
NEEDED = 3  # contexts of each kind
Floats = NDArray[np.float32]


class WrongPrediction(NamedTuple):
    """A position at which a model would write a wrong character."""

    case: int
    context: str
    line: str
    position: int  # in the line
    written: str
    own: bool  # the model itself writes what is before it


class Checked(NamedTuple):
    """Whether the most probable character is right at each position, whether the model itself
    writes all before it, the probability of the right one, and by how much its logit exceeds that
    of the best wrong one; each (N,)."""

    right: Flags
    own: Flags
    probability: Floats
    margin: Floats


def check_reading(reading: Reading, lines: Sequence[bytes], digits: Ints) -> Checked:
    """Checks the predictions of a model. `digits` are the tokens of the digits, (10,). Several
    digits of a quotient can be right: all that leave less than the divisor."""
    logits_NV = reading.logits_NV
    probability_NV = np.exp(log_softmax(logits_NV))
    is_right_NV = np.zeros(logits_NV.shape, bool)
    is_right_NV[np.arange(len(logits_NV)), reading.targets_N] = True
    agrees_N = logits_NV.argmax(axis=1) == reading.targets_N
    own_N = np.ones(len(agrees_N), bool)
    start = 0
    for line, count in zip(lines, reading.counts, strict=True):
        for position, valid in quotient_choices(line):
            is_right_NV[start + position, digits[valid]] = True
        own_N[start + 1 : start + count] = np.logical_and.accumulate(
            agrees_N[start : start + count - 1]
        )
        start += count
    best_N = np.where(is_right_NV, logits_NV, -np.inf).max(axis=1)
    margin_N = best_N - np.where(is_right_NV, -np.inf, logits_NV).max(axis=1)
    return Checked(margin_N > 0, own_N, (probability_NV * is_right_NV).sum(axis=1), margin_N)


@dataclass
class Certificate:
    """How often each case was read, and how sure the model was; each array (N_CASES,)."""

    checkpoint: str
    engine: str
    half: bool
    seed: int
    every: int = 1  # of the lines, each N-th
    random: Ints = field(default_factory=lambda: np.zeros(N_CASES, np.int64))
    adversarial: Ints = field(default_factory=lambda: np.zeros(N_CASES, np.int64))
    read: Ints = field(default_factory=lambda: np.zeros(N_CASES, np.int64))  # any position
    right: Ints = field(default_factory=lambda: np.zeros(N_CASES, np.int64))
    own: Ints = field(default_factory=lambda: np.zeros(N_CASES, np.int64))
    own_right: Ints = field(default_factory=lambda: np.zeros(N_CASES, np.int64))
    probability: Floats = field(default_factory=lambda: np.ones(N_CASES, np.float32))
    margin: Floats = field(default_factory=lambda: np.full(N_CASES, np.inf, np.float32))
    wrong: list[WrongPrediction] = field(default_factory=list)
    lines: int = 0
    contexts: dict[str, int] = field(default_factory=dict)  # lines made for each

    def read_group(self, decoder: Decoder, tokenizer: CharTokenizer, group: Group) -> None:
        """Lets a model read the lines of a group."""
        group = group.take_every(self.every)
        self.lines += len(group.lines)
        name = group.context.name
        self.contexts[name] = self.contexts.get(name, 0) + len(group.lines)
        counts = self.random if group.context.is_random else self.adversarial
        for start in range(0, len(group.lines), SHARD):
            shard = group.lines[start : start + SHARD]
            cases = line_cases(shard)
            for index, line_of_cases in enumerate(cases):
                np.add.at(counts, line_of_cases[group.wanted(start + index)], 1)
            self._read(decoder, tokenizer, shard, cases, name)

    def _read(
        self,
        decoder: Decoder,
        tokenizer: CharTokenizer,
        lines: Sequence[bytes],
        cases: Sequence[Ints],
        context: str,
    ) -> None:
        digits = tokenizer.encode("0123456789").astype(np.int64)
        tokens = ProblemLines(b"".join(line + b"\n" for line in lines), tokenizer)
        for reading in read_lines(decoder, tokens):
            rows = reading.rows.tolist()
            checked = check_reading(reading, [lines[row] for row in rows], digits)
            cases_N = np.concatenate([cases[row] for row in rows])
            np.add.at(self.read, cases_N, 1)
            np.add.at(self.right, cases_N, checked.right)
            np.add.at(self.own, cases_N, checked.own)
            np.add.at(self.own_right, cases_N, checked.own & checked.right)
            np.minimum.at(self.probability, cases_N, checked.probability)
            np.minimum.at(self.margin, cases_N, checked.margin)
            written = tokenizer.decode(reading.logits_NV.argmax(axis=1))
            starts = np.cumsum([0, *reading.counts])
            for index in np.flatnonzero(~checked.right).tolist():
                part = int(np.searchsorted(starts, index, side="right")) - 1
                line = lines[rows[part]]
                position = len(line) - int(starts[part + 1]) + index
                case, text, own = int(cases_N[index]), line.decode(), bool(checked.own[index])
                self.wrong.append(
                    WrongPrediction(case, context, text, position, written[index], own)
                )

    def summaries(self) -> list[dict[str, Any]]:
        """Returns a summary of each rule.

        `cases` can be reached by a calculation, `unreachable` are the others of the table, `tried`
        had enough random and adversarial contexts, and `wrong` had a wrong context. `contexts`
        counts all positions that were read, `wrong_contexts` those with a wrong prediction. `own`
        are the cases that occur where the model itself writes all of the line before, and
        `own_wrong` those of them that had a wrong context there.
        """
        return [self._summary(step) for step in LOCAL_STEPS]

    def _summary(self, step: LocalStep) -> dict[str, Any]:
        part = slice(step.first, step.first + step.size)
        read, right, reachable = self.read[part], self.right[part], step.reachable
        any_read = bool(read.any())
        return {
            "rule": step.name,
            "cases": int(reachable.sum()),
            "unreachable": int((~reachable).sum()),
            "tried": int((self._tried(step) & reachable).sum()),
            "wrong": int((right < read).sum()),
            "contexts": int(read.sum()),
            "wrong_contexts": int((read - right).sum()),
            "own": int((self.own[part] > 0).sum()),
            "own_wrong": int((self.own_right[part] < self.own[part]).sum()),
            "lowest_margin": float(self.margin[part].min()) if any_read else None,
            "lowest_probability": float(self.probability[part].min()) if any_read else None,
        }

    def table(self) -> str:
        """Returns the summaries of all rules, and a row in total, for a terminal."""
        keys = ("cases", "tried", "wrong", "contexts", "wrong_contexts", "own", "own_wrong")
        summaries = self.summaries()
        rows = [
            [
                summary["rule"],
                *(f"{summary[key]:,}" for key in keys),
                *(_number(summary[key]) for key in ("lowest_margin", "lowest_probability")),
            ]
            for summary in summaries
        ]
        totals = [f"{sum(summary[key] for summary in summaries):,}" for key in keys]
        lowest = [_number(float(column.min())) for column in (self.margin, self.probability)]
        header = ["rule", *(key.replace("_", " ") for key in keys), "margin", "probability"]
        return text_table(header, [*rows, ["all", *totals, *lowest]])

    def record(self) -> dict[str, Any]:
        """Returns what `--json` writes."""
        rules = self.summaries()
        for summary, step in zip(rules, LOCAL_STEPS, strict=True):
            end = step.first + step.size
            wrong = [w for w in self.wrong if step.first <= w.case < end]
            summary["wrong_at"] = [
                {**w._asdict(), "case": step.describe(w.case - step.first)}
                for w in sorted(wrong, key=lambda w: not w.own)[:MAX_SHOWN]
            ]
            missing = np.flatnonzero(step.reachable & ~self._tried(step))
            summary["not_tried"] = [step.describe(int(case)) for case in missing[:MAX_SHOWN]]
        return {
            "checkpoint": self.checkpoint,
            "engine": self.engine,
            "weights": "16 bits" if self.half else "32 bits",
            "seed": self.seed,
            "every": self.every,
            "lines": self.lines,
            "contexts": self.contexts,
            "rules": rules,
        }

    def _tried(self, step: LocalStep) -> Flags:
        part = slice(step.first, step.first + step.size)
        if step is QUOTIENT_CHOICE:
            return np.asarray(self.read[part] > 0)
        return np.asarray((self.random[part] >= NEEDED) & (self.adversarial[part] >= NEEDED))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def check_testable(checkpoint: Checkpoint) -> None:
    """Raises ConfigError unless the model writes worked steps."""
    if not checkpoint.recipe.has_work:
        raise ConfigError(f"{checkpoint.name} does not write worked steps: it has no rules to test")


def certify(
    checkpoint: Checkpoint,
    *,
    engine: str = "auto",
    half: bool = False,
    seed: int = 0,
    every: int = 1,
    chosen: Iterable[Group] | None = None,
    progress: Callable[[int], Any] = lambda n: None,
) -> Certificate:
    """Lets the model of a checkpoint read all groups, or the `chosen` ones, in one thread. Calls
    `progress` with numbers of lines made. Raises what `check_testable` raises."""
    check_testable(checkpoint)
    if half:
        checkpoint = replace(checkpoint, arrays=widened(cast_weights(checkpoint, 16)))
    name, decoder = load_decoder(checkpoint, engine, 1)
    result = Certificate(checkpoint.name, name, half, seed, every)
    tokenizer = checkpoint.tokenizer.require_characters()
    for group in groups(seed) if chosen is None else chosen:
        result.read_group(decoder, tokenizer, group)
        progress(len(group.lines))
    return result


def main() -> None:
    """Certifies a model rule by rule."""
    options = parser("Certify a model rule by rule, in all cases that a calculation can reach.")
    options.add_argument("checkpoint")
    options.add_argument("--engine", default="auto")
    options.add_argument("--half", action="store_true", help="with weights rounded to 16 bits")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--every", type=positive, default=1, help="read each N-th line only")
    given = options.parse_args()
    checkpoint = Checkpoint.load(resolve(given.checkpoint))
    with progress_bar(0, True, desc="reading", unit="line", leave=False) as bar:
        outcome = certify(
            checkpoint,
            engine=given.engine,
            half=given.half,
            seed=given.seed,
            every=given.every,
            progress=bar.update,
        )
    write(given.json, outcome.record())
    print(outcome.table())


if __name__ == "__main__":
    run(main)
