"""Files of safetensors: written, read, and checked before they are read; weights of 8 bits."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from calcgpt.base.errors import one_line
from calcgpt.errors import CheckpointError

WEIGHT_TYPE = "F32"  # as safetensors names it
SCALES = "scales"  # of the rows of all matrices of 8 bits
PACKED_TYPES = {"I8", "I16", WEIGHT_TYPE}
LARGEST = 127  # multiple of a scale
SCALE_MASK = -(2**16)  # of a float32: it keeps 8 significant bits
MAX_DIMENSIONS = 8  # of a tensor
T = TypeVar("T")


def read_tensors(read: Callable[[Path], dict[str, T]], path: Path) -> dict[str, T]:
    """Returns the result of `read`, a reader of safetensors files. Raises CheckpointError if the
    file is missing or damaged."""
    try:
        return read(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: {reason(error)}") from None


def check_header(path: Path, types: Collection[str] | None = None) -> None:
    """Raises CheckpointError if a tensor has too many dimensions, or a type that is not one of
    `types`. Reads only the header."""
    for name, (kind, shape) in read_tensors(_header, path).items():
        if len(shape) > MAX_DIMENSIONS:
            raise CheckpointError(f"{path}: tensor {shown(name)} has {len(shape):,} dimensions")
        if types is not None and kind not in types:
            valid = " or ".join(sorted(types))
            raise CheckpointError(f"{path}: tensor {shown(name)} has type {kind}, not {valid}")


def _header(path: Path) -> dict[str, tuple[str, list[int]]]:
    """Returns the types and the shapes of tensors by name."""
    with safe_open(path, "np") as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: (part.get_dtype(), part.get_shape()) for name, part in parts.items()}


def pack(arrays: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
    """Returns the arrays with each matrix as whole multiples, in 8 bits, of a scale for each row.
    The scales of all matrices, by their sorted names, are one array, SCALES.

    A scale is the largest magnitude of the row over LARGEST, cut to 8 significant bits: so its
    multiples are exact, and packing what `unpack` returns gives the same again.
    """
    packed: dict[str, NDArray[Any]] = dict(arrays)
    scales = [np.zeros(0, np.int32)]
    for name in _matrices(arrays):
        scale = np.abs(arrays[name]).max(axis=1) / np.float32(LARGEST)
        scales.append(scale.view(np.int32) & SCALE_MASK)
        divisor = np.maximum(scales[-1].view(np.float32), np.finfo(np.float32).tiny)
        multiples = np.rint(arrays[name] / divisor[:, None])
        packed[name] = np.clip(multiples, -LARGEST, LARGEST).astype(np.int8)
    return packed | {SCALES: (np.concatenate(scales) >> 16).astype(np.int16)}


def unpack(packed: Mapping[str, NDArray[Any]], path: Path) -> dict[str, NDArray[np.float32]]:
    """Inverts `pack`. Raises CheckpointError if there are not as many scales as rows."""
    scales = packed.get(SCALES, np.zeros(0))
    rows = [len(packed[name]) for name in _matrices(packed)]
    if scales.dtype != np.int16 or scales.shape != (sum(rows),):
        raise CheckpointError(f"{path}: tensor {SCALES!r} has no scale for each row of a matrix")
    parts = np.split((scales.astype(np.int32) << 16).view(np.float32), np.cumsum(rows)[:-1])
    arrays = {name: array for name, array in packed.items() if name != SCALES}
    for name, scale in zip(_matrices(packed), parts, strict=True):
        arrays[name] = packed[name] * scale[:, None]
    return arrays


def _matrices(arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    return sorted(name for name, array in arrays.items() if array.ndim == 2)


def shown(name: str) -> str:
    """Returns the beginning of the name of a tensor, as a message shows it."""
    return repr(name if len(name) <= 80 else f"{name[:80]}...")


def reason(error: Exception) -> str:
    """Returns what an error says, in one line and without the path."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return one_line(text)
