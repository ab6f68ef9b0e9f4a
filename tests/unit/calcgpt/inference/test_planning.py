"""Plans: whatever the expression, its result is the exact value of the whole, rounded once."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from expressions import expressions, value_of
from hypothesis import assume, given
from hypothesis import strategies as st

from calcgpt.errors import ExpressionError
from calcgpt.errors import ExpressionErrorKind as Kind
from calcgpt.inference.exact import fraction_text, plain_text, round_to
from calcgpt.inference.expression import parse
from calcgpt.inference.limits import DirectLimits, Limits, ScratchpadLimits
from calcgpt.inference.planning import Plan, make_plan
from datagen.arithmetic import MAX_ASKED_PLACES, Number, Problem, answer
from datagen.notation import render, render_prompt
from datagen.work import render as render_work

LIMITS = ScratchpadLimits(block_size=32_768)


def plan_of(text: str, places: int = 8, limits: Limits = LIMITS) -> Plan:
    return make_plan(parse(text).expression, places, limits)


def result_of(plan: Plan) -> str:
    """Returns the result of a plan by its own steps, each with the answers of those before it."""
    answers: list[Number] = []
    for step in plan.steps:
        a, b = (o.number if o.step is None else answers[o.step] for o in (step.a, step.b))
        result = answer(Problem(a, step.op, b, step.places))
        assert result is not None
        answers.append(result)
    number, index = plan.result
    return plain_text(number if index is None else answers[index])


@given(expressions(), st.integers(0, MAX_ASKED_PLACES))
def test_the_result_is_the_exact_value_rounded_once(text: str, places: int) -> None:
    try:
        value = value_of(text)
        plan = plan_of(text, places)
    except (ZeroDivisionError, ExpressionError) as error:
        refused = isinstance(error, ExpressionError) and error.kind is not Kind.DIVISION_BY_ZERO
        assume(not refused)  # too long
        with pytest.raises(ExpressionError):
            plan_of(text, places)
        return
    assert plan.value.exact == value
    assert Fraction(result_of(plan)) == Fraction(round(value * 10**places), 10**places)
    if plan.guard_places:  # none fewer is enough
        fewer = [step._replace(places=step.places - 1) for step in plan.steps]
        fewer[-1] = plan.steps[-1]
        shorter = replace(plan, steps=tuple(fewer))
        assert _divides_by_zero(shorter) or Fraction(result_of(shorter)) != Fraction(
            result_of(plan)
        )


def _divides_by_zero(plan: Plan) -> bool:
    try:
        result_of(plan)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize(
    ("text", "places", "result", "guard_places", "n_steps"),
    [
        ("45/55*440", 8, "360", 3, 2),
        ("12/((1/3)-(1/4))", 8, "144", 4, 4),
        ("0.00001*0.00001*10000000000", 8, "1", 2, 2),
        ("250000*(0.04/12)/(1-1/(1+0.04/12)^36)", 2, "7381", 5, 13),
        ("7.5% of 200", 2, "15", 1, 2),
        ("1/3*3+0.5", 0, "2", None, 6),  # a tie that no quotient reaches
        ("1/3*3", 30, "1", 1, 2),
        ("170!/168!", 8, "28730", 0, 1),
        ("100!/(98!*2!)", 8, "4950", 0, 2),
        ("10^400/10^398", 8, "100", 0, 1),
        ("7^(10^9) mod 13", 8, "9", 0, 198),
        ("(535^125*125^854) mod 1283", 8, "756", 0, 132),
        ("(2^100/4+2^200) mod 7", 8, "1", 0, 61),  # 2^100 is not reduced: it is divided
        ("(10^400/10^100)/10^300", 8, "1", 0, 0),
        ("(10^41+1)^6", 8, str((10**41 + 1) ** 6), 0, 13),
        ("10^100+1-10^100", 8, "1", 0, 18),
        ("1.0001^10000", 8, "2.71814593", 4, 17),
        ("0.125", 2, "0.12", 0, 1),  # a number alone is rounded by the model
        ("0.125", 3, "0.125", 0, 0),
        ("2^100", 8, str(2**100), 0, 8),
        ("2^-2", 8, "0.25", 0, 2),
        ("2^(1+1)", 8, "4", 0, 2),
        ("9^0", 8, "1", 0, 0),
        ("5!", 8, "120", 0, 3),
        ("0!+1!", 8, "2", 0, 1),
        ("17//5", 8, "3", 0, 1),
        ("18//5", 8, "3", 0, 2),  # 3.6 is nearer to 4
        ("-7//2", 8, "-4", 0, 1),
        ("-10 mod 3", 8, "2", 0, 4),
        ("5.5 mod -2", 8, "-0.5", 0, 3),
        ("(1/3*3)//1", 8, "1", 0, 3),
        ("|3-5|+|5-3|", 8, "4", 0, 4),
        ("100-10%", 8, "90", 0, 3),
    ],
)
def test_the_fewest_operations_and_places_that_are_right(
    text: str, places: int, result: str, guard_places: int | None, n_steps: int
) -> None:
    plan = plan_of(text, places)
    assert (result_of(plan), plan.guard_places, len(plan.steps)) == (result, guard_places, n_steps)


def test_numbers_that_rounding_makes_too_large_are_given_up() -> None:
    """1/3*3-1 is 0, but not if it is rounded."""
    assert result_of(plan_of("((1/3*3-1)*10^60)^100")) == "0"
    with pytest.raises(ExpressionError, match=r"more than 10,000 digits"):
        plan_of("10^(10^10)")


def test_the_cost_is_what_the_model_writes() -> None:
    for text in ("45/55*440", "12.5*0.25-7", "3/0.007", "1-2+3 to 0 places"):
        plan = plan_of(text)
        problems = [step.problem for step in plan.steps]
        lines = render_work([render_prompt(problem).encode() for problem in problems])
        written = [
            len(line.rstrip()) - len(render_prompt(problem))
            for line, problem in zip(lines, problems, strict=True)
        ]
        assert [LIMITS.n_characters(problem) for problem in problems] == written
        direct = [len(render(p)) - len(render_prompt(p)) for p in problems]
        assert [DirectLimits().n_characters(problem) for problem in problems] == direct


@pytest.mark.parametrize(
    ("text", "places", "kind", "reason"),
    [
        ("1000!", 8, Kind.TOO_LONG, "about 10,600,000 characters; the limit is 2,500,000"),
        (f"{'9' * 150}*{'7' * 150}", 8, Kind.OUT_OF_RANGE, "this model's context holds 32,768"),
        ("+".join(["sqrt(2)"] * 300), 8, Kind.TOO_LONG, "more than 1,000 operations"),
        ("exp(10^9)", 8, Kind.OUT_OF_RANGE, "more than 10,000 digits"),
        ("(sqrt(2) mod exp2(57612.5))^pi", 8, Kind.OUT_OF_RANGE, "no number of places"),
    ],
)
def test_what_is_outside_the_limits_is_refused(
    text: str, places: int, kind: Kind, reason: str
) -> None:
    with pytest.raises(ExpressionError, match=reason) as refused:
        plan_of(text, places)
    assert refused.value.kind is kind


def test_more_work_can_be_allowed() -> None:
    plan = make_plan(parse("1000!").expression, 8, LIMITS, work=11_000_000)
    assert result_of(plan) == plain_text(Number(math.factorial(1000)))


def test_a_model_of_fixed_places_is_asked_all_the_same() -> None:
    direct = DirectLimits()
    assert result_of(plan_of("1/3*3", 2, direct)) == "1"  # by its fraction
    assert plan_of("1/3*3", 2, direct).guard_places is None
    off = plan_of("(1/7+1/9)*(1/11+1/13)*(1/17+1/19)*10000000", 2, direct)
    assert result_of(off) != plain_text(round_to(off.rounded, 2))
    with pytest.raises(ExpressionError, match="2 places, not 0"):
        plan_of("17//5", 2, direct)


def test_values_are_shown_as_people_write_them() -> None:
    assert plain_text(Number(50, 1)) == "5"
    assert plain_text(Number(105, 2)) == "1.05"
    assert fraction_text(Fraction(-7, 2)) == "-7/2"
    assert fraction_text(Fraction(3)) == "3"
    assert fraction_text(Fraction(1, 10**39)) is None
    assert fraction_text(Fraction(10**40)) is None
