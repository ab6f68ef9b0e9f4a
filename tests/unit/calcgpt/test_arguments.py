"""What `calcgpt.__all__` exports: paths may be strings, wrong arguments are errors of one line."""

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calcgpt
from calcgpt import Calculator, Checkpoint, ModelConfig, Problem, generate
from calcgpt.base.errors import UserError, check_integer
from calcgpt.inference.expression_stack import DEFAULT_STYLE
from calcgpt_lab import (
    Sampling,
    Task,
    build_model,
    evaluate,
    load,
    load_recipe,
    read_problems,
    sample,
    save,
    train,
)
from datagen.arithmetic import Number
from datagen.operations import DIVISION

LINE = "$(0000000001+0000000001)=2000000000$"
DIRECT = Path(calcgpt.__file__).parents[1] / "checkpoints" / "direct"
# Not even one of these is what any parameter means, but for the types that it takes.
WRONG = [object(), None, -1, 10**5_000, 1.5, float("nan"), True, "", "nosuch", "a\0b", b"x", [5]]


def draw(random: Any) -> str:
    return f"{random.randrange(1_000)}=1"


def _calls() -> dict[Callable[..., Any], dict[str, Any]]:
    """Returns what is exported, and its methods, with a right value of each parameter."""
    checkpoint, half, task = Checkpoint.load(str(DIRECT)), Number(5, 1), Task(draw)
    calculator = Calculator(str(DIRECT))
    recipe = load_recipe("nano", ["train.steps=1", "train.eval_problems=0"])
    asked = {"places": 2, "work": 400_000, "style": DEFAULT_STYLE, "names": {}}
    scored = {"model": checkpoint.model, "tokenizer": checkpoint.tokenizer, "sampling": None}
    scored |= {"progress": str, "batch_size": 5}
    trained = {"recipe": recipe, "data": "data", "out": "out", "resume": False, "force": True}
    trained |= {"device": "cpu", "progress": False, "trackers": [], "threads": 1}
    fields = {name: getattr(checkpoint, name) for name in Checkpoint.__dataclass_fields__}
    config = ModelConfig(n_layer=1, n_embd=8, n_head=2)
    text = {"checkpoint": checkpoint, "prompt": "$(", "max_new_tokens": 2}
    return {
        Calculator: {"checkpoint": checkpoint, "decoder": calculator.decoder},
        Calculator.load: {"reference": str(DIRECT), "engine": "torch", "live": True},
        calculator: {"expression": "1+1", **asked, "check": None},
        calculator.calculate_batch: {"expressions": ["1+1"], **asked},
        Checkpoint: fields,
        Checkpoint.load: {"folder": str(DIRECT)},
        save: {"checkpoint": checkpoint, "folder": "saved", "extra": {}},
        checkpoint.without: {"parts": []},
        ModelConfig: config.model_dump(),
        Problem: {"a": half, "op": DIVISION, "b": half, "places": 2},
        Number: {"units": 1, "places": 0},
        Sampling: {"temperature": 1.0, "top_k": 3, "top_p": 0.5, "seed": 0},
        Task: {"draw": draw, "check": None, "alphabet": None, "name": "", "folder": "."},
        task.lines: {"split": "train", "seed": 1, "count": 2},
        build_model: {"config": config, "vocab_size": 21},
        evaluate: {**scored, "lines": read_problems("lines.txt")},
        generate: {"count": 2, "name": "blog", "seed": 1},
        load: {"reference": str(DIRECT), "device": "cpu"},
        load_recipe: {"name": "nano", "overrides": [], "overlays": [{}]},
        read_problems: {"path": "lines.txt", "limit": 1},
        sample: {**text, "sampling": Sampling()},
        train: trained,
    }


@pytest.fixture
def in_folder(here: Path) -> None:
    """The current folder has a file of problems and a small data set."""
    Path("lines.txt").write_text(f"{LINE}\n")
    Path("data").mkdir()
    for split in ("train", "val", "test"):
        Path("data", f"{split}.txt").write_text(f"{LINE}\n" * 20)


@pytest.mark.usefixtures("in_folder")
def test_every_wrong_argument_is_an_error_of_one_line() -> None:
    calls = _calls()
    exported = {getattr(calcgpt, name) for name in calcgpt.__all__ if name != "__version__"}
    assert calls.keys() >= exported
    for function, right in calls.items():
        assert right.keys() == inspect.signature(function).parameters.keys()
        function(**right)
        for name in right:
            for wrong in WRONG:
                try:
                    function(**{**right, name: wrong})
                except UserError as error:
                    assert "\n" not in str(error)  # noqa: PT017
                else:
                    assert type(wrong) is not object, (function, name)


def test_a_wrong_argument_is_named() -> None:
    for message, call in {
        "recipe must be Recipe or a string or Path, not 5": lambda: train(5, None, "out"),  # type: ignore[arg-type]
        "unknown recipe 'nanno'; .*did you mean 'nano'": lambda: train("nanno", None, "out"),
        "draw must be a function, not 5": lambda: Task(5),  # type: ignore[arg-type]
        "ModelConfig: unknown position 'rop'; valid names: .*did you mean 'rope'": lambda: (
            ModelConfig(
                position="rop"  # type: ignore[arg-type]
            )
        ),
        "ModelConfig: n_head: Input should be .* 1, not 0": lambda: ModelConfig(n_head=0),
    }.items():
        with pytest.raises(UserError, match=f"^{message}"):
            call()


@pytest.mark.parametrize("n", [0, 1, 3, 4])
def test_a_whole_number_may_be_of_numpy(n: int) -> None:
    with nullcontext() if n in (1, 3) else pytest.raises(UserError, match="from 1 to 3, not"):
        check_integer("n", np.int64(n), 1, 3)


@pytest.mark.parametrize(
    ("engine", "form", "n"), [("cases", "{0}.5*{0}/7-sqrt({0})", 8), ("torch", "{0}.5+{0}", 3)]
)
def test_threads_share_a_calculator(engine: str, form: str, n: int) -> None:
    calculator = Calculator.load("calculator", engine)
    expressions = [form.format(a) for a in range(1, n + 1)]
    alone = [calculator(expression).to_dict() for expression in expressions]
    with ThreadPoolExecutor(4) as pool:
        together = pool.map(calculator, expressions * 2)
    assert [answer.to_dict() for answer in together] == alone * 2
