"""The page with a model of worked steps: places, rounding, and numbers beyond what was measured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from browser import answered, calculate
from fake_decoder import calculator_model, right_with_work, worked_model
from forks import PATIENCE
from serving import wait_for

from api.app import create_app
from api.settings import Settings
from calcgpt.config import Domain
from calcgpt.errors import ExpressionError
from calcgpt.inference.calculator import Computation
from calcgpt.inference.limits import ScratchpadLimits

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect
Reuse = Callable[[str], "Page"]


@pytest.fixture(scope="module")
def wide_address() -> Iterator[str]:
    """The address of a service with a model of worked steps and one of two places, both right."""
    models = (
        worked_model(name="wide", domain=Domain(digits=12, places=8)),
        calculator_model(name="narrow"),
    )
    app = create_app(Settings(deadline=PATIENCE), lambda: iter(models))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started)
        wait_for(lambda: len(list(app.state.service.models)) == len(models))
        (socket,) = server.servers[0].sockets
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


def test_answers_have_the_chosen_places(reuse: Reuse, wide_address: str) -> None:
    page = reuse(wide_address)
    places = page.get_by_label("Decimal places")
    expect(places).to_have_value("8")
    expect(page.locator("#model-facts")).to_contain_text("numbers of up to 12 digits, 8 places")
    calculate(page, "1/3")
    answered(page, "0.33333333")
    expect(page.locator("#answer .rounded")).to_have_text(" rounded to 8 places")
    assert places.locator("option").all_inner_texts() == list("12345678")
    places.select_option("1")
    calculate(page, "1/4")
    answered(page, "0.2")
    expect(page.locator("#answer .rounded")).to_have_text(" rounded to 1 place")
    calculate(page, "1/2")
    answered(page, "0.5")
    expect(page.locator("#answer .rounded")).to_have_count(0)
    page.get_by_role("combobox", name="Model").select_option("narrow")
    expect(places).to_be_hidden()
    calculate(page, "1/3")
    answered(page, "0.33")
    page.get_by_role("combobox", name="Model").select_option("wide")
    expect(places).to_have_value("8")


def test_an_answer_is_shown_whatever_its_value_without_rounding(
    reuse: Reuse, wide_address: str
) -> None:
    page = reuse(wide_address)
    line = page.locator("#answer .agrees")
    calculate(page, "1/(1/3*3-1)")
    answered(page, "−100000000")
    expect(line).to_have_text(
        "✓Each step is right, rounded to 8 places. Without rounding it divides by zero."
    )
    calculate(page, "(" * 35 + "0.1^2" + ")^2" * 35)  # 1 with 2^36 decimal places
    answered(page, "0")
    expect(line).to_contain_text("Without rounding it has too many digits to compute here.")


def test_only_the_last_step_is_rounded_to_fewer_places(reuse: Reuse, wide_address: str) -> None:
    page = reuse(wide_address)
    page.get_by_label("Decimal places").select_option("2")
    calculate(page, "7.5% of 200")
    answered(page, "15")
    expect(page.locator("#answer .agrees")).to_have_text("✓Exact arithmetic agrees.")
    calculate(page, "3/7*100000")
    answered(page, "42857.14")
    expect(page.locator("#answer .rounded")).to_have_text(" rounded to 2 places")
    calculate(page, "1.035^10*1000000")
    answered(page, "1410598.78")
    expect(page.locator("#answer .agrees")).to_have_text(
        "✓Each step is right, rounded to 8 places, the last to 2. "
        "Without rounding it is 1410598.760621122183."
    )


TYPED = ["7.5% of 200", "10/3*6", "-(2/3)", "1.05^3", "(2/3)^1*3", "(2/3)^1", "(2/3)^0", "1/3-1/3"]
TYPED += ["1.035^10*1000000", "1/(1/3*3-1)", "1/(0.004*0.5)", "100000/3*3", "999999.5/3+1", "7"]
COMPUTE = """async ([questions, outputs, domain]) => {
    const { Computation } = await import("/static/engine/computation.js");
    const { limitsOf } = await import("/static/engine/limits.js");
    const { checkResult } = await import("/static/exact.js");
    const limits = limitsOf({ has_work: true, domain, model: { block_size: 4096 } });
    return questions.map(([typed, places]) => {
        try {
            const computation = new Computation(typed, { model: "wide", limits, places });
            for (const question of computation.questions()) {
                const output = outputs[question.prompt];
                computation.answer(question, output, Array(output.length).fill(1));
            }
            const calculation = computation.calculation();
            const { expression, exact, rounded } = calculation;
            return [calculation, checkResult(expression, exact, places, rounded)];
        } catch ({ message, position, end }) {
            return [{ message, position, end }, null];
        }
    });
}"""


def test_the_steps_and_their_rounding_are_those_of_python(plain_page: Page) -> None:
    domain, outputs, expected = Domain(digits=13, places=8), {}, []
    questions = [(typed, places) for typed in TYPED for places in (1, 2, 8)]
    for typed, places in questions:
        try:
            computation = Computation(typed, "wide", ScratchpadLimits(domain, 4096), places)
        except ExpressionError as error:
            span = {"position": error.position, "end": error.end}
            expected.append(({"message": error.reason, **span}, []))
            continue
        while asked := computation.questions():
            for node, _, _, prompt in asked:
                outputs[prompt] = right_with_work(prompt)
                computation.answer(node, outputs[prompt], [1.0] * len(outputs[prompt]))
        calculation = computation.calculation()
        expected.append((calculation.model_dump(mode="json"), calculation.notes))
    computed = plain_page.evaluate(COMPUTE, [questions, outputs, domain.model_dump()])
    assert [calculation for calculation, _ in computed] == [one for one, _ in expected]
    for (_, checked), (_, notes), (_, places) in zip(computed, expected, questions, strict=True):
        assert says_the_same(checked, notes, places)


def says_the_same(checked: dict[str, Any] | None, notes: list[str], places: int) -> bool:
    """Whether the notes of Python have what the page says of a result."""
    if checked is None or checked["isExact"]:
        return notes == []
    [note] = notes
    if checked["isRounded"]:
        return note.startswith(f"rounded to {places} place")
    return note.endswith(f"; without rounding, it {checked['unrounded']}")


def test_work_is_shown_whole(reuse: Reuse, wide_address: str) -> None:
    page = reuse(wide_address)
    calculate(page, "12.5*0.25")
    answered(page, "3.125")
    rows = page.locator("#nodes .characters").all_inner_texts()
    assert rows == [
        "$8(00000012.5*0000000.25)=",
        "+521+52",
        ";5522160",
        ";2211130",
        ":52130+",
        "=521.300000$",
    ]


def test_a_number_beyond_what_was_measured_is_refused(reuse: Reuse, wide_address: str) -> None:
    page = reuse(wide_address)
    calculate(page, "1+1234567890123")
    expect(page.locator("#error")).to_contain_text("of at most 12 digits, 8 places (character 3).")
    expect(page.locator("#error mark")).to_have_text("1234567890123")
