"""The exported page in Chromium: characters written per second, and the time to the first answer.

    python -m benchmarks.page [--checkpoint NAME] [--runs N] [--json FILE]

The engine of the page writes the answers to problems of each distribution, with WebAssembly and
without; Python's native engine writes the same. They take turns, and medians are compared. The
times are those of the processor, because other programs do not change them much. The same is
measured for a product and a quotient of numbers of 40 digits.

The page is then opened from a host on loopback, each time in a browser with an empty cache: by a
link that names a question, until the whole answer is shown, also on a connection of 1.6 Mbit/s with
150 ms for a round trip, and without a link, until the first character of the example is shown.
On the open page, a short product and one of 40 digits by 40 are asked, until the whole work is
shown, also with the processor slowed down to a sixth as on a weak phone: Chromium slows the page
down, but not its worker, which computes. Times are those of a clock.
"""

import functools
import gzip
import http.server
import io
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from benchmarks.measure import alternate, environment, parser, run, show, summary, write
from calcgpt.checkpoint import Checkpoint
from calcgpt.export.web import PAGE, export_page
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.generate import generate
from calcgpt.registry import resolve
from datagen.distributions import distribution
from datagen.notation import render_prompt

PROBLEMS = 12  # of each distribution
A, B = "7305918264" * 4, "1928374655" * 4
LONG = [f"$({A}*{B})=", f"$30({A}/{B})="]
NATIVE, WITH, WITHOUT = "native engine", "browser, WebAssembly", "browser, JavaScript"
CHROMIUM = "/usr/bin/chromium"
QUESTION, ANSWER = "471/299", "1.57525084"
LOAD = """async name => {
    const { readWeights } = await import("./source/engine/weights.js");
    const { Decoder } = await import("./source/engine/decoder.js");
    const { generate } = await import("./source/engine/generate.js");
    const buffer = await (await fetch(`models/${name}.safetensors`)).arrayBuffer();
    const weights = readWeights(buffer);
    const { vocabulary } = weights.manifest;
    const decoders = [true, false].map(mayAssemble => new Decoder(weights, mayAssemble));
    window.answer = (isAssembled, prompts) => prompts.map(prompt =>
        [...generate(decoders[isAssembled ? 0 : 1], vocabulary, prompt)].map(t => t.text).join(""));
}"""


ASK = """question => new Promise(resolve => {
    const [field, form, work] = ["expression", "calculator", "work"].map(
        id => document.getElementById(id));
    field.value = question;
    const start = performance.now();
    new MutationObserver((_, observer) => {
        if (work.ariaBusy !== "false") return;
        observer.disconnect();
        resolve((performance.now() - start) / 1000);
    }).observe(work, { attributeFilter: ["aria-busy"] });
    form.requestSubmit();
})"""
ASKED = {"12.5 × 0.25": "12.5*0.25", "40 digits by 40": f"{A}*{B}"}
WEAK = 6  # times slower

