"""What a run says to the person who waits for it."""

import re
from pathlib import Path

import pytest
from small_runs import recipe

from calcgpt.inference.results import NOT_CONFIDENT
from calcgpt_lab.data.problems import Line, split_line
from calcgpt_lab.evaluation.evaluate import Evaluation, score
from calcgpt_lab.training.console import first_answer
from calcgpt_lab.training.train import train


def test_it_says_how_good_it_is(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = recipe("train.steps=22", "train.eval_interval=11", "train.checkpoint_interval=22")
    train(chosen, data, tmp_path, progress=True)
    _, *lines = capsys.readouterr().err.splitlines()  # the first is about the run
    assert re.match(r"step 11: validation loss \d\.\d{4}, exact match \d\.\d{4} of 4; ", lines[0])
    assert lines[1].startswith("step 22: validation loss ")


@pytest.mark.parametrize(
    ("line", "output", "said"),
    [
        ("$(0000000782+0000000021)=3080000000$", "3080000000$", "782 + 21 = 803"),
        ("$(0000000782+0000000021)=3080000000$", "4080000000$", "782 + 21 = 804, not 803"),
        ("$(0000000782+0000000021)=3080000000$", "8+\n", "782 + 21 = 8+?, not 803"),
        ("$0(0000000001/0000000000)=nan0000000$", "nan0000000$", "1 / 0 = nan"),
        ("abc=cba$", "c=cba$", "abc = cba"),
        ("abc=cba$", "cab$", "abc = cab, not cba"),
    ],
)
def test_an_answer_is_shown_as_people_write_it(line: str, output: str, said: str) -> None:
    prompt = line[: line.index("=") + 1]
    split = split_line(line) if "(" in line else Line(prompt, line.removeprefix(prompt), "")
    scored = Evaluation(score([split], [output]), [split], [output], [NOT_CONFIDENT], 1.0)
    assert first_answer(scored) == said
