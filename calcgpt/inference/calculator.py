"""The calculator: turns an expression into questions to a model, and its answers into the result.

An expression is parsed into a tree, a plan makes operations of it, each operation becomes a
question to the model, and each answer a node of the result. A `Computation` has no I/O: it states
its next questions and takes the answers. The `Calculator` asks its model at once. The service
lets clients take turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from calcgpt.base.errors import ArgumentError, DataError, check_integer, check_items, check_types
from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ExpressionError
from calcgpt.inference import effort
from calcgpt.inference.decoding import Decoder, Floats
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.exact import fraction_text, plain_text, round_to
from calcgpt.inference.expression import parse
from calcgpt.inference.expression_stack import DEFAULT_STYLE, Style
from calcgpt.inference.expression_tree import Expression, show
from calcgpt.inference.limits import MAX_WORK, MOST_WORK, Limits, accepts, limits_of
from calcgpt.inference.planners import Operand, Step
from calcgpt.inference.planning import make_plan
from calcgpt.inference.results import (
    NOT_CONFIDENT,
    Calculation,
    Confidence,
    Node,
    Span,
    confidence,
    read_answer,
)
from calcgpt.inference.spelling import MAX_LENGTH
from calcgpt.registry import resolve
from datagen.arithmetic import MAX_ASKED_PLACES, Number, Problem, answer, is_rounded
from datagen.layout_check import STATED
from datagen.notation import NAN, answer_text, render_prompt

EFFORT_OF_READING = 10  # microseconds a character
USUAL_LENGTH = 2_000  # characters to write that count as one operation
BESIDES = 200  # characters that take as long to write as all else of an operation
CHECKED_AT_ONCE = 4  # operations


class Question(NamedTuple):
    """A problem for the model."""

    node: int  # the index of its node
    problem: Problem
    text: str  # the problem as people write it: `3*3`
    prompt: str


class Computation:
    """An expression, its questions to the model, and the answers so far."""

    def __init__(
        self,
        text: str,
        model: str,
        limits: Limits,
        places: int | None = None,
        work: int = MAX_WORK,
        style: Style = DEFAULT_STYLE,
        names: Mapping[str, Expression] | None = None,
        proved: bool = False,
    ) -> None:
        """`places` is the number of decimal places of the answer, by default what the text asks for
        or the default of the limits. `work` is the most characters that the model writes. `style`
        and `names` are those of `parse`. `proved` says whether the model is.

        Raises ExpressionError if `text` is not an expression or has no value, or if an operation on
        the right numbers is outside the limits.
        """
        effort.spend(EFFORT_OF_READING * len(text[:MAX_LENGTH]))
        parsed = parse(text, style, names)
        if places is None:
            places = limits.default_places if parsed.places is None else parsed.places
        self.expression = show(parsed.expression)
        self.places = places
        self._model, self._limits, self._is_proved = model, limits, proved
        if refusal := limits.refuse_places(places):
            raise ExpressionError(refusal.kind, refusal.reason, 0, len(text))
        self.plan = make_plan(parsed.expression, places, limits, work)
        self._readings = [*parsed.readings, *self.plan.readings]
        #: The operations, operands first. Each becomes a node when it is answered.
        self.outline = [
            Span(expression=step.text, position=step.start, end=step.end, path=step.path)
            for step in self.plan.steps
        ]
        self._waiting = list(range(len(self.outline)))  # not asked yet
        self._questions: dict[int, Question] = {}  # by node, like the next two
        self._answered: dict[int, Node] = {}
        self._values: dict[int, Number | None] = {}  # None if the answer is not a number

    @property
    def reading(self) -> str | None:
        """How parts of the text were read, where a reader could think otherwise."""
        return "; ".join(reading.text for reading in self._readings) or None

    @property
    def guard_places(self) -> int | None:
        """The decimal places that operations before the last keep beyond those of the answer; None
        if numerator and denominator are worked out instead."""
        return self.plan.guard_places

    @cached_property
    def lengths(self) -> list[int]:
        """How many characters the model writes for each node, if it makes no mistake."""
        return [self._limits.n_characters(step.problem) for step in self.plan.steps]

    @property
    def n_characters(self) -> int:
        """How many characters the model writes, if it makes no mistake."""
        return sum(self.lengths)

    @property
    def cost(self) -> int:
        """What the work takes, as characters to write."""
        return self.n_characters + BESIDES * len(self.lengths)

    @property
    def charge(self) -> int:
        """The characters that the work counts for. An operation counts for USUAL_LENGTH or more."""
        return sum(max(USUAL_LENGTH, length) for length in self.lengths)

    def questions(self) -> list[Question]:
        """Returns all new questions whose operands are known.

        If this is empty and every earlier question is answered, the computation is complete.
        """
        ready, waiting = [], []
        for node in self._waiting:
            step = self.plan.steps[node]
            if any(o.step is not None and o.step not in self._answered for o in (step.a, step.b)):
                waiting.append(node)
            elif question := self.question(node):
                ready.append(question)
        self._waiting = waiting
        return ready

    def question(self, node: int) -> Question | None:
        """Returns the question of a node whose operands are answered, or None if the model cannot
        be asked."""
        problem = self._problem(self.plan.steps[node])
        if problem is None:
            self._answered[node], self._values[node] = Node.not_asked(self.outline[node]), None
            return None
        text = f"{plain_text(problem.a)}{problem.op}{plain_text(problem.b)}"
        question = Question(node, problem, text, render_prompt(problem))
        self._questions[node] = question
        return question

    def _value(self, operand: Operand) -> Number | None:
        """Returns an operand as the model has answered it."""
        return operand.number if operand.step is None else self._values[operand.step]

    def _problem(self, step: Step) -> Problem | None:
        """Returns the problem of an operation whose operands are answered, or None if an operand is
        missing or the model cannot be asked."""
        a, b = self._value(step.a), self._value(step.b)
        if a is None or b is None:
            return None
        if (a, b) == (step.a.number, step.b.number):  # the plan is within the limits
            return step.problem
        problem = Problem(a, step.op, b, step.places)
        return problem if accepts(self._limits, problem) else None

    def answer(self, node: int, output: str, probabilities: Sequence[float] | Floats) -> Node:
        """Takes what the model wrote after the prompt of a node's question, and the probability of
        each character. Returns the node."""
        question = self._questions[node]
        text, value = read_answer(question.prompt + output, question.problem.places)
        right = answer(question.problem)
        work, equals, _ = output.rpartition("=")
        answered = Node(
            **dict(self.outline[node]),
            problem=question.text,
            prompt=question.prompt,
            work=work if equals else None,
            output=output,
            result=plain_text(value) if value else text,
            exact=plain_text(right) if right else NAN,
            agrees=text == answer_text(right),
            proved=self._is_proved and question.problem.op in STATED,
            rounded=is_rounded(question.problem),
            confidence=confidence(question.prompt, output, probabilities),
        )
        self._answered[node], self._values[node] = answered, value
        return answered

    def calculation(self) -> Calculation:
        """Returns the result of a complete computation."""
        nodes = tuple(self._answered[node] for node in range(len(self.outline)))
        confidences = [node.confidence or NOT_CONFIDENT for node in nodes]
        number, last = self.plan.result
        value = self.plan.value.exact
        exact = plain_text(round_to(self.plan.rounded, self.places))
        result = plain_text(number) if last is None else nodes[last].result
        return Calculation(
            expression=self.expression,
            reading=self.reading,
            alternative=next((r.alternative for r in self._readings if r.alternative), None),
            result=result,
            exact=exact,
            fraction=None if value is None else fraction_text(value),
            places=self.places,
            rounded=self.plan.is_rounded,
            verified=result == exact and all(node.agrees for node in nodes),
            confidence=Confidence(
                answer=math.prod(c.answer for c in confidences),
                weakest_step=min((c.weakest_step for c in confidences), default=1.0),
                whole=math.prod(c.whole for c in confidences),
            ),
            nodes=nodes,
            model=self._model,
        )


class Calculator:
    """Answers expressions with the model of a checkpoint: `Calculator()("1+1").result`. Threads may
    share one."""

    def __init__(
        self, checkpoint: Checkpoint | str | Path = "best", decoder: Decoder | None = None
    ) -> None:
        """`checkpoint` may also be what `load` takes. `decoder` runs its model; it defaults to that
        of the engine `auto`.

        Raises DataError if the tokenizer lacks characters of the notation, and what `load` raises.
        """
        check_types(
            checkpoint=(checkpoint, Checkpoint, str, Path), decoder=(decoder, Decoder, None)
        )
        threads = None if isinstance(checkpoint, Checkpoint) else 1
        if not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint.load(resolve(checkpoint))
        if not checkpoint.tokenizer.require_characters().is_notation():
            raise DataError(
                f"{checkpoint.name} cannot calculate: it was not trained on arithmetic; "
                "`calcgpt generate` lets it continue a text, and `calcgpt calc` asks a task's model"
            )
        self.checkpoint = checkpoint
        self.decoder = decoder or load_decoder(checkpoint, threads=threads)[1]
        self.limits = limits_of(checkpoint, self.decoder.block_size)
        #: Whether all cases of its operations were tried on this machine, by `calcgpt prove`.
        self.is_proved = self.decoder.is_proved

    @classmethod
    def load(
        cls, reference: str | Path = "best", engine: str = "auto", live: bool = False
    ) -> Calculator:
        """Returns the calculator of a checkpoint: its name, its folder, or `best`.

        `engine` runs the model: `cases`, `torch` or `auto`, which is cases if that engine covers
        the model. Only `torch` needs torch. The engine `cases` remembers what the model writes in
        each case; with `live`, the model computes each character.

        Raises CheckpointError if there is no such checkpoint, and UserError if the engine cannot
        run it.
        """
        checkpoint = Checkpoint.load(resolve(reference))
        check_types(live=(live, bool))
        _, decoder = load_decoder(checkpoint, engine, threads=1, live=live)
        return cls(checkpoint, decoder)

    def begin(
        self,
        expression: str,
        places: int | None = None,
        work: int = MAX_WORK,
        style: Style = DEFAULT_STYLE,
        names: Mapping[str, Expression] | None = None,
    ) -> Computation:
        """Returns the computation of an expression.

        The answer has `places` decimal places, by default those that the expression asks for, or
        those of the limits. `work` is the most characters that the model writes for it. `style`
        says how to read what people write in two ways, `names` are values that it may use.

        Raises ArgumentError for a value of another type, and unless `places` is from 0 to
        MAX_ASKED_PLACES and `work` from 1 to MOST_WORK, and ExpressionError as `Computation` does.
        """
        check_types(
            expression=(expression, str),
            style=(style, Style),
            names=(names, Mapping, None),
        )
        if places is not None:
            check_integer("places", places, 0, MAX_ASKED_PLACES)
        check_integer("work", work, 1, MOST_WORK)
        if names:
            check_items(names=(names, str), values=(names.values(), Expression))
        model = self.checkpoint.name
        with effort.current().measured():
            return Computation(
                expression, model, self.limits, places, work, style, names, self.is_proved
            )

    def calculate(
        self,
        expression: str,
        places: int | None = None,
        work: int = MAX_WORK,
        style: Style = DEFAULT_STYLE,
        names: Mapping[str, Expression] | None = None,
        check: Callable[[], object] | None = None,
    ) -> Calculation:
        """Returns the answer; `calculator("1+1")` is short for it. The arguments and the errors are
        those of `begin`. `check` is called before each few operations, which take a few seconds at
        most; what it raises ends the work."""
        check_types(check=(check, Callable, None))
        computation = self.begin(expression, places, work, style, names)
        return self._complete([computation], check)[0]

    __call__ = calculate

    def calculate_batch(
        self,
        expressions: Iterable[str],
        places: int | None = None,
        work: int = MAX_WORK,
        style: Style = DEFAULT_STYLE,
        names: Mapping[str, Expression] | None = None,
    ) -> list[Calculation | ExpressionError]:
        """Returns the answer of each expression, or the error of one that cannot be calculated.
        Operations of different expressions are asked together. The arguments and the other errors
        are those of `begin`."""
        check_types(expressions=(expressions, Iterable))
        if isinstance(expressions, str):
            raise ArgumentError("expressions must be a list, not a string: calculate answers one")
        begun: list[Computation | ExpressionError] = []
        for expression in expressions:
            try:
                begun.append(self.begin(expression, places, work, style, names))
            except ExpressionError as error:
                begun.append(error)
        answers = iter(self._complete([c for c in begun if isinstance(c, Computation)]))
        return [next(answers) if isinstance(c, Computation) else c for c in begun]

    def _complete(
        self, computations: Sequence[Computation], check: Callable[[], object] | None = None
    ) -> list[Calculation]:
        """Asks the model all questions."""
        while asked := [(c, question) for c in computations for question in c.questions()]:
            n_part = CHECKED_AT_ONCE if check else len(asked)
            for start in range(0, len(asked), n_part):
                if check:
                    check()
                part = asked[start : start + n_part]
                texts = self.decoder.complete([question.prompt for _, question in part])
                for (computation, question), written in zip(part, texts, strict=True):
                    computation.answer(question.node, *written)
        return [computation.calculation() for computation in computations]


def value_of(calculation: Calculation) -> Expression | None:
    """Returns the value of an answer for other expressions, or None if it is not a number: the
    exact fraction of a verified answer if it is short, so that 1/3 and then *3 is 1."""
    text = calculation.fraction if calculation.verified else None
    text = text or calculation.result
    return parse(text).expression if text and text != NAN else None
