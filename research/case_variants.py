"""Variants of the model that is tried in every case (docs/PROOF.md), as a plug-in.

    calcgpt train --plugin research/case_variants.py --recipe calculator --out runs/no-sink \\
        --set model.architecture=sources-no-sink --set train.steps=12000

Architectures: `sources-no-roles`, `sources-no-sink`, and `sources-streams`, whose keys and values
come from a residual stream of the sources: the feed-forward network of each block adds to it.
CASE_BITS in the environment rounds the matrices to fewer bits than 8, in training as well.
"""

import os
from functools import partial

import torch

from calcgpt import tensors
from calcgpt_lab.model import sources
from calcgpt_lab.model.gpt import MODELS
from calcgpt_lab.training import optim

tensors.LARGEST = optim.LARGEST = 2 ** (int(os.environ.get("CASE_BITS", "8")) - 1) - 1


class NoRoles(sources.SourceTransformer):
    """All sources have one role."""

    def forward(self, *args, **options):
        with torch.no_grad():
            self.roles.weight.zero_()
        return super().forward(*args, **options)


class NoSink(sources.SourceTransformer):
    """A query attends to its sources alone, if it has any."""

    def forward(self, *args, **options):
        with torch.no_grad():
            for block in self.blocks:
                block.attn.sink.fill_(-30.0)
        return super().forward(*args, **options)


class Streams(sources.SourceTransformer):
    """Keys and values are projections of a residual stream of the sources."""

    def __init__(self, config, vocab_size):
        super().__init__(config, vocab_size)
        for index, block in enumerate(self.blocks):
            block.register_forward_pre_hook(partial(self._later, index))

    def _later(self, index, block, inputs):
        x_BTC, context = inputs
        table_XC = context.table_XC
        for before in self.blocks[:index]:
            table_XC = table_XC + before.ff(before.ff_norm(table_XC))
        return x_BTC, context._replace(table_XC=table_XC)


MODELS["sources-no-roles"] = NoRoles
MODELS["sources-no-sink"] = NoSink
MODELS["sources-streams"] = Streams
