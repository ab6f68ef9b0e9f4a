"""Contexts of cases: problems that have each case between random digits, between equal ones, at the
ends of a row, and in the last of many rows.

A `Group` of problems is made for one context of the cases of some kinds. Only positions of these
kinds, and of the row that the problem was made for, count as this context.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from datagen.layout import layout, shape_of_line
from datagen.slots import Kind, Shape, shape_cache
from datagen.work import render
from tools.cases.lines import line_cases
from tools.cases.questions import Question, product_question, quotient_question, sum_question
from tools.cases.rows import Row, product_rows, remainder_rows, sum_rows
from tools.cases.rules import N_CASES, Flags, Ints

ROUNDS = 8  # of a group: a problem that could not be made is tried again
RANDOM = "random"


class Context(NamedTuple):
    """Where a case stands. `repeat` equal columns follow it, and as many precede it if its state
    allows that; each case is wanted `times` times."""

    name: str
    repeat: int = 1
    times: int = 1
    n_before: int = 0  # digits of the quotient before a row, more than needed

    @property
    def is_random(self) -> bool:
        return self.name == RANDOM


CONTEXTS = (
    Context(RANDOM, times=3),
    Context("run of 2", 2),
    Context("run of 8", 4),
    Context("run of 20", 10),
)
TOP = Context("top of a row")
MANY_ROWS = Context("last of many rows", n_before=6)


@dataclass(frozen=True)
class Group:
    """Lines made for one context of cases."""

    context: Context
    kinds: frozenset[Kind]
    lines: list[bytes]
    rows: list[int]  # that the lines were made for, 0 for all

    def take_every(self, n: int) -> "Group":
        """Returns the group with each n-th line only."""
        return replace(self, lines=self.lines[::n], rows=self.rows[::n])

    def wanted(self, index: int) -> Flags:
        """Returns which characters after the prompt of a line the group was made for."""
        return wanted_positions(self.lines[index], self.kinds, self.rows[index])


def wanted_positions(line: bytes, kinds: frozenset[Kind], row: int) -> Flags:
    """Returns which characters after the prompt have one of some kinds and are in a row, or in any
    row if it is 0. Those of the answer are wanted if the kinds have an ANSWER_DIGIT."""
    work_kinds, work_rows = _kinds_and_rows(shape_of_line(line))
    start = line.index(b"=") + 1
    result = np.full(len(line) - start, Kind.ANSWER_DIGIT in kinds)
    wanted = np.isin(work_kinds, list(kinds)) & (not row or work_rows == row)
    result[: len(wanted)] = wanted
    return result


@shape_cache(lambda arrays: len(arrays[0]))
def _kinds_and_rows(shape: Shape) -> tuple[Ints, Ints]:
    """Returns the kind and the row of each slot of a work."""
    plan = layout(shape)
    slots = plan.slots[plan.prompt_length :]
    return np.array([slot.kind for slot in slots]), np.array([slot.row for slot in slots])


def render_questions(questions: Sequence[Question]) -> list[bytes]:
    """Returns their lines."""
    choices = np.array([question.choices for question in questions], np.uint64)
    return render([question.prompt for question in questions], choices)


def group_of(context: Context, kinds: Sequence[Kind], questions: Sequence[Question]) -> Group:
    questions = sorted(questions, key=_pattern)
    rows = [question.row for question in questions]
    return Group(context, frozenset(kinds), render_questions(questions), rows)


def _pattern(question: Question) -> bytes:
    return question.prompt.translate(bytes.maketrans(b"23456789", b"11111111"))


Make = Callable[[Row, int, list[int], Context, Generator], Question | None]


def row_group(rows: Sequence[Row], context: Context, make: Make, width: int, seed: int) -> Group:
    """Returns lines in which every case of the rows occurs in a context. `make` makes the problem
    of a word of a row."""
    random, rng = Random(seed), np.random.default_rng(seed)
    counts = np.zeros(N_CASES, np.int64)
    kinds = frozenset(kind for row in rows for kind in row.kinds)
    result = Group(context, kinds, [], [])
    for _ in range(ROUNDS):
        questions: list[Question] = []
        for row in rows:
            missing = context.times - counts[row.cases[row.kinds[0]]]  # (S, X)
            needed = [
                random.sample(xs := [x for x, n in enumerate(line) for _ in range(n)], len(xs))
                for line in missing.tolist()
            ]
            for begin, word in words(row, needed, context, width, random):
                if question := make(row, begin, word, context, rng):
                    questions.append(question)
        if not questions:
            break
        questions.sort(key=_pattern)  # lines of one shape are adjacent, so that caches help
        lines = render_questions(questions)
        for question, line, cases in zip(questions, lines, line_cases(lines), strict=True):
            np.add.at(counts, cases[wanted_positions(line, kinds, question.row)], 1)
        result.lines.extend(lines)
        result.rows.extend(question.row for question in questions)
    return result


def words(
    row: Row, needed: list[list[int]], context: Context, width: int, random: Random
) -> Iterator[tuple[int, list[int]]]:
    """Yields words of a row that together have the needed inputs of each state."""
    if context == TOP:
        for state, inputs in enumerate(needed):
            begin, way = row.ways[state]
            yield from ((begin, [*way, x]) for x in inputs)
        return
    while any(needed):
        begin, word = row.pack(needed, context.repeat, max(width, context.repeat + 2), random)
        if not word:
            break
        yield begin, word


def _sum(
    row: Row, begin: int, word: list[int], context: Context, rng: Generator
) -> Question | None:
    return sum_question(row.fixed[0], [row.inputs[x] for x in word], context == TOP, rng)


def _product(
    row: Row, begin: int, word: list[int], context: Context, rng: Generator
) -> Question | None:
    columns = [row.inputs[x] for x in word]
    return product_question(
        row.fixed[0], columns, Kind.FIRST_DIGIT in row.kinds, context == TOP, rng
    )


def _quotient(
    row: Row, begin: int, word: list[int], context: Context, rng: Generator
) -> Question | None:
    columns = [row.inputs[x] for x in word]
    start = row.states[begin]
    mark = start[1] if Kind.LAST_DIGIT in row.kinds else None
    sign, q = row.fixed
    return quotient_question(sign, q, columns, mark, context.n_before, rng)


def row_groups(seed: int) -> Iterator[Group]:
    """Yields the groups of all cases of rows."""
    for context in (*CONTEXTS, TOP):
        yield row_group(sum_rows(), context, _sum, 24, seed)
    for context in (*CONTEXTS, TOP):
        yield row_group(product_rows(True), context, _product, 24, seed)
    for context in (*CONTEXTS, TOP):
        yield row_group(product_rows(False), context, _product, 6, seed)
    for context in (*CONTEXTS, MANY_ROWS):
        yield row_group(remainder_rows(False), context, _quotient, 24, seed)
    for context in (*CONTEXTS[:3], MANY_ROWS):  # the rules are the same, and the cases many
        yield row_group(remainder_rows(True), context, _quotient, 24, seed)
