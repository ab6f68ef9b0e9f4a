"""The problems that a model accepts, and why it refuses others.

A direct model has two places and operands of at most ten characters; it cannot read others. A model
that writes worked steps can read any number, and was measured up to some length. Beyond it, its
answers are untested: it answers only if the user allows that.
"""

from dataclasses import dataclass
from typing import NamedTuple

from calcgpt.checkpoint import Checkpoint
from calcgpt.config import Domain
from calcgpt.errors import ExpressionErrorKind
from datagen.arithmetic import MAX_PLACES, USUAL_PLACES, Number, Problem, answer
from datagen.layout import require_shape, work_length
from datagen.notation import MAX_WIDTH, WIDTH, answer_text, is_operand, number_text, render_prompt
from datagen.operations import ADDITION, SIGNS, USUAL

DEFAULT_PLACES = 8  # of an answer, if the model was measured for as many
UNMEASURED_DOMAIN = Domain(digits=7, places=2)  # assumed of a model without a measured domain


class Refusal(NamedTuple):
    """Why a model is not asked. If the kind is BEYOND_TESTED, the user can allow it."""

    kind: ExpressionErrorKind
    reason: str


@dataclass(frozen=True)
class DirectLimits:
    """Limits of a model that answers at once: two places, operands of at most WIDTH characters."""

    operations: tuple[str, ...] = USUAL  # that the model knows
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

    def refuse_problem(self, problem: Problem) -> Refusal | None:
        """Returns why a problem of valid operands cannot be solved, or None if it can."""
        return self.refuse_places(problem.places)

    def n_characters(self, problem: Problem) -> int:
        """Returns how many characters the model writes if it solves a problem."""
        return _answer_length(problem)

    def describe(self) -> dict[str, list[str] | int | bool | None]:
        """Returns the limits in the form of the service's list of models
        (`api.schemas.models.Domain`, and `domain` in `api/static/engine/limits.js`)."""
        return {
            "operations": list(self.operations),
            "max_characters": WIDTH,
            "below": None,
            "works_in_steps": False,
        }


@dataclass(frozen=True)
class ScratchpadLimits:
    """Limits of a model that writes worked steps: what it was measured for, and what its context
    can hold. The methods are those of `DirectLimits`."""

    measured: Domain | None
    block_size: int
    operations: tuple[str, ...] = USUAL
    most_places = MAX_PLACES

    @property
    def domain(self) -> Domain:
        """The domain for which the model was measured, or UNMEASURED_DOMAIN."""
        return self.measured or UNMEASURED_DOMAIN

    @property
    def default_places(self) -> int:
        return min(DEFAULT_PLACES, self.domain.places)

    def refuse_places(self, places: int) -> Refusal | None:
        if places <= self.domain.places:
            return None
        return self._beyond_tested(f"an answer to {places} places")

    def refuse_operand(self, number: Number) -> Refusal | None:
        if not is_operand(number):
            reason = f"a number of more than {MAX_WIDTH} characters"
            return Refusal(ExpressionErrorKind.OUT_OF_RANGE, reason)
        digits = len(str(abs(number.units)))
        if digits > self.domain.digits:
            added = ", .0 included" if number.places == 1 and number.units % 10 == 0 else ""
            return self._beyond_tested(f"a number of {digits} digits{added}")
        if number.places > self.domain.places:
            return self._beyond_tested(f"a number with {number.places} places")
        return None

    def refuse_problem(self, problem: Problem) -> Refusal | None:
        digits = max(len(str(abs(number.units))) for number in (problem.a, problem.b))
        if problem.op.rank > ADDITION.rank and digits > (self.domain.factor_digits or digits):
            return self._beyond_tested(f"{problem.op.name} of numbers of {digits} digits")
        if refusal := self.refuse_places(problem.places):
            return refusal
        prompt = render_prompt(problem)
        length = len(prompt) + self.n_characters(problem)
        if length <= self.block_size + 1:  # the last character is written but never read
            return None
        reason = (
            f"its work has {length:,} characters; this model's context holds {self.block_size:,}"
        )
        return Refusal(ExpressionErrorKind.OUT_OF_RANGE, reason)

    def n_characters(self, problem: Problem) -> int:
        prompt = render_prompt(problem)
        return work_length(require_shape(prompt)) - len(prompt) + _answer_length(problem)

    def describe(self) -> dict[str, list[str] | int | bool | None]:
        return {
            "operations": list(self.operations),
            "decimal_places": self.domain.places,
            "default_places": self.default_places,
            "digits": self.domain.digits,
            "factor_digits": self.domain.factor_digits,
            "max_characters": MAX_WIDTH,
            "below": None,
            "works_in_steps": True,
        }

    def _beyond_tested(self, what: str) -> Refusal:
        digits, places, factor_digits = self.domain.digits, self.domain.places, ""
        if self.domain.factor_digits:
            factor_digits = f" ({self.domain.factor_digits} in products and quotients)"
        source = "was measured for" if self.measured else "was never measured, so it takes"
        most = f"numbers of at most {digits} digits{factor_digits}, {places} places"
        reason = f"{what}; this model {source} {most}"
        return Refusal(ExpressionErrorKind.BEYOND_TESTED, reason)


Limits = DirectLimits | ScratchpadLimits


def accepts(limits: Limits, problem: Problem) -> bool:
    """Whether a model can be given a problem."""
    if limits.refuse_places(problem.places) or any(
        map(limits.refuse_operand, (problem.a, problem.b))
    ):
        return False
    return not limits.refuse_problem(problem)


def _answer_length(problem: Problem) -> int:
    """Returns the length of the answer field, with the closing `$`."""
    return max(WIDTH, len(answer_text(answer(problem)))) + len("$")


def limits_of(checkpoint: Checkpoint, block_size: int) -> Limits:
    """Returns the limits of a checkpoint that decodes with a context of `block_size`."""
    operations = tuple(filter(checkpoint.tokenizer.has_characters, SIGNS))
    if checkpoint.recipe.has_work:
        return ScratchpadLimits(checkpoint.domain, block_size, operations)
    return DirectLimits(operations)
