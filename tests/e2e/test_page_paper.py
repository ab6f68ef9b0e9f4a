"""The paper view in a real browser: its digits against Python's, and how it is drawn."""

from __future__ import annotations

import random
import re
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from datagen import work, work_errors
from datagen.notation import WORK_ALPHABET, answer_text, parse_answer

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

EACH = 200  # problems of an operation
BESIDE_A_TIE = "$(0006.27251/00000096.5)="  # by the last digit, which no row brings down
SHEETS = """async (lines) => {
    const { paper } = await import("/static/paper.js");
    const { isWrong, shownText, textOf } = await import("/static/paper/cells.js");
    return lines.map((line) => {
        const cut = line.indexOf("=") + 1;
        const sheet = paper(line.slice(0, cut), line.slice(cut));
        const rows = {};
        const shown = new Set();
        for (const row of sheet.rows) {
            const digits = row.cells.filter((cell) => !cell.isBelow);
            const text = (cells) => cells.map(shownText).join("");
            const carries = row.carries.map((cell) => [cell.column, Number(cell.text)]);
            for (const name of row.names) rows[name] = {
                label: row.label, carries, side: text(row.side), point: row.point,
                minus: row.sign !== undefined && shownText(row.sign) === "-",
                digits: text(digits), lowest: digits.at(-1)?.column };
            const { cells, carries: small, side, sign = [] } = row;
            for (const { at, copies, hides } of [...cells, ...small, ...side].concat(sign)) {
                for (const index of [at, ...copies, ...hides]) shown.add(index);
            }
        }
        return {
            rows,
            shown: [...shown],
            text: sheet.cells.map((cell) => cell.text).join(""),
            wrong: sheet.cells.find(isWrong)?.at ?? null,
            silent: sheet.cells.filter((cell) => !textOf(cell.why)).length,
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
    return int(abs(number).scaleb(n_places(number) if places is None else places))


def n_places(number: Decimal) -> int:
    return -int(number.as_tuple().exponent)


def number_of(row: dict[str, Any], unit: int) -> Decimal:
    """The number of a row, given the column of the units."""
    top = row["lowest"] + len(row["digits"]) - 1
    assert row["digits"][0] != "0" or top in (unit, row["lowest"])
    assert row["point"] in (None, unit)
    number = Decimal(row["digits"]).scaleb(row["lowest"] - unit)
    return -number if row["minus"] else number


def labelled(row: dict[str, Any]) -> Decimal:
    """The number that a label of a row gives."""
    *_, number = re.findall(r"[=:] (−?[\d.]+)", row["label"])
    return Decimal(number.replace("−", "-"))


def check_sum(line: str, rows: dict[str, Any]) -> None:
    a, b, _ = question_of(line)
    b = -b if is_minus(line) else b
    places = max(n_places(a), n_places(b))
    assert (number_of(rows["a"], places), number_of(rows["b"], places)) == (a, b)
    total = number_of(rows["sum"], places)
    assert total == labelled(rows["sum"]) == a + b
    assert rows.get("exact", rows["sum"]) == rows["sum"]  # one row shows both
    size_a, size_b = units(a, places), units(b, places)
    subtracts = (a < 0) != (b < 0)
    assert not (subtracts and size_a < size_b and rows["a"]["carries"])
    for column, carry in rows["a"]["carries"]:
        low_a, low_b = size_a % 10**column, size_b % 10**column
        assert carry == (low_a < low_b if subtracts else (low_a + low_b) // 10**column)


def is_minus(line: str) -> bool:
    """Whether a line subtracts: the operation is the sign after the first operand's digits."""
    question = line[line.index("(") + 1 :]
    return next(c for c in question[10:] if c in "+-*/") == "-"


def check_product(line: str, rows: dict[str, Any]) -> None:
    a, b, _ = question_of(line)
    assert (number_of(rows["a"], n_places(a)), number_of(rows["b"], n_places(b))) == (a, b)
    first, second = units(a), units(b)
    total = 0
    for k, digit in enumerate(map(int, reversed(str(second))), start=1):
        row = rows[f"row {k}"]
        left = total // 10
        total = left + first * digit
        assert (int(row["digits"]), row["side"], row["lowest"]) == (total, str(digit), k - 1)
        for column, carry in row["carries"]:
            j = column - (k - 1)
            assert carry == (left % 10**j + first % 10**j * digit) // 10**j > 0
        if k > 1 and digit and first:
            assert int(rows[f"partial {k}"]["digits"]) == first * digit
    if "exact" in rows:
        product = rows["exact"]
        assert abs(number_of(product, n_places(a) + n_places(b))) == labelled(product) == abs(a * b)


