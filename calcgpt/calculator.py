"""What a person types -> one problem -> the model's answer beside the exact one."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt.confidence import Confidence, confidence
from calcgpt.errors import ExpressionError
from calcgpt.generate import generate
from datagen.arithmetic import Number, Operation, Problem, answer
from datagen.errors import NotationError
from datagen.notation import ALPHABET, WIDTH, answer_text, number_text, parse_answer, render_prompt

MAX_LENGTH = 100  # characters of an expression
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_TYPED = str.maketrans({"×": "*", "÷": "/", "−": "-"})  # signs that people type


@dataclass(frozen=True)
class Calculation:
    """One answer and its evidence. The model's result is never replaced by the exact one."""

    expression: str  # as the model understood it: `12.5*3`
    result: str | None  # what the model answered, None where its output is no number
    exact: str  # what is right
    verified: bool  # whether they agree
    prompt: str  # what the model read
    output: str  # what the model wrote: worked steps and `=`, if it writes them, then the answer
    confidence: Confidence  # the probabilities that the model gave what it wrote
    model: str


class Calculator:
    """Answers expressions with the model of a checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Raises DataError where the model's tokens are not the notation's characters."""
        checkpoint.tokenizer.require_characters()
        self.checkpoint = checkpoint
        self._stop = int(checkpoint.tokenizer.encode(ALPHABET)[0])  # raises where one is lacking

    def calculate(self, expression: str) -> Calculation:
        """Raises ExpressionError, with the position, for what is not one binary operation on
        numbers that the notation can hold."""
        problem = parse_expression(expression, self.checkpoint.recipe.work_digits)
        prompt = render_prompt(problem)
        tokenizer = self.checkpoint.tokenizer
        ids = torch.from_numpy(tokenizer.encode(prompt).astype("int64"))[None]
        ids = ids.to(next(self.checkpoint.model.parameters()).device)
        (written,) = generate(self.checkpoint.model, ids, self._stop)
        output = tokenizer.decode(written.ids)
        exact = answer_text(answer(problem))
        result = read_answer(prompt + output)
        return Calculation(
            expression=f"{number_text(problem.a)}{problem.op}{number_text(problem.b)}",
            result=result,
            exact=exact,
            verified=result == exact,
            prompt=prompt,
            output=output,
            confidence=confidence(output, written.probabilities),
            model=self.checkpoint.name,
        )


def read_answer(text: str) -> str | None:
    """The answer in a whole problem as the model completed it: what follows the last `=`, closed
    by `$`. None where that is not an answer."""
    field = text.rpartition("=")[2]
    if not field.endswith("$"):
        return None
    try:
        return answer_text(parse_answer(field[:-1]))
    except NotationError:
        return None


def parse_expression(text: str, digits: int | None = None) -> Problem:
    """`12.5 * 3` -> the problem. Numbers have at most two places, at most ten characters and, if
    given, at most so many digits in hundredths; `×`, `÷` and `−` are read as `*`, `/` and `-`.

    Raises ExpressionError with the position in `text`.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters", MAX_LENGTH)
    typed = text.translate(_TYPED)  # one character for one: positions stay
    a, at = _number(typed, 0, digits)
    at = _skip_spaces(typed, at)
    if at == len(typed):
        raise ExpressionError("an operation is missing: one of + - * /", at)
    if typed[at] == ",":
        raise ExpressionError("a comma; write decimals with a point", at)
    if typed[at] not in "+-*/":
        raise ExpressionError(f"{text[at]!r} is not an operation; valid are + - * /", at)
    operation = Operation(typed[at])
    b, at = _number(typed, at + 1, digits)
    at = _skip_spaces(typed, at)
    if at < len(typed):
        if typed[at] == ",":
            raise ExpressionError("a comma; write decimals with a point", at)
        raise ExpressionError("one operation on two numbers is all that is understood", at)
    return Problem(a, operation, b)


def _number(text: str, at: int, digits: int | None) -> tuple[Number, int]:
    """The number that starts at `at`, spaces skipped, and where it ends."""
    at = _skip_spaces(text, at)
    match = _NUMBER.match(text, at)
    if not match:
        found = repr(text[at]) if at < len(text) else "the end"
        raise ExpressionError(f"a number is expected, not {found}", at)
    whole, point, places = match.group().partition(".")
    if len(places.rstrip("0")) > 2:
        raise ExpressionError("more than two decimal places", match.start() + len(whole) + 3)
    hundredths = int(whole.lstrip("-") or "0") * 100 + int(places[:2].ljust(2, "0"))
    number = Number(-hundredths if whole.startswith("-") else hundredths, bool(point))
    if len(number_text(number)) > WIDTH:
        raise ExpressionError(f"a number of more than {WIDTH} characters", match.start())
    if digits is not None and hundredths >= 10**digits:
        limit = f"{10**digits // 100:,}"
        raise ExpressionError(f"this model calculates with numbers below {limit}", match.start())
    return number, match.end()


def _skip_spaces(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
