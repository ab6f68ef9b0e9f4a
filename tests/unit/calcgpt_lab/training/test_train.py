"""Training in this process. tests/e2e has the tests that kill real processes."""

import math
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file
from small_runs import (
    CPU,
    FRESH,
    NO_ANSWERS,
    assert_same,
    assert_same_state,
    recipe,
    rows,
    run,
    weights,
)

from calcgpt.base.errors import ConfigError, DataError
from calcgpt.checkpoint import Checkpoint
from calcgpt_lab.data.batches import NO_LOSS
from calcgpt_lab.data.sources import DataFolder, training_data
from calcgpt_lab.data.task import Task
from calcgpt_lab.data.tokenizers import TOKENIZERS
from calcgpt_lab.model.gpt import compiled
from calcgpt_lab.model.parameters import count
from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.records import TrainingError
from calcgpt_lab.training.environment import read_starts
from calcgpt_lab.training.run_folder import RunFolder
from calcgpt_lab.training.train import Trainer, train
from datagen.notation import WORK_ALPHABET
from datagen.splits import Split


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
    assert metrics["validation"]["n"] == 4
    assert metrics["data_sha256"] == DataFolder.load(data).fingerprint
    [start] = read_starts(tmp_path)
    assert metrics["trained"] == {
        **(start["git"] or {}),
        "seed": start["seed"],
        "device": start["device_name"],
    }


def test_a_compiled_run_is_one_graph_and_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With cases that Python finds in the text before the graph."""
    graphs: list[torch.fx.GraphModule] = []

    def count(graph: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(graph)
        return graph.forward  # the same bits

    monkeypatch.setattr(
        "calcgpt_lab.training.train.compiled",
        lambda *arguments, **options: compiled(*arguments, **options, backend=count),
    )
    sets = ["model.architecture=sources", f"model.characters={WORK_ALPHABET}"]
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
    with torch.no_grad(), trainer.final.applied():
        validated = trainer.validate()
    assert validated[0] == saved.metrics["val_loss"]
    assert_same(dict(trainer.model.named_parameters()), weights(plain))
    trainer.model.load_state_dict(saved.model.state_dict())
    with torch.no_grad():
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
    assert loaded.metrics["validation"]["n"] == 4
    with pytest.raises(ConfigError, match="started on other data"):
        steps(15, Task(lambda random: double(random) + "0"), tmp_path / "half", resume=True)


def test_a_run_without_files_is_scored_on_held_out_problems(tmp_path: Path) -> None:
    last = run(None, tmp_path, *FRESH)
    metrics = Checkpoint.load(last).metrics
    assert metrics["validation"]["n"] == 4
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
    runs = (
        run(None, tmp_path / str(n), *FRESH, NO_ANSWERS, f"train.grad_accum={n}") for n in (1, 8)
    )
    tokens = [Checkpoint.load(last).metrics["tokens"] for last in runs]
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
    with pytest.raises(DataError, match=r"cannot read .*nowhere: No such file"):
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
    *(3.3570321, 3.3448839, 3.3502779, 3.2981780, 3.2255013, 3.1028657, 2.9445984),
    *(2.7497356, 2.7964544, 2.6697955, 2.6647296, 2.5441473, 2.6066041, 2.5037971),
    *(2.3395121, 2.4429262, 2.4036756, 2.5016100, 2.4916439, 2.4842792),
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


def test_a_run_that_diverges_stops_before_it_saves(data: Path, tmp_path: Path) -> None:
    diverging = ("train.lr=1e30", "train.grad_clip=0.0", "train.warmup_steps=0")
    with pytest.raises(TrainingError, match="the loss is nan at step") as caught:
        run(data, tmp_path, *diverging)
    assert str(caught.value).endswith("there is no checkpoint yet: --force starts the run again")
    assert RunFolder(tmp_path).checkpoints() == []


def test_a_run_that_diverges_names_its_newest_checkpoint(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path, NO_ANSWERS, "train.schedule=constant", "train.steps=5")
    chosen = recipe(NO_ANSWERS, "train.schedule=constant")
    trainer = Trainer(chosen, training_data(chosen, data), RunFolder(tmp_path), CPU)
    trainer.resume()
    with torch.no_grad():
        trainer.parameters[0].fill_(math.nan)
    with pytest.raises(TrainingError, match=r"the newest checkpoint is .*/step-00000005$"):
        trainer.run(progress=False)


def test_the_first_line_says_what_is_trained(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = recipe(NO_ANSWERS, "train.steps=2")
    last = train(chosen, data, tmp_path / "loud")
    train(chosen, data, tmp_path / "quiet", progress=False)
    parameters = Checkpoint.load(last).n_parameters
    said = f"{parameters:,} parameters, 21 tokens; {data}; 2 steps of 8 sequences"
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == said
    assert lines.count(said) == 1


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
