"""What a person types -> a tree of operations -> a question to the model for each -> an answer with
its evidence.

A `Computation` knows what to ask next and what to make of the answers, but asks nobody: the
`Calculator` here asks its model at once, the service puts the questions of many requests together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.confidence import NOT_CONFIDENT, Confidence, confidence
from calcgpt.inference.expression import Binary, Expression, Literal, parse, show
from calcgpt.inference.generate import Decoder, generate
from datagen.arithmetic import Number, Operation, Problem, answer
from datagen.errors import NotationError
from datagen.notation import ALPHABET, WIDTH, answer_text, number_text, parse_answer, render_prompt

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
        """The answer, or, where it is no number, what the model wrote in its place."""
        return self.result if self.result is not None else self.nodes[-1].output or ""

    @property
    def errors(self) -> list[str]:
        """One line for each node that does not agree."""
        return [
            f"wrong: {node.problem} is {node.exact}"
            if node.problem
            else f"not asked, because an operand is missing: {node.expression}"
            for node in self.nodes
            if not node.agrees
        ]


class Question(NamedTuple):
    """What to ask the model next."""

    node: int
    problem: Problem
    text: str  # the problem as a person writes it: `3*3`
    prompt: str


@dataclass(frozen=True)
class Domain:
    """Which operands a model's notation can hold: at most WIDTH characters and, if given, at most
    so many digits in hundredths."""

    digits: int | None

    @property
    def below(self) -> int | None:
        """Operands are smaller than this in magnitude, if there is such a bound."""
        return None if self.digits is None else 10**self.digits // 100

    def reason_against(self, number: Number) -> str | None:
        """Why it cannot be an operand; None if it can."""
        if len(number_text(number)) > WIDTH:
            return f"a number of more than {WIDTH} characters"
        if self.digits is not None and abs(number.hundredths) >= 10**self.digits:
            return f"this model calculates with numbers below {self.below:,}"
        return None


class Computation:
    """An expression in the course of being answered."""

    def __init__(self, text: str, model: str, domain: Domain) -> None:
        """Raises ExpressionError for what is no expression, and for an operand or, by exact
        arithmetic, an intermediate result that the model's notation cannot hold."""
        tree = parse(text)
        self._model, self._domain = model, domain
        self._operations = _in_order(tree)
        places = {id(operation): place for place, operation in enumerate(self._operations)}
        self._operands = [
            [e.number if isinstance(e, Literal) else places[id(e)] for e in (node.left, node.right)]
            for node in self._operations
        ]
        self.exact = _exact(tree, domain)
        #: What each node is made of, before it is asked.
        self.outline = [
            Span(expression=show(op), position=op.start, end=op.end) for op in self._operations
        ]
        self._answered: list[Node | None] = [None] * len(self.outline)
        self._values: list[Number | None] = [None] * len(self.outline)
        self._asked: dict[int, Question] = {}

    def questions(self) -> list[Question]:
        """What can be asked now and was not yet: all nodes whose operands are known. None are left
        when everything asked is answered and this is empty."""
        ready = []
        for place, span in enumerate(self.outline):
            if place in self._asked or self._answered[place]:
                continue
            operands = self._operands[place]
            if any(isinstance(o, int) and self._answered[o] is None for o in operands):
                continue
            a, b = (self._values[o] if isinstance(o, int) else o for o in operands)
            if any(n is None or self._domain.reason_against(n) for n in (a, b)):
                self._answered[place] = Node.not_asked(span)
                continue
            assert a is not None
            assert b is not None
            problem = Problem(a, self._operations[place].op, b)
            text = f"{number_text(a)}{problem.op}{number_text(b)}"
            self._asked[place] = Question(place, problem, text, render_prompt(problem))
            ready.append(self._asked[place])
        return ready

    def answer(self, place: int, output: str, probabilities: list[float]) -> Node:
        """What the model wrote after the prompt of the question about node `place`, and how
        probable it held each character."""
        question = self._asked[place]
        result, value = read_answer(question.prompt + output)
        exact = answer_text(answer(question.problem))
        work, equals, _ = output.rpartition("=")
        node = Node(
            **dict(self.outline[place]),
            problem=question.text,
            prompt=question.prompt,
            work=work if equals else None,
            output=output,
            result=result,
            exact=exact,
            agrees=result == exact,
            confidence=confidence(output, probabilities),
        )
        self._answered[place], self._values[place] = node, value
        return node

    def calculation(self) -> Calculation:
        """The whole, when nothing is left to ask."""
        nodes = tuple(node for node in self._answered if node)
        assert len(nodes) == len(self.outline)
        sure = [node.confidence or NOT_CONFIDENT for node in nodes]
        return Calculation(
            expression=nodes[-1].expression,
            result=nodes[-1].result,
            exact=answer_text(self.exact),
            verified=all(node.agrees for node in nodes),
            confidence=Confidence(
                answer=math.prod(s.answer for s in sure),
                weakest_step=min(s.weakest_step for s in sure),
                whole=math.prod(s.whole for s in sure),
            ),
            nodes=nodes,
            model=self._model,
        )


