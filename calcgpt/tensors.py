"""Files of safetensors: written, read, and checked before they are read."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError, safe_open

from calcgpt.errors import CheckpointError, one_line

WEIGHT_TYPE = "F32"  # as safetensors names it
VALUE_BYTES = 4
HEADER_BYTES = 1 << 22  # at most, of a file of safetensors: ten thousand layers
MAX_DIMENSIONS = 8  # of a tensor
T = TypeVar("T")


def write_tensors(
    write: Callable[[dict[str, T], Path], None], content: dict[str, T], path: Path
) -> None:
    """Calls `write`, a `save_file` of safetensors. Raises CheckpointError if it fails."""
    try:
        write(content, path)
        path.chmod(0o644)  # safetensors makes files that only their owner can read
    except SafetensorError as error:  # for example a full disk, which is not an OSError here
        raise CheckpointError(f"cannot write {path}: {reason(error)}") from None


def read_tensors(read: Callable[[Path], dict[str, T]], path: Path) -> dict[str, T]:
    """Returns the result of `read`, a reader of safetensors files. Raises CheckpointError if the
    file is missing or damaged."""
    try:
        return read(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: {reason(error)}") from None


def check_header(path: Path, n_value: int | None = None) -> None:
    """Raises CheckpointError if a tensor has too many dimensions or, for weights, if they are not
    `n_value` numbers of WEIGHT_TYPE. Reads only the header."""
    total = 0
    for name, (kind, shape) in read_tensors(_header, path).items():
        if len(shape) > MAX_DIMENSIONS:
            raise CheckpointError(f"{path}: tensor {shown(name)} has {len(shape):,} dimensions")
        if n_value is not None and kind != WEIGHT_TYPE:
            raise CheckpointError(
                f"{path}: tensor {shown(name)} has type {kind}, not {WEIGHT_TYPE}"
            )
        total += math.prod(shape)
    if n_value not in (None, total):
        raise CheckpointError(f"{path}: has {total:,} numbers, config.json says {n_value:,}")


def _header(path: Path) -> dict[str, tuple[str, list[int]]]:
    """Returns the types and the shapes of tensors by name."""
    with safe_open(path, "np") as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: (part.get_dtype(), part.get_shape()) for name, part in parts.items()}


def shown(name: str) -> str:
    """Returns the beginning of the name of a tensor, as a message shows it."""
    return repr(name if len(name) <= 80 else f"{name[:80]}...")


def reason(error: Exception) -> str:
    """Returns what an error says, in one line and without the path."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return one_line(text)
