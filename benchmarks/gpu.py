"""Measures CalcGPT on a GPU, and trains on it, with one command.

    python -m benchmarks.gpu --out docs/results/gpu [--minutes 9] [--set FIELD=VALUE ...]
    python -m benchmarks.gpu --out /tmp/gpu --device cpu --tiny

research/GPU.md says what each part measures. A part has its own process and writes `PART.json`
after each of its rows. Rows in that file are not measured again, unless they failed, so a command
that ran out of minutes is simply repeated. The last part trains for the rest of the minutes, and
continues where it stopped.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import torch

from benchmarks.gpu_parts import PARTS, Row
from benchmarks.measure import environment
from calcgpt.base.files import write_text
from calcgpt_lab.model.devices import synchronize_device
from calcgpt_lab.records import step_lines

RESERVE = 25.0  # seconds in which training saves its state and ends
ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))}
UNFINISHED = {"error": "the process ended"}


def read_rows(path: Path) -> dict[str, Row]:
    """Returns the rows of a part that are written."""
    with suppress(FileNotFoundError):
        rows: dict[str, Row] = json.loads(path.read_text("utf-8"))["rows"]
        return rows
    return {}


def drop_rows(path: Path, is_dropped: Callable[[Row], bool]) -> None:
    """Removes some rows from the file of a part, if there is one."""
    if rows := read_rows(path):
        kept = {name: row for name, row in rows.items() if not is_dropped(row)}
        content = {**json.loads(path.read_text("utf-8")), "rows": kept}
        write_text(path, json.dumps(content, indent=2) + "\n")


def measure(part: str, options: Namespace) -> None:
    """Measures the rows of a part that are not written yet, until the minutes are over."""
    path = options.out / f"{part}.json"

    def write(name: str, row: Row) -> None:
        rows = {**read_rows(path), name: row}
        content = {"environment": environment(options.device), "rows": rows}
        write_text(path, json.dumps(content, indent=2) + "\n")

    for name, row in PARTS[part](options).items():
        if name in read_rows(path) or time.monotonic() > options.deadline:
            continue
        write(name, UNFINISHED)  # stays if the process ends
        try:
            result = row()
        except Exception as error:  # whatever it is, the other rows are wanted
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            result = {"error": reason[:200]}
        write(name, result)
        print(part, name, json.dumps(result), flush=True)
        gc.collect()
        synchronize_device(
            options.device
        )  # after a fault of the GPU this fails, and ends the process
        if options.device.type == "cuda":
            torch.cuda.empty_cache()


def run_part(part: str, arguments: Sequence[str], options: Namespace) -> None:
    """Measures a part in its own process, because a fault of the GPU ends the process. Rows that
    failed in an earlier command are measured again."""
    path = options.out / f"{part}.json"
    drop_rows(path, lambda row: "error" in row)
    while (seconds := options.deadline - time.monotonic()) > 0:
        n_row = len(read_rows(path))
        command = [sys.executable, "-m", "benchmarks.gpu", *arguments]
        command += ["--parts", part, "--minutes", str(seconds / 60), "--here"]
        process = subprocess.Popen(command, env=ENVIRONMENT)  # nosec B603  # this Python
        try:
            code = process.wait(options.deadline - time.monotonic())
        except subprocess.TimeoutExpired:
            process.kill()  # files are written whole
            process.wait()
            drop_rows(path, lambda row: row == UNFINISHED)
            return
        if not code or len(read_rows(path)) == n_row:
            return


def train(options: Namespace) -> None:
    """Trains a recipe until the minutes are over, or continues. Writes how far it has come."""
    run = options.out / "run"
    seconds = options.deadline - time.monotonic() - RESERVE
    if seconds <= 0:
        return
    sets = [word for value in options.set for word in ("--set", value)]
    command = [sys.executable, "-m", "calcgpt", "train", "--recipe", options.recipe, "--quiet"]
    command += ["--out", str(run), "--device", str(options.device), "--resume", *sets]
    process = subprocess.Popen(command, env=ENVIRONMENT)  # nosec B603  # this Python
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # it saves its state
        try:
            process.wait(RESERVE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    rows = [row for _, row in step_lines(run / "metrics.jsonl")]
    content = {"command": command, "exit_code": process.returncode, "rows": rows}
    write_text(options.out / "run.json", json.dumps(content) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the parts in order."""
    parser = ArgumentParser(description="Measure and train on a GPU.")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--tiny", action="store_true", help="a dry run, in a minute on a CPU")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--recipe", default="calculator", help="what the last part trains")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--parts", nargs="*", choices=[*PARTS, "train"], default=[*PARTS, "train"])
    parser.add_argument("--here", action="store_true", help="without a process for each part")
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(arguments)
    options.deadline = time.monotonic() + 60 * options.minutes
    options.runs = 1 if options.tiny else options.runs
    options.out.mkdir(parents=True, exist_ok=True)
    for part in options.parts:
        if part == "train":
            train(options)
        elif options.here:
            measure(part, options)
        else:
            run_part(part, arguments, options)


if __name__ == "__main__":
    main()
