"""The paper view in a real browser: its digits against Python's, and how it is used."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from browser import answered, calculate, stop_clock

from datagen import work, work_errors
from datagen.notation import WORK_ALPHABET, answer_text, parse_answer

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect
OpenPage = Callable[..., "Page"]

EACH = 200  # problems of an operation
BESIDE_A_TIE = "$(0006.27251/00000096.5)="  # by the last digit, which no row brings down
SHEETS = """async (lines) => {
    const { explain, isWrong, paper, written } = await import("/static/paper.js");
    return lines.map((line) => {
        const cut = line.indexOf("=") + 1;
        const sheet = paper(line.slice(0, cut), line.slice(cut));
        const rows = {};
        for (const row of sheet.rows) {
            const carries = row.carries.map((cell) => [cell.column, Number(cell.text)]);
            const side = row.side.map((cell) => cell.text).join("");
            const lowest = Math.min(...row.cells.map((cell) => cell.column));
            for (const name of row.names) rows[name] = {
                text: written(row), label: row.label, carries, side, lowest,
                bars: row.cells.map((cell) => cell.isNegative ? "-" : "+").join("") };
        }
        return {
            rows,
            text: sheet.cells.map((cell) => cell.text).join(""),
            wrong: sheet.cells.find(isWrong)?.at ?? null,
            silent: sheet.cells.filter((cell) => !explain(cell)).length,
            marks: sheet.cells.filter((cell) => cell.isMark)
                .map((cell) => [cell.at, explain(cell)]),
        };
    });
}"""


def operand(rng: random.Random) -> str:
    """A number as Python prints it, with up to six digits on either side of the point."""
    whole = str(rng.randrange(10 ** rng.randint(1, 6)))
    places = rng.choice(["", "", f"{rng.randrange(10 ** rng.randint(1, 4)):04}".rstrip("0") or "0"])
    number = f"{whole}.{places}" if places else whole
    negative = rng.random() < 0.3 and float(number) != 0
    return f"-{number}" if negative else number


def prompts(op: str, seed: int, count: int = EACH) -> list[str]:
    rng = random.Random(seed)
    texts = [BESIDE_A_TIE] if op == "/" else []
    while len(texts) < count:
        places, a, b = rng.choice(["", "1", "5", "8"]), operand(rng), operand(rng)
        if op != "/" or float(b) != 0:
            texts.append(f"${places}({a.rjust(10, '0')}{op}{b.rjust(10, '0')})=")
    return texts


def lines(op: str, seed: int) -> list[str]:
    """Problems with their work; a quarter of the quotient digits are the second nearest."""
    words = np.random.default_rng(seed).integers(2**63, size=EACH, dtype=np.uint64)
    made = work.render([prompt.encode() for prompt in prompts(op, seed)], words)
    return [line.decode() for line in made]


def question_of(line: str) -> tuple[Decimal, Decimal, int]:
    """The operands of a line and the places of its answer."""
    places, question = line[1 : line.index("=") - 1].split("(")
    cut = next(i for i in range(10, len(question)) if question[i] in "+-*/")
    a, b = (text.replace("-", "") for text in (question[:cut], question[cut + 1 :]))
    signs = [-1 if "-" in text else 1 for text in (question[:cut], question[cut + 1 :])]
    return signs[0] * Decimal(a), signs[1] * Decimal(b), int(places or 2)


def units(number: Decimal, places: int | None = None) -> int:
    """The digits of a number without its point, or in units of 10**-places."""
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return int(abs(number).scaleb(-exponent if places is None else places))


def n_places(number: Decimal) -> int:
    return -int(number.as_tuple().exponent)


def integer(row: dict[str, Any]) -> int:
    return int(row["text"].replace(".", ""))


def complement(row: dict[str, Any]) -> int:
    """The value of a row in ten's complement. Its sign is that of the result, which it shares."""
    digits = row["text"].replace(".", "").removeprefix("-")
    return int(digits) - (10 ** len(digits) if digits[0] == "9" else 0)


def marked(digits: str) -> str:
    """Digits in which a 0 is written as 1 if a lower digit is not 0."""
    zeros = len(digits) - len(digits.rstrip("0"))
    return digits.rstrip("0").replace("0", "1") + "0" * zeros


