"""Hypothesis strategies: prompts with operands of any length."""

from hypothesis import strategies as st


def number_text(units: int, places: int) -> str:
    """Returns units / 10**places as Python prints it."""
    sign, digits = "-" * (units < 0), str(abs(units)).rjust(places + 1, "0")
    if not places:
        return sign + digits
    whole, fraction = digits[:-places], digits[-places:]
    return f"{sign}{whole}.{fraction[0]}{fraction[1:].rstrip('0')}"


@st.composite
def operands(draw: st.DrawFn, digits: int = 14) -> str:
    places = draw(st.sampled_from([0, 0, 1, 2, 9]) | st.integers(0, 9) | st.integers(0, 30))
    length = draw(st.integers(1, digits))
    units = draw(st.sampled_from([0, 1, 5, 10**length - 1]) | st.integers(0, 10**length - 1))
    text = number_text(units, places)
    return "-" + text if units and draw(st.booleans()) else text


@st.composite
def prompts(draw: st.DrawFn, operations: str = "+-*/") -> str:
    a, op, b = draw(operands()), draw(st.sampled_from(operations)), draw(operands())
    if draw(st.integers(0, 7)) == 0:
        b = a
    places = draw(st.integers(0, 9) | st.integers(0, 30))
    return f"${'' if places == 2 else places}({a.rjust(10, '0')}{op}{b.rjust(10, '0')})="
