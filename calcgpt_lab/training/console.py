"""What a run tells the person who waits for it, on stderr: a line for each validation, and a
progress bar with the time that is left."""

import sys
from typing import Any

from tqdm import tqdm

from calcgpt.base.progress import progress_bar
from calcgpt.inference.results import read_answer
from calcgpt.metrics import Scores
from calcgpt_lab.evaluation.evaluate import Evaluation, answer_field
from calcgpt_lab.tables import printable
from datagen.notation import number_text, parse_prompt

MAX_EXAMPLE = 200  # characters


class Console:
    """Says nothing if `show` is False."""

    def __init__(self, step: int, steps: int, show: bool) -> None:
        self._show = show
        self._bar = progress_bar(steps, show and step < steps, initial=step, unit="step")

    def close(self) -> None:
        self._bar.close()

    def say(self, line: str) -> None:
        """Writes a line above the bar."""
        if self._show:
            tqdm.write(line, file=sys.stderr)

    def stepped(self) -> None:
        """Counts a step."""
        self._bar.update()

    def trained(self, row: dict[str, Any]) -> None:
        """Shows a training row of `metrics.jsonl` beside the bar."""
        self._bar.set_postfix_str(f"loss {row['loss']:.4f}, {row['tokens_per_s']:,.0f} tok/s")

    def validated(
        self, step: int, loss: float, scores: Scores | None, example: str, cases: dict[str, Any]
    ) -> None:
        """Says the validation loss and, of problems, the exact match and an example. `cases` is
        what `count_cases` returns."""
        line = f"step {step:,}: validation loss {loss:.4f}"
        for counts in cases.values():
            line += f", {counts['wrong']:,} of {counts['n']:,} cases wrong"
        if scores:
            line += f", exact match {scores.exact_match:.4f} of {scores.n:,}; {example}"
        self.say(line)


def first_answer(evaluation: Evaluation) -> str:
    """Returns the first problem with the model's answer, and the right one if that is another:
    `12.5 * 3 = 37.4, not 37.5`."""
    line = evaluation.lines[0]
    field = answer_field(line, evaluation.outputs[0])
    question, written, right = line.prompt.removesuffix("="), field, line.answer
    if line.operation:
        problem = parse_prompt(line.prompt)
        question = f"{number_text(problem.a)} {line.operation} {number_text(problem.b)}"
        written, right = (read_answer(f"={a}", problem.places)[0] or a for a in (field, right))
    verdict = "" if line.accepts(field) else f", not {right.removesuffix('$')}"
    return printable(f"{question} = {written.removesuffix('$')}{verdict}")[:MAX_EXAMPLE]
