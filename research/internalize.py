"""Takes the worked steps away, one character after the other, until the model answers without them
(research/SCIENCE.md, "Without steps").

    python -m research.internalize train --start CHECKPOINT --out RUN [--at-once] [--steps N]
        [--threads N] [--resume]
    python -m research.internalize score RUN ... [--n N] [--removed N ...] [--threads N]
        [--json FILE]

"Stepwise internalization" (Deng et al. 2024): training begins with all of the work, and the first
characters of it are left out, one more every few steps. In the end, the model copies the operands,
digit below digit, and writes the result row and the answer at once. The control `--at-once` leaves
out all of the work from the first step on.

A model with coordinates reads from them what it writes next. The coordinates are those of the whole
line; the characters that are left out are missing, but nothing else moves. The operands are copied
because no coordinate says which digit of the question a digit of the result needs. The model begins
with the weights of the checkpoint, without windows, and with two more layers that change nothing
yet.

Scores are shares of lines that greedy decoding writes exactly: in one pass, every character is the
most probable one after those before it.

Ran at commit 212e06a and before.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.measure import environment, write
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import Recipe
from calcgpt.data.batches import NO_LOSS, Batch, ProblemLines, micro_batches
from calcgpt.data.problems import FreshProblems
from calcgpt.data.sources import FreshData
from calcgpt.errors import UserError
from calcgpt.metrics import Scores
from calcgpt.model.base import LanguageModel
from calcgpt.tables import text_table
from calcgpt.training.environment import record_start
from calcgpt.training.loader import BatchLoader, MicroBatch, StepBatch
from calcgpt.training.optim import load_weights
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.stopping import Interrupted, StopRequest
from calcgpt.training.train import Trainer
from datagen.coordinates import COLUMN, KIND, NEXT_KIND, QUERY_COLUMN, QUERY_ROW, ROW
from datagen.progress import progress_bar
from datagen.slots import Kind
from research.sizes import all_shares
from tools.exactness import fresh_problems

N_NEW_LAYER = 2
LONGEST = 90  # no line of the blog's distribution has as much work between operands and result
RAMP = (0.1, 0.7)  # shares of the steps: work is taken away between them
SMOOTHING = 4.0  # Deng et al. 2024: k more characters with a probability near exp(-4k)
OPERANDS = tuple(
    kind for kind in Kind if kind.name.startswith(("A_", "B_")) and not kind.name.endswith("FIELD")
)
OWN = (KIND, ROW, COLUMN)
NEXT = (NEXT_KIND, QUERY_ROW, QUERY_COLUMN)
BATCH = 100  # lines scored at a time
SEED = 7  # of the problems that are scored


def n_removed(step: int, steps: int) -> int:
    """Returns how many characters of the work are left out at a step."""
    begin, end = (share * steps for share in RAMP)
    return round(LONGEST * min(1.0, max(0.0, (step - begin) / (end - begin))))


def shorten(
    batch: Batch, coordinates_BT6: torch.Tensor, removed_B: torch.Tensor
) -> tuple[Batch, torch.Tensor]:
    """Leaves out the first `removed_B` characters of the work of each line, but nothing of the
    operands, the result and the answer. Returns what is left of inputs and targets, (B, T), and
    coordinates, (B, T, 6)."""
    inputs_BT, targets_BT = batch
    T = inputs_BT.size(1)
    # The first character after the operands is a target at index `start`, and the mark of the
    # result is one at index `stop`.
    is_operand_BT = torch.isin(coordinates_BT6[..., NEXT_KIND], torch.tensor(OPERANDS))
    is_start_BT = (targets_BT != NO_LOSS) & ~is_operand_BT
    start_B1 = is_start_BT.int().argmax(1, keepdim=True)
    is_mark_BT = coordinates_BT6[..., NEXT_KIND] == Kind.RESULT_MARK
    stop_B1 = is_mark_BT.int().argmax(1, keepdim=True)
    n_B1 = torch.minimum(removed_B[:, None], stop_B1 - start_B1)
    index_T = torch.arange(T)
    # An input and its coordinates come before the target and the coordinates it looks for.
    own_BT = index_T + n_B1 * (index_T > start_B1)
    next_BT = index_T + n_B1 * (index_T >= start_B1)
    is_behind_BT = next_BT >= T
    own_BT, next_BT = own_BT.clamp(max=T - 1), next_BT.clamp(max=T - 1)
    targets = targets_BT.gather(1, next_BT).masked_fill(is_behind_BT, NO_LOSS)
    shortened = torch.empty_like(coordinates_BT6)
    for axes, source_BT in ((OWN, own_BT), (NEXT, next_BT)):
        source_BT3 = source_BT[..., None].expand(-1, -1, len(axes))
        shortened[..., axes] = coordinates_BT6[..., axes].gather(1, source_BT3)
    width = int(((targets != NO_LOSS) * (index_T + 1)).max())
    left = inputs_BT.gather(1, own_BT)[:, :width], targets[:, :width]
    return left, shortened[:, :width]


class ShorteningLoader(BatchLoader):
    """Loads batches with as much work as is left at each step."""

    at_once = False

    def n_removed(self, step: int) -> int:
        """Returns how many characters of the work are left out at a step."""
        return LONGEST if self.at_once else n_removed(step, self.config.steps)

    def _load(self, step: int) -> StepBatch:
        config, size = self.config, self.config.batch_size
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence((config.seed, step))))
        more_B = random.geometric(1 - np.exp(-SMOOTHING), size) - 1
        batch = self.batches.batch(step, size)
        coordinates_BT6 = self.model.text_features(batch[0])
        assert coordinates_BT6 is not None
        removed_B = torch.from_numpy(self.n_removed(step) + more_B)
        left, coordinates_BT6 = shorten(batch, coordinates_BT6, removed_B)
        parts: list[MicroBatch] = []
        # Rows of similar length share a micro-batch. Its inputs are row numbers here.
        numbered = torch.arange(size)[:, None].expand_as(left[1]), left[1]
        for rows_BT, targets in micro_batches(numbered, config.grad_accum):
            rows, width = rows_BT[:, 0], targets.size(1)
            parts.append(MicroBatch(left[0][rows, :width], targets, coordinates_BT6[rows, :width]))
        shapes = [(len(part.inputs), part.inputs.size(1)) for part in parts]
        return StepBatch(parts, int((left[1] != NO_LOSS).sum()), shapes)


class Internalizer(Trainer):
    """Trains on what is left of the work, and validates with as much."""

    def __init__(self, recipe: Recipe, run: RunFolder, start: Checkpoint, at_once: bool) -> None:
        assert recipe.data is not None
        data = FreshData(recipe.data, recipe.train.seed)
        super().__init__(recipe, data, run, torch.device("cpu"))
        self.loader: ShorteningLoader = ShorteningLoader(
            self.train_batches, self.config, self.model, self.group, self.device
        )
        self.loader.at_once = at_once
        self.held_out = data.problems.validation_problems(self.config.eval_problems)
        self.val_lines = ProblemLines(data.problems.render(self.held_out), self.tokenizer)
        with torch.no_grad():
            weights = dict(self.model.state_dict())
            for name in weights:
                if name.endswith(("attn.out.weight", "ff.down.weight")):
                    weights[name] = torch.zeros_like(weights[name])  # adds nothing to its input
            weights |= start.model.state_dict()  # but for the new layers, which come last
            load_weights(dict(self.model.named_parameters()), weights)

    @contextmanager
    def prefetching(self) -> Iterator[None]:
        with self.train_batches.prefetching(
            self.config.steps, self.config.batch_size, 1, self.group
        ):
            yield

    def validate(self, request: StopRequest) -> tuple[float, Scores | None] | None:
        step = self.counters.step
        removed = self.loader.n_removed(step)
        result = request.run_interruptible(lambda: score_lines(self.model, self.val_lines, removed))
        if result is None:
            return None
        loss, right = result
        shares = all_shares(self.held_out.op, right).items()
        text = ", ".join(f"{name} {share['exact_match']:.4f}" for name, share in shares)
        print(f"step {step}, {removed} left out: {text}", flush=True)
        return loss, None


@torch.no_grad()
def score_lines(
    model: LanguageModel, lines: ProblemLines, removed: int
) -> tuple[float, NDArray[np.bool_]]:
    """Returns the loss per character, and which of the lines, (n,), are written exactly when
    `removed` characters of their work are left out."""
    was_training = model.training
    model.eval()
    right = np.empty(len(lines), bool)
    loss, n_target = 0.0, 0
    for rows in np.array_split(np.argsort(lines.lengths), -(-len(lines) // BATCH)):
        batch = lines.batch(rows)
        features = model.text_features(batch[0])
        assert features is not None
        (inputs, targets), features = shorten(batch, features, torch.full((len(rows),), removed))
        logits_BTV = model(inputs, features=features)
        has_target = targets != NO_LOSS
        right[rows] = ((logits_BTV.argmax(-1) == targets) | ~has_target).all(1).numpy()
        loss += float(
            torch.nn.functional.cross_entropy(
                logits_BTV.flatten(0, 1), targets.flatten(), reduction="sum"
            )
        )
        n_target += int(has_target.sum())
    model.train(was_training)
    return loss / n_target, right


def recipe_of(start: Checkpoint, steps: int, seed: int) -> Recipe:
    """Returns the recipe of a run that begins with a checkpoint: the blog's problems, most of them
    products and quotients, whose steps are the longest."""
    recipe = start.recipe.model_dump()
    recipe["description"] = "Worked steps that are taken away in training."
    recipe["model"] |= {
        "n_layer": recipe["model"]["n_layer"] + N_NEW_LAYER,
        "row_window": None,
        "column_window": None,
    }
    recipe["data"] |= {
        "format": "scratchpad",
        "mixture": {"blog": 1.0},
        "operations": {"+": 0.4, "-": 0.4, "*": 1.6, "/": 1.6},
    }
    recipe["train"] |= {
        "batch_size": 64,
        "grad_accum": 2,
        "steps": steps,
        "seed": seed,
        "muon_lr": 4e-3,
        "lr": 1e-3,
        "ema_decay": 0.0,
        "compile": True,
        "eval_interval": max(1, steps // 20),
        "eval_problems": 1_000,
        "log_interval": max(1, steps // 100),
        "checkpoint_interval": max(1, steps // 20),
    }
    return Recipe.model_validate(recipe)


def train(options: argparse.Namespace) -> None:
    """Trains a run, or continues it."""
    run, start = RunFolder(options.out), Checkpoint.load(options.start)
    recipe = recipe_of(start, options.steps, options.seed)
    run.check_start(options.resume, recipe.train.checkpoint_interval)
    with run.locked():
        trainer = Internalizer(recipe, run, start, options.at_once)
        if options.resume and run.checkpoints():
            trainer.resume()
        record_start(
            run,
            recipe,
            data_sha256=trainer.data.fingerprint,
            device=trainer.device,
            step=trainer.counters.step,
            n_process=1,
        )
        print(f"the last checkpoint is {trainer.run()}")


def score(options: argparse.Namespace) -> None:
    """Scores runs on fresh test problems, without steps unless `--removed` says otherwise."""
    drawn = fresh_problems("blog", options.n, SEED)
    results: dict[str, Any] = {"n": options.n, "seed": SEED, "runs": {}}
    for folder in options.runs:
        checkpoint = Checkpoint.load(RunFolder(folder).checkpoints()[-1])
        assert checkpoint.recipe.data is not None
        text = FreshProblems(checkpoint.recipe.data, SEED).render(drawn)
        lines, model, by_removed = ProblemLines(text, checkpoint.tokenizer), checkpoint.model, {}
        with progress_bar(len(options.removed), desc=folder.name) as bar:
            for removed in options.removed:
                _, right = score_lines(model, lines, removed)
                by_removed[str(removed)] = all_shares(drawn.op, right)
                bar.update()
        results["runs"][folder.name] = {
            "parameters": model.n_parameters(),
            "step": checkpoint.metrics["step"],
            "exact_match": by_removed,
        }
    results["environment"] = environment(torch.device("cpu"), "numpy")
    write(options.json, results)
    print(table(results))


def table(results: dict[str, Any]) -> str:
    """Returns a table of the scores: a row for each run and number of characters left out."""
    rows = []
    for name, run in results["runs"].items():
        for removed, shares in run["exact_match"].items():
            cells = [f"{share['exact_match']:.4f}" for share in shares.values()]
            rows.append([name, removed, *cells])
    return text_table(["run", "left out", "all", "+", "-", "*", "/"], rows)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    commands = options.add_subparsers(required=True)
    command = commands.add_parser("train")
    command.add_argument("--start", type=Path, required=True)
    command.add_argument("--out", type=Path, required=True)
    command.add_argument("--at-once", action="store_true")
    command.add_argument("--steps", type=int, default=3_000)
    command.add_argument("--seed", type=int, default=42)
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--resume", action="store_true")
    command.set_defaults(run=train)
    command = commands.add_parser("score")
    command.add_argument("runs", type=Path, nargs="+")
    command.add_argument("--n", type=int, default=10_000)
    command.add_argument("--removed", type=int, nargs="+", default=[LONGEST])
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--json", type=Path)
    command.set_defaults(run=score)
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    try:
        arguments.run(arguments)
    except Interrupted as signal:
        sys.exit(f"{signal}; --resume continues")
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
