"""Plug-ins: variants from a user's own files are trained, loaded and refused as those of the
package are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from calcgpt import plugins
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.engines import load_decoder
from calcgpt.variants import ADDED, TABLES
from tests.conftest import Outcome

KERPLE = '''
"""The logarithmic kernel of KERPLE (Chi et al. 2022, eq. 4): -a log(1 + b distance), per head."""

import torch
from torch import nn
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt.model.index_positions import DistanceBias
from calcgpt.model.positions import POSITIONS


class Kerple(DistanceBias):
    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.a = nn.Parameter(torch.zeros(config.n_head, 1))
        self.b = nn.Parameter(torch.zeros(config.n_head, 1))
        self.register_buffer("distance_N", torch.arange(n_positions), persistent=False)

    def by_distance(self) -> torch.Tensor:
        return -F.softplus(self.a) * (F.softplus(self.b) * self.distance_N).log1p()


POSITIONS["kerple"] = Kerple
'''
MISH = """
from torch import nn

from calcgpt.model.layers import FEEDFORWARDS, FeedForward

FEEDFORWARDS["mish"] = (FeedForward, nn.Mish)  # Misra 2019
"""
REFUSED = {
    "x = 1": "adds no variant to a table, such as POSITIONS",
    "1 / 0": "failed with ZeroDivisionError: division by zero (mine.py, line 1)",
    "from calcgpt.model.layers import NORMS\nNORMS['rmsnorm'] = None": "replaces norm 'rmsnorm'",
}


@pytest.fixture
def forget() -> Iterator[Callable[[], None]]:
    """Undoes plug-ins, as a new process has none."""

    def undo() -> None:
        for table, own in TABLES.values():
            table.clear()
            table.update(own)
        ADDED.clear()
        plugins._loaded.clear()

    yield undo
    undo()


@pytest.mark.parametrize(
    ("code", "override"), [(KERPLE, "model.position=kerple"), (MISH, "model.feedforward=mish")]
)
def test_plugin(
    code: str,
    override: str,
    run_cli: Callable[..., Outcome],
    forget: Callable[[], None],
    tmp_path: Path,
) -> None:
    file, out = tmp_path / "mine.py", tmp_path / "run"
    file.write_text(code)
    field, name = override.removeprefix("model.").split("=")
    train = ["train", "--recipe", "nano", "--set", override, "--set", "data.mixture.blog=1"]
    train += ["--set", "tokenizer=scratchpad", "--set", "model.block_size=256", "--quiet"]
    train += ["--set", "train.steps=2", "--set", "train.eval_problems=0", "--out", out]

    refused = run_cli(*train)
    assert refused.code == 2
    assert refused.err.startswith(f"error: recipe 'nano': unknown {field} {name!r}; valid names: ")
    assert run_cli(*train, "--plugin", file).code == 0
    assert run_cli("info", out, "--plugin", file).code == 0
    checkpoint = Checkpoint.load(out / "step-00000002")
    assert checkpoint.recipe.plugins == ["mine.py"]
    assert checkpoint.n_parameters == checkpoint.model.n_parameters()
    assert load_decoder(checkpoint)[0] == "torch"  # the native engine does not have it

    forget()
    refused = run_cli("calc", "--checkpoint", out, "1+1")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert refused.err.endswith("; it was trained with --plugin mine.py\n")
    answered = run_cli("calc", "--checkpoint", out, "--plugin", file, "1+1")
    assert answered.code in (0, 1)
    assert not answered.err.startswith("error")


@pytest.mark.parametrize("code", REFUSED)
def test_refused(
    code: str, run_cli: Callable[..., Outcome], forget: Callable[[], None], tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(code)
    outcome = run_cli("info", "--recipe", "nano", "--plugin", file)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert REFUSED[code] in outcome.err
