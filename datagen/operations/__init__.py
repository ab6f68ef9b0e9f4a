"""The table of operations. Everything else asks it: arithmetic, layouts, rules, plots, the page.

CONTRIBUTING.md says how to add an operation.
"""

from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

from datagen.operations.base import Operation as Operation
from datagen.operations.products import MULTIPLICATION as MULTIPLICATION
from datagen.operations.quotients import DIVISION as DIVISION
from datagen.operations.sums import ADDITION as ADDITION
from datagen.operations.sums import SUBTRACTION as SUBTRACTION
from datagen.rules import COMMON, Rule
from datagen.slots import Kind, StepKind

# The index of an operation is its code in arrays and in hashes of problems: add new ones at the
# end.
OPERATIONS = (ADDITION, SUBTRACTION, MULTIPLICATION, DIVISION)
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
