"""Training in this process. tests/e2e has the tests that kill real processes."""

import json
import logging
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import safetensors.numpy
import safetensors.torch
import torch
from safetensors.torch import load_file

from calcgpt.checkpoint import Checkpoint
from calcgpt.config import Recipe
from calcgpt.data import sources
from calcgpt.data.batches import NO_LOSS
from calcgpt.data.sources import DataFolder, training_data
from calcgpt.data.task import Task
from calcgpt.data.tokenizer import TOKENIZERS
from calcgpt.errors import CheckpointError, ConfigError, DataError, TrainingError
from calcgpt.model.gpt import compiled
from calcgpt.model.parameters import count
from calcgpt.recipe import load_recipe
from calcgpt.training import train as training_module
from calcgpt.training.environment import read_starts
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.train import Trainer, train
from datagen.dataset import DatasetPlan, generate
from datagen.files import sha256
from datagen.notation import WORK_ALPHABET
from datagen.splits import Split

CPU = torch.device("cpu")
SMALL = (
    "model.n_layer=1",
    "model.n_embd=16",
    "model.n_head=2",
    "train.batch_size=8",
    "train.steps=20",
    "train.eval_batches=2",
    "train.eval_problems=20",
    "train.warmup_steps=4",
    "train.eval_interval=10",
    "train.checkpoint_interval=5",
    "train.log_interval=5",
)
FRESH = (
    "tokenizer=scratchpad",
    "model.block_size=256",
    "data.mixture.blog=2",
    "data.mixture.calculator=1",
)


def recipe(*overrides: str) -> Recipe:
    return load_recipe("nano", (*SMALL, *overrides))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    generate(folder, DatasetPlan(train=500, val=50, test=50, seed=1), progress=False)
    return folder


def run(data: Path | None, out: Path, *overrides: str, **options: bool) -> Path:
    return train(recipe(*overrides), data, out, progress=False, **options)


