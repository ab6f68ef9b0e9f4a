"""The engine of this machine: how far it works ahead, and what it leaves undone."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from forks import PATIENCE, die_halfway

from calcgpt.base.errors import DataError
from calcgpt_lab import parallel as module
from calcgpt_lab.parallel import MAX_WORKERS, WorkersDiedError, make_map

ROOT = Path(__file__).parents[3]


def test_an_engine_works_only_a_few_results_ahead() -> None:
    begun: list[int] = []
    results = make_map("local")(begun.append, range(10_000))
    next(results)
    results.close()
    assert len(begun) < 20


def test_an_engine_that_is_left_early_does_not_compute_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[int] = []
    may_end = threading.Event()

    class Executor(ThreadPoolExecutor):
        """The second computation goes on until the rest is cancelled."""

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            may_end.set()
            super().shutdown(wait)

    def compute(item: int) -> None:
        begun.append(item)
        assert item == 0 or may_end.wait(PATIENCE)

    monkeypatch.setattr(module, "ThreadPoolExecutor", Executor)
    results = make_map("local")(compute, range(100))
    next(results)
    results.close()
    assert begun in ([0], [0, 1])


def test_there_may_be_as_many_workers_as_the_message_says() -> None:
    make_map("local", MAX_WORKERS)
    with pytest.raises(DataError, match=f"workers must be from 1 to {MAX_WORKERS}, not 257"):
        make_map("local", MAX_WORKERS + 1)


def test_only_a_ray_cluster_has_an_address() -> None:
    with pytest.raises(DataError, match="the engine 'local' has no address: that is for 'ray'"):
        make_map("local", address="127.0.0.1:1")


def test_a_process_that_is_killed_while_it_writes_a_result_is_not_waited_for() -> None:
    with pytest.raises(WorkersDiedError, match="a worker process died"):
        list(make_map("local", 2)(die_halfway, [100_000, 200_000]))
