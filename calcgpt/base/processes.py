"""What a process may use, and when it ends."""

import math
import os
import signal
import threading
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cores() -> int:
    """Returns the number of cores available to this process, as limited by its container."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    try:  # of a container of Linux (cgroup v2): microseconds of work in each period
        quota, period = CPU_QUOTA.read_text(encoding="ascii").split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # `max`: no limit
        return cores


def end_with_parent() -> None:
    """Sends this process SIGTERM once its parent has ended, even if the parent was killed.

    Call it in a process that `multiprocessing` has started. In any other it does nothing.
    """
    parent: Any = parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
