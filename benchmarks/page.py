"""The exported page in Chromium: characters written per second, and the time to the first answer.

    python -m benchmarks.page [--checkpoint NAME] [--runs N] [--json FILE]

The engine of the page writes the work of problems as people type them, and of a product and a
quotient of numbers of 40 digits: from an empty memory, so that the network computes each case, and
again, when it remembers all of them.

The page is then opened from a host on loopback, each time in a browser with an empty cache: by a
link that names a question, until the whole answer is shown, also on a connection of 1.6 Mbit/s with
150 ms for a round trip, and without a link, until the first character of the example is shown.
On the open page, a short product and one of 40 digits by 40 are asked, until the whole work is
shown, also with the processor slowed down to a sixth as on a weak phone: Chromium slows the page
down, but not its worker, which computes. Times are medians of those of a clock. So slowed down, the
page adds 1,000 numbers, and at a quarter of the speed it proves the network: how long both take,
and the longest time for which the page does not answer a touch.
"""

import functools
import gzip
import http.server
import io
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.measure import environment, parser, run, write
from calcgpt.checkpoint import Checkpoint
from calcgpt.export.web import PAGE, export_page
from calcgpt.registry import resolve
from datagen.distributions import distribution
from datagen.notation import render_prompt

PROBLEMS = 12  # of each distribution
A, B = "7305918264" * 4, "1928374655" * 4
LONG = [f"$({A}*{B})=", f"$30({A}/{B})="]
CHROMIUM = "/usr/bin/chromium"
QUESTION, ANSWER = "471/299", "1.57525084"
WRITE = """async ([name, prompts, runs]) => {
    const { readWeights } = await import("./source/engine/weights.js");
    const { Network } = await import("./source/engine/network.js");
    const { Memory, write } = await import("./source/engine/write.js");
    const { models } = await (await fetch("static/backend.json")).json();
    const { file, vocabulary } = models.find(({ id }) => id === name);
    const network = new Network(readWeights(await (await fetch(file)).arrayBuffer()));
    const rate = (memory) => {
        const start = performance.now();
        const n = prompts.reduce((sum, prompt) => sum + [...write(memory, prompt)].length, 0);
        return 1000 * n / (performance.now() - start);
    };
    return Array.from({ length: runs }, () => {
        const memory = new Memory(network, vocabulary);
        return [rate(memory), rate(memory)];
    });
}"""


ASK = """question => new Promise(resolve => {
    const [field, form, work] = ["expression", "calculator", "work"].map(
        id => document.getElementById(id));
    field.value = question;
    field.dispatchEvent(new Event("input", { bubbles: true })); // or `=` repeats what was asked
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
SUM = "+".join(str(number) for number in range(1, 1001))
PROVE = """() => new Promise(resolve => {
    const start = performance.now();
    const proof = document.getElementById("proof");
    new MutationObserver(() => {
        if (!proof.matches(".proved")) return;
        resolve((performance.now() - start) / 1000);
    }).observe(proof, { attributeFilter: ["class"] });
    document.getElementById("prove").click();
})"""
WATCH = """() => {
    window.longest = 0;
    new PerformanceObserver(list => {
        for (const { duration } of list.getEntries()) longest = Math.max(longest, duration / 1000);
    }).observe({ type: "longtask" });
}"""

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


def short_prompts() -> list[str]:
    """Prompts of problems as people type them."""
    return [
        render_prompt(problem)
        for name in ("blog", "everyday")
        for drawn in distribution(name)(np.random.PCG64(0), PROBLEMS)
        for problem in drawn.to_problems()
    ]


def measure_engine(page: Page, name: str, prompts: list[str], runs: int) -> dict[str, float]:
    """Returns how many characters the engine writes per second."""
    rates = page.evaluate(WRITE, [name, prompts, runs])
    found = {
        label: round(median(each), -2)
        for label, each in zip(
            ("empty memory", "remembered"), zip(*rates, strict=True), strict=True
        )
    }
    print(", ".join(f"{label}: {rate:,.0f} characters a second" for label, rate in found.items()))
    return found


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


def blocked_seconds(
    browser: Browser, address: str, rate: int, script: str, question: str = ""
) -> dict[str, float]:
    """Returns how long a script takes on the open page with a processor `rate` times slower, and
    the longest time for which the page is blocked meanwhile."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_default_timeout(600_000)
    page.goto(f"{address}#q=2*3")
    page.wait_for_selector("#answer .value")
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": rate})
    page.evaluate(WATCH)
    seconds = page.evaluate(script, question)
    longest = page.evaluate("longest")
    page.close()
    print(f"{rate} times slower: {seconds:.2f} s, blocked for up to {longest:.2f} s")
    return {"seconds": round(seconds, 2), "longest_blocked_seconds": round(longest, 3)}


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
                measure_engine(page, checkpoint.name, prompts, arguments.runs)
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
            blocked = {
                "sum of 1,000 numbers, 6 times slower": blocked_seconds(
                    browser, address, WEAK, ASK, SUM
                ),
                "proof, 4 times slower": blocked_seconds(browser, address, 4, PROVE),
            }
        chromium = browser.version
        browser.close()
    results = {
        "checkpoint": checkpoint.name,
        "runs": arguments.runs,
        "chromium": chromium,
        "environment": environment(torch.device("cpu")),
        "engine": engine,
        "engine_40_digits": long,
        "opened": times(first_seconds),
        "asked": times(asked),
        "blocked": blocked,
    }
    write(arguments.json, results)


if __name__ == "__main__":
    run(main)
