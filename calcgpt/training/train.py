"""The training loop: from a recipe and its data to checkpoints in a run folder.

Every process of a run goes through all of it; the main one alone writes and speaks.
Needs nothing beyond torch, numpy, pydantic, safetensors and tqdm. On CPU a resumed run is bit for
bit the run that was never interrupted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from tqdm import tqdm

from calcgpt.checkpoint import Checkpoint
from calcgpt.config import Recipe
from calcgpt.data.batches import NO_LOSS, Batch, micro_batches
from calcgpt.data.sources import TrainingData, training_data
from calcgpt.data.tokenizer import TOKENIZERS, Tokenizer
from calcgpt.errors import ConfigError, TrainingError
from calcgpt.evaluation.evaluate import evaluate
from calcgpt.metrics import cut_rows, read_scores, validation_row
from calcgpt.model.gpt import LanguageModel, build_model
from calcgpt.training.distributed import World, processes
from calcgpt.training.environment import record_start
from calcgpt.training.interruption import Interrupted, stop_requests
from calcgpt.training.optim import OPTIMIZERS, WeightAverage, Weights, load_weights, lr_factor
from calcgpt.training.resume import Counters, check_same_run, restore, training_tensors
from calcgpt.training.run_folder import TRAINING, RunFolder
from calcgpt.training.trackers import TrackerFactory, Trackers, trackers_of
from datagen.splits import Split

Forward = Callable[[torch.Tensor], torch.Tensor]


def train(
    recipe: Recipe,
    data: Path | None,
    out: Path,
    *,
    resume: bool = False,
    force: bool = False,
    device: str = "auto",
    progress: bool = True,
    trackers: Sequence[TrackerFactory] = (),
) -> Path:
    """Train to `recipe.train.steps`; returns the folder of the last checkpoint.

    `data` is a folder; None draws problems as the recipe's [data] section says.
    `resume` continues the newest checkpoint in `out` that loads, under the same recipe and data;
    `force` starts afresh where `out` holds a run. `trackers` are told the metrics beside the files
    of the run. Where several processes train together, each of them calls this.
    Raises UserError subclasses for what a person can mend, and Interrupted after SIGINT or SIGTERM,
    once the state is saved.
    """
    run = RunFolder(out)
    with processes() as world, ExitStack() as held:
        with world.together():
            if world.is_main and run.checkpoints() and not (resume or force):
                raise ConfigError(
                    f"{out} holds a run: --resume continues it, --force starts afresh"
                )
            chosen = pick_device(world.device_name(device))
            source = training_data(recipe, data)
            if world.is_main:
                held.enter_context(run.locked())
        # Raises before anything is removed.
        trainer = Trainer(recipe, source, run, chosen, world)
        if world.from_main(resume and bool(run.checkpoints())):
            trainer.resume()
        elif world.is_main:
            run.clear()
        if world.is_main:
            record_start(run, recipe, data_sha256=source.fingerprint, device=chosen,
                         step=trainer.counters.step, n_process=world.size)  # fmt: skip
        return trainer.run(progress, trackers)


def pick_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one, else the CPU; raises ConfigError for what is not here."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = str(error).splitlines()[0].split(". ")[0][:120]
        raise ConfigError(f"device {name!r} cannot be used: {reason}") from None
    return device


class Trainer:
    """One run in memory: model, optimizers, batches, counters."""

    def __init__(
        self,
        recipe: Recipe,
        data: TrainingData,
        run: RunFolder,
        device: torch.device,
        world: World | None = None,
    ) -> None:
        self.recipe, self.config, self.data, self.folder = recipe, recipe.train, data, run
        self.device, self.world = device, world or World()
        block_size = recipe.model.block_size
        with self.world.together():
            self.world.check(self.config)
            torch.manual_seed(self.config.seed)
            self.tokenizer = _tokenizer(recipe, data)
            self.model = build_model(recipe.model, len(self.tokenizer)).to(device)
            self.train_batches, self.val_batches = (
                data.batches(split, self.tokenizer, self.config, block_size)
                for split in (Split.TRAIN, Split.VAL)
            )
        self.shared = self.world.share_model(self.model, self.config.parallel, device)
        self.forward: Forward = self.shared.forward
        if self.config.compile:
            self.forward = torch.compile(self.forward)
        self.optimizers = OPTIMIZERS[self.config.optimizer](self.model, self.config)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["peak_lr"] = group["lr"]
        decay = self.config.ema_decay
        self.average = WeightAverage(self.model, decay) if decay else None
        self.counters = Counters()
        bf16 = self.config.precision == "bf16" or (
            self.config.precision == "auto" and device.type == "cuda"
        )
        self.autocast = torch.autocast(device.type, torch.bfloat16, enabled=bf16)

    def run(self, progress: bool = True, trackers: Sequence[TrackerFactory] = ()) -> Path:
        """The loop; returns the last checkpoint's folder."""
        config, counters, world = self.config, self.counters, self.world
        show = progress and world.is_main
        bar = tqdm(total=config.steps, initial=counters.step, unit="step", disable=not show)
        signum = 0
        with ExitStack() as held:
            with world.together():  # a tracker may fail to open
                log = held.enter_context(self._log(trackers))
            request = held.enter_context(stop_requests(insistent=world.size == 1))
            held.enter_context(bar)
            clock = _Clock()
            while counters.step < config.steps and not signum:
                loss, tokens = self._step()
                clock.add(loss, tokens)
                counters.step += 1
                counters.tokens += tokens
                bar.update()
                signum = world.highest(request.signum)  # it reaches processes at different times
                last = counters.step == config.steps
                save = counters.step % config.checkpoint_interval == 0 or last or signum != 0
                if counters.step % config.log_interval == 0 or save:  # no NaN is ever saved
                    row = clock.row(counters, world)
                    if not math.isfinite(row["loss"]):
                        raise TrainingError(
                            f"the loss is {row['loss']} at step {counters.step}: a lower learning "
                            f"rate may help; the last checkpoint is from before"
                        )
                    log.write({**row, "lr": config.lr * lr_factor(config, counters.step - 1)})
                    bar.set_postfix_str(f"loss {row['loss']:.4f}, {row['tokens_per_s']:,.0f} tok/s")
                metrics: dict[str, Any] = {}
                with clock.paused():
                    if counters.step % config.eval_interval == 0 or last:
                        metrics = self.validate()
                        log.write(_validation_row(counters.step, metrics))
                    if save:
                        self.save(metrics)
            world.wait()  # for what the main process writes: the end of one may be the end of all
        if signum and counters.step < config.steps:
            raise Interrupted(signum, counters.step)
        return self.folder.step_folder(counters.step)

    def _log(self, trackers: Sequence[TrackerFactory]) -> AbstractContextManager[Trackers]:
        """Where rows go: in the main process alone."""
        if self.world.is_main:
            return trackers_of(self.folder, self.recipe, trackers)
        return nullcontext(Trackers([]))

    def _step(self) -> tuple[torch.Tensor, int]:
        """One optimizer step; returns this process's part of the mean loss, still on the device,
        and the tokens of all processes."""
        config, step, world = self.config, self.counters.step, self.world
        world.seed(config.seed, step)
        factor = lr_factor(config, step)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak_lr"] * factor
        batch = self.train_batches.batch(step, config.batch_size)
        # The mean is over the whole batch: micro-batches may carry unlike numbers of targets.
        n_targets = int((batch[1] != NO_LOSS).sum())
        total = torch.zeros((), device=self.device)
        parts, own = world.micro_batches(batch, config.grad_accum)
        for number, part in enumerate(own, start=1):
            with nullcontext() if number == len(own) else self.shared.accumulating():
                loss = self._loss_sum(self.forward, part) / n_targets
                # The gradients' mean over the processes is to be the sum of their parts.
                (loss * world.size).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        if config.grad_clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.grad_clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if self.average:
            self.average.update(step)
        return total, sum(inputs.numel() for inputs, _ in parts)

    def _loss_sum(self, forward: Forward, batch: Batch) -> torch.Tensor:
        inputs, targets = (tensor.to(self.device, non_blocking=True) for tensor in batch)
        with self.autocast:
            logits_BTV = forward(inputs)
        return F.cross_entropy(logits_BTV.flatten(0, 1).float(), targets.flatten(), reduction="sum")

    @contextmanager
    def _kept(self) -> Iterator[tuple[LanguageModel, Weights]]:
        """The whole model with the weights that are to be kept; and the others, if there are."""
        averaged = self.average.applied() if self.average else nullcontext(Weights())
        with averaged as raw:
            yield self.shared.whole(), raw

    def validate(self) -> dict[str, Any]:
        """Loss on the validation split, and, where it holds problems, greedy scores."""
        with torch.no_grad(), self._kept() as (model, _):
            return self._validate(model)

    def _validate(self, model: LanguageModel) -> dict[str, Any]:
        model.eval()
        forward = self.forward if self.world.size == 1 else model  # which may be compiled
        loss, n_targets = 0.0, 0
        for index in range(self.config.eval_batches):
            batch = self.val_batches.batch(index, self.config.batch_size)
            parts = micro_batches(batch, self.config.grad_accum)
            loss += sum(float(self._loss_sum(forward, part)) for part in parts)
            n_targets += int((batch[1] != NO_LOSS).sum())
        metrics: dict[str, Any] = {"val_loss": loss / n_targets}
        count = self.config.eval_problems
        if count and (lines := self.data.validation_problems(count)):
            scores = evaluate(model, self.tokenizer, lines).scores
            metrics["validation"] = {**scores.model_dump(), "temperature": 0.0}
        model.train()
        return metrics

    def save(self, metrics: dict[str, Any]) -> None:
        """Write the checkpoint of this step, then remove those no longer needed."""
        everything = {
            "parameters": self.model.n_parameters(),
            **self.counters.as_json(),
            "data_sha256": self.data.fingerprint,
            **metrics,
        }
        folder = self.folder.step_folder(self.counters.step)
        with self._kept() as (model, raw):
            tensors = training_tensors(self.optimizers, self.device, raw)
            if self.world.is_main:
                Checkpoint(folder.name, self.recipe, self.tokenizer, model, everything).save(
                    folder, extra={TRAINING: tensors}
                )
                self.folder.prune()

    def resume(self) -> None:
        """Take up the newest checkpoint that loads."""
        with self.world.together():
            found = self.folder.last_good() if self.world.is_main else None
        folder = self.world.from_main(found)
        with self.world.together():
            saved = Checkpoint.load(folder)
            check_same_run(self.recipe, self.data.fingerprint, saved)
            if saved.tokenizer.to_json() != self.tokenizer.to_json():
                raise ConfigError("cannot resume: the run was begun with another vocabulary")
        load_weights(dict(self.model.named_parameters()), dict(saved.model.named_parameters()))
        raw = restore(folder, self.optimizers, self.device)
        if self.average:
            self.average.resume(raw)
        self.counters = Counters.from_json(saved.metrics)
        if self.world.is_main:
            cut_rows(self.folder.metrics_path, self.counters.step)


