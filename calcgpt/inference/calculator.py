"""From an expression to the model's answer and its evidence.

An expression is parsed into a tree, each operation becomes a question to the model, and each answer
becomes a node of the result. A `Computation` has no I/O: it states its next questions and takes the
answers. The `Calculator` asks its model at once. The service batches the questions of many
requests.

`Confidence` holds three numbers from the probabilities of the characters that the model chose:
- `answer`: the product over the answer field (after the last `=`, including the closing `$`);
- `weakest_step`: the minimum over the work before it (1 if there is none);
- `whole`: the product over the work and the answer.

The digits of a quotient are left out of the last two. Several digits are correct there, and how a
model divides its probability among them says nothing about its answer. Every other character
follows from those before it, so `whole` is the probability of the model's output given the prompt.
An output that does not end with `$` is no answer; its three numbers are 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.expression import Binary, Expression, Literal, parse, show
from calcgpt.inference.generate import Decoder, generate
from datagen.arithmetic import USUAL_PLACES, Number, Operation, Problem, answer
from datagen.errors import NotationError
from datagen.notation import ALPHABET, WIDTH, answer_text, number_text, parse_answer, render_prompt
from datagen.steps import quotient_digits

# One answer of the shipped checkpoint `steps`, for the documentation.
EXAMPLE_PROMPT = "$(00000012.5+0000000003)="
EXAMPLE_WORK = "x0521000y0030000a+05510000:05510000+1"
EXAMPLE_CONFIDENCE: dict[str, JsonValue] = {
    "answer": 0.9999971,
    "weakest_step": 0.9999929,
    "whole": 0.9999812,
}
EXAMPLE_NODE: dict[str, JsonValue] = {
    "expression": "12.5+3",
    "position": 0,
    "end": 6,
    "problem": "12.5+3",
    "prompt": EXAMPLE_PROMPT,
    "work": EXAMPLE_WORK,
    "output": f"{EXAMPLE_WORK}=5.51000000$",
    "result": "15.5",
    "exact": "15.5",
    "agrees": True,
    "confidence": EXAMPLE_CONFIDENCE,
}
EXAMPLE: dict[str, JsonValue] = {
    "expression": "12.5+3",
    "result": "15.5",
    "exact": "15.5",
    "verified": True,
    "confidence": EXAMPLE_CONFIDENCE,
    "nodes": [EXAMPLE_NODE],
    "model": "steps",
}


class Confidence(BaseModel):
    """The probabilities that the model gave to what it wrote, from 0 to 1."""

    model_config = ConfigDict(frozen=True)

    answer: float = Field(
        description="probability of the answer, given the work", examples=[0.9999971]
    )
    weakest_step: float = Field(
        description="probability of the least probable character of the work, the digits of a "
        "quotient left out; 1 if there is no work",
        examples=[0.9999929],
    )
    whole: float = Field(
        description="probability of the work and the answer together, the digits of a quotient "
        "left out",
        examples=[0.9999812],
    )


NOT_CONFIDENT = Confidence(answer=0.0, weakest_step=0.0, whole=0.0)


def confidence(output: str, probabilities: Sequence[float]) -> Confidence:
    """Returns the confidence in an output, given the probability of each of its characters."""
    if not output.endswith("$"):
        return NOT_CONFIDENT
    start = output.rfind("=") + 1
    choices = quotient_digits(output[:start])
    steps = [p for index, p in enumerate(probabilities[:start]) if index not in choices]
    answer = math.prod(probabilities[start:])
    return Confidence(
        answer=answer, weakest_step=min(steps, default=1.0), whole=math.prod(steps) * answer
    )


class Span(BaseModel):
    """One operation of an expression, and its position in the input."""

    model_config = ConfigDict(frozen=True)

    expression: str = Field(description="the operation with its operands, such as `(1+2)*3`")
    position: int = Field(description="index of its first character in the input, from 0")
    end: int = Field(description="index after its last character")


class Node(Span):
    """One operation and the model's answer to it.

    If an operand is missing, because the model's answer to it is not a usable number, the model is
    not asked: the fields after `end` are null and `agrees` is false.
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
    confidence: Confidence | None

    @classmethod
    def not_asked(cls, span: Span) -> Node:
        """Returns the node of an operation that lacks an operand."""
        answer = dict.fromkeys(cls.model_fields.keys() - Span.model_fields.keys())
        return cls.model_validate({**dict(span), **answer, "agrees": False})


