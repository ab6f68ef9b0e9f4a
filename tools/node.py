"""Modules of the page without a browser: in Node, which Playwright brings with it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import playwright

PAGE = Path(__file__).parents[1] / "api" / "static"
CALL = """
import { readFileSync } from "node:fs";
const read = (file) => Uint8Array.from(readFileSync(file)).buffer;
const startWorker = async () => {
    let id = 0, receive;
    globalThis.onmessage = null;
    globalThis.postMessage = (message) => receive(message);
    await import("/static/engine/worker.js");
    return (task, payload) => new Promise((resolve) => {
        const found = [];
        receive = ({ events, done, error }) => {
            found.push(...events);
            if (done) resolve({ events: found, error });
        };
        onmessage({ data: { id: id++, task, payload } });
    });
};
const result = await (FUNCTION)(JSON.parse(readFileSync(0, "utf8")), read, startWorker);
process.stdout.write(JSON.stringify(result), () => process.exit());
"""


def in_node(function: str, argument: Any) -> Any:
    """Returns what an asynchronous function in JavaScript makes of an argument, both in JSON.

    It imports modules of the page from `/static/`. Its other arguments are a function that reads a
    file, and one that starts the worker and returns a function that gives it a task and returns its
    events, and the error if it fails.
    """
    program = Path(playwright.__file__).parent / "driver" / "node"
    script = CALL.replace("FUNCTION", function).replace('"/static/', f'"{PAGE.as_uri()}/')
    ended = subprocess.run(  # nosec B603  # Node, on a module of the page
        [program, "--input-type=module", "--eval", script],
        input=json.dumps(argument),
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)
