"""Plug-ins: variants from a user's own files are trained, loaded and refused as those of the
package are."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Outcome

from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.engines import load_decoder
from calcgpt.variants import INSTALLED

PAGE = (Path(__file__).parents[3] / "docs" / "VARIANTS.md").read_text("utf-8")
[KERPLE] = re.findall(r"^cat > kerple.py <<'END'\n(.*?)^END$", PAGE, re.DOTALL | re.MULTILINE)
MISH = """
from torch import nn

from calcgpt_lab.model.layers import FEEDFORWARDS, FeedForward

FEEDFORWARDS["mish"] = (FeedForward, nn.Mish)  # Misra 2019
"""
PROBLEMS = """
from pathlib import Path

from calcgpt_lab.data.task import TASKS, Task
from calcgpt_lab.recipe import RECIPES
from datagen.direct import render_lines
from datagen.distributions import DISTRIBUTIONS
from datagen.formats import FORMATS

DISTRIBUTIONS["mine"] = DISTRIBUTIONS["calculator"]
FORMATS["mine"] = lambda problems: render_lines(problems).replace(b"*", b"+")
RECIPES["mine"] = Path(__file__).with_name("mine.toml")
TASKS["mine"] = Task(lambda random: f"{random.randrange(10_000)}=1")
"""
REFUSED = {
    "x = 1": "adds no variant to a table, such as POSITIONS",
    "1 / 0": "failed with ZeroDivisionError: division by zero (mine.py, line 1)",
    "from calcgpt_lab.recipe import RECIPES\nRECIPES['nano'] = 1": "replaces recipe 'nano': choose",
    "from calcgpt_lab.model.layers import NORMS\nNORMS['rmsnorm'] = None": "replaces norm",
}


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

    error = run_cli(*train).error
    assert error.startswith(f"recipe 'nano': unknown {field} {name!r}; valid names: ")
    assert run_cli(*train, "--plugin", file).code == 0
    assert run_cli("info", out, "--plugin", file).code == 0
    assert f", {name})\n" in run_cli("recipes", "nano", "--plugin", file).out
    checkpoint = Checkpoint.load(out / "step-00000002")
    assert checkpoint.recipe.plugins == ["mine.py"]
    assert checkpoint.n_parameters == checkpoint.model.n_parameters()
    assert load_decoder(checkpoint)[0] == "torch"  # the engine `cases` does not have it

    forget()
    refused = run_cli("calc", "--checkpoint", out, "1+1")
    assert refused.error.startswith("needs --plugin with mine.py, if that is not given: ")
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


@pytest.mark.parametrize("installed", [True, False])
def test_problems_recipes_and_tasks_of_a_plugin(
    installed: bool,
    run_cli: Callable[..., Outcome],
    forget: Callable[[], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("problems_of_mine.py").write_text(PROBLEMS)
    Path("mine.toml").write_text('extends = "nano"\ndescription = "Of mine."\n')
    if installed:  # as pip leaves it
        folder = Path("mine-1.0.dist-info")
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text("[calcgpt.plugins]\nm = problems_of_mine\n")
        monkeypatch.syspath_prepend(tmp_path)
    plugin = [] if installed else ["--plugin", "problems_of_mine.py"]

    made = ["datagen", "data", "--train", 70_000, "--val", 5, "--test", 5, "--workers", 2]
    assert run_cli(*made, "--distribution", "mine", "--format", "mine", *plugin).code == 0
    assert "*" not in Path("data", "train.txt").read_text()
    forget()
    assert re.search(r"^mine +Of mine\.$", run_cli("recipes", *plugin).out, re.MULTILINE)
    forget()
    few = ["--set", "train.steps=1", "--set", "train.eval_problems=5", *plugin]
    train = ["train", "--recipe", "mine", *few]
    fresh = ["data.mixture.mine=1", "data.validation=mine", "data.format=mine"]
    options = [word for override in fresh for word in ("--set", override)]
    assert run_cli(*train, *options, "--out", "fresh").code == 0
    [step] = Path("fresh").glob("step-*")
    assert Checkpoint.load(step).recipe.plugins == [
        INSTALLED if installed else "problems_of_mine.py"
    ]
    forget()
    assert run_cli(*train, "--task", "mine", "--out", "tasks").code == 0
    assert run_cli("eval", "tasks", "--task", "mine", *plugin, "--n", 5).code == 0
