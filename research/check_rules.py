"""Tests whether a model writes what the rules say, in every case of every rule.

    python -m research.check_rules CHECKPOINT [--contexts N] [--n N] \
        [--out FOLDER] [--json FILE]

A rule of worked steps reads a few characters, so that it has a limited number of cases
(`research.local_steps`). Each position of a problem's work at which a case occurs is a context of
the case. Problems are drawn, and kept if they have a case that needs more contexts. The model reads
their correct work and predicts each character from those before it. A case passes if it has
enough contexts and the prediction is right in all of them.

Ran at commit 6ccd8f9 and before, as a command of `calcgpt`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import parser, positive, run, write
from calcgpt.checkpoint import Checkpoint
from calcgpt.data.batches import ProblemLines
from calcgpt.errors import ConfigError
from calcgpt.evaluation.shards import load_for_scoring
from calcgpt.inference.drafts import Reading, read_lines
from calcgpt.inference.generate import log_softmax
from calcgpt.registry import resolve
from calcgpt.tables import text_table
from datagen.parallel import make_map
from datagen.progress import progress_bar
from research.case_lines import by_step, choose_lines
from research.line_cases import line_cases, quotient_choices
from research.local_steps import LOCAL_STEPS, N_CASES, OFFSETS, SAMPLED, Flags, Ints, LocalStep

SHARD = 200  # lines that are read together
MAX_SHOWN = 20  # wrong positions of a rule in the record


class WrongPrediction(NamedTuple):
    """A position at which a model would write a wrong character."""

    case: int
    line: str
    position: int  # in the line
    written: str


@dataclass(frozen=True)
class ReadCases:
    """The cases at the positions of some lines, and how probable the right characters are there."""

    cases: Ints
    right: Flags
    probability: NDArray[np.float32]
    wrong: list[WrongPrediction]


@dataclass(frozen=True)
class CaseReader:
    """A function from lines to their cases that can be sent to other processes."""

    checkpoint: Path
    engine: str
    threads: int | None

    def __call__(self, lines: Sequence[bytes]) -> ReadCases:
        checkpoint, decoder = load_for_scoring(self.checkpoint, "cpu", self.engine, self.threads)
        tokenizer = checkpoint.tokenizer.require_characters()
        tokens = ProblemLines(b"".join(line + b"\n" for line in lines), tokenizer)
        digits = tokenizer.encode("0123456789").astype(np.int64)
        cases = line_cases(lines)
        parts: list[tuple[Ints, Flags, NDArray[np.float32]]] = []
        wrong: list[WrongPrediction] = []
        for reading in read_lines(decoder, tokens):
            rows = reading.rows.tolist()
            right, probability = check_reading(reading, [lines[row] for row in rows], digits)
            part = np.concatenate([cases[row] for row in rows])
            parts.append((part, right, probability))
            written, end = tokenizer.decode(reading.logits_NV.argmax(axis=1)), 0
            for row, count in zip(rows, reading.counts, strict=True):
                start, end = end, end + count
                for index in np.flatnonzero(~right[start:end]).tolist():
                    position = len(lines[row]) - count + index
                    character = written[start + index]
                    case = int(part[start + index])
                    wrong.append(WrongPrediction(case, lines[row].decode(), position, character))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return ReadCases(columns[0], columns[1], columns[2], wrong)


def check_reading(
    reading: Reading, lines: Sequence[bytes], digits: Ints
) -> tuple[Flags, NDArray[np.float32]]:
    """Returns whether the most probable character is right at each position, (N,), and the
    probability of the right one, (N,). Several digits of a quotient can be right: all that leave
    less than the divisor."""
    probability_NV = np.exp(log_softmax(reading.logits_NV))
    chosen_N = reading.logits_NV.argmax(axis=1)
    right_N = chosen_N == reading.targets_N
    probability_N = probability_NV[np.arange(len(chosen_N)), reading.targets_N]
    start = 0
    for line, count in zip(lines, reading.counts, strict=True):
        for position, valid in quotient_choices(line):
            index, ids = start + position, digits[valid]
            right_N[index] = chosen_N[index] in ids
            probability_N[index] = probability_NV[index, ids].sum()
        start += count
    return right_N, probability_N


@dataclass(frozen=True)
class RuleCheck:
    """How often each case was tried and right, and the lowest probability of the right character;
    each (N_CASES,)."""

    checkpoint: str
    seed: int
    contexts: int  # that a case needs
    drawn: int  # problems
    lines: int  # that were read
    tried: Ints
    right: Ints
    lowest: NDArray[np.float64]
    wrong: list[WrongPrediction]

    def table(self) -> str:
        """Returns the summary of each rule for a terminal."""
        header = ["rule", "cases", "tried", "passed", "wrong", "positions", "lowest"]
        rows = []
        for summary in self.summaries():
            cells = [summary[key] for key in ("cases", "tried", "passed", "wrong", "places")]
            name = f"{summary['rule']}{' (sampled)' if summary['sampled'] else ''}"
            lowest = "" if summary["lowest"] is None else f"{summary['lowest']:.4f}"
            rows.append([name, *(f"{cell:,}" for cell in cells), lowest])
        return text_table(header, rows)

    def summaries(self) -> list[dict[str, Any]]:
        """Returns a summary of each rule.

        `cases` is the number of cases that can occur. `tried` counts those that were read in any
        context, `passed` those with enough contexts, all right, and `wrong` those with a wrong
        context. A `sampled` rule needs one context. `places` counts the contexts of all cases, and
        `wrong_places` those with a wrong prediction. `lowest` is the least probability of the right
        character in any context; None if there is none.
        """
        result = []
        columns = (self.tried, self.right, self.lowest)
        for (step, tried), (_, right), (_, lowest) in zip(*map(by_step, columns), strict=True):
            needed = 1 if step.name in SAMPLED else self.contexts
            result.append(
                {
                    "rule": step.name,
                    "sampled": step.name in SAMPLED,
                    "cases": int(step.possible(tried > 0).sum()),
                    "tried": int((tried > 0).sum()),
                    "passed": int(((tried >= needed) & (right == tried)).sum()),
                    "wrong": int((right < tried).sum()),
                    "places": int(tried.sum()),
                    "wrong_places": int((tried - right).sum()),
                    "lowest": float(lowest.min()) if tried.any() else None,
                }
            )
        return result

    def record(self) -> dict[str, Any]:
        """Returns what `--json` writes."""
        rules = self.summaries()
        for summary, step in zip(rules, LOCAL_STEPS, strict=True):
            first = OFFSETS[step.name]
            wrong = [w for w in self.wrong if first <= w.case < first + step.size]
            summary["wrong_at"] = [
                {
                    "case": step.describe(prediction.case - first),
                    "line": prediction.line,
                    "position": prediction.position,
                    "written": prediction.written,
                }
                for prediction in wrong[:MAX_SHOWN]
            ]
            summary["not_tried"] = [step.describe(case) for case in self._not_tried(step)]
        return {
            "checkpoint": self.checkpoint,
            "seed": self.seed,
            "contexts": self.contexts,
            "drawn": self.drawn,
            "lines": self.lines,
            "rules": rules,
        }

    def _not_tried(self, step: LocalStep) -> list[int]:
        if step.name in SAMPLED:
            return []
        start = OFFSETS[step.name]
        tried = self.tried[start : start + step.size] > 0
        return [int(case) for case in np.flatnonzero(step.possible(tried) & ~tried)[:MAX_SHOWN]]


def check_rules(
    checkpoint: Checkpoint,
    folder: Path,
    lines: Sequence[bytes],
    *,
    drawn: int,
    seed: int,
    contexts: int,
    engine: str = "auto",
    workers: int | None = None,
    progress: Callable[[int], Any] = lambda n: None,
) -> RuleCheck:
    """Lets the model of a checkpoint read the lines of `case_lines.choose_lines`.

    The model runs in `workers` processes with one thread each, by default in this process. Calls
    `progress` with numbers of lines.
    """
    tried, right = np.zeros(N_CASES, np.int64), np.zeros(N_CASES, np.int64)
    lowest, wrong = np.ones(N_CASES), list[WrongPrediction]()
    shards = [lines[start : start + SHARD] for start in range(0, len(lines), SHARD)]
    read = CaseReader(folder, engine, 1 if workers else None)
    compute = make_map("local", workers)
    with closing(compute(read, shards)) as results:
        for shard, result in zip(shards, results, strict=True):
            np.add.at(tried, result.cases, 1)
            np.add.at(right, result.cases, result.right)
            np.minimum.at(lowest, result.cases, result.probability)
            wrong += result.wrong
            progress(len(shard))
    return RuleCheck(
        checkpoint.name, seed, contexts, drawn, len(lines), tried, right, lowest, wrong
    )


def check_testable(checkpoint: Checkpoint) -> None:
    """Raises ConfigError unless the model writes worked steps."""
    if not checkpoint.recipe.has_work:
        raise ConfigError(
            f"{checkpoint.name} does not write worked steps: only worked steps have cases to test"
        )


def main() -> None:
    """Tests the rules of a model's worked steps in all their cases."""
    options = parser("Test the rules of a model's worked steps in all their cases.")
    options.add_argument("checkpoint")
    options.add_argument("--contexts", type=positive, default=3, help="a case must occur so often")
    options.add_argument("--n", type=positive, default=100_000, help="problems drawn at most")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--engine", default="auto")
    options.add_argument("--workers", type=positive)
    options.add_argument("--out", type=Path, help="draw heat maps in this folder")
    given = options.parse_args()
    folder = resolve(given.checkpoint)
    loaded = Checkpoint.load(folder)
    check_testable(loaded)
    longest = loaded.recipe.model.block_size + 1
    with progress_bar(given.n, True, desc="drawing", unit="problem", leave=False) as bar:
        lines, drawn = choose_lines(
            given.contexts, given.n, longest, given.seed, workers=given.workers, progress=bar.update
        )
    with progress_bar(len(lines), True, desc="reading", unit="problem", leave=False) as bar:
        outcome = check_rules(
            loaded,
            folder,
            lines,
            drawn=drawn,
            seed=given.seed,
            contexts=given.contexts,
            engine=given.engine,
            workers=given.workers,
            progress=bar.update,
        )
    if given.out:
        from research.check_rules_plots import draw_outcome

        print(*draw_outcome(given.out, outcome), sep="\n")
    write(given.json, outcome.record())
    print(outcome.table())


if __name__ == "__main__":
    run(main)
