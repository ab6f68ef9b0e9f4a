"""Making a data set on disk: `train.txt`, `val.txt`, `test.txt` and `manifest.json` in a folder.

One process writes. It appends blocks to a file with a temporary name and records its progress in a
journal. A file gets its final name when it is complete. The manifest is written last. After any
interruption, the same call continues and ends with the same bytes.
"""

import sys
from collections.abc import Generator
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
from datagen.plan import BLOCK, GENERATOR_VERSION, DatasetPlan, Shard, held_out_shard, train_shard
from datagen.progress import progress_bar
from datagen.splits import Split
from datagen.workers import Compute, WorkersDiedError, make_engine

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
    """Makes the data set of a plan in the folder `out`, or continues it. Returns its manifest.

    The bytes depend on the plan alone, not on the arguments `engine`, `workers` and `ray_address`
    (see `datagen.workers`; by default this process computes), nor on `shard_size`, the number of
    problems between two entries in the journal. `progress` shows a bar on stderr. `force` replaces
    another data set in `out`.

    Raises DataError for any failure; the next call continues with the files that are written. If
    `out` holds another data set and `force` is False, raises DataError and changes nothing.
    """
    compute = make_engine(engine, workers, ray_address)
    if shard_size < 1:
        raise DataError(f"shard_size must be at least 1, not {shard_size}")
    try:
        with writing(out):
            state = _load_or_clear(out, plan, force)
            if isinstance(state, Journal):
                return _complete(state, compute, shard_size, progress)
            if progress:
                tqdm.write(f"{out} is already complete", file=sys.stderr)
            return state
    except WorkersDiedError as error:
        raise DataError(f"{error}: the same command continues") from error


def _complete(journal: Journal, compute: Compute, shard_size: int, progress: bool) -> Manifest:
    """Writes what is missing. The held-out files come first: a small distribution fails there."""
    plan, folder = journal.plan, journal.folder
    journal.save()
    total = sum(plan.counts.values())
    with progress_bar(total, progress, unit=" problems", unit_scale=True) as bar:
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
    manifest = Manifest.from_files(plan, journal.files)
    manifest.save(folder)
    journal.remove()
    return manifest


def _shards(
    plan: DatasetPlan, split: Split, done: int, compute: Compute
) -> Generator[Shard, None, None]:
    """Yields the rest of a split's file, in order, after its first `done` problems."""
    if done == plan.counts[split]:
        return
    if split != Split.TRAIN:
        yield held_out_shard(plan, split)
        return
    blocks = range(done // BLOCK, -(-plan.train // BLOCK))
    with closing(compute(partial(train_shard, plan), blocks)) as shards:
        yield from shards


def _load_or_clear(out: Path, plan: DatasetPlan, force: bool) -> Manifest | Journal:
    try:
        return _load(out, plan)
    except DataError as error:
        if not force:
            raise DataError(f"{error} (--force replaces it)") from error
        clear(out)
        return Journal(out, plan)


def _load(out: Path, plan: DatasetPlan) -> Manifest | Journal:
    """Returns the manifest or the journal in `out`. Raises DataError if its plan is another one."""
    if (out / MANIFEST).exists():
        manifest = load_manifest(out)
        if manifest.plan != plan or manifest.generator != GENERATOR_VERSION:
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
    if not is_intact(path, record.bytes, record.sha256):
        raise DataError(f"{path} is damaged: its SHA-256 is not the recorded one")
