"""The interface of all models, and the blocks and the initialisation of transformers.

Shapes: B batch, T tokens, C n_embd, V vocabulary.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from calcgpt.checkpoint import KIND_TABLE
from calcgpt.config import ModelConfig
from calcgpt.variants import register
from calcgpt_lab.model.attention import KVCache
from calcgpt_lab.model.layers import NORMS, feed_forward
from datagen.slots import Kind


class Block(nn.Module, ABC):
    """Attention, then feed-forward, each added to its input. Subclasses say where to normalise."""

    final_norm: bool  # whether the model normalises the output of the last block

    def __init__(self, config: ModelConfig, attention: nn.Module) -> None:
        super().__init__()
        self.attn_norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.attn: Any = attention
        self.ff_norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.ff = feed_forward(config)

    @abstractmethod
    def forward(self, x_BTC: torch.Tensor, context: Any) -> torch.Tensor:
        """(B, T, C) -> (B, T, C). `context` is what attention takes beside its input."""


class PreNormBlock(Block):
    """x + f(norm(x)): the residual stream itself is not normalised (GPT-2; Radford et al. 2019,
    section 2.3. Xiong et al. 2020)."""

    final_norm = True

    def forward(self, x_BTC: torch.Tensor, context: Any) -> torch.Tensor:
        x_BTC = x_BTC + self.attn(self.attn_norm(x_BTC), context)
        x_BTC = x_BTC + self.ff(self.ff_norm(x_BTC))
        return x_BTC


class PostNormBlock(Block):
    """norm(x + f(x)), as in the first transformer (Vaswani et al. 2017, section 3.1)."""

    final_norm = False

    def forward(self, x_BTC: torch.Tensor, context: Any) -> torch.Tensor:
        x_BTC = self.attn_norm(x_BTC + self.attn(x_BTC, context))
        x_BTC = self.ff_norm(x_BTC + self.ff(x_BTC))
        return x_BTC


BLOCKS: dict[str, type[Block]] = {"pre": PreNormBlock, "post": PostNormBlock}
register("norm_position", BLOCKS)


class LanguageModel(nn.Module, ABC):
    """The interface of all models: tokens in, logits of the next token out."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = vocab_size

    @abstractmethod
    def forward(
        self,
        tokens_BT: torch.Tensor,
        cache: KVCache | None = None,
        last_only: bool = False,
        features: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Returns logits (B, T, V), or (B, 1, V) of the last token with `last_only`.

        With a cache, `tokens_BT` follow the cached tokens and are added to the cache. `features`:
        the result of `text_features` for all of them, if you have it.
        Raises ValueError for more than `block_size` tokens.
        """

    def text_features(self, tokens_BT: torch.Tensor) -> torch.Tensor | None:
        """Returns what the model computes from the tokens in Python, outside the graph of tensors;
        None if there is nothing. With this result, a forward pass is a single graph."""
        return None

    def n_positions(self, n_token: int) -> int:
        """Returns how many positions `n_token` tokens take."""
        return n_token

    def new_cache(self, batch: int, n_token: int) -> KVCache:
        """Returns an empty key/value cache for `batch` sequences of at most `n_token` tokens."""
        weight = next(self.parameters())
        capacity = self.n_positions(n_token)
        return KVCache(self.config, batch, capacity, weight.device, weight.dtype)

    def array_decoder(self) -> "TorchDecoder":
        """Returns the model as a decoder of NumPy's arrays."""
        return TorchDecoder(self)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def n_parameters(self) -> int:
        """Returns the number of trainable parameters. Shared ones count once."""
        return sum(p.numel() for p in self.parameters())

    def _check_length(self, n_position: int) -> None:
        limit = self.n_positions(self.config.block_size)
        if n_position > limit:
            raise ValueError(f"{n_position} tokens do not fit in {limit}")


Loss = Callable[..., torch.Tensor]  # see `summed_loss`


def summed_loss(forward: Callable[..., torch.Tensor]) -> Loss:
    """Returns a function that computes the loss of `forward`, which is a model or stands for one.

    The function takes inputs and targets, each (B, T), and `features`: the result of
    `model.text_features(inputs)`, if you have it. It returns the cross-entropy in nats, summed over
    the targets; a scalar. Targets (B, T, V) are flags of right tokens: the loss is that of all of
    them together.
    """

    def loss(
        inputs: torch.Tensor, targets: torch.Tensor, features: torch.Tensor | None = None
    ) -> torch.Tensor:
        logits_BTV = forward(inputs, features=features)
        if targets.dim() == 3:
            logprobs_BTV = logits_BTV.float().log_softmax(dim=2)
            return -logprobs_BTV.masked_fill(~targets, -math.inf).logsumexp(dim=2).sum()
        return F.cross_entropy(logits_BTV.flatten(0, 1).float(), targets.flatten(), reduction="sum")

    return loss


class TorchDecoder:
    """A model as an `ArrayDecoder` of `calcgpt_lab.model.decoding`."""

    def __init__(self, model: LanguageModel) -> None:
        self.config, self._model = model.config, model

    def new_array_cache(self, batch: int, n_token: int) -> KVCache:
        return self._model.new_cache(batch, n_token)

    def __call__(
        self, tokens_BT: NDArray[np.int64], cache: KVCache, last_only: bool
    ) -> NDArray[np.float32]:
        with torch.inference_mode():
            tokens = torch.from_numpy(tokens_BT).to(self._model.device)
            logits: NDArray[np.float32] = (
                self._model(tokens, cache, last_only).float().cpu().numpy()
            )
        return logits


def torch_init(model: LanguageModel) -> None:
    """Keeps PyTorch's defaults, as in the blog: uniform fan-in matrices, unit normal embeddings."""


def gpt2_init(model: LanguageModel) -> None:
    """Draws matrices from Normal(0, 0.02), and scales those that write to the residual stream by
    1/sqrt(2 n_layer) (GPT-2; Radford et al. 2019, section 2.3)."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.dim() == 2:
            writes_residual = name.endswith(("attn.out.weight", "ff.down.weight"))
            scale = math.sqrt(2 * model.config.n_layer) if writes_residual else 1.0
            drawn = parameter.data[: len(Kind)] if name == KIND_TABLE else parameter
            nn.init.normal_(drawn, std=0.02 / scale)


INITS: dict[str, Callable[[LanguageModel], None]] = {"torch": torch_init, "gpt2": gpt2_init}
register("init", INITS)
