"""`torchrun`, but it forks its processes, so that they need not import torch again.

Nothing else differs. `tests/e2e/test_guide.py` runs torchrun itself.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from forks import TRAINING, Forked, Popen, run_here

PRELOAD = (*TRAINING, "torch.distributed.run")


def torchrun(n_processes: int, *arguments: str | Path) -> Popen:
    """Starts `torchrun ARGUMENTS` on this machine."""
    options = ("--standalone", "--nproc-per-node", str(n_processes))
    return Popen([sys.executable, __file__, *options, *arguments], PRELOAD)


class Process(Forked):
    """A process that torchrun starts."""

    def __init__(self, command: tuple[str, ...], environment: dict[str, str]) -> None:
        self.args = list(command)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
                    signal.signal(number, signal.SIG_DFL)
                code = run_here(
                    {
                        "command": [word for word in command[1:] if word != "-u"],
                        "environment": environment,
                        "folder": str(Path.cwd()),
                        "new_session": True,
                    }
                )
            except BaseException:
                sys.excepthook(*sys.exc_info())
                code = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def ask(self, request: dict[str, Any]) -> int | None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None


if __name__ == "__main__":
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    SubprocessHandler._popen = lambda self, command, environment: Process(command, environment)
    run.main()
