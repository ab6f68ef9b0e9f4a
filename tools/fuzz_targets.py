"""What `tools.fuzz` attacks: functions of bytes, which raise if something is not as promised.

Each function gives hostile bytes to code that reads what people write. That code may refuse them
with the error that it documents, in one line. Any other error is a defect, and so is a result that
fails a second check, for example a tree whose text has another tree.
"""

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from calcgpt import checkpoint
from calcgpt.base.errors import ConfigError, NotationError, UserError
from calcgpt.base.files import sha256
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import DataConfig, ModelConfig, Recipe, TrainConfig
from calcgpt.errors import CheckpointError, ExpressionError
from calcgpt.inference import expression_tree, spelling
from calcgpt.inference.effort import Effort
from calcgpt.inference.exact import evaluate
from calcgpt.inference.expression import parse
from calcgpt.registry import best
from calcgpt.tokenizer import CharTokenizer, Tokenizer
from calcgpt_lab.model.base import LanguageModel
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.model.stored import checkpoint_of
from calcgpt_lab.recipe import RECIPES, commented_toml, load_recipe, recipe_toml
from calcgpt_lab.saving import model_card, save
from datagen import notation, work, work_errors

LARGEST_PRODUCT = 2_000  # the digits of one operand times those of the other: larger ones are slow


def expression(data: bytes) -> None:
    """A typed expression: its tree is that of its canonical text, too, and has the same value."""
    text = data.decode("utf-8", "replace")
    try:
        tree = parse(text).expression
    except ExpressionError as error:
        _is_one_line(error)
        _is_in_order(0, error.position, error.end, len(text))
        return
    nodes = expression_tree.postorder(tree)
    assert sum(node.sign != "" for node in nodes) <= spelling.MAX_OPERATIONS
    assert all(0 <= node.start < node.end <= len(text) for node in nodes)
    shown = expression_tree.show(tree)
    if len(shown) > spelling.MAX_LENGTH:
        return
    again = parse(shown).expression
    assert expression_tree.show(again) == shown
    with suppress(ExpressionError), Effort().measured():
        first, second = (evaluate(root)[-1] for root in (again, tree))
        assert (first.exact, first.form) == (second.exact, second.form)


def notation_line(data: bytes) -> None:
    """A line of the notation: what is read is written alike. What is refused is valid up to the
    position that the error names."""
    text = data.decode("utf-8", "replace")
    with suppress(NotationError):
        assert notation.render_prompt(notation.parse_prompt(text)) == text
    with suppress(NotationError):
        assert notation.render_answer(notation.parse_answer(text)) == text
    for read in (notation.parse, notation.parse_prompt, notation.parse_answer):
        position = _refused_at(read, text)
        if position is not None:
            assert _refused_at(read, text[:position]) in (position, None), (read, text, position)


def _refused_at(parse: Callable[[str], object], text: str) -> int | None:
    """Returns the position that the error for `text` names, or None if there is no error."""
    try:
        parse(text)
    except NotationError as error:
        _is_one_line(error)
        _is_in_order(0, error.position, len(text))
        return error.position
    return None


def work_line(data: bytes) -> None:
    """A prompt, a newline, and a completion: any text, or changes to the right one.

    The checker accepts what is right, and names the first change to it.
    """
    prompt, _, rest = data.decode("utf-8", "replace").partition("\n")
    try:
        problem = notation.parse_prompt(prompt)
    except NotationError:
        # The checker may take it for a prompt of numbers written in another way.
        work_errors.quotient_digits(prompt, rest)
        with suppress(NotationError):
            work_errors.first_error_of_completion(prompt, rest)
        return
    sizes = [len(notation.number_text(number)) for number in (problem.a, problem.b)]
    if sizes[0] * sizes[1] <= LARGEST_PRODUCT:
        (line,) = work.render([prompt.encode()])
        _check_completion(prompt, line.decode().removeprefix(prompt), rest)


