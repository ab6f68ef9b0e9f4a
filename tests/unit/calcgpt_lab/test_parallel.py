"""How far a map works ahead, and what it leaves undone."""

import errno
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from forks import die_halfway
from waiting import PATIENCE

from calcgpt_lab import parallel as module
from calcgpt_lab.parallel import WorkersDiedError, parallel_map


def test_a_map_works_only_a_few_results_ahead() -> None:
    begun: list[int] = []
    results = parallel_map(begun.append, range(10_000))
    next(results)
    results.close()
    assert len(begun) < 20


def test_a_map_that_is_left_early_does_not_compute_the_rest(
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
    results = parallel_map(compute, range(100))
    next(results)
    results.close()
    assert begun in ([0], [0, 1])


def test_a_process_that_is_killed_while_it_writes_a_result_is_not_waited_for() -> None:
    with pytest.raises(WorkersDiedError, match="a worker process died"):
        list(parallel_map(die_halfway, [100_000, 200_000], 2))


def test_why_a_process_cannot_begin_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(module, "get_context", fail)
    with pytest.raises(OSError, match="Too many open files"):
        list(parallel_map(abs, [1, 2], 2))
