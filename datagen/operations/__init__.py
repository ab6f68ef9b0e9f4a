"""The table of operations. Everything else asks it: arithmetic, layouts, rules, plots, the page.

A user's own are files, each with an `OPERATION`, in the variable CALCGPT_OPERATIONS of the
environment (docs/guide/data.md). CONTRIBUTING.md says how to add one to the package.
"""

import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from calcgpt.base.errors import ConfigError
from calcgpt.base.plugins import run_file
from datagen.operations.base import Operation as Operation
from datagen.operations.products import MULTIPLICATION as MULTIPLICATION
from datagen.operations.quotients import DIVISION as DIVISION
from datagen.operations.sums import ADDITION as ADDITION
from datagen.operations.sums import SUBTRACTION as SUBTRACTION
from datagen.rules import COMMON, Rule
from datagen.slots import Kind, StepKind


def _outside(known: str) -> Iterator[Operation]:
    """Yields the operations of a user. Raises ConfigError for a file that has none, or one whose
    sign is known or means something else in the notation."""
    for path in filter(None, os.environ.get("CALCGPT_OPERATIONS", "").split(os.pathsep)):
        operation = getattr(run_file(Path(path)), "OPERATION", None)
        if not isinstance(operation, Operation):
            raise ConfigError(f"{path} has no OPERATION of datagen.operations.base")
        if not re.fullmatch(r"[!-~]", operation) or operation in known:
            raise ConfigError(f"{path}: the sign {operation[:9]!r} cannot be used")
        known += operation
        yield operation


# The index of an operation is its code in arrays and in hashes of problems: add new ones at the
# end.
_OWN = (ADDITION, SUBTRACTION, MULTIPLICATION, DIVISION)
OPERATIONS = (*_OWN, *_outside("$().0123456789=an;|:+-*/"))
OUTSIDE = {operation.spellings[0]: operation for operation in OPERATIONS[len(_OWN) :]}
SIGNS = tuple(map(str, OPERATIONS))
BY_SIGN = dict(zip(SIGNS, OPERATIONS, strict=True))
if TYPE_CHECKING:
    Sign: TypeAlias = str
else:
    Sign = Literal[SIGNS]

RULES: dict[Kind, Rule] = {}
STEP_KIND: dict[Kind, StepKind] = {}
for _rules in chain([COMMON], (operation.rules for operation in OPERATIONS)):
    for _step, _of_step in _rules.items():
        RULES |= _of_step
        STEP_KIND |= dict.fromkeys(_of_step, _step)
