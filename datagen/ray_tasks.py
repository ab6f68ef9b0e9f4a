"""Results computed ahead of their use, in order, by the tasks of a Ray cluster."""

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TypeVar

import datagen
from datagen.cluster import connected, first_line
from datagen.errors import DatasetError
from datagen.parallel import ahead

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def in_order_on_ray(
    function: Callable[[Argument], Result],
    arguments: Iterable[Argument],
    address: str | None,
    cpus: int | None,
) -> Generator[Result, None, None]:
    """`function` of each argument, in their order, at most a few results ahead of the caller.

    It runs on the cluster at `address`, or on this machine alone, on `cpus` CPUs, or all. Ray
    computes anew what is lost, a few times; after that it is a DatasetError. UserError where there
    is no Ray. To be closed if not exhausted. Nothing may be printed meanwhile.
    """
    with (
        # Ray prints, whatever one asks of it, its thoughts about processes that die.
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere),
        # Its processes work with this very package, whatever a machine has installed: the bytes are
        # the same everywhere.
        connected(address, cpus, runtime_env={"py_modules": [datagen]}) as ray,
    ):
        workers = int(ray.cluster_resources().get("CPU", 1))
        task = ray.remote(lambda of: function(of))  # it takes no partial functions
        try:
            yield from ahead(lambda of: partial(ray.get, task.remote(of)), arguments, workers)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # what the function raised
        except ray.exceptions.RayError as error:
            reason = first_line(error)
            raise DatasetError(f"Ray failed: {reason} The same call continues") from error
