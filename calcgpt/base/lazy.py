"""Names of a package that are imported when they are first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def importer(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package: names by the modules that have them. It raises
    ImportError, which says what to install, where a name needs a library that is missing."""

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(modules[name]), name)
        except ModuleNotFoundError as error:
            from calcgpt.base.extras import EXTRAS, install_line

            if error.name not in EXTRAS:
                raise
            message = f"{package}.{name} needs {error.name}: {install_line(error.name)}"
            raise ImportError(message, name=error.name) from None
        vars(import_module(package))[name] = value
        return value

    return get
