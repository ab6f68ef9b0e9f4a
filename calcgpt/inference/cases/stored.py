"""Entries that were tried in all cases (`calcgpt.proof`), kept for the next start.

A file belongs to the weights and to the code that made it, by their hash. It is used only if its
content has the hash that was written with it, and if no other user may change it.
"""

import hashlib
import logging
from pathlib import Path

import calcgpt
import datagen
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference import cache
from calcgpt.inference.cases.memory import Entries
from datagen.cases import all_cases

log = logging.getLogger(__name__)
CODE = (
    (datagen, ("*.py", "operations/*.py")),
    (calcgpt, ("inference/cases/*.py", "proof.py")),
)


def path_of(checkpoint: Checkpoint) -> Path:
    """Returns where the entries of a model are, if they were proved."""
    config, tokenizer = checkpoint.recipe.model.model_dump_json(), checkpoint.tokenizer.to_json()
    digest = hashlib.sha256(f"{_code()} {config} {tokenizer}".encode())
    for name, tensor in sorted(checkpoint.arrays.items()):
        digest.update(f"{name} {tensor.shape}".encode())
        digest.update(tensor.tobytes())
    return cache.cache_folder() / f"proved-{digest.hexdigest()}.npz"


def _code() -> str:
    """Returns the hash of the code that makes and reads the entries."""
    digest = hashlib.sha256()
    for package, patterns in CODE:
        folder = Path(str(package.__file__)).parent
        for pattern in patterns:
            files = sorted(folder.glob(pattern))
            assert files, f"no code is {pattern}"  # else a change of it would not be noticed
            for file in files:
                digest.update(file.read_bytes())
    return digest.hexdigest()


def unknown() -> Entries:
    """Returns the entries of all cases, about which the network was not asked yet. Which cases
    there are takes a second to find, and is kept."""

    def make() -> bytes:
        content = Entries.of(*all_cases()[:2]).to_bytes()
        all_cases.cache_clear()  # nothing else needs them in a service
        return content

    name = f"cases-{_code()}.npz"
    return Entries.from_bytes(cache.cached(name, make, "the table of cases"))


def load(path: Path) -> Entries | None:
    """Returns the entries in a file, or None if there are none that can be trusted."""
    if cache.changeable(path.parent):
        return None
    content = cache.read_cached(path)
    return None if content is None else Entries.from_bytes(content)


def save(entries: Entries, path: Path) -> None:
    """Writes the entries, unless another user could change the file. Without a folder to write to,
    nothing is kept."""
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not cache.changeable(path.parent):
            cache.write_cached(path, entries.to_bytes())
    except OSError as error:
        log.warning("what was proved is not kept: %s", error)
