"""Parts of distributed training that need one process only; tests/e2e starts several."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import torch
from commands import RunCli

from calcgpt.base.errors import ConfigError, DataError, UserError
from calcgpt.config import TrainConfig
from calcgpt_lab.data.batches import NO_LOSS, micro_batches
from calcgpt_lab.records import TrainingError
from calcgpt_lab.training import distributed
from calcgpt_lab.training.distributed import (
    ProcessGroup,
    SingleProcess,
    launched_rank,
    process_group,
)


class FakeProcess(ProcessGroup):
    """One of several processes, without the others."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.world_size = rank, size


class FailingProcess(FakeProcess):
    """One of several processes with the same error."""

    @contextmanager
    def share_errors(self) -> Iterator[None]:
        try:
            yield
        except UserError as error:
            raise error if self.is_main else TrainingError(f"process 0: {error}") from None


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.arange(size * 5).view(size, 5)
    return inputs, inputs + 1


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_processes_share_a_batch_out_evenly(size: int, count: int) -> None:
    shares = [FakeProcess(rank, size).micro_batches(batch(8), count) for rank in range(size)]
    for parts, local_parts in shares:
        assert len(local_parts) == count
        assert len(parts) == size * count
    rows = torch.cat([inputs for _, local_parts in shares for inputs, _ in local_parts])
    assert torch.equal(rows.sort(dim=0).values, batch(8)[0])


def test_long_and_short_problems_are_dealt_out_evenly() -> None:
    """Rows of 1 to 8 characters, dealt to two processes by length, in two parts each."""
    targets = torch.where(torch.arange(8) <= torch.arange(8)[:, None], 1, NO_LOSS)
    shares = [FakeProcess(rank, 2).micro_batches((targets, targets), 2)[1] for rank in range(2)]
    shapes = [[tuple(part[0].shape) for part in local_parts] for local_parts in shares]
    assert shapes == [[(2, 3), (2, 7)], [(2, 4), (2, 8)]]


def test_a_single_process_shares_nothing() -> None:
    group = SingleProcess()
    assert (group.rank, group.world_size, group.is_main) == (0, 1, True)
    parts, local_parts = group.micro_batches(batch(8), 2)
    for actual, expected in ((parts, micro_batches(batch(8), 2)), (local_parts, parts)):
        assert all(torch.equal(a[0], b[0]) for a, b in zip(actual, expected, strict=True))
    assert group.all_reduce_max(3) == 3
    assert group.all_reduce_sum(torch.tensor(2.5)) == 2.5
    assert group.broadcast("mine") == "mine"
    state = torch.get_rng_state()
    group.seed_step(1, 2)
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(DataError, match="as it was"), group.share_errors():
        raise DataError("as it was")


def test_each_process_and_step_has_random_numbers_of_its_own() -> None:
    first = {}
    for rank in (1, 2):
        for step in (0, 1):
            FakeProcess(rank, 3).seed_step(42, step)
            first[rank, step] = torch.rand(()).item()
    assert len(set(first.values())) == 4
    FakeProcess(2, 3).seed_step(42, 1)
    assert torch.rand(()).item() == first[2, 1]


def test_a_batch_that_cannot_be_split_evenly_is_refused() -> None:
    config = TrainConfig(batch_size=12, grad_accum=2)
    SingleProcess().check_batch_size(config)
    FakeProcess(0, 3).check_batch_size(config)
    with pytest.raises(ConfigError, match="batch_size 12 is not divisible by grad_accum 2 times 4"):
        FakeProcess(0, 4).check_batch_size(config)


def test_a_gpu_is_not_shared() -> None:
    assert SingleProcess().device_name("cuda:1") == "cuda:1"
    assert FakeProcess(1, 2).device_name("cpu") == "cpu"
    with pytest.raises(ConfigError, match=r"needs its own GPU: use --device cuda, not 'cuda:1'"):
        FakeProcess(1, 2).device_name("cuda:1")


@pytest.mark.parametrize("value", ["two", "-1", "", "²", "0"])
def test_an_invalid_environment_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("WORLD_SIZE", value)
    with (
        pytest.raises(ConfigError, match=r"variable WORLD_SIZE is .*, not a number from 1"),
        process_group(),
    ):
        pass
    monkeypatch.setenv("LOCAL_WORLD_SIZE", value)
    with pytest.raises(ConfigError, match=r"LOCAL_WORLD_SIZE is .*, not a number from 1"):
        SingleProcess().cores_per_process(2)


def test_processes_that_do_not_find_each_other_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {"RANK", "MASTER_ADDR", "MASTER_PORT"} & os.environ.keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"do not find each other: .*RANK"), process_group():
        pass
    assert launched_rank() == 0
    monkeypatch.setenv("RANK", "3")
    assert launched_rank() == 3
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(ConfigError, match="RANK is 3, not below WORLD_SIZE, 2"), process_group():
        pass


def test_a_rank_means_nothing_to_a_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("RANK", "3")  # left over in a shell
    assert launched_rank() == 0


@pytest.mark.parametrize(("processes", "cores"), [("1", 12), ("5", 2), ("24", 1)])
def test_the_processes_of_a_machine_share_its_cores(
    monkeypatch: pytest.MonkeyPatch, processes: str, cores: int
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
    assert SingleProcess().cores_per_process(12) == cores


@pytest.mark.parametrize(("rank", "expected"), [(0, "error: unknown recipe 'nope'"), (1, "")])
def test_an_error_of_the_recipe_is_that_of_the_main_process(
    rank: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: RunCli
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", str(rank))
    group = FailingProcess(rank, 2)
    monkeypatch.setattr(distributed, "process_group", lambda: nullcontext(group))
    outcome = run_cli("train", "--recipe", "nope", "--out", tmp_path / "run")
    assert (outcome.code, outcome.err.partition(";")[0]) == (2, expected)