def exact_row(number: int, dropped: int) -> int:
    """The digits of an exact row, which are marked below the highest dropped one."""
    n_marked = max(0, dropped - 1)
    high, low = divmod(number, 10**n_marked)
    return high * 10**n_marked + int(marked(str(low).zfill(n_marked)))


def labelled(row: dict[str, Any]) -> Decimal:
    """The number that a label of a row gives."""
    number = re.search(r"[=:] (−?[\d.]+)", row["label"])
    assert number, row["label"]
    return Decimal(number[1].replace("−", "-"))


def check_sum(line: str, rows: dict[str, Any]) -> None:
    a, b, result_places = question_of(line)
    places = max(n_places(a), n_places(b))
    subtracts = ((a < 0) != (b < 0)) != is_minus(line)
    size_a, size_b = units(a, places), units(b, places)
    assert abs(integer(rows["a"])) == size_a
    assert abs(integer(rows["b"])) == size_b
    total = size_a - size_b if subtracts else size_a + size_b
    assert complement(rows["sum"]) == total
    kept = rows.get("exact", rows["result"])
    assert abs(integer(kept)) == exact_row(abs(total), places - result_places)
    assert labelled(rows["sum"]) == Decimal(total).scaleb(-places)
    if "exact" in rows and rows["exact"] != rows["sum"]:
        assert labelled(rows["exact"]) == Decimal(abs(total)).scaleb(-places)
    for column, carry in rows["a"]["carries"]:
        low_a, low_b = size_a % 10**column, size_b % 10**column
        assert carry == (low_a < low_b if subtracts else (low_a + low_b) // 10**column)


def is_minus(line: str) -> bool:
    """Whether a line subtracts: the operation is the sign after the first operand's digits."""
    question = line[line.index("(") + 1 :]
    return next(c for c in question[10:] if c in "+-*/") == "-"


def check_product(line: str, rows: dict[str, Any]) -> None:
    a, b, places = question_of(line)
    first, second = units(a), units(b)
    assert abs(integer(rows["a"])) == first
    total = 0
    for k, digit in enumerate(map(int, reversed(str(second))), start=1):
        row = rows[f"row {k}"]
        left = total // 10
        total = left + first * digit
        assert (integer(row), row["side"], row["lowest"]) == (total, str(digit), k - 1)
        for column, carry in row["carries"]:
            j = column - (k - 1)
            assert carry == (left % 10**j + first % 10**j * digit) // 10**j
        if k > 1 and digit and first:
            assert integer(rows[f"partial {k}"]) == first * digit
    if "exact" in rows:
        dropped = n_places(a) + n_places(b) - places
        assert abs(integer(rows["exact"])) == exact_row(first * second, dropped)
        assert labelled(rows["exact"]) == abs(a * b)


def check_quotient(line: str, rows: dict[str, Any]) -> None:
    a, b, places = question_of(line)
    if "quotient" not in rows:  # it is less than half of the last place
        assert rows["answer"]["text"] in ("0.0", "0.00")
        return
    first, second = str(units(a)), units(b)
    width = max(len(str(second)), 3)
    divisor = second * 10 ** (width - len(str(second)))
    digits = iter(first.ljust(width - 2, "0")[width - 2 :])
    left = int(first[: width - 2].ljust(width - 2, "0"))
    n = sum(name.startswith("multiple") for name in rows)
    total = 0
    for k in range(1, n + 1):
        dividend = 10 * left + int(next(digits, "0"))
        assert complement(rows[f"remainder {k - 1}"]) == dividend
        q = int(rows[f"multiple {k}"]["side"])
        assert integer(rows[f"multiple {k}"]) == abs(q) * divisor
        left = dividend - q * divisor
        total = 10 * total + q
    rest = first[width - 2 + n :]  # not brought down
    assert abs(integer(rows["a"])) == int(first[: len(first) - len(rest)] + marked(rest))
    last = rows[f"remainder {n}"]
    digits_left = str(left % 10 ** (width + 1)).zfill(width + 1)
    assert last["text"] == marked(digits_left + (rest or "0"))[: width + 2]
    assert labelled(last) == left
    assert f"not brought down: {rest};" in f"{last['label']};" or not rest
    digits_shown = rows["quotient"]["text"].replace(".", "")[-n:]
    signed = zip(rows["quotient"]["bars"][-n:], digits_shown, strict=True)
    assert sum(int(s + d) * 10 ** (n - 1 - i) for i, (s, d) in enumerate(signed)) == total
    value = Decimal(rows["quotient"]["label"].rsplit("= ")[-1].replace("−", "-"))
    assert value == Decimal(total).scaleb(-places - 1)


CHECKS = {"+": check_sum, "-": check_sum, "*": check_product, "/": check_quotient}


@pytest.mark.parametrize("op", CHECKS)
def test_the_rows_are_those_of_arithmetic(plain_page: Page, op: str) -> None:
    drawn = lines(op, seed=7)
    for line, sheet in zip(drawn, plain_page.evaluate(SHEETS, drawn), strict=True):
        output = line[line.index("=") + 1 :]
        assert sheet["text"] == output
        assert sheet["wrong"] is None, line
        assert sheet["silent"] == 0, line
        for at, words in sheet["marks"]:
            assert output[at] == "1", line
            assert "the 0 is written as 1" in words or "stands for 0" in words, line
        CHECKS[op](line, sheet["rows"])
        answer = parse_answer(output[output.rindex("=") + 1 : -1], 9)
        shown = Decimal(sheet["rows"]["answer"]["text"])
        assert shown == Decimal(answer_text(answer)), line


TOPS = """async (line) => {
    const { explain, paper } = await import("/static/paper.js");
    const cut = line.indexOf("=") + 1;
    return paper(line.slice(0, cut), line.slice(cut)).rows.map((row) => {
        const [top] = row.cells;
        return [row.names[0], top.column, top.text, explain(top)];
    });
}"""


@pytest.mark.parametrize(
    ("prompt", "row"),
    [("$(0000000003-0000000012)=", "result"), ("$0(00000000.3-00000001.2)=", "exact")],
)
def test_the_top_digits_of_a_sum_say_its_sign(plain_page: Page, prompt: str, row: str) -> None:
    [line] = work.render([prompt.encode()])
    tops = {name: top for name, *top in plain_page.evaluate(TOPS, line.decode())}
    negative = "the top digit is 9: the sum is negative"
    assert tops["sum"][:2] == [2, "9"]
    assert negative in tops["sum"][2].lower()
    assert tops[row][:2] == [2, "0"]
    assert negative in tops[row][2].lower()


def test_the_first_wrong_character_is_that_of_the_checker(plain_page: Page) -> None:
    rng = random.Random(3)
    damaged = []
    for op in CHECKS:
        for line in lines(op, seed=11)[:60]:
            at = rng.randrange(line.index("=") + 1, len(line) - 1)
            character = rng.choice([c for c in WORK_ALPHABET if c not in (line[at], "$")])
            damaged.append(line[:at] + character + line[at + 1 :])
    for line, sheet in zip(damaged, plain_page.evaluate(SHEETS, damaged), strict=True):
        cut = line.index("=") + 1
        if line[cut] not in "+-":
            continue  # it begins like an answer without work
        error = work_errors.first_error_of_completion(line[:cut], line[cut:])
        assert sheet["wrong"] == (error.position if error else None), line


def test_a_work_that_is_being_written_has_a_sheet(plain_page: Page) -> None:
    drawn = [lines(op, seed=5)[0] for op in CHECKS]
    begun = [line[:end] for line in drawn for end in range(line.index("=") + 2, len(line))]
    for line, sheet in zip(begun, plain_page.evaluate(SHEETS, begun), strict=True):
        assert sheet["wrong"] is None
        assert sheet["text"].startswith(line[line.index("=") + 1 :])


DRAWN = """async (lines) => {
    const { paper } = await import("/static/paper.js");
    const { SheetView } = await import("/static/paper/view.js");
    return lines.map((line) => {
        const cut = line.indexOf("=") + 1;
        const draw = (view, end) => {
            const probabilities = Array.from(line.slice(cut, end), (_, at) => 1 - at / 1000);
            view.show(paper(line.slice(0, cut), line.slice(cut, end)), probabilities, "a sum");
            return view.element.innerHTML;
        };
        const grown = new SheetView();
        let same = 0;
        for (let end = cut + 1; end <= line.length; end += 1) {
            same += draw(grown, end) === draw(new SheetView(), end);
        }
        return same === line.length - cut;
    });
}"""


def test_rows_drawn_one_after_the_other_are_those_drawn_at_once(plain_page: Page) -> None:
    drawn = [line for op in CHECKS for line in lines(op, seed=9)[:2]]
    assert plain_page.evaluate(DRAWN, drawn) == [True] * len(drawn)


EXTENTS = """async (lines) => {
    const { paper } = await import("/static/paper.js");
    const { SheetView } = await import("/static/paper/view.js");
    return lines.map((line) => {
        const cut = line.indexOf("=") + 1;
        const columns = [cut + 2, line.length].map((end) => {
            const view = new SheetView();
            view.show(paper(line.slice(0, cut), line.slice(cut, end)), [], "a sum");
            const { style } = view.element.querySelector(".sheet");
            return [style.getPropertyValue("--columns"), style.getPropertyValue("--high")];
        });
        return String(columns[0]) === String(columns[1]);
    });
}"""


def test_the_first_digit_already_has_the_columns_of_the_whole_sheet(plain_page: Page) -> None:
    drawn = [line for op in CHECKS for line in lines(op, seed=13)[:50] if op != "/" or ";" in line]
    same = plain_page.evaluate(EXTENTS, drawn)
    assert [line for line, is_same in zip(drawn, same, strict=True) if not is_same] == []


def test_pointing_at_a_digit_marks_it_in_both_views(page: Page) -> None:
    calculate(page, "471*29.9", "calculator")
    answered(page, "14082.9")
    page.get_by_role("radio", name="Both").check()
    cell = page.locator(".sheet [data-at='19']")
    cell.hover()
    expect(page.locator(".readout p")).to_have_text(
        "11 × 9 + 3 above = 12: writes 2, carries 1.Character 20 of 52, sure"
    )
    expect(page.locator(".pointed")).to_have_text(["1", "1"])
    expect(page.locator(".characters .pointed")).to_have_attribute("data-at", "19")
    page.locator(".characters [data-at='47']").click()  # the top digit of the answer
    expect(page.locator(".sheet .pointed")).to_have_text("1")
    expect(page.locator(".characters .pointed")).to_have_text(["1", "1"])  # and in the product
    assert "at=48" in page.url

    sheet = page.get_by_role("grid", name="The work of 471×29.9")
    page.get_by_role("radio", name="Both").focus()
    page.keyboard.press("Tab")  # the link
    page.keyboard.press("Tab")
    expect(sheet.locator(":focus")).to_have_accessible_name("4: 4, a digit of the first number")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(sheet.locator(":focus")).to_have_text("9")
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".readout")).to_contain_text("1 × 9 = 9: carries 0")
    page.keyboard.press("Enter")  # does not calculate again
    expect(sheet.locator(":focus")).to_have_count(1)
    sheet.locator("[data-at='19']").click()
    page.keyboard.press("ArrowRight")
    expect(sheet.locator("[tabindex='0']")).to_have_count(1)  # the Tab key stops once