FAST_3G = {"latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 94_000}


compressed = functools.cache(gzip.compress)  # static hosts do it once


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Sends texts compressed, as static hosts do."""

    protocol_version = "HTTP/1.1"

    def send_head(self) -> Any:
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            return super().send_head()
        content = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        if path.suffix in (".html", ".js", ".css", ".json", ".svg", ".webmanifest"):
            content = compressed(content)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return io.BytesIO(content)

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def hosted(folder: Path) -> Iterator[str]:
    """Serves a folder; yields its address."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as host:
        threading.Thread(target=host.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{host.server_address[1]}/"
        host.shutdown()


def renderer_seconds(session: CDPSession) -> float:
    """Returns the processor time of all pages."""
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return sum(float(p["cpuTime"]) for p in processes if p["type"] == "renderer")


def short_prompts() -> list[str]:
    """Prompts of problems as people type them."""
    return [
        render_prompt(problem)
        for name in ("blog", "everyday")
        for drawn in distribution(name)(np.random.PCG64(0), PROBLEMS)
        for problem in drawn.to_problems()
    ]


def measure_engine(
    browser: Browser, page: Page, checkpoint: Checkpoint, prompts: list[str], runs: int
) -> dict[str, Any]:
    """Returns the characters that each engine writes per second of processor time."""
    page.evaluate(LOAD, checkpoint.name)
    session = browser.new_browser_cdp_session()
    tokenizer = checkpoint.tokenizer
    _, decoder = load_decoder(checkpoint, "native")
    stop = int(tokenizer.encode("$")[0])
    written: dict[str, list[str]] = {}

    def in_browser(name: str) -> float:
        start = renderer_seconds(session)
        written[name] = page.evaluate(
            f"prompts => answer({str(name == WITH).lower()}, prompts)", prompts
        )
        return sum(map(len, written[name])) / (renderer_seconds(session) - start)

    def in_python() -> float:
        start = time.process_time()
        tokens = [np.array([tokenizer.encode(prompt).tolist()]) for prompt in prompts]
        ids = [generate(decoder, row, stop)[0].ids for row in tokens]
        seconds = time.process_time() - start
        written[NATIVE] = [tokenizer.decode(row) for row in ids]
        return sum(map(len, written[NATIVE])) / seconds

    contestants: dict[str, Callable[[], float]] = {
        NATIVE: in_python,
        **{name: functools.partial(in_browser, name) for name in (WITH, WITHOUT)},
    }
    rates = alternate(contestants, runs)
    same = sum(len(set(texts)) == 1 for texts in zip(*written.values(), strict=True))
    return {"problems": len(prompts), "written_alike": same, **summary(rates, NATIVE)}


def seconds_to(browser: Browser, address: str, selector: str, is_slow: bool = False) -> float:
    """Returns the time from the request of the page until an element is shown."""
    context = browser.new_context()
    try:
        page = context.new_page()
        if is_slow:
            session = context.new_cdp_session(page)
            session.send("Network.emulateNetworkConditions", {"offline": False, **FAST_3G})
        start = time.perf_counter()
        page.goto(address, wait_until="commit")
        page.wait_for_selector(selector)
        return time.perf_counter() - start
    finally:
        context.close()


def times(measured: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Prints the medians of times, and returns them with all times."""
    for name, seconds in measured.items():
        print(f"{name}: {median(seconds):.2f} s")
    return {
        name: {
            "median_seconds": round(median(seconds), 2),
            "runs": [round(second, 2) for second in seconds],
        }
        for name, seconds in measured.items()
    }


def answer_seconds(browser: Browser, address: str, runs: int) -> dict[str, list[float]]:
    """Returns the times of answers on the open page, by name."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(f"{address}#q=2*3")
    page.wait_for_selector("#answer .value")
    session = page.context.new_cdp_session(page)
    seconds = {}
    for rate, suffix in ((1, ""), (WEAK, ", weak phone")):
        session.send("Emulation.setCPUThrottlingRate", {"rate": rate})
        for name, question in ASKED.items():
            page.evaluate(ASK, question)  # compiled, as after a few questions
            seconds[name + suffix] = [page.evaluate(ASK, question) for _ in range(runs)]
    page.close()
    return seconds


def main() -> None:
    options = parser("Measures the exported page in Chromium.", runs=5)
    options.add_argument("--checkpoint", default="calculator")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    checkpoint = Checkpoint.load(resolve(arguments.checkpoint))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        out = Path(folder) / "page"
        export_page([checkpoint], out, force=False)
        shutil.copytree(PAGE, out / "source")  # the modules of the engine alone
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with hosted(out) as address:
            page = browser.new_page()
            page.goto(address)
            engine, long = (
                measure_engine(browser, page, checkpoint, prompts, arguments.runs)
                for prompts in (short_prompts(), LONG)
            )
            page.close()
            url = f"{address}#q={QUESTION}"
            answer = f'#answer .value:has-text("{ANSWER}")'
            first_seconds = {
                "answer to a link": [
                    seconds_to(browser, url, answer) for _ in range(arguments.runs)
                ],
                "answer to a link, fast 3G": [
                    seconds_to(browser, url, answer, is_slow=True) for _ in range(arguments.runs)
                ],
                "first character of the example": [
                    seconds_to(browser, address, "#nodes [data-at]") for _ in range(arguments.runs)
                ],
            }
            asked = answer_seconds(browser, address, arguments.runs)
        chromium = browser.version
        browser.close()
    show(f"{checkpoint.name}, characters", engine, "characters")
    show(f"{checkpoint.name}, characters of 40 digits by 40", long, "characters")
    results = {
        "checkpoint": checkpoint.name,
        "runs": arguments.runs,
        "chromium": chromium,
        "environment": environment(torch.device("cpu")),
        "engine": engine,
        "engine_40_digits": long,
        "opened": times(first_seconds),
        "asked": times(asked),
    }
    write(arguments.json, results)


if __name__ == "__main__":
    run(main)
