"""Blocks, by where they normalise: attention, then feed-forward, each added to what came in.

Shapes: B batch, T tokens, C n_embd.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.model.attention import CausalSelfAttention, Context
from calcgpt.model.feedforward import feed_forward
from calcgpt.model.norms import NORMS
from calcgpt.registry import Registry


class Block(nn.Module, ABC):
    """The parts of a block."""

    final_norm: bool  # whether the last block's output is still to be normalised

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attn_norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.attn = CausalSelfAttention(config, layer)
        self.ff_norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.ff = feed_forward(config)

    @abstractmethod
    def forward(self, x_BTC: torch.Tensor, context: Context) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)."""


BLOCKS: Registry[type[Block]] = Registry("norm_position")


@BLOCKS.register("pre")
class PreNormBlock(Block):
    """x + f(norm(x)): the residual stream itself is never normalised (GPT-2; Radford et al. 2019,
    section 2.3. Xiong et al. 2020)."""

    final_norm = True

    def forward(self, x_BTC: torch.Tensor, context: Context) -> torch.Tensor:
        x_BTC = x_BTC + self.attn(self.attn_norm(x_BTC), context)
        x_BTC = x_BTC + self.ff(self.ff_norm(x_BTC))
        return x_BTC


@BLOCKS.register("post")
class PostNormBlock(Block):
    """norm(x + f(x)), as in the first transformer (Vaswani et al. 2017, section 3.1)."""

    final_norm = False

    def forward(self, x_BTC: torch.Tensor, context: Context) -> torch.Tensor:
        x_BTC = self.attn_norm(x_BTC + self.attn(x_BTC, context))
        x_BTC = self.ff_norm(x_BTC + self.ff(x_BTC))
        return x_BTC
