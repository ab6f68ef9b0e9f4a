"""What planning takes, which is bounded and charged: no text keeps a planner busy for long."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_EFFORT = 2_000_000  # microseconds of a usual core, about
EFFORT_OF_CHARACTER = 1  # in which the model writes one, from a full memory


class EffortError(ArithmeticError):
    """Planning an expression takes more than MAX_EFFORT, or nobody waits for it any more."""


class Effort:
    """Counts what planning takes, in microseconds."""

    def __init__(self) -> None:
        self.spent = 0
        self._is_stopped = False

    @property
    def characters(self) -> int:
        """How many characters the model would write in this time."""
        return self.spent // EFFORT_OF_CHARACTER

    def stop(self) -> None:
        """Ends the planning that counts here, from any thread."""
        self._is_stopped = True

    def spend(self, n: int) -> None:
        self.spent += n
        if self._is_stopped or self.spent > MAX_EFFORT:
            raise EffortError

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Makes this what `spend` counts on, in this thread."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Effort | None] = ContextVar("effort", default=None)


def current() -> Effort:
    """Returns what `spend` counts on, or a new one."""
    return _current.get() or Effort()


def spend(n: int) -> None:
    """Counts n microseconds of work. Raises EffortError if that makes too much of it."""
    if effort := _current.get():
        effort.spend(n)