class Calculator:
    """Answers expressions with the model of a checkpoint."""

    def __init__(self, checkpoint: Checkpoint, decoder: Decoder | None = None) -> None:
        """`decoder` runs the checkpoint's model; by default torch does. Raises DataError where the
        model's tokens are not the notation's characters."""
        checkpoint.tokenizer.require_characters()
        self.checkpoint = checkpoint
        self.decoder: Decoder = decoder or checkpoint.model
        self.domain = Domain(checkpoint.recipe.work_digits)
        self.stop = int(checkpoint.tokenizer.encode(ALPHABET)[0])  # raises where one is lacking

    def begin(self, expression: str) -> Computation:
        """Raises ExpressionError for what it cannot take."""
        return Computation(expression, self.checkpoint.name, self.domain)

    def calculate(self, expression: str) -> Calculation:
        """The answer, all operations of one level in one batch. Raises ExpressionError."""
        computation = self.begin(expression)
        tokenizer = self.checkpoint.tokenizer
        device = next(self.checkpoint.model.parameters()).device
        while questions := computation.questions():
            prompts = [tokenizer.encode(question.prompt).tolist() for question in questions]
            prompts_BP = torch.tensor(prompts, device=device)
            written = generate(self.decoder, prompts_BP, self.stop)
            for question, w in zip(questions, written, strict=True):
                computation.answer(question.node, tokenizer.decode(w.ids), w.probabilities)
        return computation.calculation()


def read_answer(text: str) -> tuple[str | None, Number | None]:
    """The answer in a whole problem as the model completed it, as text and as a number: what
    follows the last `=`, closed by `$`. None where that is not an answer, or not a number."""
    field = text.rpartition("=")[2]
    if not field.endswith("$"):
        return None, None
    try:
        value = parse_answer(field[:-1])
    except NotationError:
        return None, None
    return answer_text(value), value


def _in_order(tree: Binary) -> list[Binary]:
    """All operations, operands before the operation that needs them, left before right."""
    operands = [e for e in (tree.left, tree.right) if isinstance(e, Binary)]
    return [*(node for operand in operands for node in _in_order(operand)), tree]


def _exact(expression: Expression, domain: Domain, operand: bool = False) -> Number:
    """Its value by exact arithmetic, each operation rounded to two places."""
    kind = ExpressionErrorKind
    start, end = expression.start, expression.end
    if isinstance(expression, Literal):
        if reason := domain.reason_against(expression.number):
            raise ExpressionError(kind.OUT_OF_RANGE, reason, start, end)
        return expression.number
    a, b = (_exact(part, domain, operand=True) for part in (expression.left, expression.right))
    if expression.op is Operation.DIV and b.hundredths == 0:
        raise ExpressionError(
            kind.DIVISION_BY_ZERO, "division by zero", expression.right.start, expression.right.end
        )
    value = answer(Problem(a, expression.op, b))
    assert value is not None  # only a division by zero has none
    if operand and (reason := domain.reason_against(value)):
        text = f"{show(expression)} is {number_text(value)}: {reason}"
        raise ExpressionError(kind.OUT_OF_RANGE, text, start, end)
    return value