def _check_completion(prompt: str, right: str, rest: str) -> None:
    first_error = partial(work_errors.first_error_of_completion, prompt)
    assert first_error(right) is None
    answer = right.rpartition("=")[2]
    error = first_error(rest)
    if error is None:
        assert rest.rpartition("=")[2] == answer  # other quotient digits lead to it as well
    else:
        assert 0 <= error.position <= len(rest), error
        actual = rest[error.position : error.position + 1]
        assert actual == error.actual or (actual, error.actual) == ("=", "")  # the work ends there
        assert error.actual != error.expected
        # The text before the error is the start of something right.
        before = first_error(rest[: error.position])
        assert before is not None
        assert (before.position, before.actual) == (error.position, "")

    changed = _changed(right, rest)
    first = next((i for i, (a, b) in enumerate(zip(right, changed, strict=False)) if a != b), None)
    if first is None:
        first = min(len(right), len(changed))
    error = first_error(changed)
    if changed == right:
        assert error is None
    elif first not in work_errors.quotient_digits(prompt, right):
        assert error is not None, (right, changed)
        assert error.position == first, (right, changed)


def _changed(text: str, changes: str) -> str:
    """Returns a changed text. Each pair of characters in `changes` is a position and what replaces
    the character there; `_` ends the text there."""
    for where, what in zip(changes[::2], changes[1::2], strict=False):
        position = ord(where) * (len(text) + 1) // 128 % (len(text) + 1)
        text = text[:position] + (what + text[position + 1 :] if what != "_" else "")
    return text


FILES = (checkpoint.CONFIG, checkpoint.TOKENIZER, checkpoint.WEIGHTS, checkpoint.METRICS)


def checkpoint_file(data: bytes) -> None:
    """A file of a checkpoint. The first byte says which one, and whether the hashes are of it.

    Whatever is in it, a checkpoint loads and runs, or it is refused in one line. If the hash is of
    another file, it is refused.
    """
    choice, content = data[0] if data else 0, data[1:]
    name, is_forged = FILES[choice % 4], bool(choice & 4)
    with _damaged(name, content, is_forged) as folder:
        try:
            loaded = Checkpoint.load(folder)
            model = loaded.model
        except CheckpointError as error:
            _is_one_line(error)
            return
        finally:
            with suppress(CheckpointError):
                best(folder.parent)
        if name == checkpoint.CONFIG:
            assert is_forged or json.loads(content) == _right_config()
        else:
            assert is_forged or content == _right_files()[name]
        _run(model, loaded.tokenizer)
        with suppress(UserError):  # metrics.json may hold any object
            model_card(loaded.name, loaded.recipe, loaded.metrics)


def _run(model: LanguageModel, tokenizer: Tokenizer) -> None:
    length = min(3, model.config.block_size)
    with torch.no_grad():
        logits = model(torch.zeros(1, length, dtype=torch.long))
    assert logits.shape == (1, length, len(tokenizer))
    tokenizer.decode([0])
    with suppress(UserError):
        tokenizer.encode("1+1")


@contextmanager
def _damaged(name: str, content: bytes, is_forged: bool) -> Iterator[Path]:
    """Yields the folder with other content in one file, then restores the file."""
    folder, files = _right_folder(), _right_files()
    try:
        (folder / name).write_bytes(content)
        if is_forged:
            _forge(folder, name)
        yield folder
    finally:
        for file in {name, checkpoint.CONFIG}:
            (folder / file).write_bytes(files[file])


def _forge(folder: Path, name: str) -> None:
    """Makes the hashes in `config.json` fit the files, if it is an object of JSON at all."""
    try:
        config = json.loads((folder / checkpoint.CONFIG).read_bytes())
        hashes = _right_config()["sha256"]
        config.pop("sha256", None)
        hashes[checkpoint.CONFIG] = checkpoint.config_sha256(config)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return
    if name != checkpoint.CONFIG:
        hashes[name] = sha256(folder / name)
    (folder / checkpoint.CONFIG).write_text(json.dumps({**config, "sha256": hashes}))


