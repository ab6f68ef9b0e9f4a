"""The number of threads that training and scoring choose on a CPU, against the better one.

    python -m benchmarks.threads [--runs N] [--choices N] [--json FILE]

Each recipe that trains on a CPU chooses several times, as `calcgpt train` does before its first
step. Then steps with one thread and with all cores take turns. Each shipped model chooses for
torch's passes, of 256 tokens as `calcgpt eval` does, and of one. All of that on an idle machine,
and again while another process takes a core. The figure is the time with the worst of the choices
over the time with the better number of threads.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import torch

from benchmarks.measure import alternate, environment, parser, positive, run, write
from benchmarks.train import random_text
from calcgpt.base.errors import UserError
from calcgpt.base.plugins import look_up
from calcgpt.base.processes import usable_cores
from calcgpt.checkpoint import Checkpoint
from calcgpt.registry import shipped_checkpoints, shipped_names
from calcgpt_lab.data.dataset import DatasetPlan, generate
from calcgpt_lab.data.sources import DataFolder, TrainingData, training_data
from calcgpt_lab.recipe import load_recipe, recipe_names
from calcgpt_lab.tables import text_table
from calcgpt_lab.threads import SCORED, choose_threads
from calcgpt_lab.training.run_folder import RunFolder
from calcgpt_lab.training.train import Trainer

FOR_GPU = {"llama-10m", "llama-100m"}  # their steps on a CPU are too slow to be measured here
OWN_TEXT = {"text"}  # the recipes that are for a text, not for problems
CHARACTERS, VOCABULARY = 200_000, 64  # of that text
SPIN = "while True: pass"


class Work(NamedTuple):
    """Work of a command, and how the command chooses a number of threads for it."""

    choose: Callable[[], int]
    do: Callable[[], object]


def training(name: str, problems: Path) -> Work:
    """Returns the steps of a recipe. `problems` is a data set, for recipes without their own."""
    recipe = load_recipe(name, ["train.eval_problems=0"])
    text = "".join(chr(ord("0") + token) for token in random_text(VOCABULARY, CHARACTERS))
    data: TrainingData = DataFolder(Path(), text, text, False, "")
    if name not in OWN_TEXT:
        data = training_data(recipe, None if recipe.data else problems)
    trainer = Trainer(recipe, data, RunFolder(Path()), torch.device("cpu"))  # nothing is written
    return Work(trainer.fastest_threads, trainer.train_step)


def scoring(name: str, n_token: int) -> Work:
    """Returns the passes of a shipped model over so many tokens."""
    model = Checkpoint.load(shipped_checkpoints() / name).model
    length = min(n_token, model.config.block_size)
    tokens_BT = torch.zeros((n_token // length, length), dtype=torch.int64)

    def choose() -> int:
        choose_threads(model, n_token)
        return torch.get_num_threads()

    return Work(choose, torch.inference_mode()(lambda: model(tokens_BT)))


@contextmanager
def busy() -> Iterator[None]:
    """Within the block, another process takes a core."""
    with subprocess.Popen([sys.executable, "-c", SPIN]) as process:  # nosec B603  # this Python
        try:
            yield
        finally:
            process.kill()


def measure(work: Work, n_choice: int, runs: int) -> dict[str, Any]:
    """Returns the choices, the milliseconds with each number of threads, and the ratio of the worst
    choice to the better number."""
    choices = [work.choose() for _ in range(n_choice)]

    def per_second(n_thread: int) -> float:
        torch.set_num_threads(n_thread)
        start = perf_counter()
        work.do()
        return 1 / (perf_counter() - start)

    numbers = (1, usable_cores())
    rates = alternate({str(n): partial(per_second, n) for n in numbers}, runs)
    milliseconds = {n: round(1000 / median(runs), 3) for n, runs in rates.items()}
    chosen = max(milliseconds[str(n)] for n in choices)
    ratio = round(chosen / min(milliseconds.values()), 3)
    return {"choices": choices, "milliseconds": milliseconds, "ratio": ratio}


def main() -> None:
    """Runs the benchmark and prints its table."""
    options = parser("Compare chosen threads with the better number.", runs=11)
    options.add_argument("--choices", type=positive, default=5)
    options.add_argument("--only", action="append", help="a recipe or a model, several times")
    arguments = options.parse_args()
    if usable_cores() == 1:
        raise UserError("there is one core, and so nothing to choose")
    results: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory() as folder:
        problems = Path(folder) / "blog"
        generate(problems, DatasetPlan(train=20_000, val=100, test=100, seed=0), progress=False)
        works = {name: partial(training, name, problems) for name in recipe_names()}
        for name, n_token in product(shipped_names(), (SCORED, 1)):
            works[f"{name}, {n_token} at a time"] = partial(scoring, name, n_token)
        for name in arguments.only or works.keys() - FOR_GPU:
            work = look_up(works, name, "recipe or model")()
            idle = measure(work, arguments.choices, arguments.runs)
            with busy():
                loaded = measure(work, arguments.choices, arguments.runs)
            results[name] = {"idle": idle, "busy": loaded}
            print(name, {load: one["ratio"] for load, one in results[name].items()}, flush=True)
    rows = [
        [name, *(f"{x}" for one in loads.values() for x in (one["choices"], one["ratio"]))]
        for name, loads in sorted(results.items())
    ]
    print(text_table(["", "idle: chosen", "ratio", "busy: chosen", "ratio"], rows))
    machine = environment(torch.device("cpu"))
    write(arguments.json, {"environment": machine, "runs": arguments.runs, **results})


if __name__ == "__main__":
    run(main)
