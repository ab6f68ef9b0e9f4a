"""The model's answer to an expression, and its evidence.

`Confidence` holds three numbers from the probabilities of the characters that the model chose:
- `answer`: the product over the answer field (after the last `=`, including the closing `$`);
- `weakest_step`: the minimum over the work before it (1 if there is none);
- `whole`: the product over the work and the answer.

The digits of a quotient are left out of the last two. Several digits are correct there, and how a
model divides its probability among them says nothing about its answer. Every other character
follows from those before it, so `whole` is the probability of the model's output given the prompt.
An output that does not end with `$` is no answer; its three numbers are 0.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from calcgpt.base.errors import NotationError
from calcgpt.inference.exact import FRACTION_DIGITS
from datagen import work_errors
from datagen.arithmetic import USUAL_PLACES, Number
from datagen.notation import answer_text, parse_answer
from datagen.work_errors import WrongCharacter

# One answer of the shipped checkpoint `calculator`, for the documentation.
EXAMPLE_PROMPT = "$8(00000012.5+0000000003)="
EXAMPLE_WORK = "+5210+0300+5510:5510+"
EXAMPLE_CONFIDENCE: dict[str, JsonValue] = {
    "answer": 0.9999977,
    "weakest_step": 0.9999965,
    "whole": 0.9999808,
}
EXAMPLE_NODE: dict[str, JsonValue] = {
    "expression": "12.5+3",
    "position": 0,
    "end": 6,
    "path": [],
    "problem": "12.5+3",
    "prompt": EXAMPLE_PROMPT,
    "work": EXAMPLE_WORK,
    "output": f"{EXAMPLE_WORK}=5.51000000$",
    "result": "15.5",
    "exact": "15.5",
    "agrees": True,
    "proved": True,
    "rounded": False,
    "confidence": EXAMPLE_CONFIDENCE,
}
EXAMPLE: dict[str, JsonValue] = {
    "expression": "12.5+3",
    "reading": None,
    "alternative": None,
    "result": "15.5",
    "exact": "15.5",
    "fraction": "31/2",
    "places": 8,
    "rounded": False,
    "verified": True,
    "confidence": EXAMPLE_CONFIDENCE,
    "nodes": [EXAMPLE_NODE],
    "model": "calculator",
}


class Confidence(BaseModel):
    """The probabilities that the model gave to what it wrote, from 0 to 1. What they were measured
    on, and how well they tell right from wrong, is in the `calibration` of /v1/models."""

    model_config = ConfigDict(frozen=True)

    answer: float = Field(
        description="probability of the answer, given the work", examples=[0.9999977]
    )
    weakest_step: float = Field(
        description="probability of the least probable character of the work, the digits of a "
        "quotient left out; 1 if there is no work",
        examples=[0.9999965],
    )
    whole: float = Field(
        description="probability of the work and the answer together, the digits of a quotient "
        "left out",
        examples=[0.9999808],
    )


NOT_CONFIDENT = Confidence(answer=0.0, weakest_step=0.0, whole=0.0)


def confidence(
    prompt: str, output: str, probabilities: Sequence[float] | NDArray[np.float32]
) -> Confidence:
    """Returns the confidence in what was written after a prompt, given the probability of each of
    its characters."""
    if not output.endswith("$"):
        return NOT_CONFIDENT
    start = output.rfind("=") + 1
    work = output[:start]
    of_each = np.array(probabilities, np.float64)
    steps, answer = of_each[:start], float(of_each[start:].prod())
    if "/" in prompt and has_work(work):
        steps[list(work_errors.quotient_digits(prompt, work))] = 1.0
    return Confidence(
        answer=answer,
        weakest_step=float(steps.min(initial=1.0)),
        whole=float(steps.prod()) * answer,
    )


def has_work(output: str) -> bool:
    """Returns whether an output begins as worked steps do, with a sign. Answers begin with a
    digit."""
    return output.startswith(("+", "-"))


class Span(BaseModel):
    """One operation of an expression, and its position in the input."""

    model_config = ConfigDict(frozen=True)

    expression: str = Field(description="the operation with its operands, such as `(1+2)*3`")
    position: int = Field(description="index of its first character in the input, from 0")
    end: int = Field(description="index after its last character")
    path: tuple[str, ...] = Field(
        (),
        description="if the operation belongs to a function: the rows of its program, and of those "
        "that this calls, the outermost first",
    )


class Node(Span):
    """One operation and the model's answer to it.

    If an operand is missing, because the model's answer to it is not a usable number, the model is
    not asked: the fields after `end` are null, except `agrees`, `proved` and `rounded`, which are
    false.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_NODE]})

    problem: str | None = Field(
        description="the problem put to the model, with its own intermediate results as operands"
    )
    prompt: str | None = Field(description="the text that the model reads")
    work: str | None = Field(description="the model's worked steps; null if it writes none")
    output: str | None = Field(
        description="everything the model writes: the steps and `=`, then the answer reversed "
        "and `$`"
    )
    result: str | None = Field(description="the model's answer; null if it is not a number")
    exact: str | None = Field(description="the answer to `problem` by exact arithmetic")
    agrees: bool = Field(description="whether `result` equals `exact`")
    proved: bool = Field(
        description="whether `calcgpt prove` tried all cases of which the model's texts consist on "
        "this machine, and found all right; says nothing of the whole expression"
    )
    rounded: bool = Field(
        description="whether rounding changed the value: the exact result has more places"
    )
    confidence: Confidence | None

    @property
    def first_wrong_step(self) -> WrongCharacter | None:
        """The first wrong character of `output`, if it begins as worked steps."""
        if not self.prompt or not self.output or not has_work(self.output):
            return None
        return work_errors.first_error_of_completion(self.prompt, self.output)

    @property
    def error(self) -> str | None:
        """One line if the node does not agree with exact arithmetic: what is wrong, and where."""
        if self.agrees:
            return None
        if not self.problem:
            return f"not computed, because an operand is missing: {self.expression}"
        wrong = f"wrong: the exact answer of {self.problem} is {self.exact}"
        if step := self.first_wrong_step:
            wrong += f" (first wrong step: {step.kind} at position {step.position})"
        return wrong

    @classmethod
    def not_asked(cls, span: Span) -> Self:
        """Returns the node of an operation that lacks an operand."""
        answer = dict.fromkeys(cls.model_fields.keys() - Span.model_fields.keys())
        says_no = dict.fromkeys(("agrees", "proved", "rounded"), False)
        return cls.model_validate({**dict(span), **answer, **says_no})


