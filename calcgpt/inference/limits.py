"""The problems that a model accepts, and why it refuses others.

A direct model has two places and operands of at most ten characters; it cannot read others. A model
that writes worked steps can read any number. Its context limits what it writes for an operation,
and MAX_WORK what it writes for an expression.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ExpressionErrorKind
from datagen.arithmetic import MAX_ASKED_PLACES, MAX_PLACES, USUAL_PLACES, Number, Problem, answer
from datagen.layout import any_shape_of, work_length
from datagen.notation import MAX_WIDTH, WIDTH, answer_text, is_operand, number_text, render_prompt
from datagen.operations import SIGNS
from datagen.slots import MAX_LAYOUT

DEFAULT_PLACES = 8  # of an answer of a model with worked steps
MAX_WORK = 2_500_000  # characters that a model writes for an expression, by default
MAX_SHOWN_WORK = 400_000  # of which each is sent or drawn
MOST_WORK = 100_000_000  # that a user can allow


class Refusal(NamedTuple):
    """Why a model is not asked."""

    kind: ExpressionErrorKind
    reason: str


@dataclass(frozen=True)
class DirectLimits:
    """Limits of a model that answers at once: two places, operands of at most WIDTH characters."""

    operations: tuple[str, ...] = SIGNS  # that the model knows
    default_places = USUAL_PLACES  # of an answer, unless the user chooses
    most_places = USUAL_PLACES  # of an operation

    def refuse_places(self, places: int) -> Refusal | None:
        """Returns why answers cannot have this number of places, or None if they can."""
        if places == USUAL_PLACES:
            return None
        reason = f"answers of this model have {USUAL_PLACES} places, not {places}"
        return Refusal(ExpressionErrorKind.TOO_MANY_PLACES, reason)

    def refuse_operand(self, number: Number) -> Refusal | None:
        """Returns why a number cannot be an operand, or None if it can."""
        if number.places > USUAL_PLACES:
            return Refusal(ExpressionErrorKind.TOO_MANY_PLACES, "more than two decimal places")
        if len(number_text(number)) > WIDTH:
            reason = f"a number of more than {WIDTH} characters"
            return Refusal(ExpressionErrorKind.OUT_OF_RANGE, reason)
        return None

    def refuse_problem(self, problem: Problem, n_characters: int) -> Refusal | None:
        """Returns why a problem of valid operands, for which the model writes `n_characters`,
        cannot be solved, or None if it can."""
        return self.refuse_places(problem.places)

    def n_characters(self, problem: Problem) -> int:
        """Returns how many characters the model writes if it solves a problem."""
        return _answer_length(problem)

    def describe(self) -> dict[str, list[str] | int | bool | None]:
        """Returns the limits in the form of the service's list of models
        (`api.schemas.Domain`), which an exported page has, too."""
        return {
            "operations": list(self.operations),
            "max_characters": WIDTH,
            "works_in_steps": False,
        }


@dataclass(frozen=True)
class ScratchpadLimits:
    """Limits of a model that writes worked steps: what its context can hold. The methods are those
    of `DirectLimits`."""

    block_size: int
    operations: tuple[str, ...] = SIGNS
    default_places = DEFAULT_PLACES
    most_places = MAX_PLACES

    def refuse_places(self, places: int) -> Refusal | None:
        return None

    def refuse_operand(self, number: Number) -> Refusal | None:
        if is_operand(number):
            return None
        reason = f"a number of more than {MAX_WIDTH:,} characters"
        return Refusal(ExpressionErrorKind.OUT_OF_RANGE, reason)

    def refuse_problem(self, problem: Problem, n_characters: int) -> Refusal | None:
        length = len(render_prompt(problem)) + n_characters
        room = min(self.block_size, MAX_LAYOUT)
        if length <= room + 1:  # the last character is written but never read
            return None
        reason = f"its work has {length:,} characters; this model's context holds {room:,}"
        return Refusal(ExpressionErrorKind.OUT_OF_RANGE, reason)

    def n_characters(self, problem: Problem) -> int:
        return _work_and_answer_length(problem)

    def describe(self) -> dict[str, list[str] | int | bool | None]:
        return {
            "operations": list(self.operations),
            "decimal_places": MAX_ASKED_PLACES,
            "default_places": self.default_places,
            "max_characters": MAX_WIDTH,
            "works_in_steps": True,
        }


Limits = DirectLimits | ScratchpadLimits


def accepts(limits: Limits, problem: Problem) -> bool:
    """Whether a model can be given a problem."""
    if limits.refuse_places(problem.places) or any(
        map(limits.refuse_operand, (problem.a, problem.b))
    ):
        return False
    return not limits.refuse_problem(problem, limits.n_characters(problem))


def refuse_work(n_characters: int, most: int) -> Refusal | None:
    """Returns why a model does not write so many characters for an expression, or None if it may
    write as many as `most`."""
    if n_characters <= most:
        return None
    unit = 10 ** max(0, len(str(n_characters)) - 3)  # three digits of the cost are told
    about = f"about {(n_characters + unit // 2) // unit * unit:,}"
    reason = f"the model would write {about} characters; the limit is {most:,}"
    return Refusal(ExpressionErrorKind.TOO_LONG, reason)


@lru_cache(64)  # a planner asks, and then who counts the work
def _work_and_answer_length(problem: Problem) -> int:
    prompt = render_prompt(problem)
    shape = any_shape_of(prompt)
    assert shape
    return work_length(shape) - len(prompt) + _answer_length(problem)


def _answer_length(problem: Problem) -> int:
    """Returns the length of the answer field, with the closing `$`."""
    return max(WIDTH, len(answer_text(answer(problem)))) + len("$")


def limits_of(checkpoint: Checkpoint, block_size: int) -> Limits:
    """Returns the limits of a checkpoint that decodes with a context of `block_size`."""
    if checkpoint.recipe.model.architecture == "sources":
        block_size = MAX_LAYOUT  # it has no context
    operations = tuple(filter(checkpoint.tokenizer.has_characters, SIGNS))
    if checkpoint.recipe.has_work:
        return ScratchpadLimits(block_size, operations)
    return DirectLimits(operations)
