"""How a command ends that ran within this process: the fixture `run_cli`."""

from collections.abc import Callable
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
