"""The balls of the page's real numbers contain them."""

import random

from expressions import with_functions
from flint import arb, ctx, fmpz

from calcgpt.errors import ExpressionError
from calcgpt.inference.effort import Effort
from calcgpt.inference.exact import evaluate
from calcgpt.inference.expression import parse
from calcgpt.inference.real import Real
from tools.node import in_node

BITS = (64, 128, 300, 1_000)
N_DRAWN = 1_000
EVALUATE = """async (asked) => {
    const { bounded } = await import("/static/engine/effort.js");
    const { evaluate } = await import("/static/engine/exact.js");
    const { parse } = await import("/static/engine/expression.js");
    const { Text } = await import("/static/engine/text.js");
    // For each the kind of the error or, of the value, the fraction or the ball.
    return asked.map(([text, bits]) => {
        try {
            return bounded(() => {
                const value = evaluate(parse(new Text(text)).expression).pop();
                const exact = value.settle().exact;
                if (exact) return [exact.n, exact.d].map((part) => part.toString(16));
                const ball = value.enclose(bits);
                const parts = ball && [ball.m, ball.r, ball.e, value.bits];
                return parts && parts.map((part) => part.toString(16));
            });
        } catch (error) {
            if (!error.kind) throw error;
            return error.kind;
        }
    });
}"""


def value_of(text: str) -> Real | str:
    """Returns the value of a text, or the kind of the error."""
    try:
        with Effort().measured():
            return evaluate(parse(text).expression)[-1].settle()
    except ExpressionError as error:
        return error.kind


def test_a_ball_contains_the_number() -> None:
    draw = random.Random(0)
    asked = [(with_functions(draw, 2), draw.choice(BITS)) for _ in range(N_DRAWN)]
    n_balls = 0
    for (text, bits), found in zip(asked, in_node(EVALUATE, asked), strict=True):
        value = value_of(text)
        if found == "too-long" or isinstance(value, str):
            assert found in (value, "too-long"), text
        elif value.exact is not None:
            assert found == [f"{part:x}" for part in value.exact.as_integer_ratio()], text
        elif found:
            *parts, used = (int(part, 16) for part in found)  # perhaps more bits than asked for
            exact = value.enclose(3 * used)
            with ctx.workprec(3 * used):
                m, r, e = map(fmpz, parts)
                assert abs(exact - arb(m) * arb(2) ** e) <= arb(r) * arb(2) ** e, (text, bits)
            n_balls += 1
    assert n_balls > N_DRAWN // 5