@pytest.mark.parametrize("width", [320, 390])
def test_a_finger_gets_its_readout(open_page: OpenPage, width: int) -> None:
    """It stands in the window, beside the character, and not under the finger."""
    page = open_page(viewport={"width": width, "height": 740}, has_touch=True, is_mobile=True)
    calculate(page, "471*29.9", "calculator")
    answered(page, "14082.9")
    box = page.locator(".readout")
    for at in (1, 19, 31, 33):  # the first and the last are at the right edge of the sheet
        cell = page.locator(f".sheet [data-at='{at}']")
        cell.tap()
        expect(box).to_contain_text(f"Character {at + 1} of 52")  # and not the one before
        expect(box.locator(".next")).to_contain_text("1 in")  # it was sure
        finger, shown = cell.bounding_box(), box.bounding_box()
        assert finger
        assert shown
        assert shown["x"] >= 0
        assert shown["x"] + shown["width"] <= width
        assert shown["y"] >= 0
        assert shown["y"] + shown["height"] <= 740
        is_above = shown["y"] + shown["height"] <= finger["y"]
        assert is_above or shown["y"] >= finger["y"] + finger["height"] + 40
        assert shown["x"] <= finger["x"] + finger["width"] / 2 <= shown["x"] + shown["width"]
    page.locator("#work-title").tap()
    expect(box).to_be_hidden()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_readout_follows_pointer_and_focus(page: Page) -> None:
    calculate(page, "471*29.9", "calculator")
    answered(page, "14082.9")
    box, cell = page.locator(".readout"), page.locator(".sheet [data-at='19']")
    cell.hover()
    expect(box.locator(".next")).to_contain_text("1 in")
    assert page.locator(".paper .arcs path").count() > 0
    cell_box, readout_box = cell.bounding_box(), box.bounding_box()
    assert cell_box
    assert readout_box
    below = readout_box["y"] - cell_box["y"] - cell_box["height"]
    above = cell_box["y"] - readout_box["y"] - readout_box["height"]
    assert 0 < max(below, above) < 20  # beside it
    page.mouse.move(5, 5)
    expect(box).to_be_hidden()
    expect(page.locator(".arcs path")).to_have_count(0)
    cell.focus()
    expect(box).to_be_visible()
    page.keyboard.press("Escape")  # closes it, and nothing else
    expect(box).to_be_hidden()
    answered(page, "14082.9")


