"""How a command ends that ran within this process (the fixture `run_cli`), and what one imports."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """What a refused command says: one line on stderr, nothing on stdout, exit code 2."""
        assert (self.code, self.out, self.err.count("\n")) == (2, "", 1), self
        assert self.err.startswith("error: ")
        return self.err.removeprefix("error: ").rstrip("\n")


RunCli = Callable[..., Outcome]

_LISTING = """
import atexit, sys
from calcgpt.cli import cli
atexit.register(lambda: print(*sys.modules))
cli.main(sys.argv[1:])
"""


def run_apart(*args: str | Path) -> tuple[list[str], set[str]]:
    """Runs `calcgpt ARGS...` in a process of its own. Returns its lines, and what it imported."""
    command = [sys.executable, "-c", _LISTING, *args]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *lines, modules = done.stdout.splitlines()
    return lines, set(modules.split())
