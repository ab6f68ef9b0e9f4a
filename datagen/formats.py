"""The formats of a line, by name."""

from collections.abc import Callable
from functools import partial

from datagen import direct, work
from datagen.arithmetic import ProblemArray

# Returns n lines of ASCII, each with its newline.
RenderLines = Callable[[ProblemArray], bytes]

FORMATS: dict[str, RenderLines] = {
    "direct": direct.render_lines,  # the answer follows the question directly
    "scratchpad": work.render_lines,  # worked steps stand between question and answer
    # the same, but some quotient digits are the second nearest
    "scratchpad-second-choices": partial(work.render_lines, second_choices=True),
}


def has_work(name: str) -> bool:
    """Whether worked steps stand before the answers in a format."""
    return name != "direct"
