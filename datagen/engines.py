"""Who computes the blocks of a training file: engines by name."""

from collections.abc import Callable, Generator
from functools import partial

from datagen.errors import DatasetError
from datagen.parallel import in_order
from datagen.ray_tasks import in_order_on_ray
from datagen.shards import Shard

MAX_WORKERS = 256

# What makes a shard of a block's number, and the numbers -> the shards, in that order.
Compute = Callable[[Callable[[int], Shard], range], Generator[Shard, None, None]]


def engine(name: str, workers: int | None = None, address: str | None = None) -> Compute:
    """What computes with that engine. DatasetError, in one line, for what it cannot be given."""
    if name not in ENGINES:
        known = ", ".join(sorted(ENGINES))
        raise DatasetError(f"unknown engine {name!r}: choose one of {known}")
    if workers is not None and not 1 <= workers <= MAX_WORKERS:
        raise DatasetError(f"workers must be from 1 to {MAX_WORKERS}, not {workers}")
    return ENGINES[name](workers, address)


def local(workers: int | None, address: str | None) -> Compute:
    """This process alone, or so many others."""
    if address is not None:
        raise DatasetError("the engine 'local' has no address: that is for 'ray'")
    return lambda function, blocks: in_order(function, blocks, min(workers or 1, len(blocks)))


def ray(workers: int | None, address: str | None) -> Compute:
    """The Ray cluster at an address, or one for this alone, with so many CPUs of this machine."""
    if workers is not None and address is not None:
        raise DatasetError("how many work on a Ray cluster is the cluster's affair: no workers")
    return partial(in_order_on_ray, address=address, cpus=workers)


# By name: (workers, address), each None where it is not given -> what computes with them.
ENGINES: dict[str, Callable[[int | None, str | None], Compute]] = {"local": local, "ray": ray}
