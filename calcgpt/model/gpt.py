"""The models: a decoder-only transformer, its blocks and its initialisation, and a bigram model.

Shapes: B batch, T tokens, S all tokens (cached and new), C n_embd, V vocabulary.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.errors import check_integer, check_types
from calcgpt.model.attention import ATTENTIONS, CausalSelfAttention, Context, KVCache
from calcgpt.model.layers import NORMS, Linear, dropout, feed_forward
from calcgpt.model.parameters import KIND_TABLES
from calcgpt.model.positions import POSITIONS, KindTable
from calcgpt.variants import register
from datagen.coordinates import Codes
from datagen.slots import Kind


class Block(nn.Module, ABC):
    """Attention, then feed-forward, each added to its input. Subclasses say where to normalise."""

    final_norm: bool  # whether the model normalises the output of the last block

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attn_norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.attn = CausalSelfAttention(config, layer)
        self.ff_norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.ff = feed_forward(config)

    @abstractmethod
    def forward(self, x_BTC: torch.Tensor, context: Context) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)."""


class PreNormBlock(Block):
    """x + f(norm(x)): the residual stream itself is not normalised (GPT-2; Radford et al. 2019,
    section 2.3. Xiong et al. 2020)."""

    final_norm = True

    def forward(self, x_BTC: torch.Tensor, context: Context) -> torch.Tensor:
        x_BTC = x_BTC + self.attn(self.attn_norm(x_BTC), context)
        x_BTC = x_BTC + self.ff(self.ff_norm(x_BTC))
        return x_BTC


class PostNormBlock(Block):
    """norm(x + f(x)), as in the first transformer (Vaswani et al. 2017, section 3.1)."""

    final_norm = False

    def forward(self, x_BTC: torch.Tensor, context: Context) -> torch.Tensor:
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

    def ascii_codes(self, tokens_BT: torch.Tensor) -> Codes | None:
        """Returns the text whose `batch_coordinates` are the text features, which other processes
        can compute; None if there are none."""
        return None

    def n_positions(self, n_token: int) -> int:
        """Returns how many positions `n_token` tokens take."""
        return n_token

    def new_cache(self, batch: int, n_token: int) -> KVCache:
        """Returns an empty key/value cache for `batch` sequences of at most `n_token` tokens."""
        weight = next(self.parameters())
        capacity = self.n_positions(n_token)
        return KVCache(self.config, batch, capacity, weight.device, weight.dtype)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def n_parameters(self) -> int:
        """Returns the number of trainable parameters. Shared ones count once, and rows that are
        reserved for new kinds of slots do not count."""
        tables = [module for module in self.modules() if isinstance(module, KindTable)]
        n_reserved = sum(table.n_reserved * table.embedding_dim for table in tables)
        return sum(p.numel() for p in self.parameters()) - n_reserved

    def _check_length(self, n_position: int) -> None:
        limit = self.n_positions(self.config.block_size)
        if n_position > limit:
            raise ValueError(f"{n_position} tokens do not fit in {limit}")


