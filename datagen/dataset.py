"""Making a data set on disk: `train.txt`, `val.txt`, `test.txt` and `manifest.json` in a folder.

One process writes. It appends block after block to a file with a provisional name and notes in a
journal how far it has got; whatever kills it, the same call takes up from there and ends with the
same bytes. A file gets its final name when it is whole, the manifest is written when all are.
"""

import sys
from collections.abc import Generator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial
from pathlib import Path

from tqdm import tqdm

from datagen.errors import DataError
from datagen.manifest import (
    MANIFEST,
    FileRecord,
    Journal,
    Manifest,
    SplitFile,
    clear,
    final_path,
    is_intact,
    load_manifest,
    partial_path,
    writing,
)
from datagen.plan import BLOCK, GENERATOR, DatasetPlan, Shard, held_out_shard, train_shard
from datagen.splits import Split
from datagen.workers import Compute
from datagen.workers import engine as compute_engine

__all__ = ["DatasetPlan", "Manifest", "generate", "load_manifest"]


def generate(
    out: Path,
    plan: DatasetPlan,
    *,
    workers: int | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    shard_size: int = 8 * BLOCK,
    force: bool = False,
    progress: bool = True,
) -> Manifest:
    """Make the data set of a plan in the folder `out`, or finish it, or find that it is there.

    The bytes depend on the plan alone: neither on who computes (`engine`, with
    `workers` processes and `ray_address`, as `datagen.workers` explains them; the default is this
    process) nor on `shard_size` (problems between two entries in the journal, in whole blocks).
    An `out` that holds anything but this data set or its beginning is left as it is, and
    DataError raised, unless `force`. All that goes wrong is a DataError of one line; what was
    written by then stays for the next call. `progress` shows a bar on stderr.
    """
    compute = compute_engine(engine, workers, ray_address)
    if shard_size < 1:
        raise DataError(f"shard_size must be at least 1, not {shard_size}")
    try:
        with writing(out):
            found = _find_or_clear(out, plan, force)
            if isinstance(found, Journal):
                return _complete(found, compute, shard_size, progress)
            if progress:
                tqdm.write(f"{out} is already complete", file=sys.stderr)
            return found
    except BrokenProcessPool as error:
        raise DataError("a worker process died (no memory?): the same call continues") from error


def _complete(journal: Journal, compute: Compute, shard_size: int, progress: bool) -> Manifest:
    """Write what is missing: the held-out files first, which fail if the distribution is small."""
    plan, folder = journal.plan, journal.folder
    journal.save()
    total = sum(plan.counts.values())
    with tqdm(total=total, unit=" problems", unit_scale=True, disable=not progress) as bar:
        for split in (Split.VAL, Split.TEST, Split.TRAIN):
            if final_path(folder, split).exists():
                bar.update(plan.counts[split])
                continue
            with (
                SplitFile(journal, split, shard_size, bar.update) as file,
                closing(_shards(plan, split, file.record.problems, compute)) as shards,
            ):
                for shard in shards:
                    file.append(shard)
    manifest = Manifest(plan, {split: journal.files[split] for split in Split})
    manifest.save(folder)
    journal.remove()
    return manifest


def _shards(
    plan: DatasetPlan, split: Split, done: int, compute: Compute
) -> Generator[Shard, None, None]:
    """What a split's file still lacks, in order, when it has its first `done` problems."""
    if done == plan.counts[split]:
        return
    if split != Split.TRAIN:
        yield held_out_shard(plan, split)
        return
    blocks = range(done // BLOCK, -(-plan.train // BLOCK))
    with closing(compute(partial(train_shard, plan), blocks)) as shards:
        yield from shards


def _find_or_clear(out: Path, plan: DatasetPlan, force: bool) -> Manifest | Journal:
    try:
        return _find(out, plan)
    except DataError as error:
        if not force:
            raise DataError(f"{error} (--force replaces it)") from error
        clear(out)
        return Journal(out, plan)


def _find(out: Path, plan: DatasetPlan) -> Manifest | Journal:
    """What `out` has of the plan's data set. DataError if it has something else; no change."""
    if (out / MANIFEST).exists():
        manifest = load_manifest(out)
        if manifest.plan != plan or manifest.generator != GENERATOR:
            raise DataError(f"{out} holds a different data set")
        for split, record in manifest.files.items():
            _check_intact(final_path(out, split), record)
        return manifest
    journal = Journal.load(out, plan)
    for split in Split:
        final = final_path(out, split)
        if journal is None:
            if final.exists() or partial_path(out, split).exists():
                raise DataError(f"{out} holds a {final.name} of unknown origin")
        elif final.exists():
            record = journal.files.get(split, FileRecord())
            if record.problems != plan.counts[split]:
                raise DataError(f"{out} holds a {final.name} of unknown origin")
            _check_intact(final, record)
    return journal or Journal(out, plan)


def _check_intact(path: Path, record: FileRecord) -> None:
    if not path.exists():
        raise DataError(f"{path} is missing")
    if not is_intact(path, record):
        raise DataError(f"{path} is damaged: its SHA-256 is not the recorded one")
