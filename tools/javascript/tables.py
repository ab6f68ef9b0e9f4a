"""The tables of `calcgpt.inference.spelling` that the page has, under the same names."""

import json
from collections.abc import Iterable

from calcgpt.inference import functions, spelling

PAGE = """
MAX_LENGTH MAX_DIGITS MAX_SHOWN SPACES NORMAL RANKS OPERATIONS SAID POSTFIXES FACTORS PAIRS LEADING
TRAILING NUMBER_WORDS SCALES NEAREST VULGAR SUPERSCRIPTS CURRENCIES NUMBERS FUNCTIONS CONSTANTS
PROGRAMS ANGLED DEFINITIONS ARCS SORTED PATTERNS ONLY MESSAGES READINGS HINTS HINTS_AFTER_NUMBER
"""


def tables() -> dict[str, object]:
    """Returns all tables in the form of JSON, for the page."""
    programs = {
        name: {"isExact" if key == "is_exact" else key: part for key, part in f._asdict().items()}
        for name, f in functions.FUNCTIONS.items()
    }
    known = {**vars(functions), **vars(spelling), "PROGRAMS": programs}
    return {name: known[name] for name in PAGE.split()}


def javascript() -> str:
    """Returns the module `api/static/engine/tables.js`."""
    lines = [
        f"  {name}: /** @type {{{_type(table)}}} */ ({json.dumps(table)}),\n"
        for name, table in tables().items()
    ]
    return (
        "// Written by `make tables` from calcgpt/inference/spelling.py. Do not edit.\n"
        f"export default {{\n{''.join(lines)}}};\n"
    )


def _type(table: object) -> str:
    """Returns the type of a table, as the page's modules declare it."""
    match table:
        case dict():
            return f"Record<string, {_common_type(table.values())}>"
        case list() | tuple():
            return f"{_common_type(table)}[]"
        case str():
            return "string"
    return "boolean" if isinstance(table, bool) else "number"


def _common_type(items: Iterable[object]) -> str:
    types = {_type(item) for item in items}
    return types.pop() if len(types) == 1 else "any"
