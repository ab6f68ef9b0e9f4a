"""Progress on standard error: a bar on a terminal, a line now and then in a file or a pipe."""

import sys
import time
from typing import Any

from tqdm import tqdm

SECONDS = 30.0  # between two lines
LINE = "{desc}{percentage:3.0f}% {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"


class _Lines(tqdm):  # type: ignore[type-arg]
    """Writes whole lines, the first after SECONDS, and one at the end."""

    def __init__(self, **options: Any) -> None:
        self._next = time.monotonic() + SECONDS
        if desc := options.get("desc"):
            options["desc"] = f"{desc}: "  # tqdm adds the colon only in its default format
        super().__init__(**{**options, "bar_format": LINE, "leave": False})

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        if msg is None and time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS
            self.fp.write(f"{self}\n")
            self.fp.flush()

    def clear(self, nolock: bool = False) -> None:
        """Does nothing: `tqdm.write` need not move a bar out of its way."""

    def close(self) -> None:
        if not self.disable and self.n:
            self._next = 0.0
            self.display()
        super().close()


def progress_bar(total: int, show: bool = True, **options: Any) -> Any:
    """Returns a tqdm bar with these `options`. If stderr is not a terminal, it writes whole lines;
    if `show` is False, nothing."""
    kind = tqdm if sys.stderr.isatty() else _Lines
    return kind(total=total, disable=not show, **options)
