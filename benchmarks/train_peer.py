"""The peer of the benchmark of training: nanoGPT's model and training loop, written anew.

After https://github.com/karpathy/nanoGPT (`model.py`, `train.py`; MIT licence), at its best:
batches from memory, a fused AdamW, torch's kernel of attention, and `torch.compile` of the model
with its loss. On a CPU, nanoGPT itself trains in float32 only; here it may use bf16 there as well.

Shapes: B sequences, T tokens, C width, V tokens of the vocabulary.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

LR, WARMUP, STEPS, MIN_LR = 1e-3, 100, 2000, 1e-4  # of nanoGPT's shakespeare_char on a CPU
BETAS, WEIGHT_DECAY, GRAD_CLIP = (0.9, 0.99), 0.1, 1.0


class Shape(NamedTuple):
    """The sizes of a GPT-2 without biases, and of its batches."""

    layers: int
    heads: int
    width: int
    context: int
    batch: int
    vocabulary: int = 65


class Block(nn.Module):
    """Attention and feed-forward, each on a normalised input and added to it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.norm1 = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)."""
        B, T, C = x_BTC.shape
        q, k, v = (
            part.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x_BTC)).split(C, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_BTC = x_BTC + self.out(y.transpose(1, 2).contiguous().view(B, T, C))
        x_BTC = x_BTC + self.down(F.gelu(self.up(self.norm2(x_BTC))))
        return x_BTC


class PeerGPT(nn.Module):
    """A GPT-2 without biases, its head tied to the embedding. The loss is part of the model."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width, bias=False)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.tokens.weight = self.head.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                is_output = name.endswith(("out.weight", "down.weight"))
                scale = math.sqrt(2 * shape.layers) if is_output else 1.0
                nn.init.normal_(parameter, std=0.02 / scale)

    def forward(self, tokens_BT: torch.Tensor, targets_BT: torch.Tensor) -> torch.Tensor:
        """Returns the mean cross-entropy, a scalar."""
        positions = torch.arange(tokens_BT.size(1), device=tokens_BT.device)
        x_BTC = self.tokens(tokens_BT) + self.positions(positions)
        for block in self.blocks:
            x_BTC = block(x_BTC)
        logits_BTV = self.head(self.norm(x_BTC))
        return F.cross_entropy(logits_BTV.view(-1, logits_BTV.size(-1)), targets_BT.view(-1))


class PeerLoop:
    """nanoGPT's training loop on a text of token ids, without its validation.

    `mode` is torch.compile's; `reduce-overhead` replays CUDA graphs, as nanoGPT itself does not.
    """

    def __init__(
        self,
        shape: Shape,
        ids: np.ndarray,
        device: torch.device,
        bf16: bool,
        compile: bool,
        mode: str | None = None,
    ) -> None:
        self.shape, self.ids, self.device = shape, torch.from_numpy(ids.astype(np.int64)), device
        self.model = PeerGPT(shape).to(device)
        self.forward: Callable[..., torch.Tensor] = self.model
        if compile:
            self.forward = torch.compile(self.model, mode=mode)
        matrices = [p for p in self.model.parameters() if p.dim() >= 2]
        others = [p for p in self.model.parameters() if p.dim() < 2]
        groups = [
            {"params": matrices, "weight_decay": WEIGHT_DECAY},
            {"params": others, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, fused=True)
        self.context: AbstractContextManager[object] = nullcontext()
        if bf16:
            self.context = torch.autocast(device.type, torch.bfloat16)
        if bf16 and device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = True
        self.step_number = 0
        self.next_batch = self.random_batch()

    def random_batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns random windows of the text and the tokens after each, both (B, T)."""
        T = self.shape.context
        starts = torch.randint(len(self.ids) - T, (self.shape.batch,)).tolist()
        inputs = torch.stack([self.ids[i : i + T] for i in starts])
        targets = torch.stack([self.ids[i + 1 : i + 1 + T] for i in starts])
        if self.device.type == "cuda":
            inputs, targets = inputs.pin_memory(), targets.pin_memory()
        return (
            inputs.to(self.device, non_blocking=True),
            targets.to(self.device, non_blocking=True),
        )

    def step(self) -> torch.Tensor:
        """Does one step on a random batch. Returns its loss, a scalar on the device."""
        return self.train_on(*self.next_batch)

    def train_on(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Does one step. Returns its loss, a scalar on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.step_number)
        with self.context:
            loss = self.forward(inputs, targets)
        self.next_batch = self.random_batch()  # while a GPU computes
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), GRAD_CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step_number += 1
        return loss.detach()


def learning_rate(step: int) -> float:
    """Returns the rate of a step: a linear warm-up, then a cosine."""
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    progress = min(1.0, (step - WARMUP) / (STEPS - WARMUP))
    return MIN_LR + 0.5 * (1.0 + math.cos(math.pi * progress)) * (LR - MIN_LR)
