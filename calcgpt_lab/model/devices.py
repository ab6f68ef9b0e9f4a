"""The device of a model, by the name that a user gives."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from calcgpt.base.errors import ConfigError

DEVICES = ("cpu", "cuda", "mps", "xpu")  # untested on the other devices of torch


def pick_device(name: str) -> torch.device:
    """Returns a device; `auto` is CUDA if available, else the CPU. Raises ConfigError if the device
    cannot be used."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.partition(":")[0] not in DEVICES:
        valid = "auto, cuda:1, " + ", ".join(DEVICES)
        raise ConfigError(f"device {name!r} cannot be used; valid names: {valid}")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = str(error).splitlines()[0].split(". ")[0][:120]
        raise ConfigError(f"device {name!r} cannot be used: {reason}") from None
    return device


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Returns the tensor on the device. A copy to a GPU is only begun: it may still compute."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def synchronize_device(device: torch.device) -> None:
    """Waits until the device has finished all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def full_precision() -> Iterator[None]:
    """Within the block, products in float32 are not rounded to TF32, which training allows."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