class _Clock:
    """Mean loss and speed since the last row; time spent on validation and saving left out."""

    def __init__(self) -> None:
        self._restart()

    def _restart(self) -> None:
        self.losses: list[torch.Tensor] = []
        self.tokens = 0
        self.since = time.perf_counter()

    def add(self, loss: torch.Tensor, tokens: int) -> None:
        self.losses.append(loss)
        self.tokens += tokens

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens meanwhile is not training."""
        stopped = time.perf_counter()
        yield
        self.since += time.perf_counter() - stopped

    def row(self, counters: Counters, world: World) -> dict[str, Any]:
        loss = world.sum(torch.stack(self.losses).mean())  # waits for the device: before the clock
        seconds = time.perf_counter() - self.since
        counters.seconds += seconds
        row = {
            "step": counters.step,
            "tokens": counters.tokens,
            "seconds": round(counters.seconds, 3),
            "loss": loss,
            "tokens_per_s": round(self.tokens / seconds, 1),
        }
        self._restart()
        return row


def _tokenizer(recipe: Recipe, data: TrainingData) -> Tokenizer:
    try:
        tokenizer = TOKENIZERS[recipe.tokenizer](data.train_text, recipe.vocab_size)
    except ValueError as error:  # of a text that is not there
        raise ConfigError(f"tokenizer {recipe.tokenizer!r} needs a data folder: {error}") from None
    scores = recipe.train.eval_problems and data.validation_problems(1)
    if scores and not tokenizer.one_a_character:  # said now, not at the first validation
        raise ConfigError(
            f"problems are scored by characters, which tokenizer {recipe.tokenizer!r} joins: "
            f"train.eval_problems must be 0"
        )
    return tokenizer


def _validation_row(step: int, metrics: dict[str, Any]) -> dict[str, Any]:
    scores = read_scores(metrics, "validation", "metrics") if "validation" in metrics else None
    return validation_row(step, metrics["val_loss"], scores)
