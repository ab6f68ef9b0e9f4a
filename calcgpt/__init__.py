"""CalcGPT: a calculator whose answers come from a small GPT trained from scratch.

The names below are for use in other programs; docs/PYTHON.md has examples. Each is imported from
its module when it is first used, so that `import calcgpt` is fast. Their types are in
`__init__.pyi`. The laboratory in which the GPT is made is the package `calcgpt_lab`.
"""

from calcgpt.base.lazy import importer

__version__ = "0.5.0"

_MODULES = {
    "Calculator": "calcgpt.inference.calculator",
    "Checkpoint": "calcgpt.checkpoint",
    "ModelConfig": "calcgpt.config",
    "Problem": "datagen.arithmetic",
    "generate": "datagen.distributions",
}
__all__ = ["__version__", *_MODULES]
__getattr__ = importer(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(globals().keys() | _MODULES.keys())
