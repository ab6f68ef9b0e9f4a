"""The training loop: from a recipe and its data to checkpoints in a run folder.

On a CPU, a resumed run gives bit for bit the result of an uninterrupted run.

Shapes: B sequences, T tokens, V tokens of the vocabulary.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

from calcgpt.base.errors import ConfigError, as_path, check_integer, check_items, check_types
from calcgpt.base.processes import usable_cores
from calcgpt.config import Recipe
from calcgpt.metrics import Scores
from calcgpt_lab.data.batches import has_loss, micro_batches
from calcgpt_lab.data.sources import (
    TrainingData,
    examples_of,
    for_task,
    tokenizer_for,
    training_data,
)
from calcgpt_lab.data.task import AnyTask, Task, TextTask
from calcgpt_lab.evaluation.evaluate import evaluate
from calcgpt_lab.evaluation.losses import count_cases, mean_loss
from calcgpt_lab.model.base import Loss, summed_loss
from calcgpt_lab.model.devices import full_precision, pick_device, to_device
from calcgpt_lab.model.gpt import build_model, compiled
from calcgpt_lab.model.stored import checkpoint_of, to_arrays
from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.records import cut_rows, validation_row
from calcgpt_lab.saving import save
from calcgpt_lab.training import optim
from calcgpt_lab.training.console import Console, first_answer
from calcgpt_lab.training.environment import provenance, read_starts, record_start
from calcgpt_lab.training.run_folder import TRAINING, Counters, RunFolder, random_states
from calcgpt_lab.training.speed import Clock, fastest_threads
from calcgpt_lab.training.stopping import Interrupted, StopRequest, stop_requests
from calcgpt_lab.training.trackers import TrackerFactory, Write, trackers_of
from datagen.splits import Split

# In training.safetensors: the prefix of the weights in training, if the checkpoint has an average.
_RAW = "weights."
STATE_BYTES = 16  # of a parameter: its value, two states of the optimizer, an average
MAX_THREADS = 1_024


class MicroBatch(NamedTuple):
    """Inputs and targets, each (B, T), the number of targets that count, and what the model parses
    from the inputs."""

    inputs: torch.Tensor
    targets: torch.Tensor
    n_target: int
    features: torch.Tensor | None


def train(
    recipe: Recipe | str | Path,
    data: str | Path | AnyTask | None,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    device: str = "auto",
    progress: bool = True,
    trackers: Sequence[TrackerFactory] = (),
    threads: int | None = None,
) -> Path:
    """Trains to `recipe.train.steps`. Returns the folder of the last checkpoint.

    `recipe` may be a name or a TOML file, as for `load_recipe`. `data` is a folder or your own
    task; None draws problems by the recipe's [data] section. `resume` continues the newest
    checkpoint in `out` that loads, with the same recipe and data, and begins a new run if there is
    none. `force` replaces a run in `out`; without it, no file of an earlier run is removed (see
    `RunFolder.check_start`). `trackers` receive the metrics in addition to the files of the run.
    `threads` are torch's on a CPU; None leaves their number as it is, and 0 is 1 or one for each
    core, whatever is faster.

    Raises subclasses of UserError for errors that a user can correct, and Interrupted after SIGINT
    or SIGTERM, once the state is saved.
    """
    check_types(recipe=(recipe, Recipe, str, Path), data=(data, str, Path, Task, TextTask, None))
    check_types(resume=(resume, bool), force=(force, bool), progress=(progress, bool))
    check_types(device=(device, str))
    check_items(trackers=(trackers, Callable))
    if threads is not None:
        check_integer("threads", threads, 0, MAX_THREADS)
    data, out = as_path("data", data) if isinstance(data, str) else data, as_path("out", out)
    recipe, run = recipe if isinstance(recipe, Recipe) else load_recipe(recipe), RunFolder(out)
    if isinstance(data, Path) and out.resolve() == data.resolve():
        raise ConfigError(f"{out} is the folder of the data: --out must be another one")
    torch_device = pick_device(device)
    if isinstance(data, AnyTask):
        recipe = for_task(recipe)
    source = training_data(recipe, data)
    with ExitStack() as stack:
        stack.enter_context(run.locked())
        if not force:
            run.check_start(resume, recipe.train.checkpoint_interval)
        trainer = Trainer(recipe, source, run, torch_device)  # raises before files go
        if resume and run.checkpoints():
            trainer.resume()
        else:
            run.clear(resume)
        if torch_device.type == "cpu" and threads is not None:
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(threads or trainer.threads())
        with run.explains_full_disk(STATE_BYTES * trainer.model.n_parameters()):
            trainer.announce(data, progress)
            return trainer.run(progress, trackers)


class Trainer:
    """One run in memory: model, optimizers, batches, counters."""

    def __init__(
        self, recipe: Recipe, data: TrainingData, run: RunFolder, device: torch.device
    ) -> None:
        self.recipe, self.config, self.data, self.folder = recipe, recipe.train, data, run
        self.device = device
        torch.manual_seed(self.config.seed)
        n_problem = self.config.eval_problems
        self.val_problems = (data.validation_problems(n_problem) if n_problem else None) or []
        self.tokenizer = tokenizer_for(recipe, data, self.val_problems)
        self.model = build_model(recipe.model, len(self.tokenizer)).to(device)
        self.train_batches, self.val_batches = (
            data.batches(split, self.tokenizer, self.config, recipe.model.block_size)
            for split in (Split.TRAIN, Split.VAL)
        )
        self.loss = summed_loss(self.model)
        if self.config.compile:
            self.loss = self._compiled(self.loss)
        self.parameters = list(self.model.parameters())  # listing them takes a while
        self.optimizers = optim.OPTIMIZERS[self.config.optimizer](self.model, self.config)
        for optimizer in self.optimizers:
            for param_group in optimizer.param_groups:
                param_group["peak_lr"] = param_group["lr"]
        self.final = optim.final_weights(self.model, self.config)
        self.counters = Counters()
        bf16 = self.config.precision == "bf16" or (
            self.config.precision == "auto" and device.type == "cuda"
        )
        self.autocast = torch.autocast(device.type, torch.bfloat16, enabled=bf16)
        if bf16 and device.type == "cuda":  # products in float32 may be rounded, too
            torch.set_float32_matmul_precision("high")
        self.clock = Clock()

    def _compiled(self, loss: Loss) -> Loss:
        """Returns the compiled loss. On a GPU, batches of one width replay CUDA graphs: a
        small model's kernels take less time than their launches. A graph overwrites the gradients
        of the one before, so there must be one micro-batch."""
        if not self.train_batches.one_width:
            return compiled(loss, self.model)
        replays = self.config.grad_accum == 1 and self.device.type == "cuda"
        mode = "reduce-overhead" if replays else None
        return compiled(loss, self.model, dynamic=None, mode=mode)

    def threads(self) -> int:
        """Returns with how many threads of torch a run on a CPU continues, or begins."""
        starts = read_starts(self.folder.path) if self.counters.step else []
        if starts:
            return int(starts[-1]["threads"])
        most = min(usable_cores(), torch.get_num_threads())  # OMP_NUM_THREADS limits torch's
        with torch.random.fork_rng(devices=[]):
            n_thread = fastest_threads(lambda: self._gradients(self.load(0)), most)
        self.model.zero_grad(set_to_none=True)
        return n_thread

    def announce(self, data: Path | AnyTask | None, progress: bool) -> None:
        """Records the start in the folder of the run. With `progress`, says what is trained, on
        which data and for how long, in one line."""
        step, steps = self.counters.step, self.config.steps
        record_start(self.folder, self.recipe, self.data.fingerprint, self.device, step)
        if not progress:
            return
        name = data.name if isinstance(data, AnyTask) else data or "fresh problems"
        size = f"{self.model.n_parameters():,} parameters, {len(self.tokenizer):,} tokens; {name}"
        later = f", continued after step {step:,}" if step else ""
        length = f"{steps:,} steps of {self.config.batch_size:,} sequences{later}"
        done = f"the run already has {step:,} steps"
        tqdm.write(f"{size}; {done if step >= steps else length}", file=sys.stderr)

    def run(self, progress: bool = True, trackers: Sequence[TrackerFactory] = ()) -> Path:
        """Trains to the last step, or to a signal. Returns the folder of the last checkpoint.
        Raises Interrupted after a signal."""
        counters, steps = self.counters, self.config.steps
        with ExitStack() as stack:
            log = stack.enter_context(trackers_of(self.folder, self.recipe, trackers))
            request = stack.enter_context(stop_requests())
            console = stack.enter_context(closing(Console(counters.step, steps, progress)))
            self.loop(log, request, console)
            if request.signum and counters.step < steps:
                raise Interrupted(request.signum, counters.step)
        return self.folder.step_folder(counters.step)

    def loop(self, log: Write, request: StopRequest, console: Console) -> None:
        """Trains, logs, validates and saves to the last step, or to a signal."""
        config, signum = self.config, 0
        while self.counters.step < config.steps and not signum:
            self.train_step()
            console.stepped()
            step, metrics = self.counters.step, {}
            is_last = step == config.steps
            saves = is_last or step % config.checkpoint_interval == 0
            if saves or request.signum or step % config.log_interval == 0:
                self._log_training(log, console)
            if is_last or step % config.eval_interval == 0:
                with self.clock.paused():
                    metrics = self._validation(log, console)
            signum = request.signum  # one that comes later ends the next step
            if saves or signum:
                self._log_training(log, console)  # NaN is noticed before it is saved
                with self.clock.paused():
                    self.save(metrics)

    def train_step(self) -> torch.Tensor:
        """Does one optimizer step. Returns the mean loss, a scalar."""
        config, step = self.config, self.counters.step
        factor = optim.lr_factor(config, step)
        for optimizer in self.optimizers:
            for param_group in optimizer.param_groups:
                param_group["lr"] = param_group["peak_lr"] * factor
        batch = self.load(step)
        with self.final.for_gradients():
            loss = self._gradients(batch)
        if config.grad_clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, config.grad_clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.final.update(step)
        n_token = sum(part.inputs.shape[:2].numel() for part in batch)
        self.clock.add(loss, n_token)
        self.counters.step += 1
        self.counters.tokens += n_token
        return loss

    def load(self, step: int) -> list[MicroBatch]:
        """Returns the micro-batches of a step."""
        batch = self.train_batches.batch(step, self.config.batch_size)
        loaded = []
        for inputs, targets in micro_batches(batch, self.config.grad_accum):
            features = self.model.text_features(inputs)
            part = MicroBatch(
                to_device(inputs, self.device),
                to_device(targets, self.device),
                int(has_loss(targets).sum()),
                features if features is None else to_device(features, self.device),
            )
            loaded.append(part)
        return loaded

    def _gradients(self, batch: Sequence[MicroBatch]) -> torch.Tensor:
        """Computes the gradients of a batch. Returns its mean loss."""
        # The loss is the mean over the whole batch: micro-batches may differ in targets.
        n_target = sum(part.n_target for part in batch)
        total = torch.zeros((), device=self.device)
        for part in batch:
            with self.autocast:
                loss = self.loss(part.inputs, part.targets, features=part.features) / n_target
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total

    def _log_training(self, log: Write, console: Console) -> None:
        """Writes a row about the steps since the last one, if there are any."""
        if not self.clock.losses:
            return
        config, step = self.config, self.counters.step
        row = self.clock.row(self.counters)
        self.folder.check_finite(row["loss"], "the loss", step)
        log({**row, "lr": config.lr * optim.lr_factor(config, step - 1)})
        console.trained(row)

    def _validation(self, log: Write, console: Console) -> dict[str, Any]:
        """Validates, writes a row and says it. Returns the metrics for the checkpoint."""
        step = self.counters.step
        with torch.no_grad(), self.final.applied():
            val_loss, scores, example = self.validate()
            self.folder.check_finite(val_loss, "the validation loss", step)
            cases = count_cases(self.model, self.train_batches)
        scored = {"validation": {**scores.model_dump(), "temperature": 0.0}} if scores else {}
        log(validation_row(step, val_loss, scores) | cases)
        console.validated(step, val_loss, scores, example, cases)
        return {"val_loss": val_loss, **scored, **cases}

    def validate(self) -> tuple[float, Scores | None, str]:
        """Returns the loss of the model as it is on the validation split and, if that holds
        problems, greedy scores and an answer."""
        model, config = self.model, self.config
        n_batch, size, n_parts = config.eval_batches, config.batch_size, config.grad_accum
        with self.autocast:
            loss = mean_loss(
                model, self.val_batches, n_batch, size, n_parts=n_parts, loss=self.loss
            )
        if not self.val_problems:
            return loss, None, ""
        with full_precision():  # answers are those of the saved weights
            evaluation = evaluate(model, self.tokenizer, self.val_problems)
        return loss, evaluation.scores, first_answer(evaluation)

    def save(self, metrics: dict[str, Any]) -> None:
        """Writes the checkpoint of this step, then removes checkpoints that are not kept."""
        metrics = {
            "parameters": self.model.n_parameters(),
            **asdict(self.counters),
            "data_sha256": self.data.fingerprint,
            "trained": provenance(self.config.seed, self.device),
            **metrics,
            **examples_of(self.data, self.val_problems),
        }
        folder = self.folder.step_folder(self.counters.step)
        with self.final.applied() as raw:
            # The loss of a step is that of the weights before it.
            weight_sum = sum(float(p.detach().abs().sum()) for p in self.parameters)
            self.folder.check_finite(weight_sum, "the sum of the weights", self.counters.step)
            tensors = random_states(self.device) | optim.optimizer_tensors(self.optimizers)
            tensors |= {f"{_RAW}{name}": value for name, value in raw.items()}
            tensors |= self.train_batches.state
            saved = checkpoint_of(folder.name, self.recipe, self.tokenizer, self.model, metrics)
            save(saved, folder, extra={TRAINING: to_arrays(tensors)})
            self.folder.prune(folder)

    def resume(self) -> None:
        """Continues the newest checkpoint that loads."""
        state = self.folder.load_last()
        state.check_same_run(self.recipe, self.data.fingerprint)
        if state.checkpoint.tokenizer.to_json() != self.tokenizer.to_json():
            raise ConfigError("cannot resume: the run started with another vocabulary")
        raw_weights = state.weights if self.final.differ else {}
        shapes = {f"{_RAW}{name}": weight.shape for name, weight in raw_weights.items()}
        shapes |= optim.state_shapes(self.optimizers, state.tensors)
        shapes |= {name: flags.shape for name, flags in self.train_batches.state.items()}
        state.check_tensors(shapes)
        self.counters = state.counters()
        state.restore_random_state(self.device)
        optim.load_weights(dict(self.model.named_parameters()), state.weights)
        optim.load_optimizer_tensors(self.optimizers, state.tensors)
        self.train_batches.state = {n: state.tensors[n] for n in self.train_batches.state}
        raw = {k.removeprefix(_RAW): v for k, v in state.tensors.items() if k.startswith(_RAW)}
        self.final.resume(raw)
        cut_rows(self.folder.metrics_path, self.counters.step)
