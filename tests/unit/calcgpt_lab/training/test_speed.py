"""The figures of a row, and the number of threads."""

from types import SimpleNamespace

import pytest
import torch

from calcgpt_lab.training import speed
from calcgpt_lab.training.run_folder import Counters
from calcgpt_lab.training.speed import Clock, fastest_threads


def test_a_row_is_about_the_steps_since_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(speed, "time", SimpleNamespace(perf_counter=lambda: now))
    clock, counters = Clock(), Counters()
    for loss in (1.0, 3.0):
        clock.add(torch.tensor(loss), 32)
    now = 100.0
    with clock.paused():  # a validation
        now = 900.0
    row = clock.row(counters)
    assert (row["loss"], row["seconds"], row["tokens_per_s"]) == (2.0, 100.0, 0.6)
    clock.add(torch.tensor(5.0), 16)
    now = 916.0
    row = clock.row(counters)
    assert (row["loss"], row["seconds"], row["tokens_per_s"]) == (5.0, 116.0, 1.0)


@pytest.mark.parametrize(
    ("seconds", "all_cores", "pause", "chosen"),
    [(s, *rest) for s in (0.001, 1, 60) for rest in ((0.5, 0, 4), (0.95, 0, 1), (20, 0, 1))]
    + [(0.001, 0.5, 0.2, 1)],
)
def test_all_cores_are_used_only_where_they_save_time(
    seconds: float, all_cores: float, pause: float, chosen: int
) -> None:
    """A clock that passes as if one thread took so many seconds, and four `all_cores` times as
    long. After every tenth of a second, the four wait for another program for a `pause`."""
    now, next_pause = 0.0, 0.0

    def work() -> None:
        nonlocal now, next_pause
        now += seconds * (1 if torch.get_num_threads() == 1 else all_cores)
        if torch.get_num_threads() > 1 and now > next_pause:
            now += pause
            next_pause = now + 0.1

    before = torch.get_num_threads()
    try:
        assert fastest_threads(work, 4, clock=lambda: now) == chosen
        assert fastest_threads(work, 1, clock=lambda: now) == 1
    finally:
        torch.set_num_threads(before)
