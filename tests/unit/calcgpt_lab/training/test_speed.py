"""The peak rate of a device, from the table or measured, and the figures of a row."""

from types import SimpleNamespace

import pytest
import torch

from calcgpt.config import ModelConfig
from calcgpt_lab.model.parameters import flops
from calcgpt_lab.training import speed
from calcgpt_lab.training.run_folder import Counters
from calcgpt_lab.training.speed import Clock, fastest_threads, measured_rate, peak_rate

CUDA = torch.device("cuda")


@pytest.mark.parametrize(
    ("name", "bf16", "tflops"),
    [
        ("NVIDIA H100 80GB HBM3", True, 989),
        ("NVIDIA H100 80GB HBM3", False, 67),
        ("NVIDIA H100 PCIe", True, 756),
        ("NVIDIA H200", True, 989),
        ("NVIDIA L40S", True, 362),
        ("NVIDIA L4", True, 121),
    ],
)
def test_a_known_gpu_has_the_rate_of_its_data_sheet(
    monkeypatch: pytest.MonkeyPatch, name: str, bf16: bool, tflops: float
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    peak_rate.cache_clear()
    assert peak_rate(CUDA, bf16) == tflops * 1e12
    peak_rate.cache_clear()


def test_the_rate_of_another_device_is_that_of_a_product() -> None:
    state = torch.get_rng_state()
    assert 1e6 < measured_rate(torch.device("cpu"), False, size=64) < 1e15
    assert torch.equal(torch.get_rng_state(), state)  # a run is not changed by it


def test_a_row_is_about_the_steps_since_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(speed, "time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr(speed, "peak_rate", lambda device, bf16: 1e6)
    model = ModelConfig(n_layer=1, n_embd=16, n_head=2, block_size=16)
    clock, counters = Clock(model, 21, torch.device("cpu"), False), Counters()
    for loss in (1.0, 3.0):
        clock.add(torch.tensor(loss), [(2, 8), (1, 16)])
    now = 100.0
    with clock.paused():  # a validation
        now = 900.0
    row = clock.row(counters)
    assert (row["loss"], row["seconds"], row["tokens_per_s"]) == (2.0, 100.0, 0.6)
    forward = sum(2 * 16 * sum(flops(model, 21, width).values()) for width in (8, 16))
    assert row["mfu"] == pytest.approx(3 * forward / 100 / 1e6, abs=1e-4) != 0
    clock.add(torch.tensor(5.0), [(2, 8)])
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