def test_operations_that_are_right_and_sure_are_folded(page: Page) -> None:
    opened = "all => all.map(e => e.open)"
    calculate(page, "(1/3-12)*(7+8.5)*3", "calculator")
    details = page.locator("#nodes details")
    assert details.evaluate_all(opened) == [False, False, False, False, True]
    depths = "all => all.map(e => e.style.getPropertyValue('--depth'))"
    assert page.locator("#nodes .node").evaluate_all(depths) == ["3", "2", "2", "1", "0"]
    page.get_by_role("button", name="Open or fold all").click()
    assert all(details.evaluate_all(opened))
    answered(page, "−542.5")
    expect(page.locator("#answer .agrees")).to_have_text("✓Exact arithmetic agrees.")
    calculate(page, "(1+2)*313.46*217", "direct")
    assert details.evaluate_all(opened)[1:] == [True, True]


def test_an_example_plays_until_somebody_types(open_page: OpenPage) -> None:
    page = open_page(motion=True)
    stop_clock(page)
    page.reload()
    expect(page.locator("#example")).to_be_visible()
    page.clock.run_for(1000)
    page.locator(".sheet .cell").first.wait_for()
    page.get_by_role("group", name="Keypad").get_by_role("button", name="7", exact=True).click()
    expect(page.get_by_label("Expression")).to_have_value("7")
    expect(page.locator("#example")).to_be_hidden()
    expect(page.locator("#nodes .line")).to_have_count(0)
    page.clock.resume()
    page.reload()
    answered(page, "14082.9")
    expect(page.locator(".sheet .pointed")).to_have_text("1")
    expect(page.locator(".sheet .arcs path")).not_to_have_count(0)
    expect(page.locator("#history button")).to_have_count(0)
    assert "#" not in page.url


def test_a_printed_page_has_the_answer_and_the_work_without_controls(page: Page) -> None:
    calculate(page, "(1+2)*3")
    answered(page, "9")
    expect(page.locator("#story-offer")).to_be_visible()
    expect(page.locator(".sheet").first).to_be_hidden()  # the step is folded
    page.emulate_media(media="print")
    expect(page.locator("#story-offer")).to_be_hidden()
    expect(page.locator(".sheet").first).to_be_visible()
    expect(page.get_by_label("Expression")).to_be_visible()
    expect(page.locator("#answer .value")).to_be_visible()
    expect(page.locator(".sheet").last).to_be_visible()
    for name in ("button", "radio", "checkbox", "combobox", "link"):
        expect(page.get_by_role(name)).to_have_count(0)
