"""CalcGPT: a calculator whose answers come from a small GPT trained from scratch.

The names below are for use in other programs; docs/PYTHON.md has examples. Each is imported from
its module when it is first used, so that `import calcgpt` is fast and needs no torch. Their types
are in `__init__.pyi`.
"""

from importlib import import_module
from typing import Any

__version__ = "0.4.0"

_MODULES = {
    "Calculator": "calcgpt.inference.calculator",
    "Checkpoint": "calcgpt.checkpoint",
    "ModelConfig": "calcgpt.config",
    "Problem": "datagen.arithmetic",
    "Sampling": "calcgpt.inference.generate",
    "Task": "calcgpt.data.task",
    "build_model": "calcgpt.model.gpt",
    "evaluate": "calcgpt.evaluation.evaluate",
    "generate": "datagen.distributions",
    "load": "calcgpt.registry",
    "load_recipe": "calcgpt.recipe",
    "read_problems": "calcgpt.data.problems",
    "sample": "calcgpt.inference.generate",
    "train": "calcgpt.training.train",
}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'calcgpt' has no attribute {name!r}")
    try:
        value = getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        from datagen.extras import EXTRAS, install_line

        if error.name not in EXTRAS:
            raise
        message = f"calcgpt.{name} needs {error.name}: {install_line(error.name)}"
        raise ImportError(message, name=error.name) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | _MODULES.keys())