@cache
def _right_folder() -> Path:
    """Returns the folder of a tiny checkpoint. It lasts as long as the process."""
    folder = Path(tempfile.mkdtemp(prefix="calcgpt-fuzz-"))
    atexit.register(shutil.rmtree, folder)
    recipe = Recipe(model=ModelConfig(n_layer=1, n_embd=4, n_head=1, block_size=8))
    tokenizer = CharTokenizer("+01=")
    torch.manual_seed(0)
    model = build_model(recipe.model, len(tokenizer)).eval()
    scores = {"n": 4, "char_accuracy": 0.5, "exact_match": 0.25, "by_operation": {}}
    metrics = {"parameters": model.n_parameters(), "step": 0, "validation": scores}
    made = checkpoint_of("tiny", recipe, tokenizer, model, metrics)
    save(made, folder / "tiny")
    return folder / "tiny"


@cache
def _right_files() -> dict[str, bytes]:
    return {name: (_right_folder() / name).read_bytes() for name in FILES}


def _right_config() -> dict[str, Any]:
    config: dict[str, Any] = json.loads(_right_files()[checkpoint.CONFIG])
    return config


def recipe_file(data: bytes) -> None:
    """A recipe in TOML and, after a byte 0, overrides: what is read is written alike."""
    content, *overrides = data.split(b"\0")
    path = _recipe_folder() / "fuzzed.toml"
    path.write_bytes(content)
    try:
        read = load_recipe(str(path), [text.decode("utf-8", "replace") for text in overrides])
    except ConfigError as error:
        _is_one_line(error)
        return
    for text in (recipe_toml(read), commented_toml(read)):
        path.write_text(text, "utf-8")
        assert load_recipe(str(path)) == read


@cache
def _recipe_folder() -> Path:
    folder = _right_folder().with_name("recipes")
    folder.mkdir()
    shutil.copy(RECIPES["blog"], folder / "base.toml")
    return folder


def _is_one_line(error: Exception) -> None:
    assert str(error), error
    assert "\n" not in str(error), error


def _is_in_order(*positions: int) -> None:
    assert sorted(positions) == list(positions), positions


TARGETS = {
    "expression": expression,
    "notation": notation_line,
    "work": work_line,
    "checkpoint": checkpoint_file,
    "recipe": recipe_file,
}


def seeds(name: str) -> list[bytes]:
    """Returns valid inputs, from which a corpus grows."""
    typed = ["12.5+3", "-1/3", "0.07*1,000", "2-(3-4)^5%", "  .5×÷2=", "1e5", "((1+2)*3)/4"]
    numbers = [("12.5", "+", "3"), ("-7", "-", "0.99"), ("98", "*", "7.5"), ("22", "/", "7")]
    problems = [
        notation.parse_prompt(f"${places}({a:0>10}{op}{b:0>10})=")
        for a, op, b in numbers
        for places in ("", 5)
    ]
    if name == "expression":
        return [text.encode() for text in typed]
    if name == "notation":
        return [notation.render(problem).encode() for problem in problems]
    if name == "work":
        return [f"{notation.render_prompt(p)}\n@7".encode() for p in problems]
    if name == "recipe":
        shipped = [recipe.read_bytes() for recipe in RECIPES.values()]
        return [*shipped, b'extends = "base.toml"\0train.lr=0.1\0model.preset="llama"']
    return [
        bytes([index + forged]) + _right_files()[file]
        for index, file in enumerate(FILES)
        for forged in (0, 4)
    ]


def words(name: str) -> list[str]:
    """Returns words of a target's language, for the mutations."""
    if name in ("expression", "notation", "work"):
        return ["$(", ")=", "nan", "0.0", "-0", "00000", "^2", "%", "1,000", "×", "\u2009", "=$"]
    sections = (ModelConfig, TrainConfig, DataConfig, Recipe)
    fields = [field for section in sections for field in section.model_fields]
    values = ["true", "null", "1e999", "-1", "1000000", "NaN", "[[", "{}", '""', "'''", "F16"]
    return [*fields, *values, *checkpoint.HASHED, "BF16", "F64", "I64", "vocabulary", "extends"]
