"""The peak rate of a device, from the table or measured."""

import pytest
import torch

from calcgpt.training.speed import measured_rate, peak_rate

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
