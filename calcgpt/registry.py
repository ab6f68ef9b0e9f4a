"""Names to things: a config holds a name, a registry resolves it once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from calcgpt.errors import ConfigError

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of named variants of one architectural or training choice.

    A variant adds itself with a decorator; an unknown name raises and lists the valid ones,
    so no name ever falls back to a default silently.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that files the decorated object under `name`."""

        def add(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.what} {name!r} is registered twice")
            self._entries[name] = entry
            return entry

        return add

    def __getitem__(self, name: str) -> T:
        try:
            return self._entries[name]
        except KeyError:
            raise ConfigError(
                f"unknown {self.what} {name!r}; valid names: {', '.join(self)}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __contains__(self, name: object) -> bool:
        return name in self._entries