class Calculation(BaseModel):
    """The model's answer and its evidence. The exact value never replaces the answer."""

    model_config = ConfigDict(frozen=True, json_schema_extra={"examples": [EXAMPLE]})

    expression: str = Field(description="the expression as it was understood")
    result: str | None = Field(description="the model's answer; null if it is not a number")
    exact: str = Field(
        description="the answer by exact arithmetic, each operation rounded to two places"
    )
    verified: bool = Field(description="whether every node agrees with exact arithmetic")
    confidence: Confidence = Field(
        description="products over all nodes, and the smallest `weakest_step`"
    )
    nodes: tuple[Node, ...] = Field(description="operands come before the operation that uses them")
    model: str = Field(description="name of the checkpoint")

    @property
    def written(self) -> str:
        """The answer or, if it is not a number, what the model wrote instead."""
        return self.result if self.result is not None else self.nodes[-1].output or ""

    @property
    def errors(self) -> list[str]:
        """One line for each node that does not agree with exact arithmetic."""
        return [
            f"wrong: {node.problem} is {node.exact}"
            if node.problem
            else f"not asked, because an operand is missing: {node.expression}"
            for node in self.nodes
            if not node.agrees
        ]


class Question(NamedTuple):
    """A problem for the model."""

    node: int  # the index of its node
    problem: Problem
    text: str  # the problem as people write it: `3*3`
    prompt: str


@dataclass(frozen=True)
class Domain:
    """The operands that a model's notation can hold: at most WIDTH characters and, unless `digits`
    is None, at most that many digits in hundredths."""

    digits: int | None

    @property
    def below(self) -> int | None:
        """The bound that the magnitude of an operand is below, or None."""
        return None if self.digits is None else 10**self.digits // 100

    def reason_against(self, number: Number) -> str | None:
        """Returns why a number cannot be an operand, or None if it can."""
        if len(number_text(number)) > WIDTH:
            return f"a number of more than {WIDTH} characters"
        if self.digits is not None and abs(number.scaled(2)) >= 10**self.digits:
            return f"this model calculates with numbers below {self.below:,}"
        return None


class Computation:
    """An expression, its questions to the model, and the answers so far."""

    def __init__(self, text: str, model: str, domain: Domain) -> None:
        """Raises ExpressionError if `text` is not an expression, or if the model's notation cannot
        hold an operand or, by exact arithmetic, an intermediate result."""
        tree = parse(text)
        self._model, self._domain = model, domain
        self._operations = _in_order(tree)
        nodes = {id(operation): node for node, operation in enumerate(self._operations)}
        # An operand is a number or, for the result of an operation, the index of its node.
        self._operands = [
            [e.number if isinstance(e, Literal) else nodes[id(e)] for e in (op.left, op.right)]
            for op in self._operations
        ]
        self.exact = _exact(tree, domain)
        #: The operations, operands first. Each becomes a node when it is answered.
        self.outline = [
            Span(expression=show(op), position=op.start, end=op.end) for op in self._operations
        ]
        self._questions: dict[int, Question] = {}  # by node, like the next two
        self._answered: dict[int, Node] = {}
        self._values: dict[int, Number | None] = {}  # None if the answer is not a number

    def questions(self) -> list[Question]:
        """Returns all new questions whose operands are known.

        If this is empty and every earlier question is answered, the computation is complete.
        """
        ready = []
        for node, span in enumerate(self.outline):
            if node in self._questions or node in self._answered:
                continue
            operands = self._operands[node]
            if any(isinstance(o, int) and o not in self._answered for o in operands):
                continue
            a, b = (self._values[o] if isinstance(o, int) else o for o in operands)
            if (
                a is None
                or b is None
                or self._domain.reason_against(a)
                or self._domain.reason_against(b)
            ):
                self._answered[node], self._values[node] = Node.not_asked(span), None
                continue
            problem = Problem(a, self._operations[node].op, b)
            text = f"{number_text(a)}{problem.op}{number_text(b)}"
            self._questions[node] = Question(node, problem, text, render_prompt(problem))
            ready.append(self._questions[node])
        return ready

    def answer(self, node: int, output: str, probabilities: list[float]) -> Node:
        """Takes what the model wrote after the prompt of a node's question, and the probability of
        each character. Returns the node."""
        question = self._questions[node]
        result, value = read_answer(question.prompt + output, question.problem.places)
        exact = answer_text(answer(question.problem))
        work, equals, _ = output.rpartition("=")
        answered = Node(
            **dict(self.outline[node]),
            problem=question.text,
            prompt=question.prompt,
            work=work if equals else None,
            output=output,
            result=result,
            exact=exact,
            agrees=result == exact,
            confidence=confidence(output, probabilities),
        )
        self._answered[node], self._values[node] = answered, value
        return answered

    def calculation(self) -> Calculation:
        """Returns the result of a complete computation."""
        nodes = tuple(self._answered[node] for node in range(len(self.outline)))
        confidences = [node.confidence or NOT_CONFIDENT for node in nodes]
        return Calculation(
            expression=nodes[-1].expression,
            result=nodes[-1].result,
            exact=answer_text(self.exact),
            verified=all(node.agrees for node in nodes),
            confidence=Confidence(
                answer=math.prod(c.answer for c in confidences),
                weakest_step=min(c.weakest_step for c in confidences),
                whole=math.prod(c.whole for c in confidences),
            ),
            nodes=nodes,
            model=self._model,
        )


