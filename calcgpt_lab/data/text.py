"""Plain text to train on: `train.txt`, `val.txt` and `source.json` in a folder.

The text is cut once: the validation part follows the training part. Its bytes do not change.
`source.json` says where the text is from, and has the SHA-256 of both files.
"""

from fractions import Fraction
from pathlib import Path

from pydantic import BaseModel, ConfigDict, StrictFloat, StrictInt, StrictStr

from calcgpt.base.errors import DataError
from calcgpt.base.files import read_text, text_sha256, write_json
from calcgpt_lab.data.dataset import NAMES, SOURCE, is_intact, load, staged, writing

MAX_BYTES = 1 << 30


class TextPart(BaseModel):
    """The content of one of the two files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    characters: StrictInt
    bytes: StrictInt
    sha256: StrictStr


class TextParts(BaseModel):
    """The content of both files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: TextPart
    val: TextPart


class TextRecord(BaseModel):
    """`source.json`: the source of a text, and the content of its two files."""

    model_config = ConfigDict(frozen=True)

    source: StrictStr
    bytes: StrictInt
    sha256: StrictStr
    val_share: StrictFloat
    files: TextParts
    split: StrictStr = "the first characters are train.txt, the others val.txt"


def prepare_text(
    out: Path, source: str | Path, *, val_share: float = 0.1, force: bool = False
) -> TextRecord:
    """Makes the data set of a file in the folder `out`, unless it is there. Returns its record.

    `train.txt` gets the first `1 - val_share` of the characters, rounded down, `val.txt` the rest.
    `force` replaces another data set in `out`.

    Raises UserError for any failure. Nothing is written if `out` holds another data set and `force`
    is False.
    """
    if not 0 < val_share < 1:
        raise DataError(f"the validation share must be between 0 and 1, not {val_share}")
    text = read_text(Path(source), MAX_BYTES)
    n_train = int(len(text) * (1 - Fraction(str(val_share))))  # exact: a float may be one off
    if not 0 < n_train < len(text):
        raise DataError(f"{source} is too short to be divided: {len(text)} characters")
    parts = {"train": text[:n_train], "val": text[n_train:]}
    encoded = {name: part.encode("utf-8") for name, part in parts.items()}
    files = {
        name: TextPart(characters=len(part), bytes=len(encoded[name]), sha256=text_sha256(part))
        for name, part in parts.items()
    }
    record = TextRecord(
        source=str(source),
        bytes=sum(part.bytes for part in files.values()),
        sha256=text_sha256(text),
        val_share=val_share,
        files=TextParts(**files),
    )
    with writing(out):
        if _holds(out, record):
            return record
        if not force and (left := [name for name in NAMES if (out / name).exists()]):
            raise DataError(f"{out} holds another {left[0]} (--force replaces it)")
        with staged(out) as folder:
            for name, content in encoded.items():
                (folder / f"{name}.txt").write_bytes(content)
            write_json(folder / SOURCE, record.model_dump())
    return record


def _holds(out: Path, record: TextRecord) -> bool:
    """Whether the folder holds the text of this record, intact."""
    try:
        present = load(TextRecord, out / SOURCE, "the record of a text")
    except DataError:
        return False
    return present.files == record.files and all(
        is_intact(out / f"{name}.txt", part.bytes, part.sha256) for name, part in record.files
    )


def default_folder(source: Path) -> Path:
    """Returns `data/NAME`, where NAME is the name of a file without its suffix. Raises DataError if
    it has none."""
    if not source.stem.strip("."):
        raise DataError(f"{source} does not name a file: say which folder to write to")
    return Path("data", source.stem)
