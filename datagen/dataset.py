"""Making a data set on disk: `train.txt`, `val.txt`, `test.txt` and `manifest.json` in a folder.

One process writes. It appends shard after shard to a file with a provisional name and notes in a
journal how far it has got; whatever kills it, the same call takes up from there and ends with the
same bytes. A file gets its final name when it is whole, the manifest is written when all are.
"""

import fcntl
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path

from tqdm import tqdm

from datagen.errors import DatasetError
from datagen.plan import GENERATOR, DatasetPlan
from datagen.records import (
    JOURNAL,
    MANIFEST,
    FileRecord,
    Journal,
    Manifest,
    hash_prefix,
    is_intact,
    load_manifest,
)
from datagen.shards import BLOCK, Shard, held_out_shard, train_shard
from datagen.splits import Split

__all__ = ["DatasetPlan", "Manifest", "generate", "load_manifest"]

MAX_WORKERS = 256
_MAX_SHARD_BLOCKS = 64  # 155 MB of text


def generate(
    out: Path,
    plan: DatasetPlan,
    *,
    workers: int = 1,
    shard_size: int = 4 * BLOCK,
    force: bool = False,
    progress: bool = True,
) -> Manifest:
    """Make the data set of a plan in the folder `out`, or finish it, or find that it is there.

    The bytes depend on the plan alone, not on `workers` (processes) or `shard_size` (problems
    computed and journaled at a time, in whole blocks). An `out` that holds anything else than this
    data set or its beginning is left as it is, and DatasetError raised, unless `force`. Everything
    that goes wrong is a DatasetError of one line; what was written stays, for the next call.
    """
    if not 1 <= workers <= MAX_WORKERS:
        raise DatasetError(f"workers must be from 1 to {MAX_WORKERS}, not {workers}")
    if shard_size < 1:
        raise DatasetError(f"shard_size must be at least 1, not {shard_size}")
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise DatasetError(f"{out} is not a folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with _locked(out):
            return _generate(out, plan, workers, shard_size, force, progress)
    except OSError as error:
        raise DatasetError(f"{error.filename or out}: {error.strerror or error}") from error
    except BrokenProcessPool as error:
        raise DatasetError("a worker process died (no memory?): the same call continues") from error


def _generate(
    out: Path, plan: DatasetPlan, workers: int, shard_size: int, force: bool, progress: bool
) -> Manifest:
    try:
        found = _find(out, plan)
    except DatasetError as error:
        if not force:
            raise DatasetError(f"{error} (--force replaces it)") from error
        found = _clear(out, plan)
    if isinstance(found, Manifest):
        if progress:
            tqdm.write(f"{out}: already complete", file=sys.stderr)
        return found
    found.save()
    total = sum(plan.counts.values())
    with tqdm(total=total, unit=" problems", unit_scale=True, disable=not progress) as bar:
        # The held-out files first: they are small, and fail if the distribution is.
        for split in (Split.VAL, Split.TEST, Split.TRAIN):
            with _SplitFile(found, split, bar.update) as file:
                for shard in _shards(plan, split, file.record.problems, workers, shard_size):
                    file.append(shard)
    manifest = Manifest(plan, {split: found.files[split] for split in Split})
    manifest.save(out)
    found.remove()
    return manifest


def _find(out: Path, plan: DatasetPlan) -> Manifest | Journal:
    """What `out` has of the plan's data set. DatasetError if it has something else; no change."""
    if (out / MANIFEST).exists():
        manifest = load_manifest(out)
        if manifest.plan != plan or manifest.generator != GENERATOR:
            raise DatasetError(f"{out} holds a different data set")
        for split, record in manifest.files.items():
            _check_intact(_final(out, split), record)
        return manifest
    journal = Journal.load(out, plan)
    for split in Split:
        final = _final(out, split)
        if journal is None and (final.exists() or _partial(out, split).exists()):
            raise DatasetError(f"{out} holds a {final.name} of unknown origin")
        if journal is not None and final.exists():
            record = journal.files.get(split, FileRecord())
            if record.problems != plan.counts[split]:
                raise DatasetError(f"{out} holds a {final.name} of unknown origin")
            _check_intact(final, record)
    return journal or Journal(out, plan)


def _check_intact(path: Path, record: FileRecord) -> None:
    if not path.exists():
        raise DatasetError(f"{path} is missing")
    if not is_intact(path, record):
        raise DatasetError(f"{path} is damaged: its SHA-256 is not the recorded one")


def _clear(out: Path, plan: DatasetPlan) -> Journal:
    """Remove whatever data set `out` holds, the manifest that vouches for it first."""
    files = [path(out, split) for path in (_final, _partial) for split in Split]
    for path in (out / MANIFEST, *files, out / JOURNAL):
        path.unlink(missing_ok=True)
    return Journal(out, plan)


def _final(out: Path, split: Split) -> Path:
    return out / f"{split}.txt"


def _partial(out: Path, split: Split) -> Path:
    return out / f"{split}.txt.partial"


class _SplitFile:
    """The file of one split, taken up where the journal says, renamed when it is whole."""

    def __init__(self, journal: Journal, split: Split, advance: Callable[[int], object]) -> None:
        self._journal, self._split, self._advance = journal, split, advance
        self._final = _final(journal.folder, split)
        self._partial = _partial(journal.folder, split)
        self.record = journal.files.get(split, FileRecord())

    def __enter__(self) -> "_SplitFile":
        if not self._final.exists():
            self._partial.touch()
            self._digest = hash_prefix(self._partial, self.record.bytes)
            if self._digest.hexdigest() != self.record.sha256:  # lost in a power failure, say
                self.record = FileRecord()
                self._digest = hash_prefix(self._partial, 0)
            os.truncate(self._partial, self.record.bytes)
            # Unbuffered: a failed write leaves nothing to be written later.
            self._file = self._partial.open("ab", buffering=0)
        self._advance(self.record.problems)
        return self

    def append(self, shard: Shard) -> None:
        """Write a shard, then note in the journal that it is there."""
        rest = memoryview(shard.text)
        while rest:
            rest = rest[self._file.write(rest) :]
        self._digest.update(shard.text)
        counts = self.record.operations
        self.record = FileRecord(
            problems=self.record.problems + shard.problems,
            bytes=self.record.bytes + len(shard.text),
            sha256=self._digest.hexdigest(),
            operations={op: counts[op] + n for op, n in shard.operations.items()},
        )
        self._journal.files[self._split] = self.record
        self._journal.save()
        self._advance(shard.problems)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._final.exists():
            return
        with self._file:
            if kind is None:
                os.fsync(self._file.fileno())
        if kind is None:
            self._partial.replace(self._final)


def _shards(
    plan: DatasetPlan, split: Split, done: int, workers: int, shard_size: int
) -> Iterator[Shard]:
    """What a split's file still lacks, in order, `done` problems being there already."""
    if done == plan.counts[split]:
        return
    if split != Split.TRAIN:
        yield held_out_shard(plan, split)
        return
    step = min(-(-shard_size // BLOCK), _MAX_SHARD_BLOCKS)
    blocks = range(done // BLOCK, -(-plan.train // BLOCK))
    runs = [blocks[i : i + step] for i in range(0, len(blocks), step)]
    if min(workers, len(runs)) == 1:
        yield from (train_shard(plan, run) for run in runs)
    else:
        yield from _in_processes(plan, runs, min(workers, len(runs)))


def _in_processes(plan: DatasetPlan, runs: list[range], workers: int) -> Iterator[Shard]:
    """Training shards in order, computed in other processes, at most two ahead of each."""
    executor = ProcessPoolExecutor(workers, get_context("spawn"), _prepare_worker)
    try:
        pending: deque[Future[Shard]] = deque()
        for run in runs:
            pending.append(executor.submit(train_shard, plan, run))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)


def _prepare_worker() -> None:
    """Leave interrupts to the parent, and never outlive it, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to the folder; the system lifts the lock if we die."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise DatasetError(f"{folder}: another process is writing to it") from error
    finally:
        os.close(descriptor)