def rows(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    # Copies: the tensors of load_file are a view of the file.
    return {k: v.clone() for k, v in load_file(folder / "model.safetensors").items()}


def assert_same(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name in actual:
        assert torch.equal(actual[name], expected[name]), name


def test_a_run_learns_and_writes_its_files(data: Path, tmp_path: Path) -> None:
    last = run(data, tmp_path, "train.steps=60", "train.lr=1e-2")
    losses = [row["loss"] for row in rows(tmp_path) if "loss" in row]
    assert losses[-1] < 0.8 * losses[0]
    assert [row["step"] for row in rows(tmp_path) if "val_loss" in row] == [10, 20, 30, 40, 50, 60]
    assert last.name == "step-00000060"
    checkpoints = RunFolder(tmp_path).checkpoints()
    assert checkpoints[-2:] == [tmp_path / "step-00000055", last]
    assert len(checkpoints) <= 3  # the last two and the best
    metrics = Checkpoint.load(last).metrics
    assert metrics["step"] == 60
    assert metrics["tokens"] == 60 * 8 * 35
    assert metrics["validation"]["n"] == 20
    assert metrics["data_sha256"] == DataFolder.load(data).fingerprint
    [start] = read_starts(tmp_path)
    assert metrics["trained"] == {
        **(start.git.model_dump() if start.git else {}),
        "seed": start.seed,
        "device": start.device_name,
    }


def test_tensorboard_is_written_if_it_is_installed(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra `lab` is not installed")
    run(data, tmp_path, "train.steps=5")
    [events] = (tmp_path / "tensorboard").iterdir()
    assert b"val_loss" in events.read_bytes()


@pytest.mark.parametrize(
    "overrides",
    [
        ("train.batches=stream", "model.block_size=32"),
        ("model.dropout=0.2",),
        ("train.optimizer=muon",),
        ("train.grad_accum=2", "train.schedule=cosine"),
        ("model.tie_embeddings=true", "model.head_bias=false"),
        ("train.ema_decay=0.9", "model.tie_embeddings=true", "model.head_bias=false"),
    ],
)
def test_resuming_gives_the_same_bits(data: Path, tmp_path: Path, overrides: tuple[str]) -> None:
    whole = run(data, tmp_path / "whole", *overrides)
    half = tmp_path / "half"
    stop_after_ten_steps(data, half, *overrides)
    resumed = run(data, half, *overrides, resume=True)
    assert_same_state(resumed, whole)


NO_ANSWERS = "train.eval_problems=0"  # an untrained model writes slow answers


@pytest.mark.parametrize(
    "overrides", [(), ("train.grad_accum=2", NO_ANSWERS), ("train.steps=40", NO_ANSWERS)]
)
def test_resuming_without_files_gives_the_same_bits(
    tmp_path: Path, overrides: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A block serves twelve steps: the tenth is in the middle of one.
    monkeypatch.setattr(sources, "BLOCK_SIZE", 100)
    whole = run(None, tmp_path / "whole", *FRESH, *overrides)
    stop_after_ten_steps(None, tmp_path / "half", *FRESH, *overrides)
    resumed = run(None, tmp_path / "half", *FRESH, *overrides, resume=True)
    assert_same_state(resumed, whole)


def test_a_compiled_run_is_one_graph_and_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With positions that Python computes from the text before the graph, and a mask of rows."""
    graphs: list[torch.fx.GraphModule] = []

    def count(graph: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(graph)
        return graph.forward  # the same bits

    monkeypatch.setattr(
        "calcgpt.training.train.compiled",
        lambda *arguments, **options: compiled(*arguments, **options, backend=count),
    )
    rows_of_text = ("position=coordinates", "row_window=1", "place_offset=3", "qk_norm=true")
    sets = [*(f"model.{field}" for field in rows_of_text), f"model.characters={WORK_ALPHABET}"]
    sets += ["train.steps=4", "train.eval_batches=1", NO_ANSWERS]
    torch._dynamo.reset()
    eager, same = (
        run(None, tmp_path / value, *FRESH, *sets, f"train.compile={value}")
        for value in ("false", "true")
    )
    assert len(graphs) == 2  # in training and in validation, for all widths of batches
    assert_same(weights(same), weights(eager))


def test_an_average_of_the_weights_is_kept_and_validated(data: Path, tmp_path: Path) -> None:
    plain = run(data, tmp_path / "plain")
    averaged = run(data, tmp_path / "averaged", "train.ema_decay=0.9")
    # The weights that are trained are those of the run without an average.
    raw = load_file(averaged / "training.safetensors")
    assert_same({n[8:]: t for n, t in raw.items() if n.startswith("weights.")}, weights(plain))
    assert all(
        not torch.equal(tensor, weights(plain)[name]) for name, tensor in weights(averaged).items()
    )
    chosen = recipe("train.ema_decay=0.9")
    trainer = Trainer(chosen, training_data(chosen, data), RunFolder(averaged.parent), CPU)
    trainer.resume()
    saved = Checkpoint.load(averaged)
    validated = trainer.validate()
    assert validated[0] == saved.metrics["val_loss"]
    assert_same(dict(trainer.model.named_parameters()), weights(plain))
    trainer.average = None  # the same numbers without averaging, from the weights as saved
    trainer.model.load_state_dict(saved.model.state_dict())
    assert trainer.validate() == validated


def double(random: Random) -> str:
    number = random.randrange(1000)
    return f"twice {number}={2 * number}"


def test_a_task_of_ones_own_is_trained_scored_and_resumed(tmp_path: Path) -> None:
    def steps(count: int, task: Task, out: Path, **options: bool) -> Path:
        constant = ("train.schedule=constant", f"train.steps={count}")
        return train(recipe(*constant), task, out, progress=False, **options)

    whole = steps(10, Task(double), tmp_path / "whole")
    steps(5, Task(double), tmp_path / "half")
    torch.manual_seed(999)  # must have no effect on the resumed run
    resumed = steps(10, Task(double), tmp_path / "half", resume=True)
    assert_same_state(resumed, whole)
    loaded = Checkpoint.load(resumed)
    assert loaded.tokenizer.decode(range(len(loaded.tokenizer))) == " $0123456789=ceitw"
    assert loaded.metrics["validation"]["n"] == 20
    with pytest.raises(ConfigError, match="begun on other data"):
        steps(15, Task(lambda random: double(random) + "0"), tmp_path / "half", resume=True)


def stop_after_ten_steps(data: Path | None, out: Path, *overrides: str) -> None:
    chosen = recipe(*overrides)
    trainer = Trainer(chosen, training_data(chosen, data), RunFolder(out), CPU)
    out.mkdir()
    for _ in range(10):
        trainer.train_step()
    trainer.save({})
    torch.manual_seed(999)  # must have no effect on the resumed run


def assert_same_state(actual: Path, expected: Path) -> None:
    for name in ("model.safetensors", "training.safetensors"):
        assert_same(load_file(actual / name), load_file(expected / name))


def test_a_run_without_files_is_scored_on_held_out_problems(tmp_path: Path) -> None:
    last = run(None, tmp_path, *FRESH)
    metrics = Checkpoint.load(last).metrics
    assert metrics["validation"]["n"] == 20
    assert metrics["val_loss"] > 0
    assert metrics["data_sha256"] == training_data(recipe(*FRESH), None).fingerprint
    with pytest.raises(ConfigError, match="other data"):
        run(None, tmp_path, *FRESH, "data.mixture.calculator=2", resume=True)
    with pytest.raises(ConfigError, match=r"train\.seed is 7"):
        run(None, tmp_path, *FRESH, "train.seed=7", resume=True)


def test_without_files_a_recipe_needs_data_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the recipe has no \[data\] section"):
        run(None, tmp_path / "run")
    with pytest.raises(ConfigError, match="tokenizer 'chars' needs a data folder"):
        run(None, tmp_path / "run", *FRESH, "tokenizer=chars")
    assert not list(tmp_path.glob("run/step-*"))


def test_tokens_count_what_was_processed(tmp_path: Path) -> None:
    tokens = [
        Checkpoint.load(
            run(None, tmp_path / str(parts), *FRESH, f"train.grad_accum={parts}")
        ).metrics["tokens"]
        for parts in (1, 8)
    ]
    source = training_data(recipe(*FRESH), None)
    batches = source.batches(Split.TRAIN, TOKENIZERS["scratchpad"](""), recipe().train, 256)
    targets = [batches.batch(step, 8)[1] for step in range(20)]
    assert tokens[0] == sum(rows.numel() for rows in targets)
    ends = [(row != NO_LOSS).nonzero().max() + 1 for rows in targets for row in rows]
    assert tokens[1] == sum(ends) < tokens[0]  # one row a part: no padding at all


@pytest.mark.parametrize("worked", [False, True])
def test_micro_batches_add_up_to_the_whole_batch(data: Path, tmp_path: Path, worked: bool) -> None:
    gradients = []
    for accumulate in (1, 4):
        chosen = recipe(
            f"train.grad_accum={accumulate}", "train.optimizer=adamw", *(FRESH if worked else ())
        )
        source = training_data(chosen, None if worked else data)
        trainer = Trainer(chosen, source, RunFolder(tmp_path), CPU)
        for optimizer in trainer.optimizers:  # keep the gradients: no step, no reset
            optimizer.step = optimizer.zero_grad = lambda *a, **k: None  # type: ignore[method-assign]
        loss = trainer.train_step()
        gradients.append((loss, [p.grad for p in trainer.model.parameters()]))
    (loss1, whole), (loss4, summed) = gradients
    torch.testing.assert_close(loss1, loss4)
    torch.testing.assert_close(whole, summed)


@pytest.mark.parametrize("file", ["model.safetensors", "training.safetensors"])
def test_resume_skips_a_damaged_checkpoint(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, file: str
) -> None:
    whole = run(data, tmp_path)
    expected = weights(whole)
    damaged = whole / file
    damaged.write_bytes(damaged.read_bytes()[:-10])
    assert RunFolder(tmp_path).load_last().folder == tmp_path / "step-00000015"
    resumed = run(data, tmp_path, resume=True)
    assert "skipped" in caplog.text
    assert_same(weights(resumed), expected)


@pytest.mark.parametrize(
    ("removed", "reported"),
    [
        ("rng.cpu", "rng.cpu"),
        ("weights.head.weight", "weights.head.weight"),
        ("optimizer.1.0.exp_avg", "optimizer.1.0.exp_avg"),
        ("optimizer.0.", "optimizer.0.0.*"),
    ],
)
def test_resume_names_a_tensor_that_is_missing(
    data: Path, tmp_path: Path, removed: str, reported: str
) -> None:
    settings = ("train.steps=5", "train.eval_problems=0", "train.ema_decay=0.9")
    folder = run(data, tmp_path, *settings, "train.optimizer=muon")
    path, config_path = folder / "training.safetensors", folder / "config.json"
    kept = {k: v.clone() for k, v in load_file(path).items() if not k.startswith(removed)}
    safetensors.torch.save_file(kept, path)
    config = json.loads(config_path.read_text())
    config["sha256"][path.name] = sha256(path)
    config_path.write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=re.escape(f"{path}: tensor '{reported}' is missing")):
        run(data, tmp_path, *settings, "train.optimizer=muon", resume=True)


def test_what_is_saved_after_a_damaged_checkpoint_was_skipped_is_kept(
    data: Path, tmp_path: Path
) -> None:
    """Two damaged checkpoints count as the last ones until the run has come to their steps."""
    last = run(data, tmp_path)
    shutil.copytree(last, tmp_path / "step-00000025")
    last.rename(tmp_path / "step-00000030")
    for name in ("step-00000025", "step-00000030"):
        (tmp_path / name / "config.json").write_text("{}")
    trainer = Trainer(recipe(), training_data(recipe(), data), RunFolder(tmp_path), CPU)
    trainer.resume()
    trainer.train_step()
    trainer.save({})
    assert RunFolder(tmp_path).load_last().folder.name == "step-00000016"


def test_a_folder_of_the_users_own_is_no_checkpoint(data: Path, tmp_path: Path) -> None:
    own = tmp_path / "step-best-one"
    own.mkdir()
    run(data, tmp_path, "train.eval_problems=0")
    assert own.is_dir()
    run(data, tmp_path, "train.eval_problems=0", force=True)
    assert own.is_dir()


def test_a_resumed_run_loads_each_file_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constant = "train.schedule=constant"  # so that the run can be made longer
    run(data, tmp_path, constant)
    loaded: list[Path] = []
    for library in (safetensors.numpy, safetensors.torch):

        def load(path: Path, read: Callable[[Path], Any] = library.load_file) -> Any:
            loaded.append(path)
            return read(path)

        monkeypatch.setattr(library, "load_file", load)
    run(data, tmp_path, constant, "train.steps=25", resume=True)
    assert [path.name for path in loaded] == ["model.safetensors", "training.safetensors"]


def test_resume_cuts_the_metrics_after_the_checkpoint(data: Path, tmp_path: Path) -> None:
    last = run(data, tmp_path)
    before = rows(tmp_path)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 25, "loss": 1.0}\n{"step": 3')  # the last line cut off by a kill
    run(data, tmp_path, resume=True)
    assert rows(tmp_path) == before
    assert last.is_dir()


def test_nothing_is_overwritten_without_force(data: Path, tmp_path: Path) -> None:
    last = run(data, tmp_path)
    stamp = last.stat().st_mtime_ns
    with pytest.raises(ConfigError, match="holds a run"):
        run(data, tmp_path)
    assert last.stat().st_mtime_ns == stamp
    run(data, tmp_path, "train.steps=5", force=True)
    assert [folder.name for folder in RunFolder(tmp_path).checkpoints()] == ["step-00000005"]


def test_a_run_that_ends_while_another_one_reads_its_data_is_kept(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, settings = training_module.training_data, ("train.steps=5", "train.eval_problems=0")

    def read_slowly(*arguments: Any) -> Any:
        monkeypatch.undo()
        run(data, tmp_path, *settings)
        return read(*arguments)

    monkeypatch.setattr(training_module, "training_data", read_slowly)
    with pytest.raises(ConfigError, match="holds a run: --resume continues it"):
        run(data, tmp_path, *settings)
    assert RunFolder(tmp_path).load_last().folder == tmp_path / "step-00000005"


def test_resume_refuses_another_run(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "run")
    with pytest.raises(ConfigError, match=r"train\.lr is 0\.5, the run was begun with"):
        run(data, tmp_path / "run", "train.lr=0.5", resume=True)
    with pytest.raises(ConfigError, match=r"model\.position is 'none'"):
        run(data, tmp_path / "run", "model.position=none", resume=True)
    with pytest.raises(ConfigError, match=r"train.steps is 25, .* of its schedule, 'linear'"):
        run(data, tmp_path / "run", "train.steps=25", resume=True)
    generate(tmp_path / "data", DatasetPlan(500, 50, 50, seed=2), progress=False)
    with pytest.raises(ConfigError, match="other data"):
        run(tmp_path / "data", tmp_path / "run", resume=True)


def test_resume_with_no_checkpoint_that_loads_says_so(data: Path, tmp_path: Path) -> None:
    (tmp_path / "step-00000005").mkdir()
    with pytest.raises(CheckpointError, match="nothing to resume"):
        run(data, tmp_path, resume=True)


def test_two_runs_do_not_share_a_folder(data: Path, tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path).locked(),
        pytest.raises(ConfigError, match="another process is training"),
    ):
        run(data, tmp_path)


def test_only_the_validation_file_is_evaluated(data: Path, tmp_path: Path) -> None:
    partial = tmp_path / "data"
    partial.mkdir()
    for name in ("train.txt", "val.txt", "manifest.json"):
        (partial / name).write_bytes((data / name).read_bytes())
    assert run(partial, tmp_path / "run").is_dir()  # without a test.txt


def test_plain_text_trains_without_problems(tmp_path: Path) -> None:
    for name in ("train.txt", "val.txt"):
        (tmp_path / name).write_text("to be or not to be\n" * 50)
    last = run(
        tmp_path,
        tmp_path / "run",
        "tokenizer=chars",
        "train.batches=stream",
        "train.join_lines=false",
        "model.block_size=16",
    )
    metrics = Checkpoint.load(last).metrics
    assert metrics["val_loss"] > 0
    assert "validation" not in metrics


def test_missing_data_and_devices_are_named(data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.txt"):
        run(tmp_path / "nowhere", tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(
        ConfigError, match="device 'warp9' cannot be used; valid names: auto, cuda:1"
    ):
        train(recipe(), data, tmp_path / "run", device="warp9")


def test_the_learning_rate_follows_the_schedule(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path, "train.lr=1e-3", "train.schedule=linear", "train.log_interval=1")
    rates = [row["lr"] for row in rows(tmp_path) if "lr" in row]
    assert rates[:4] == pytest.approx([0.25e-3, 0.5e-3, 0.75e-3, 1e-3])
    assert rates[4:] == pytest.approx([1e-3 * (1 - i / 16) for i in range(16)])


def test_twenty_seeded_steps_give_the_recorded_losses(data: Path, tmp_path: Path) -> None:
    """A golden curve: a change that was meant to change nothing must leave it as it is."""
    biases = ("model.attn_out_bias=true", "model.head_bias=true")
    run(data, tmp_path, *biases, "train.log_interval=1")
    losses = [row["loss"] for row in rows(tmp_path) if "loss" in row]
    assert losses == pytest.approx(GOLDEN, rel=1e-4)


GOLDEN = [
    3.3570321,
    3.3448839,
    3.3502779,
    3.2981780,
    3.2255013,
    3.1028657,
    2.9445984,
    2.7497356,
    2.7964544,
    2.6697955,
    2.6647296,
    2.5441473,
    2.6066041,
    2.5037971,
    2.3395121,
    2.4429262,
    2.4036756,
    2.5016100,
    2.4916439,
    2.4842792,
]


@pytest.mark.parametrize("name", ["llama-10m", "llama-100m"])
@pytest.mark.parametrize("text", [False, True])
def test_large_recipes_train_on_problems_and_on_text(
    data: Path, tmp_path: Path, name: str, text: bool
) -> None:
    n_parameter = sum(count(load_recipe(name).model, 27).values())
    assert n_parameter == pytest.approx({"llama-10m": 10e6, "llama-100m": 100e6}[name], rel=0.02)
    tiny = ("n_layer=1", "n_embd=24", "n_head=12", "n_kv_head=4", "ff_hidden=16", "block_size=256")
    of_text = ("tokenizer=chars", "train.batches=stream", "train.eval_problems=0")
    sets = [*(f"model.{field}" for field in tiny), *(of_text if text else ())]
    sets += ["train.batch_size=4", "train.eval_batches=1", "train.eval_problems=0", "train.steps=1"]
    train(load_recipe(name, sets), data if text else None, tmp_path, progress=False)
    row, _ = rows(tmp_path)
    assert row["loss"] > 1
    assert 0 < row["mfu"] < 1


def test_a_run_that_diverges_stops_before_it_saves(data: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="the loss is nan at step"):
        run(data, tmp_path, "train.lr=1e30", "train.grad_clip=0.0", "train.warmup_steps=0")
    assert RunFolder(tmp_path).checkpoints() == []


@pytest.mark.parametrize(
    ("interval", "reason"), [(1, "the validation loss is nan"), (10, "the sum of the weights is")]
)
def test_weights_that_diverge_in_the_step_of_a_checkpoint_are_not_saved(
    data: Path, tmp_path: Path, interval: int, reason: str
) -> None:
    """The loss of that step is still finite."""
    settings = ("train.lr=1e38", "train.grad_clip=0.0", "train.warmup_steps=0")
    intervals = ("train.checkpoint_interval=1", f"train.eval_interval={interval}")
    with pytest.raises(TrainingError, match=f"{reason}.* at step 1"):
        run(data, tmp_path, *settings, *intervals)
    assert RunFolder(tmp_path).checkpoints() == []
    assert [row["step"] for row in rows(tmp_path) if math.isfinite(row["loss"])] == [1]


def test_force_removes_nothing_if_the_new_run_cannot_begin(data: Path, tmp_path: Path) -> None:
    last = run(data, tmp_path)
    before = rows(tmp_path)
    with pytest.raises(DataError, match="does not fit in 10 tokens"):
        run(data, tmp_path, "model.block_size=10", force=True)
    assert last.is_dir()
    assert rows(tmp_path) == before


def run_without_checkpoints(data: Path, out: Path, *overrides: str) -> None:
    for folder in run(data, out, *overrides).parent.glob("step-*"):
        shutil.rmtree(folder)


def test_a_run_killed_before_its_first_checkpoint_begins_again(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_without_checkpoints(data, tmp_path, "train.steps=3")
    caplog.set_level(logging.INFO, logger="calcgpt.training")
    run(data, tmp_path, resume=True)
    assert [row["step"] for row in rows(tmp_path) if "loss" in row] == [5, 10, 15, 20]
    assert caplog.messages == [f"no checkpoint in {tmp_path}: a new run begins"]


def test_resume_keeps_the_metrics_of_a_run_whose_checkpoints_are_gone(
    data: Path, tmp_path: Path
) -> None:
    run_without_checkpoints(data, tmp_path)
    before = rows(tmp_path)
    with pytest.raises(ConfigError, match=r"holds metrics\.jsonl.*, but no checkpoint: --force"):
        run(data, tmp_path, resume=True)
    assert rows(tmp_path) == before


def test_an_empty_file_of_a_run_is_replaced(data: Path, tmp_path: Path) -> None:
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "metrics.jsonl").touch()  # a run that was killed at once
    run(data, tmp_path)
    assert rows(tmp_path)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["metrics.jsonl", "tensorboard/events"])
def test_files_of_others_are_replaced_with_force_only(
    data: Path, tmp_path: Path, name: str, resume: bool
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"step": 1}\n')
    with pytest.raises(ConfigError, match=f"holds {name.split('/')[0]}, but no checkpoint"):
        run(data, tmp_path, resume=resume)
    assert file.read_text() == '{"step": 1}\n'
    assert run(data, tmp_path, "train.steps=1", force=True).is_dir()
