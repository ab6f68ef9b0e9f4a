"""Trains a model whose layers share their parameters (research/SIZE.md).

    python -m research.shared_layers [OPTIONS OF calcgpt train]

All layers have the parameters of the first (Universal Transformer; Dehghani et al. 2019, section
2.1. ALBERT; Lan et al. 2020, section 3.1). The checkpoint is that of an ordinary model, whose
layers happen to be equal. So every command and every engine can use it. Continue an interrupted run
with this command, too: `calcgpt train` would train each layer by itself.

Ran at commit 7fb308e and before.
"""

import sys
from typing import Any

from calcgpt.cli import cli
from calcgpt.model.gpt import GPT, MODELS


class SharedLayers(GPT):
    """A GPT whose layers share their parameters."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        first, *others = self.blocks
        for block in others:
            for name, parameter in first.named_parameters():
                module, _, attribute = name.rpartition(".")
                setattr(block.get_submodule(module), attribute, parameter)


if __name__ == "__main__":
    MODELS["gpt"] = SharedLayers
    cli(["train", *sys.argv[1:]])
