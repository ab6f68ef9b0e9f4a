"""What the benchmarks that compare share: alternating runs, medians, the machine they ran on."""

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.datagen import processor
from calcgpt.tables import text_table


def parser(description: str, runs: int) -> argparse.ArgumentParser:
    """The options that all of them have; `runs` is the default."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--runs", type=int, default=runs)
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    options.add_argument("--json", type=Path, help="write the figures to this file, too")
    return options


def alternate(contestants: Mapping[str, Callable[[], float]], runs: int) -> dict[str, list[float]]:
    """Rates of each contestant, which measures itself, in `runs` rounds after one to warm up. All
    take their turn in every round, so that what else the machine does falls on all of them."""
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for round_ in range(runs + 1):
        for name, measure in contestants.items():
            rate = measure()
            if round_:
                rates[name].append(rate)
    return rates


def summary(rates: dict[str, list[float]], peer: str) -> dict[str, Any]:
    """Medians, their ratios to the peer's, and every run."""
    medians = {name: statistics.median(of) for name, of in rates.items()}
    return {
        "median_per_second": {name: round(median, 1) for name, median in medians.items()},
        "ratio": {name: round(median / medians[peer], 2) for name, median in medians.items()},
        "runs_per_second": {name: [round(rate, 1) for rate in of] for name, of in rates.items()},
    }


def environment(device: torch.device, *packages: str) -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{package: version(package) for package in ("torch", *packages)},
    }


def show(title: str, compared: dict[str, Any], unit: str) -> None:
    """Print one comparison."""
    print(f"{title}:")
    rows = []
    for name, median in compared["median_per_second"].items():
        rows.append([name, f"{median:,.1f}", f"{compared['ratio'][name]:.2f}"])
    print(text_table(["", f"{unit}/s", "ratio"], rows))


def write(path: Path | None, figures: dict[str, Any]) -> None:
    """The figures as JSON, if they are asked for."""
    if path:
        path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