class Calculator:
    """Answers expressions with the model of a checkpoint."""

    def __init__(self, checkpoint: Checkpoint, decoder: Decoder | None = None) -> None:
        """`decoder` runs the checkpoint's model; it defaults to the model itself. Raises DataError
        if the tokenizer lacks characters of the notation."""
        checkpoint.tokenizer.require_characters()
        self.checkpoint = checkpoint
        self.decoder: Decoder = decoder or checkpoint.model
        self.domain = Domain(checkpoint.recipe.work_digits)
        # Encodes all characters, so that it raises DataError if one is missing.
        self.stop = int(checkpoint.tokenizer.encode(ALPHABET)[0])

    def begin(self, expression: str) -> Computation:
        """Returns the computation of an expression. Raises ExpressionError as it does."""
        return Computation(expression, self.checkpoint.name, self.domain)

    def calculate(self, expression: str) -> Calculation:
        """Returns the answer. All operations of one level of the tree with prompts of one length
        are one batch. Raises ExpressionError as `Computation` does."""
        computation = self.begin(expression)
        tokenizer = self.checkpoint.tokenizer
        device = next(self.checkpoint.model.parameters()).device
        while questions := computation.questions():
            for _, group in groupby(sorted(questions, key=_prompt_length), key=_prompt_length):
                batch = list(group)
                prompts = [tokenizer.encode(question.prompt).tolist() for question in batch]
                prompts_BP = torch.tensor(prompts, device=device)
                completions = generate(self.decoder, prompts_BP, self.stop)
                for question, completion in zip(batch, completions, strict=True):
                    output = tokenizer.decode(completion.ids)
                    computation.answer(question.node, output, completion.probabilities)
        return computation.calculation()


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


def _prompt_length(question: Question) -> int:
    return len(question.prompt)


def _in_order(tree: Binary) -> list[Binary]:
    """Returns all operations: operands before the operation that uses them, left before right."""
    operands = [e for e in (tree.left, tree.right) if isinstance(e, Binary)]
    return [*(node for operand in operands for node in _in_order(operand)), tree]


def _exact(expression: Expression, domain: Domain, operand: bool = False) -> Number:
    """Returns the value by exact arithmetic, each operation rounded to two places.

    Raises ExpressionError for a division by zero, and for a number outside `domain`; the whole
    expression may be outside it unless it is an `operand`.
    """
    kind = ExpressionErrorKind
    start, end = expression.start, expression.end
    if isinstance(expression, Literal):
        if reason := domain.reason_against(expression.number):
            raise ExpressionError(kind.OUT_OF_RANGE, reason, start, end)
        return expression.number
    a, b = (_exact(part, domain, operand=True) for part in (expression.left, expression.right))
    if expression.op is Operation.DIV and b.units == 0:
        raise ExpressionError(
            kind.DIVISION_BY_ZERO, "division by zero", expression.right.start, expression.right.end
        )
    value = answer(Problem(a, expression.op, b))
    assert value is not None  # it is None only for a division by zero
    if operand and (reason := domain.reason_against(value)):
        text = f"{show(expression)} is {number_text(value)}: {reason}"
        raise ExpressionError(kind.OUT_OF_RANGE, text, start, end)
    return value
