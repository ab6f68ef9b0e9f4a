"""Alternating runs, medians and the description of the machine, for benchmarks that compare."""

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from calcgpt.base.errors import UserError
from calcgpt.base.files import write_json
from calcgpt_lab.tables import text_table
from calcgpt_lab.training.environment import processor


def parser(description: str, runs: int | None = None) -> argparse.ArgumentParser:
    """Returns a parser with the options that all benchmarks share. `runs` is the default of
    `--runs`, which only benchmarks that repeat their measurements have."""
    options = argparse.ArgumentParser(description=description)
    if runs is not None:
        options.add_argument("--runs", type=positive, default=runs)
    options.add_argument("--threads", type=positive, default=torch.get_num_threads())
    options.add_argument("--json", type=Path, help="also write the results to this file")
    return options


def positive(text: str) -> int:
    """Returns the number that an argument of a command gives, at least 1. Raises ValueError, which
    argparse reports in one line."""
    if (number := int(text)) < 1:
        raise ValueError
    return number


def run(main: Callable[[], None]) -> None:
    """Runs the command of a benchmark. An error of the user ends it with one line."""
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")


def clock_of(device: torch.device) -> Callable[[], float]:
    """Returns the clock that times work on a device: that of the processor if one thread computes,
    else that of the wall."""
    is_alone = device.type == "cpu" and torch.get_num_threads() == 1
    return time.process_time if is_alone else time.perf_counter


def alternate(contestants: Mapping[str, Callable[[], float]], runs: int) -> dict[str, list[float]]:
    """Returns the rates of each contestant, a function that measures itself, in `runs` rounds.

    A round to warm up comes first. Every contestant has its turn in every round, so that other
    load of the machine affects all of them.
    """
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for round_ in range(runs + 1):
        for name, measure in contestants.items():
            rate = measure()
            if round_:
                rates[name].append(rate)
    return rates


def summary(rates: dict[str, list[float]], peer: str) -> dict[str, Any]:
    """Returns the medians, their ratios to that of `peer`, and every run."""
    medians = {name: statistics.median(runs) for name, runs in rates.items()}
    return {
        "median_per_second": {name: round(median, 1) for name, median in medians.items()},
        "ratio": {name: round(median / medians[peer], 2) for name, median in medians.items()},
        "runs_per_second": {
            name: [round(rate, 1) for rate in runs] for name, runs in rates.items()
        },
    }


def environment(device: torch.device, *packages: str) -> dict[str, Any]:
    """Returns the hardware and the versions that the results depend on."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{package: version(package) for package in ("torch", *packages)},
    }


def show(title: str, compared: dict[str, Any], unit: str) -> None:
    """Prints one comparison."""
    print(f"{title}:")
    rows = []
    for name, median in compared["median_per_second"].items():
        rows.append([name, f"{median:,.1f}", f"{compared['ratio'][name]:.2f}"])
    print(text_table(["", f"{unit}/s", "ratio"], rows))


def write(path: Path | None, results: dict[str, Any]) -> None:
    """Writes the results as JSON, unless `path` is None."""
    if path:
        write_json(path, results)
