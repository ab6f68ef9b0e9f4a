"""What `calcgpt info` prints."""

import re

import pytest
from click.testing import CliRunner

from calcgpt.cli import cli
from calcgpt.config import ModelConfig
from calcgpt.info import choices, parameter_table
from calcgpt.model import build_model
from calcgpt.model.parameters import formulas


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(),
        ModelConfig(position="shaw", attention="landmark", n_kv_head=2, qk_norm=True),
        ModelConfig(architecture="bigram"),
    ],
)
def test_the_formulas_come_to_what_the_model_has(config: ModelConfig) -> None:
    rows, legend = parameter_table(config, 21).split("\n\n")
    letters = {
        match[1]: int(match[2].replace(",", ""))
        for match in re.finditer(r"^(\w) = ([\d,]+)", legend, re.MULTILINE)
    }
    *parts, last = rows.splitlines()
    total = 0
    for row in parts:
        part, formula, number = re.split(r"\s{2,}", row)
        expression = formulas(config)[part]
        assert formula == str(expression)
        assert expression.subs(letters) == int(number.replace(",", ""))
        total += int(number.replace(",", ""))
    model = build_model(config, 21)
    assert total == model.n_parameters()
    assert re.fullmatch(rf"all .*\b{total:,}", last)


def test_choices_name_the_variants_and_what_was_changed() -> None:
    variants, changed = choices(ModelConfig(position="rope", n_layer=3)).splitlines()
    assert "position = rope" in variants
    assert "feedforward = relu" in variants
    assert changed == "n_layer = 3"


def test_of_a_checkpoint_and_of_a_recipe(tiny_folder: object) -> None:
    shown = CliRunner().invoke(cli, ["info", str(tiny_folder)], catch_exceptions=False)
    assert "n_layer = 1" in shown.output
    options = ["--recipe", "nano", "--set", "model.preset=mpt", "--vocabulary", "1000"]
    shown = CliRunner().invoke(cli, ["info", *options], catch_exceptions=False)
    assert "position = alibi" in shown.output
    assert "V = 1,000" in shown.output


@pytest.mark.parametrize("options", [[], ["best", "--recipe", "nano"]])
def test_one_of_the_two_is_needed(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli(["info", *options])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: one of CHECKPOINT and --recipe is needed\n"