def check_quotient(line: str, rows: dict[str, Any]) -> None:
    """Each remainder is what is divided, as far as it is brought down, less what was taken."""
    a, b, places = question_of(line)
    assert (number_of(rows["a"], n_places(a)), number_of(rows["b"], n_places(b))) == (a, b)
    n = sum(name.startswith("multiple") for name in rows)
    if not n:  # it is less than half of the last place
        assert int(rows["answer"]["digits"]) == 0
        return
    padding = n_places(b) + max(3 - len(str(units(b))), 0)
    quotient = left = Decimal(0)
    for k in range(1, n + 2):
        place = n - k - places - 1  # of the quotient's digit
        lowest = place - padding + (k > n)  # the place of the last digit that is brought down
        begun = abs(a).quantize(Decimal(1).scaleb(lowest), ROUND_FLOOR)
        row = rows[f"remainder {k}"]
        assert ("it took too much" in row["label"]) == (left < 0)
        assert number_of(row, n_places(a)) == begun - quotient * abs(b)
        if k > n:
            break
        multiple = rows[f"multiple {k + 1}"]
        digit = Decimal(multiple["side"]).scaleb(place)
        assert ("adds back" in multiple["label"]) == (digit < 0)
        assert number_of(multiple, n_places(a)) == labelled(multiple) == abs(digit * b)
        quotient += digit
        left = begun - quotient * abs(b)
    n_unused = lowest + n_places(a)
    assert n_unused <= 0 or row["label"].endswith(f"down: {str(units(a))[-n_unused:]}")
    assert number_of(rows["quotient"], n_places(a)) == quotient
    assert labelled(rows["quotient"]) == quotient


CHECKS = {"+": check_sum, "-": check_sum, "*": check_product, "/": check_quotient}


@pytest.mark.parametrize("op", CHECKS)
def test_the_rows_are_those_of_arithmetic(plain_page: Page, op: str) -> None:
    drawn = lines(op, seed=7)
    for line, sheet in zip(drawn, plain_page.evaluate(SHEETS, drawn), strict=True):
        output = line[line.index("=") + 1 :]
        assert sheet["text"] == output
        assert sheet["wrong"] is None, line
        assert sheet["silent"] == 0, line
        work_end = output.rindex("=")
        marks = {at for at, character in enumerate(output) if character in ";|:="}
        assert set(range(work_end)) - marks <= set(sheet["shown"]), line
        CHECKS[op](line, sheet["rows"])
        row = sheet["rows"]["answer"]
        shown = number_of(row, row["lowest"] if row["point"] is None else row["point"])
        assert shown == Decimal(answer_text(parse_answer(output[work_end + 1 : -1], 9))), line


WRONG = """async (lines) => {
    const { paper } = await import("/static/paper.js");
    const { isWrong } = await import("/static/paper/cells.js");
    const { SheetView } = await import("/static/paper/view.js");
    return lines.map((line) => {
        const cut = line.indexOf("=") + 1;
        const sheet = paper(line.slice(0, cut), line.slice(cut));
        const view = new SheetView();
        view.show(sheet, [], "it");
        const red = [...view.element.querySelectorAll(".off")].map((cell) => cell.dataset.at);
        return [sheet.cells.find(isWrong)?.at ?? null, red];
    });
}"""


def test_the_first_wrong_character_is_that_of_the_checker_and_is_red(plain_page: Page) -> None:
    rng = random.Random(3)
    damaged = []
    for op in CHECKS:
        for line in lines(op, seed=11)[:12]:
            start = line.index("=") + 2  # without a sign it would begin like an answer without work
            for at in range(start, len(line)):
                character = rng.choice([c for c in WORK_ALPHABET if c != line[at]])
                damaged.append(line[:at] + character + line[at + 1 :])
    damaged.append("$(00000000-9+0000000002)=-90+20-79:70-=7-00000000$")  # a minus that none shows
    for line, (wrong, red) in zip(damaged, plain_page.evaluate(WRONG, damaged), strict=True):
        cut = line.index("=") + 1
        error = work_errors.first_error_of_completion(line[:cut], line[cut:])
        assert wrong == (error.position if error else None), line
        assert wrong is None or str(wrong) in red, (line, wrong)


