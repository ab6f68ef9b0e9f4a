"""What a model is made of: its choices, and where its parameters are."""

from __future__ import annotations

import dataclasses

from calcgpt.config import ModelConfig
from calcgpt.model.parameters import count, formulas, sizes
from calcgpt.model.sizes import meanings

BYTES = 4  # of a float32


def parameter_table(config: ModelConfig, vocab_size: int) -> str:
    """The parameters by part: the closed formula, and what it comes to. Below, the formulas'
    letters."""
    numbers = count(config, vocab_size)
    expressions = {part: str(expression) for part, expression in formulas(config).items()}
    total = sum(numbers.values())
    rows = [(part, expressions[part], f"{number:,}") for part, number in numbers.items()]
    rows.append(("all", f"{total * BYTES / 1e6:,.1f} MB in float32", f"{total:,}"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
    return "\n".join([*lines, "", _legend(config, vocab_size, " ".join(expressions.values()))])


def choices(config: ModelConfig) -> str:
    """The named variants on one line, the other fields that are not at their defaults on the
    next."""
    fields = config.model_dump()
    named = {name for name, value in fields.items() if isinstance(value, str)}
    changed = config.model_dump(exclude_defaults=True).keys() - named
    lines = (
        ", ".join(f"{name} = {fields[name]}" for name in fields if name in of)
        for of in (named, changed)
    )
    return "\n".join(line for line in lines if line)


def _legend(config: ModelConfig, vocab_size: int, formula: str) -> str:
    """The letters that occur in `formula`, their numbers and what they stand for."""
    numbers = dataclasses.asdict(sizes(config, vocab_size))
    return "\n".join(
        f"{letter} = {numbers[letter]:<8,} {meaning}"
        for letter, meaning in meanings().items()
        if letter in formula
    )
