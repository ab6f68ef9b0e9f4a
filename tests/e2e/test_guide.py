"""The pages of docs/guide/ do what they say: their commands are run, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PAGES = sorted(GUIDE.glob("*.md"))


def commands(page: Path) -> str:
    """All that stands in the page's sh blocks."""
    return "".join(re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_the_page_works(page: Path, tmp_path: Path) -> None:
    script = commands(page)
    assert "calcgpt " in script
    beside = Path(sys.executable).parent  # calcgpt, torchrun
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": f"{beside}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_of_the_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target
