"""`calcgpt calc`: expressions from the command line, from standard input, or at a prompt."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from calcgpt.base.errors import UserError
from calcgpt.cli.options import (
    ExpressionCommand,
    Number,
    checkpoint_option,
    engine_option,
    plugin_option,
)

if TYPE_CHECKING:
    from calcgpt.checkpoint import Checkpoint
    from calcgpt.errors import ExpressionError
    from calcgpt.inference.calculator import Calculator
    from calcgpt.inference.decoding import Decoder
    from calcgpt.inference.expression_stack import Angle, Percent, Style
    from calcgpt.inference.expression_tree import Expression
    from calcgpt.inference.results import Calculation

RIGHT, WRONG, NOT_UNDERSTOOD = 0, 1, 2  # exit codes
LONGEST_LINE = 20_000  # characters; no expression is that long
WIDTH = 72  # characters of an expression that are shown with an error
HISTORY = 1_000  # expressions
ASSIGNMENT = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]{0,30})\s*=(?=\s*\S)")
# The options that a model of a task supports.
TASK_OPTIONS = {"expressions", "checkpoint", "engine", "min_confidence", "work", "as_json", "quiet"}
OPERATORS = re.compile(r"[-+*/^%()=×÷−]+|[A-Za-z]+")  # words: the parser says what is unknown


@click.command(cls=ExpressionCommand)
@click.argument("expressions", nargs=-1, metavar="[EXPRESSION]...")
@checkpoint_option
@click.option(
    "--places",
    type=click.IntRange(0, 30),
    help="Decimal places of the answer.  [default: what the expression asks for, or 8; 2 for a "
    "model without worked steps]",
)
@click.option("--fraction", is_flag=True, help="Write the exact value as a fraction: 5/6.")
@click.option(
    "--percent",
    type=click.Choice(["relative", "plain"]),
    default="relative",
    help="What 100-10% is: 90 (relative) or 99.9 (plain).",
)
@click.option(
    "--angle",
    type=click.Choice(["radians", "degrees"]),
    default="radians",
    help="What sin(30) is the sine of. sin(30°) is always of degrees.",
)
@click.option("--decimal-comma", is_flag=True, help="Read 12,500 as 12.5 instead of 12500.")
@click.option(
    "--max-work",
    type=click.IntRange(1),
    help="Most characters that the model writes for an expression.  [default: 2,500,000]",
)
@click.option("--require-verified", is_flag=True, help="Give no answer rather than a wrong one.")
@click.option(
    "--min-confidence",
    default=0.0,
    type=Number(0, 1),
    help="Give no answer if the confidence in the whole calculation is lower than this.",
)
@click.option("--work", is_flag=True, help="Also show the worked steps and the confidence.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
@click.option(
    "--quiet",
    is_flag=True,
    help="Write only the answers. The exit code says whether they are right.",
)
@engine_option
@click.option(
    "--live",
    is_flag=True,
    help="Let the model compute each character, even one that it wrote in the same case before.",
)
@plugin_option
def calc(
    expressions: tuple[str, ...],
    checkpoint: str,
    engine: str,
    live: bool,
    percent: Percent,
    decimal_comma: bool,
    angle: Angle,
    **options: Any,
) -> None:
    """Answer each EXPRESSION: calcgpt calc "(12.5+3)*4".

    Without one, or for `-`, expressions are read from standard input, one per line, or at a prompt.
    There, `ans` or `_` is the last answer, also of the last time, `x = 5` names a value, and `*2`
    continues from the last answer.

    An expression has numbers with at most 9,999 decimal places, + - * / ^ and parentheses, percent
    (100-10%, 20% of 50), fractions (1 1/2), // mod ! | |, functions (sqrt(16), ln 10, sin 30°,
    2^0.5, max(1,2)), pi, e, and words (what is half of 12?). A function is a program of operations.

    The model answers each operation. A character is a function of a case, a few characters before
    it: the model computes it once and remembers it. Its answer goes to stdout; stderr says how an
    expression was read, if there is another way, and where the answer is wrong or rounded.

    The exit code is 0 if all answers are right, 1 if one is wrong, missing or withheld, and 2 if an
    expression cannot be understood.

    A model of a task of your own takes each EXPRESSION for a question, without `=`. Nobody checks
    its answers: the exit code is 1 only if one is missing or withheld.
    """
    from calcgpt.checkpoint import Checkpoint
    from calcgpt.inference.calculator import Calculator
    from calcgpt.inference.engines import load_decoder
    from calcgpt.inference.expression_stack import Style
    from calcgpt.inference.questions import is_of_task
    from calcgpt.registry import resolve

    given = () if expressions == ("-",) else expressions
    if not given and sys.stdin is None:
        raise UserError("standard input is closed: give an EXPRESSION")
    stored = Checkpoint.load(resolve(checkpoint))
    decoder = load_decoder(stored, engine, threads=1, live=live)[1]
    if is_of_task(stored):
        sys.exit(answer_questions(stored, decoder, given, options))
    texts = as_expressions(given)
    calculator, style = Calculator(stored, decoder), Style(percent, decimal_comma, angle)
    answering = Answering(calculator, style, several=len(texts) != 1, **options)
    if texts:
        sys.exit(max([answering.answer(text) for text in texts]))
    if sys.stdin.isatty() and sys.stdout.isatty():
        ask(answering)
    else:
        codes = (answering.answer(line, number) for number, line in lines_of(sys.stdin))
        sys.exit(max(codes, default=RIGHT))


@dataclass(frozen=True)
class Answering:
    """Answers expressions on stdout and stderr. Most fields are the options of the command."""

    calculator: Calculator
    style: Style
    several: bool  # whether notes have to name the expression
    places: int | None
    fraction: bool
    max_work: int | None
    require_verified: bool
    min_confidence: float
    work: bool
    as_json: bool
    quiet: bool
    names: dict[str, Expression] = field(default_factory=dict)  # values of earlier answers

    def answer(self, text: str, line: int | None = None) -> int:
        """Answers an expression, or one that gets a name, and returns the exit code. `line` is its
        line in a file."""
        from calcgpt.errors import ExpressionError
        from calcgpt.inference.calculator import value_of
        from calcgpt.inference.limits import MAX_WORK

        name, start = _assignment(text)
        try:
            work = self.max_work or MAX_WORK
            calculation = self.calculator.calculate(
                text[start:], self.places, work, self.style, self.names
            )
        except ExpressionError as error:
            moved = ExpressionError(
                error.kind, error.reason, error.position + start, error.end + start
            )
            self._refuse(text, moved, line)
            return NOT_UNDERSTOOD
        if value := value_of(calculation):
            self.names.update(dict.fromkeys(("ans", "_", *([name] if name else [])), value))
        withheld = self._withheld(calculation)
        if self.as_json:
            self._write_json(calculation, withheld)
        elif withheld:
            self._say(f"no answer: {withheld[1]}")
        else:
            self._write(calculation)
        return RIGHT if calculation.verified and not withheld else WRONG

    def _refuse(self, text: str, error: ExpressionError, line: int | None) -> None:
        where = f"line {line}: " if line else ""
        if self.as_json:
            click.echo(json.dumps({"expression": text, "error": error.to_dict()}))
            return
        click.echo(f"error: {where}{error.reason}", err=True)
        click.echo(marked(text, error.position, error.end), err=True)

    def _withheld(self, calculation: Calculation) -> tuple[str, str] | None:
        """Returns why an answer is withheld, as a kind and a reason, or None."""
        confidence = calculation.confidence.whole
        if self.require_verified and not calculation.verified:
            errors = [error.removeprefix("wrong: ") for error in calculation.errors]
            return "not-verified", "; ".join(["the model's answer is wrong", *errors])
        if not confidence >= self.min_confidence:  # NaN is not enough either
            reason = f"the confidence is {confidence:.10g}, below {self.min_confidence:g}"
            return "not-confident", reason
        return None

    def _write_json(self, calculation: Calculation, withheld: tuple[str, str] | None) -> None:
        record = calculation.to_dict()
        if withheld:
            error = {"kind": withheld[0], "reason": withheld[1]}
            record = {"expression": record["expression"], "error": error, "calculation": record}
        click.echo(json.dumps(record))

    def _write(self, calculation: Calculation) -> None:
        is_fraction = self.fraction and calculation.verified and calculation.fraction is not None
        if calculation.result is None:
            self._say("no answer: the model wrote no number")
        else:
            click.echo(calculation.fraction if is_fraction else calculation.result)
        for note in calculation.notes:
            if is_fraction and note == calculation.rounding_note:
                continue
            self._say(f"{calculation.expression}: {note}" if self.several else note)
        for node in calculation.nodes if self.work else ():
            if node.path:
                click.echo(" > ".join((node.expression, *node.path)))
            if confidence := node.confidence:
                click.echo(f"{node.prompt}{node.output}")
                click.echo(
                    f"confidence: answer {confidence.answer:.4f}, "
                    f"weakest step {confidence.weakest_step:.4f}, whole {confidence.whole:.4f}"
                    f"{'; proved' if node.proved else ''}"
                )
        for error in calculation.errors:
            self._say(error)

    def _say(self, message: str) -> None:
        if not self.quiet:
            click.echo(message, err=True)


def answer_questions(
    checkpoint: Checkpoint, decoder: Decoder, questions: Sequence[str], options: dict[str, Any]
) -> int:
    """Lets a model of a user's own task answer questions, or the lines of standard input. Returns
    the exit code. Raises UserError for an option that is for expressions."""
    from calcgpt.inference.questions import ask

    context, given = click.get_current_context(), click.core.ParameterSource.COMMANDLINE
    names = {n for n in context.params if context.get_parameter_source(n) is given}
    if names - TASK_OPTIONS:
        raise UserError(
            f"{checkpoint.name} answers a task of its own: use no other options than "
            "--checkpoint, --engine, --min-confidence, --work, --json and --quiet"
        )
    code = RIGHT
    for question in questions or (line for _, line in lines_of(sys.stdin)):
        [reply] = ask(checkpoint, decoder, [question])
        is_sure = reply.confidence.whole >= options["min_confidence"]
        if reply.result is None or not is_sure:
            code = WRONG
        if options["as_json"]:
            click.echo(json.dumps({**reply._asdict(), "confidence": dict(reply.confidence)}))
        elif reply.result is not None and is_sure:
            click.echo(f"{reply.work}={reply.result}" if options["work"] else reply.result)
        elif not options["quiet"]:
            reason = f"the confidence is {reply.confidence.whole:.10g}"
            reason = reason if reply.result is not None else "the model wrote no end"
            click.echo(f"no answer: {reason}", err=True)
    return code


def _assignment(text: str) -> tuple[str, int]:
    """Returns the name to which a line gives a value, in lower case, and where its expression
    begins: `x = 5`. The name is "" if there is none."""
    from calcgpt.inference.spelling import is_free_name

    match = ASSIGNMENT.match(text)
    if not match or not is_free_name(match[1].lower()):
        return "", 0
    return match[1].lower(), match.end()


def as_expressions(arguments: tuple[str, ...]) -> list[str]:
    """Returns the arguments, or the one expression that the shell has split into them.

    Raises UserError, which says how to quote, if the arguments can be understood in both ways.
    """
    whole = " ".join(arguments)
    quoted = "in quotes it is one expression: calcgpt calc"
    has_sign = any(argument.startswith(("+", "-", "−")) for argument in arguments[1:])
    are_several = _all_parse(arguments)
    if len(arguments) < 2 or (are_several and not has_sign):
        return list(arguments)
    if are_several:  # 1 -2
        raise UserError(
            f"{whole!r} may be one expression or several; {quoted} {shlex.quote(whole)}"
        )
    if _all_parse([whole]):
        return [whole]
    # Path.exists would raise for a name that is too long.
    files = [argument for argument in arguments if argument and os.path.exists(argument)]  # noqa: PTH110
    if len(files) > 1:
        raise UserError(
            f"the shell has made file names of a *, such as {files[0]!r}; {quoted} '2 * 3'"
        )
    return [whole] if any(map(OPERATORS.fullmatch, arguments)) else list(arguments)


def _all_parse(texts: list[str] | tuple[str, ...]) -> bool:
    from calcgpt.errors import ExpressionError
    from calcgpt.inference.expression import parse

    with suppress(ExpressionError):
        return all(parse(text) for text in texts)
    return False


def marked(text: str, position: int, end: int) -> str:
    """Returns two lines: the text around text[position:end], and carets below that part."""
    printable = "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
    first = max(0, min(position - WIDTH // 2, len(text) - WIDTH))
    shown = printable[first : first + WIDTH]
    carets = "^" * max(1, min(end, first + WIDTH) - position)
    return f"  {shown}\n  {' ' * (position - first)}{carets}"


def lines_of(file: TextIO) -> Iterator[tuple[int, str]]:
    """Yields the lines that are not empty, with their numbers from 1, as they come. Cuts lines
    longer than LONGEST_LINE, and replaces bytes that are not text."""
    if hasattr(file, "reconfigure"):
        file.reconfigure(errors="replace")
    number = 0
    while line := file.readline(LONGEST_LINE):
        number, rest = number + 1, line
        while rest and not rest.endswith("\n"):
            rest = file.readline(LONGEST_LINE)
        if text := line.strip().removeprefix("\ufeff"):  # the byte order mark of a file of Windows
            yield number, text


def ask(answering: Answering) -> None:
    """Answers at a prompt, with a history, until the user ends it."""
    click.echo(f"model {answering.calculator.checkpoint.name}; Ctrl-D ends", err=True)
    with history(answering.names):
        while True:
            try:
                text = input("> ").strip()
            except KeyboardInterrupt:
                click.echo()
                continue
            except EOFError:
                click.echo()
                return
            if text in ("exit", "quit"):
                return
            if text:
                answering.answer(text)


@contextmanager
def history(names: dict[str, Expression]) -> Iterator[None]:
    """Lets the user edit lines, and keeps them and the last answer, a value in `names`, for the
    next time. Does nothing on Windows, and for a user without a home."""
    from calcgpt.base.files import read_text, write_text
    from calcgpt.inference.expression import parse
    from calcgpt.inference.expression_tree import show

    try:
        import readline

        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except (ImportError, RuntimeError):  # Windows; the user has no home
        yield
        return
    folder = Path(state, "calcgpt")
    file, answer = folder / "history", folder / "answer"
    readline.set_history_length(HISTORY)
    with suppress(OSError):
        readline.read_history_file(file)
    with suppress(UserError):
        names.update(dict.fromkeys(("ans", "_"), parse(read_text(answer, LONGEST_LINE)).expression))
    try:
        yield
    finally:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)
            if "ans" in names:
                write_text(answer, show(names["ans"]))