class Bigram(LanguageModel):
    """Predicts the next token from the last one only: a row of logits per token (Karpathy's
    `makemore`). It uses only `block_size` of the config."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        self.table = nn.Embedding(vocab_size, vocab_size)

    def forward(
        self,
        tokens_BT: torch.Tensor,
        cache: KVCache | None = None,
        last_only: bool = False,
        features: torch.Tensor | None = None,
    ) -> torch.Tensor:
        length = tokens_BT.size(1) + (cache.length if cache else 0)
        self._check_length(length)
        if cache is not None:
            cache.length = length
        logits_BTV: torch.Tensor = self.table(tokens_BT[:, -1:] if last_only else tokens_BT)
        return logits_BTV


class GPT(LanguageModel):
    """A decoder-only transformer. The config chooses each of its parts by name."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        self.scheme = ATTENTIONS[config.attention](config, vocab_size)
        self.token_embedding = nn.Embedding(vocab_size + self.scheme.n_inserted_ids, config.n_embd)
        n_positions = self.n_positions(config.block_size)
        self.positions = POSITIONS[config.position](config, n_positions)
        self.embed_dropout = dropout(config.dropout)
        block = BLOCKS[config.norm_position]
        self.blocks = nn.ModuleList(block(config, layer) for layer in range(config.n_layer))
        self.norm: nn.Module = nn.Identity()
        if block.final_norm:
            self.norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.head = Linear(config.n_embd, vocab_size, bias=config.head_bias)
        if config.tie_embeddings:
            self.head.weight = self.token_embedding.weight
        INITS[config.init](self)

    def n_positions(self, n_token: int) -> int:
        return self.scheme.n_positions(n_token)

    def with_plain_attention(self) -> "GPT":
        """Returns a model with the same weights that computes attention step by step: itself, if it
        does, or else a copy. A fused kernel never holds all attention weights, and ONNX cannot
        express how torch calls it."""
        if self.config.attention_kernel == "plain":
            return self
        plain = GPT(self.config.model_copy(update={"attention_kernel": "plain"}), self.vocab_size)
        plain.load_state_dict(self.state_dict())
        return plain.eval()

    def text_features(self, tokens_BT: torch.Tensor) -> torch.Tensor | None:
        return self.positions.text_features(self.scheme.insert(tokens_BT, 0), 0)

    def ascii_codes(self, tokens_BT: torch.Tensor) -> Codes | None:
        return self.positions.ascii_codes(self.scheme.insert(tokens_BT, 0))

    def forward(
        self,
        tokens_BT: torch.Tensor,
        cache: KVCache | None = None,
        last_only: bool = False,
        features: torch.Tensor | None = None,
    ) -> torch.Tensor:
        start = cache.length if cache else 0
        tokens_BT = self.scheme.insert(tokens_BT, start)
        T = tokens_BT.size(1)
        self._check_length(start + T)
        tokens_BS = tokens_BT if cache is None else cache.append_tokens(tokens_BT)
        prepared = self.positions.prepare(tokens_BS, start, features)
        x_BTC = self.positions.embed(self.token_embedding(tokens_BT), prepared, start)
        x_BTC = self.embed_dropout(x_BTC)
        context = Context(self.positions, prepared, self.scheme, T, cache, tokens_BT.device)
        for block in self.blocks:
            x_BTC = block(x_BTC, context)
        if cache is not None:
            cache.length += T
        x_BTC = self.scheme.remove(x_BTC, start)
        if last_only:
            x_BTC = x_BTC[:, -1:]
        logits_BTV: torch.Tensor = self.head(self.norm(x_BTC))
        # A head tied to the embedding also has rows for the tokens of the attention scheme.
        return logits_BTV[..., : self.vocab_size]


MODELS: dict[str, type[LanguageModel]] = {"bigram": Bigram, "gpt": GPT}
register("architecture", MODELS)


def build_model(config: ModelConfig, vocab_size: int) -> LanguageModel:
    """Returns the model that `config` describes, freshly initialised. Raises ArgumentError unless
    `vocab_size` is from 1 to 65,536."""
    check_types(config=(config, ModelConfig))
    check_integer("vocab_size", vocab_size, 1, 2**16)
    return MODELS[config.architecture](config, vocab_size)


def torch_init(model: GPT) -> None:
    """Keeps PyTorch's defaults, as in the blog: uniform fan-in matrices, unit normal embeddings."""


def gpt2_init(model: GPT) -> None:
    """Draws matrices from Normal(0, 0.02), and scales those that write to the residual stream by
    1/sqrt(2 n_layer) (GPT-2; Radford et al. 2019, section 2.3)."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.dim() == 2:
            writes_residual = name.endswith(("attn.out.weight", "ff.down.weight"))
            scale = math.sqrt(2 * model.config.n_layer) if writes_residual else 1.0
            drawn = parameter.data[: len(Kind)] if name in KIND_TABLES else parameter
            nn.init.normal_(drawn, std=0.02 / scale)


INITS: dict[str, Callable[[GPT], None]] = {"torch": torch_init, "gpt2": gpt2_init}
register("init", INITS)


_TILES = "triton.coalesce_tiling_analysis"  # an option of torch's compiler


def compiled(
    function: Callable[..., torch.Tensor],
    model: LanguageModel,
    dynamic: bool | None = True,
    **options: Any,
) -> Callable[..., torch.Tensor]:
    """Returns a compiled `function`, which is the model, a wrapper of it, or its loss. It takes
    tokens (B, T) first, and the result of `model.text_features` by the name `features`.

    The result has the same arguments. Without `features`, it computes them before the graph begins,
    because Python code does that. If `dynamic` is True, sizes are symbols in the graph:
    batches of problems have many widths. If it is None, sizes are numbers until a second size is
    seen. `options` are passed to `torch.compile`.
    """
    if dynamic:
        # Two errors of torch 2.11 on a GPU when sizes are symbols (research/LOG.md): gradients of
        # views get the strides of the first sizes from the flash kernel, and the search for tiles
        # fails for landmark attention.
        for layer in model.modules():
            if isinstance(layer, CausalSelfAttention):
                layer.copies_views = True
        if model.config.attention == "landmark" and "backend" not in options:
            from torch import _inductor  # takes a second

            if _TILES in _inductor.list_options():
                options["options"] = {_TILES: False}
    graph = torch.compile(function, dynamic=dynamic, **options)

    def call(
        tokens_BT: torch.Tensor, *others: torch.Tensor, features: torch.Tensor | None = None
    ) -> torch.Tensor:
        features = model.text_features(tokens_BT) if features is None else features
        result: torch.Tensor = graph(tokens_BT, *others, features=features)
        return result

    return call
