"""What planning takes, which is bounded and charged: no text keeps a planner busy for long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_EFFORT = 2_000_000  # microseconds of a usual core, about


class EffortError(ArithmeticError):
    """Planning an expression takes more than MAX_EFFORT."""


class Effort:
    """Counts what planning takes. `check` is called as it goes on; what it raises ends it."""

    def __init__(self, check: Callable[[], object] | None = None) -> None:
        self.spent = 0
        self._check = check

    def spend(self, n: int) -> None:
        self.spent += n
        if self._check:
            self._check()
        if self.spent > MAX_EFFORT:
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
