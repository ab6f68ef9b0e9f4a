"""The calculator: turns an expression into questions to a model, and its answers into the result.

An expression is parsed into a tree, each operation becomes a question to the model, and each answer
becomes a node of the result. A power is repeated multiplication: `2^3` asks for 2*2 and then 4*2. A
`Computation` has no I/O: it states its next questions and takes the answers. The `Calculator` asks
its model at once. The service batches the questions of many requests.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ConfigError, DataError, ExpressionError, ExpressionErrorKind
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.expression import parse
from calcgpt.inference.expression_tree import Binary, Expression, Literal, Power, show
from calcgpt.inference.generate import Decoder, complete
from calcgpt.inference.limits import Limits, Refusal, limits_of
from calcgpt.inference.results import (
    NOT_CONFIDENT,
    Calculation,
    Confidence,
    Node,
    Span,
    confidence,
    read_answer,
)
from calcgpt.registry import resolve
from datagen.arithmetic import MAX_PLACES, Number, Operation, Problem, answer, is_rounded
from datagen.notation import answer_text, number_text, render_prompt

USUAL_LENGTH = 20  # characters of both operands of an operation, together


class _Operand(NamedTuple):
    """A number that was typed, or the result of an operation."""

    exact: Number
    node: int | None  # the index of the operation


class _Operation(NamedTuple):
    a: _Operand
    op: Operation
    b: _Operand
    places: int  # decimal places of its result


class Question(NamedTuple):
    """A problem for the model."""

    node: int  # the index of its node
    problem: Problem
    text: str  # the problem as people write it: `3*3`
    prompt: str


class Computation:
    """An expression, its questions to the model, and the answers so far."""

    def __init__(
        self, text: str, model: str, limits: Limits, places: int, unproven: bool = False
    ) -> None:
        """`places` is the number of decimal places of the answer. Operations before the last keep
        at least the default places of the limits. `unproven` allows numbers for which the model was
        not measured.

        Raises ExpressionError if `text` is not an expression, or if an operand, the work of an
        operation or, by exact arithmetic, an intermediate result is outside the limits.
        """
        tree = parse(text)
        self.expression = show(tree)
        self.places = places
        self._text, self._model, self._limits = text, model, limits
        self._allows_unproven, self._is_proven = unproven, True
        if refusal := self._refused(limits.refuse_places(places)):
            raise ExpressionError(refusal.kind, refusal.reason, 0, len(text))
        #: The operations, operands first. Each becomes a node when it is answered.
        self.outline: list[Span] = []
        self._operations: list[_Operation] = []  # of the same indices
        self._result = self._plan(tree)
        self._questions: dict[int, Question] = {}  # by node, like the next two
        self._answered: dict[int, Node] = {}
        self._values: dict[int, Number | None] = {}  # None if the answer is not a number

    def _refused(self, refusal: Refusal | None) -> Refusal | None:
        """Returns the refusal, or None if the user allows unproven problems. In that case, records
        that the result is not proven."""
        if refusal and refusal.kind is ExpressionErrorKind.UNPROVEN and self._allows_unproven:
            self._is_proven = False
            return None
        return refusal

    def _plan(self, expression: Expression, is_operand: bool = False) -> _Operand:
        """Plans the operations of an expression, and returns its value by exact arithmetic, each
        operation rounded.

        Raises ExpressionError for a division by zero, and for a value outside the limits. The value
        of the whole expression may be outside, because it is not an operand.
        """
        if isinstance(expression, Literal):
            refusal = self._limits.refuse_operand(expression.number) if is_operand else None
            if refusal := self._refused(refusal):
                start, end = expression.start, expression.end
                if refusal.kind is ExpressionErrorKind.TOO_MANY_PLACES:
                    places = self._limits.default_places
                    start, end = expression.superfluous_places(self._text, places)
                raise ExpressionError(refusal.kind, refusal.reason, start, end)
            return _Operand(expression.number, None)
        if isinstance(expression, Binary):
            parts = (expression.left, expression.right)
            a, b = (self._plan(part, is_operand=True) for part in parts)
            return self._add(a, expression.op, b, expression, is_operand)
        if expression.exponent == 1:
            return self._plan(expression.base, is_operand)
        base = power = self._plan(expression.base, is_operand=True)
        if expression.exponent == 0:
            return _Operand(Number.from_units(1, 0, base.exact.point), None)
        for exponent in range(2, expression.exponent + 1):
            part = replace(expression, exponent=exponent)
            is_factor = is_operand or exponent < expression.exponent
            power = self._add(power, Operation.MUL, base, part, is_factor)
        return power

    def _add(
        self, a: _Operand, op: Operation, b: _Operand, source: Binary | Power, is_operand: bool
    ) -> _Operand:
        """Adds the operation of a part of the expression to the plan, and returns its result."""
        span = Span(expression=show(source), position=source.start, end=source.end)
        # 7.5% of 200 would be 16 if 0.075 were rounded to two places.
        places = max(self.places, self._limits.default_places) if is_operand else self.places
        problem = Problem(a.exact, op, b.exact, places)
        value = answer(problem)
        if value is None:
            assert isinstance(source, Binary)
            kind, divisor = ExpressionErrorKind.DIVISION_BY_ZERO, source.right
            raise ExpressionError(kind, "division by zero", divisor.start, divisor.end)
        if refusal := self._refused(self._limits.refuse_problem(problem)):
            reason = f"{span.expression}: {refusal.reason}"
            raise ExpressionError(refusal.kind, reason, span.position, span.end)
        if is_operand and (refusal := self._refused(self._limits.refuse_operand(value))):
            reason = f"{span.expression} is {_shortened(value)}: {refusal.reason}"
            raise ExpressionError(refusal.kind, reason, span.position, span.end)
        self.outline.append(span)
        self._operations.append(_Operation(a, op, b, places))
        return _Operand(value, len(self.outline) - 1)

    @property
    def n_operations(self) -> int:
        """The cost of the computation, in operations of usual length. The work of a product has
        characters for each pair of digits, so an operation on long numbers counts as several."""
        lengths = [
            len(number_text(a.exact)) + len(number_text(b.exact)) for a, _, b, _ in self._operations
        ]
        return sum(max(1, n * n // USUAL_LENGTH**2) for n in lengths)

    def questions(self) -> list[Question]:
        """Returns all new questions whose operands are known.

        If this is empty and every earlier question is answered, the computation is complete.
        """
        ready = []
        for node, span in enumerate(self.outline):
            if node in self._questions or node in self._answered:
                continue
            operation = self._operations[node]
            operands = (operation.a, operation.b)
            if any(o.node is not None and o.node not in self._answered for o in operands):
                continue
            problem = self._problem(operation)
            if problem is None:
                self._answered[node], self._values[node] = Node.not_asked(span), None
                continue
            text = f"{number_text(problem.a)}{problem.op}{number_text(problem.b)}"
            self._questions[node] = Question(node, problem, text, render_prompt(problem))
            ready.append(self._questions[node])
        return ready

    def _value(self, operand: _Operand) -> Number | None:
        """Returns an operand as the model has answered it."""
        return operand.exact if operand.node is None else self._values[operand.node]

    def _problem(self, operation: _Operation) -> Problem | None:
        """Returns the problem of an operation whose operands are answered, or None if an operand is
        missing or the model cannot be asked."""
        a, b = self._value(operation.a), self._value(operation.b)
        if a is None or b is None:
            return None
        if any(self._refused(self._limits.refuse_operand(number)) for number in (a, b)):
            return None
        problem = Problem(a, operation.op, b, operation.places)
        return None if self._refused(self._limits.refuse_problem(problem)) else problem

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
            rounded=is_rounded(question.problem),
            confidence=confidence(question.prompt, output, probabilities),
        )
        self._answered[node], self._values[node] = answered, value
        return answered

    def calculation(self) -> Calculation:
        """Returns the result of a complete computation."""
        nodes = tuple(self._answered[node] for node in range(len(self.outline)))
        confidences = [node.confidence or NOT_CONFIDENT for node in nodes]
        last, exact = self._result.node, answer_text(self._result.exact)
        return Calculation(
            expression=self.expression,
            result=exact if last is None else nodes[last].result,
            exact=exact,
            places=self.places,
            rounded=any(node.rounded for node in nodes),
            verified=all(node.agrees for node in nodes),
            proven=self._is_proven,
            confidence=Confidence(
                answer=math.prod(c.answer for c in confidences),
                weakest_step=min((c.weakest_step for c in confidences), default=1.0),
                whole=math.prod(c.whole for c in confidences),
            ),
            nodes=nodes,
            model=self._model,
        )


class Calculator:
    """Answers expressions with the model of a checkpoint."""

    def __init__(self, checkpoint: Checkpoint, decoder: Decoder | None = None) -> None:
        """`decoder` runs the checkpoint's model; it defaults to the model itself, on the CPU.

        Raises DataError if the tokenizer lacks characters of the notation.
        """
        checkpoint.tokenizer.require_characters()
        self.checkpoint = checkpoint
        self.decoder: Decoder = decoder or checkpoint.model
        self.limits = limits_of(checkpoint, self.decoder.config.block_size)
        if not checkpoint.tokenizer.is_notation():
            raise DataError(
                f"{checkpoint.name} cannot calculate: it was not trained on arithmetic; "
                "`calcgpt generate` lets it continue a text"
            )
        self.stop = int(checkpoint.tokenizer.encode("$")[0])

    @classmethod
    def load(cls, reference: str = "best", engine: str = "auto") -> Calculator:
        """Returns the calculator of a checkpoint: its name, its folder, or `best`.

        `engine` runs the model: `native`, `onnxruntime`, `torch` or `auto`, which is native if that
        engine covers the model. Only `torch` needs torch.

        Raises CheckpointError if there is no such checkpoint, and UserError if the engine cannot
        run it.
        """
        checkpoint = Checkpoint.load(resolve(reference))
        # A graph for onnxruntime takes longer to make than an answer by torch.
        _, decoder = load_decoder(checkpoint, engine, threads=1, among=("native", "torch"))
        return cls(checkpoint, decoder)

    def begin(
        self, expression: str, places: int | None = None, unproven: bool = False
    ) -> Computation:
        """Returns the computation of an expression.

        The answer has `places` decimal places, by default those of the limits. Raises ConfigError
        unless `places` is a whole number from 1 to MAX_PLACES and the expression a string, and
        ExpressionError as `Computation` does.
        """
        if not isinstance(expression, str):
            raise ConfigError(f"an expression must be a string, not {type(expression).__name__}")
        if places is None:
            places = self.limits.default_places
        if type(places) is not int or not 1 <= places <= MAX_PLACES:
            raise ConfigError(f"places must be from 1 to {MAX_PLACES}, not {places!r:.40}")
        return Computation(expression, self.checkpoint.name, self.limits, places, unproven)

    def calculate(
        self, expression: str, places: int | None = None, unproven: bool = False
    ) -> Calculation:
        """Returns the answer. All operations of one level of the tree with prompts of one length
        are one batch. The arguments and the errors are those of `begin`."""
        computation = self.begin(expression, places, unproven)
        tokenizer = self.checkpoint.tokenizer
        while questions := computation.questions():
            prompts = [question.prompt for question in questions]
            completions = complete(self.decoder, tokenizer, prompts, self.stop)
            for question, completion in zip(questions, completions, strict=True):
                output = tokenizer.decode(completion.ids)
                computation.answer(question.node, output, completion.probabilities)
        return computation.calculation()


def _shortened(number: Number) -> str:
    """Returns a number as people write it, a long one shortened."""
    text = number_text(number)
    return text if len(text) <= 40 else f"{text[:40]}..."
