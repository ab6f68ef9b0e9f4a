"""The command that installs an optional library."""

import sys
from pathlib import Path

import pytest

from calcgpt.base.extras import install_line


@pytest.mark.parametrize(
    ("folder", "is_short"), [(Path(sys.executable).parent, True), (Path("/elsewhere"), False)]
)
def test_the_command_that_installs_a_library_is_for_this_python(
    monkeypatch: pytest.MonkeyPatch, folder: Path, is_short: bool
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: str(folder / name))
    line = install_line("ray")
    assert "calcgpt[ray]" in line
    assert line.startswith("pip install ") == is_short
