"""The formats of a line, by name."""

from collections.abc import Callable
from functools import partial

from datagen import direct, work
from datagen.arithmetic import ProblemArray
from datagen.errors import DataError, unknown_name

# Returns n lines of ASCII, each with its newline.
RenderLines = Callable[[ProblemArray], bytes]

FORMATS: dict[str, RenderLines] = {
    "direct": direct.render_lines,  # the answer follows the question directly
    "scratchpad": work.render_lines,  # worked steps stand between question and answer
    "loose-scratchpad": partial(work.render_lines, loose=True),
}


def renderer(name: str) -> RenderLines:
    """Returns what writes lines in the format of that name. Raises DataError if there is none."""
    if name not in FORMATS:
        raise DataError(unknown_name("format", name, FORMATS))
    return FORMATS[name]
