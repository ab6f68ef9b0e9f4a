"""The laboratory of CalcGPT: models, their training, their scores, and what is inside them.

The names below are for use in other programs; docs/PYTHON.md has examples. Each is imported from
its module when it is first used. Their types are in `__init__.pyi`.
"""

from calcgpt.base.lazy import importer

_MODULES = {
    "Sampling": "calcgpt_lab.model.decoding",
    "Task": "calcgpt_lab.data.task",
    "build_model": "calcgpt_lab.model.gpt",
    "evaluate": "calcgpt_lab.evaluation.evaluate",
    "load": "calcgpt_lab.model.stored",
    "load_recipe": "calcgpt_lab.recipe",
    "read_problems": "calcgpt_lab.data.problems",
    "sample": "calcgpt_lab.model.decoding",
    "save": "calcgpt_lab.saving",
    "train": "calcgpt_lab.training.train",
}
__all__ = [*_MODULES]
__getattr__ = importer(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(globals().keys() | _MODULES.keys())