DRAWN = """async (lines) => {
    const { paper } = await import("/static/paper.js");
    const { isWrong } = await import("/static/paper/cells.js");
    const { SheetView } = await import("/static/paper/view.js");
    return lines.map((line) => {
        const cut = line.indexOf("=") + 1;
        let nWrong = 0;
        const draw = (view, end) => {
            const sheet = paper(line.slice(0, cut), line.slice(cut, end));
            view.show(sheet, sheet.cells.map((_, at) => 1 - at / 1000), "a sum");
            nWrong += sheet.cells.filter(isWrong).length;
            return view.element.innerHTML;
        };
        const grown = new SheetView();
        const ends = Array.from(line.slice(cut), (_, at) => cut + 1 + at);
        const same = ends.filter((end) => draw(grown, end) === draw(new SheetView(), end));
        const sizes = ends.map((end) => {
            draw(grown, end);
            return grown.element.querySelector(".sheet").getAttribute("style");
        });
        return [same.length === ends.length, new Set(sizes).size, nWrong];
    });
}"""


def test_rows_are_drawn_one_after_the_other_and_none_moves(plain_page: Page) -> None:
    drawn = [line for op in CHECKS for line in lines(op, seed=9)[:3]]
    assert plain_page.evaluate(DRAWN, drawn) == [[True, 1, 0]] * len(drawn)


SHADES = """async (probabilities) => {
    const { paper } = await import("/static/paper.js");
    const { SheetView } = await import("/static/paper/view.js");
    const view = new SheetView();
    view.show(paper("$(0000000012+0000000034)=", "987654321"), probabilities, "it");
    document.body.append(view.element);
    return probabilities.map((_, at) => {
        const cell = view.cellOf(at);
        const { backgroundColor, textDecorationLine } = getComputedStyle(cell);
        const doubt = Number(cell.style.getPropertyValue("--doubt"));
        return [doubt, backgroundColor, textDecorationLine];
    });
}"""


def test_the_shade_is_the_doubt(page: Page) -> None:
    shades = page.evaluate(SHADES, [1, 0.995, 0.99, 0.98, 0.95, 0.9, 0.89, 0.5, 0.01])
    doubts, colours, lines = zip(*shades, strict=True)
    assert doubts[:3] == (0, 0, 0)
    assert list(doubts[2:]) == sorted(set(doubts))
    assert len(set(colours)) == 7
    assert lines == ("none",) * 6 + ("underline",) * 3


def test_work_with_an_operation_of_somebody_else_is_shown_as_it_is(plain_page: Page) -> None:
    [sheet] = plain_page.evaluate(SHEETS, ["$(0000000017%0000000005)=;2:2=2$"])
    row = sheet["rows"]["broken"]
    assert row["side"] == sheet["text"] == ";2:2=2$"
    assert row["label"] == "The work, in a notation that this page does not know."


FOLDED = """async ([prompt, output]) => {
    const { Step } = await import("/static/steps.js");
    const { inSlices } = await import("/static/slices.js");
    const [first, both] = [3, 5].map((end) => ({ expression: "1+2", position: 0, end }));
    const step = new Step({ nodes: [first, both], model: "" }, 0, [..."1+2+3"], () => {});
    document.body.append(step.element);
    const nCells = async () => {
        await inSlices([].values()); // after what waits
        return step.element.querySelectorAll(".cell").length;
    };
    step.begin({ problem: "1+2", prompt });
    for (const text of output) step.addToken({ text, probability: 1 });
    const confidence = { whole: 1 };
    step.end({ problem: "1+2", result: "3", exact: "3", agrees: true, confidence });
    const folded = await nCells();
    const opened = new Promise((then) => step.body.addEventListener("toggle", then));
    step.open();
    await opened;
    return [folded, await nCells()];
}"""


def test_what_is_folded_is_drawn_when_it_is_opened(page: Page) -> None:
    prompt = "$(0000000001+0000000002)="
    [line] = work.render([prompt.encode()])
    assert page.evaluate(FOLDED, [prompt, line.decode().removeprefix(prompt)]) == [0, 4]


PIECES = """async () => {
    const { Playback } = await import("/static/playback.js");
    const shown = [];
    const playback = new Playback(function* ({ name }) {
        for (let piece = 0; piece < 9; piece += 1) {
            const end = performance.now() + 8;
            while (performance.now() < end);
            shown.push(name + piece);
            yield;
        }
    }, () => false);
    for (const name of ["a", "b"]) playback.push({ name });
    const frame = () => new Promise(requestAnimationFrame);
    await frame();  // in which it shows some pieces
    await frame();
    const soFar = shown.length;
    await playback.finished();
    return [soFar < 18, shown];
}"""


def test_an_event_of_many_pieces_is_shown_in_several_frames(plain_page: Page) -> None:
    is_part, shown = plain_page.evaluate(PIECES)
    assert is_part
    assert shown == [f"{name}{piece}" for name in "ab" for piece in range(9)]
