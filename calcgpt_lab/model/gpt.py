"""The models: a decoder-only transformer, its initialisation, and a bigram model.

Shapes: B batch, T tokens, S all tokens (cached and new), C n_embd, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from calcgpt.base.errors import check_integer, check_types
from calcgpt.config import ModelConfig
from calcgpt.variants import register
from calcgpt_lab.model.attention import ATTENTIONS, CausalSelfAttention, Context, KVCache
from calcgpt_lab.model.base import BLOCKS, INITS, LanguageModel
from calcgpt_lab.model.layers import NORMS, dropout
from calcgpt_lab.model.positions import POSITIONS
from calcgpt_lab.model.sources import SourceTransformer


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
        layers = range(config.n_layer)
        self.blocks = nn.ModuleList(block(config, CausalSelfAttention(config, i)) for i in layers)
        self.norm: nn.Module = nn.Identity()
        if block.final_norm:
            self.norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.head = nn.Linear(config.n_embd, vocab_size, bias=config.head_bias)
        if config.tie_embeddings:
            self.head.weight = self.token_embedding.weight
        INITS[config.init](self)

    def n_positions(self, n_token: int) -> int:
        return self.scheme.n_positions(n_token)

    def with_plain_attention(self) -> "GPT":
        """Returns a model with the same weights that computes attention step by step: itself, if it
        does, or else a copy. A fused kernel never holds all attention weights."""
        if self.config.attention_kernel == "plain":
            return self
        plain = GPT(self.config.model_copy(update={"attention_kernel": "plain"}), self.vocab_size)
        plain.load_state_dict(self.state_dict())
        return plain.eval()

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
        x_BTC = self.positions.embed(self.token_embedding(tokens_BT), tokens_BS, start)
        x_BTC = self.embed_dropout(x_BTC)
        context = Context(self.positions, self.scheme, T, cache, tokens_BT.device)
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


MODELS: dict[str, type[LanguageModel]] = {
    "bigram": Bigram,
    "gpt": GPT,
    "sources": SourceTransformer,
}
register("architecture", MODELS)


def build_model(config: ModelConfig, vocab_size: int) -> LanguageModel:
    """Returns the model that `config` describes, freshly initialised. Raises ArgumentError unless
    `vocab_size` is from 1 to 65,536."""
    check_types(config=(config, ModelConfig))
    check_integer("vocab_size", vocab_size, 1, 2**16)
    return MODELS[config.architecture](config, vocab_size)


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
