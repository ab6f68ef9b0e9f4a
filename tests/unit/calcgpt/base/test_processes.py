"""How many cores a process may use."""

import os
from pathlib import Path

import pytest

from calcgpt.base import processes


@pytest.mark.parametrize(
    ("quota", "n"),
    [("max 100000", 8), ("150000 100000", 2), ("5000 100000", 1), ("9000000 100000", 8), ("", 8)],
)
def test_the_quota_of_a_container_limits_the_cores(
    quota: str, n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    monkeypatch.setattr(processes, "CPU_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert processes.usable_cores() == n
    (tmp_path / "cpu.max").unlink()
    assert processes.usable_cores() == 8
