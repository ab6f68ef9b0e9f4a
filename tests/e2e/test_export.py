"""`calcgpt export`: other libraries give the same answers; a folder is written whole or not at
all."""

import sys
from pathlib import Path

import pytest
import torch
from checkpoint_folders import make
from commands import RunCli

from calcgpt_lab.data.problems import read_problems
from calcgpt_lab.data.tokenizers import arithmetic_tokenizer
from calcgpt_lab.evaluation.evaluate import evaluate
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.model.stored import checkpoint_of
from calcgpt_lab.recipe import load_preset, load_recipe
from calcgpt_lab.saving import save

EXPORTABLE = {
    "grouped": ["n_kv_head=2", "rope_base=500.0"],
    "tied": ["tie_embeddings=true", "ff_hidden=50"],
}
PACKAGES = {"calcgpt", "calcgpt_lab", "datagen"}
SMALL = ["preset=llama", "block_size=64", "n_layer=2", "n_embd=32", "n_head=4", "init=torch"]


def answers(folder: Path, prompts: list[str]) -> list[str]:
    """The answers of `transformers` with an export."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert type(tokenizer).__module__.startswith("transformers.")
    assert type(model).__module__.startswith("transformers.")
    tokens = tokenizer(prompts, return_tensors="pt", padding=True)
    written = model.generate(**tokens)[:, tokens["input_ids"].shape[1] :]
    # A text that has ended is filled up with more `$` until the last of the batch has.
    texts = (text.partition("$") for text in tokenizer.batch_decode(written))
    return [text + end for text, end, _ in texts]


def test_transformers_alone_gives_the_same_answers(
    run_cli: RunCli, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = read_problems(data_folder / "test.txt")
    tokenizer = arithmetic_tokenizer()
    expected = {}
    torch.manual_seed(0)
    for name, overrides in EXPORTABLE.items():
        recipe = load_recipe("nano", [f"model.{item}" for item in overrides + SMALL])
        model = build_model(recipe.model, len(tokenizer)).eval()
        # Every gain matters, and so does the problem.
        for parameter in model.parameters():
            scale = 0.3 if parameter.dim() > 1 else 0.1
            parameter.data += scale * torch.randn_like(parameter)
        checkpoint, out = tmp_path / name, tmp_path / "exports" / name
        save(checkpoint_of(name, recipe, tokenizer, model, {}), checkpoint)
        exported = run_cli("export", checkpoint, "--to", "hf", out)
        assert exported.code == 0, exported.err
        assert exported.out == f"{out}: {name} as a LlamaForCausalLM of transformers\n"
        assert exported.err == ""
        outputs = evaluate(model, tokenizer, lines).outputs
        expected[out] = outputs
        assert len(set(outputs)) > 10
    # Some answers end, and some go on to the end of the context.
    texts = [text for outputs in expected.values() for text in outputs]
    assert {text.endswith("$") for text in texts} == {True, False}

    for name in imported(PACKAGES):
        monkeypatch.setitem(sys.modules, name, None)  # importing it raises
    for folder, outputs in expected.items():
        assert answers(folder, [line.prompt for line in lines]) == outputs


def files(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with random weights that LlamaForCausalLM can be."""
    folder = tmp_path_factory.mktemp("checkpoints") / "small"
    save(make(**load_preset("nano").model_dump()), folder)
    return folder


@pytest.fixture
def exported(run_cli: RunCli, small_folder: Path, tmp_path: Path) -> Path:
    """An export of that checkpoint, alone in its folder."""
    out = tmp_path / "there" / "out"
    assert run_cli("export", small_folder, "--to", "hf", out).code == 0
    return out


def test_an_export_is_replaced_only_by_force(
    run_cli: RunCli, small_folder: Path, exported: Path
) -> None:
    (exported / "README.md").write_text("old")
    before = files(exported.parent)
    outcome = run_cli("export", small_folder, "--to", "hf", exported)
    assert "--force replaces it" in outcome.error
    assert files(exported.parent) == before
    assert run_cli("export", small_folder, "--to", "hf", exported, "--force").code == 0
    after = files(exported.parent)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {str(exported / "README.md")}


def test_a_folder_that_is_not_an_export_is_left_alone(
    run_cli: RunCli, small_folder: Path, tiny_copy: Path
) -> None:
    before = files(tiny_copy.parent)
    outcome = run_cli("export", small_folder, "--to", "hf", tiny_copy, "--force")
    assert "it is not replaced" in outcome.error
    assert files(tiny_copy.parent) == before


def test_nothing_is_fetched(
    run_cli: RunCli, small_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = []
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **kwargs: connections.append(args))
    monkeypatch.setattr("socket.socket.connect", lambda *args: connections.append(args))
    assert run_cli("export", small_folder, "--to", "hf", tmp_path / "out").code == 0
    assert connections == []


def imported(packages: set[str]) -> list[str]:
    """The imported modules of these packages."""
    return [name for name in sys.modules if name.partition(".")[0] in packages]
