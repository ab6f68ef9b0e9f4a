"""Takes five pictures of the page. `page.png`, `inside.png` and `division.png` in `docs` are for
the documents. Links to the page show `api/static/preview.png` and, with a part of the model
switched off, `off.png`.
Draws its icon, `favicon.svg`, as `api/static/touch-icon.png`, for the home screens of iOS, which
take no SVG.

    python -m tools.pictures

The page is exported with the shipped calculators and opened in Chromium.
"""

import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.page import CHROMIUM, hosted
from calcgpt.base.files import write_bytes
from calcgpt.checkpoint import Checkpoint
from calcgpt.export.web import PAGE, export_page
from calcgpt.registry import resolve

DOCS = PAGE.parents[1] / "docs"
QUESTION, ANSWER = "471×29.9", "14082.9"
MODELS = ("calculator",)
BROKEN_QUESTION, OFF, WRONG = "7+8", "1.n9", "14"
DIVISION, QUOTIENT = "7÷8 to 2 places", "0.88"
CARRY = 19  # the character that is pointed at: a carry of 1
ICON_SIZE = 180  # pixels, of an iPhone
# A preview is small, so it shows less, and larger: the claim, the answer and the work.
PREVIEW = """
    body { grid-template: "top top" "calculator work" / 19rem 1fr; padding: 0 1.75rem; }
    .top { padding: 1rem 0 0.9rem; }
    h1 { color: var(--accent); font-size: 2.1rem; }
    .tagline { font-size: 1.05rem; }
    .tagline strong { font-size: 2.1rem; line-height: 1.15; }
    .card { padding: 0.9rem 1.25rem; }
    .nodes, .node { border: 0; padding: 0; }
    .brain, .choice, .pill, #copy-answer, #keypad, #keys, #work > .bar, .share, .legend, .history,
    .readout, footer { display: none; }
"""


def new_page(browser: Browser, width: int, height: int, scale: float = 1.0) -> Page:
    page = browser.new_page(
        bypass_csp=True,
        viewport={"width": width, "height": height},
        device_scale_factor=scale,
        color_scheme="light",
        reduced_motion="reduce",
    )
    page.set_default_timeout(300_000)  # milliseconds, for a busy machine
    return page


def inside(browser: Browser, address: str) -> bytes:
    """Returns the look inside, where the model was made to write another digit."""
    page = new_page(browser, 1152, 660)
    page.goto(f"{address}#q={QUESTION}&inside=1")
    page.get_by_role("button", name="Write 1 instead").click()
    page.locator(".what-if .cell.off").wait_for()
    return page.locator("#nodes .inside").screenshot()


def division(browser: Browser, address: str) -> bytes:
    """Returns the work of a division."""
    page = new_page(browser, 900, 900)
    page.goto(f"{address}#q={DIVISION}")
    page.locator("#answer .value").get_by_text(QUOTIENT, exact=True).wait_for()
    page.locator("#work:not([aria-busy=true])").wait_for()
    return page.locator(".sheet").screenshot()


def open_page(
    browser: Browser,
    address: str,
    width: int,
    height: int,
    style: str = "",
    scale: float = 1.0,
    off: str = "",
) -> Page:
    """Opens the page with the answer to the question, and points at the carry; or with a part of
    the model switched off."""
    page = new_page(browser, width, height, scale)
    page.goto(f"{address}#q={BROKEN_QUESTION if off else QUESTION}&off={off}")
    if style:
        page.add_style_tag(content=style)
    page.locator("#answer .value").get_by_text(WRONG if off else ANSWER, exact=True).wait_for()
    page.locator("#work:not([aria-busy=true])").wait_for()
    page.evaluate("document.activeElement.blur()")
    if off:
        return page
    page.locator(f'[data-at="{CARRY}"]').first.hover()
    page.locator(".sheet .arcs path").first.wait_for(state="attached")
    return page


def icon(browser: Browser) -> bytes:
    """Returns the icon as a PNG. Its corners are square, because iOS rounds them itself."""
    svg = (PAGE / "favicon.svg").read_text("utf-8").replace(' rx="7"', "")
    page = browser.new_page(bypass_csp=True, viewport={"width": ICON_SIZE, "height": ICON_SIZE})
    page.set_content(f"<style>body {{ margin: 0 }} svg {{ display: block }}</style>{svg}")
    return page.screenshot()


def main() -> None:
    checkpoints = [Checkpoint.load(resolve(name)) for name in MODELS]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        out = Path(folder) / "page"
        export_page(checkpoints, out, force=False)
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with hosted(out) as address:
            page = open_page(browser, address, 1280, 784)
            write_bytes(DOCS / "page.png", page.screenshot())
            write_bytes(DOCS / "inside.png", inside(browser, address))
            write_bytes(DOCS / "division.png", division(browser, address))
            page = open_page(browser, address, 1080, 567, PREVIEW, 1200 / 1080)
            write_bytes(PAGE / "preview.png", page.screenshot())
            page = open_page(browser, address, 1080, 567, PREVIEW, 1200 / 1080, OFF)
            write_bytes(PAGE / "off.png", page.screenshot())
        write_bytes(PAGE / "touch-icon.png", icon(browser))
        browser.close()


if __name__ == "__main__":
    main()