class Calculation(BaseModel):
    """The model's answer and its evidence. The exact value never replaces the answer."""

    model_config = ConfigDict(frozen=True, json_schema_extra={"examples": [EXAMPLE]})

    expression: str = Field(description="the expression as it was understood")
    reading: str | None = Field(
        None,
        description="how a part of the text was read, where a reader could think otherwise: "
        "`100-10% as 100-(10% of 100)`",
    )
    alternative: str | None = Field(
        None, description="the text, rewritten so that it has another reading"
    )
    result: str | None = Field(description="the model's answer; null if it is not a number")
    exact: str = Field(
        description="the exact value of the whole expression, rounded once, ties to even"
    )
    fraction: str | None = Field(
        description=f"the exact value as `5/6`; null if it has more than {FRACTION_DIGITS} digits"
    )
    places: int = Field(description="decimal places of the answer")
    rounded: bool | None = Field(
        description="whether `exact` differs from the exact value; null if that is undecided"
    )
    verified: bool = Field(
        description="whether every node agrees with exact arithmetic, and `result` equals `exact`"
    )
    confidence: Confidence = Field(
        description="products over all nodes, and the smallest `weakest_step`"
    )
    nodes: tuple[Node, ...] = Field(
        description="operands come before the operation that uses them",
        repr=False,  # a function has dozens
    )
    model: str = Field(description="name of the checkpoint")

    def to_dict(self) -> dict[str, Any]:
        """Returns the answer as JSON has it, and as `calcgpt calc --json` prints it."""
        return self.model_dump(mode="json")

    @property
    def written(self) -> str:
        """The answer or, if it is not a number, what the model wrote instead."""
        return self.result if self.result is not None else self.nodes[-1].output or ""

    @property
    def notes(self) -> list[str]:
        """What a user should know of the answer, even if it is right."""
        reading = f"read as: {self.reading}" if self.reading else None
        return [note for note in (reading, self.rounding_note) if note]

    @property
    def rounding_note(self) -> str | None:
        """How the exact value was rounded, or None if it was not."""
        if self.rounded is None:
            return "undecided whether it is exactly this"
        if not self.rounded:
            return None
        places = "1 place" if self.places == 1 else f"{self.places} places"
        if self.exact != "0":
            return f"rounded to {places}"
        value = f"{self.fraction} is" if self.fraction else "the exact value is"
        return f"rounded to {places}, nothing is left: {value} not 0"

    @property
    def errors(self) -> list[str]:
        """One line for each node that does not agree with exact arithmetic."""
        errors = [node.error for node in self.nodes if node.error]
        if not errors and not self.verified:  # the model keeps too few places between operations
            errors.append(f"wrong: the exact answer is {self.exact}; the steps are rounded")
        return errors


def read_answer(text: str, places: int = USUAL_PLACES) -> tuple[str | None, Number | None]:
    """Returns the answer in a completed problem, as text and as a number.

    The answer is what follows the last `=`, up to a closing `$`. Both are None if that is not an
    answer of at most `places` places in the notation; the number is None if the answer is `nan`.
    """
    field = text.rpartition("=")[2]
    if not field.endswith("$"):
        return None, None
    try:
        value = parse_answer(field[:-1], places)
    except NotationError:
        return None, None
    return answer_text(value), value
