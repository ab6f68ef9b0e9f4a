"""A transformer in which a query sees only the characters that the rule of its slot reads.

So the next character is a function of a case: the kind of the slot, and at most MAX_SOURCES
characters (`datagen.cases`). There are fewer than a million cases, and a trained model can be tried
on all of them (docs/PROOF.md).

Shapes: B batch, T tokens, S all tokens (cached and new), C n_embd, H query heads, G key/value
heads, D head width, V vocabulary, R MAX_SOURCES.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt_lab.model.attention import MINUS_INF, KVCache
from calcgpt_lab.model.base import BLOCKS, INITS, LanguageModel
from calcgpt_lab.model.layers import NORMS, dropout
from datagen.answer_layout import Slots, answer_shape, answer_slots, as_arrays
from datagen.layout import layout, shape_of
from datagen.slots import MAX_SOURCES, N_KINDS, NOWHERE, Kind, Layout

NO_SOURCE = -1  # in place of a token that a rule does not read


class Context(NamedTuple):
    """What all layers attend to: the embedding of each token as each source, and which of them each
    query sees."""

    table_XC: torch.Tensor  # X = R V rows
    rows_BTR: torch.Tensor  # of the table
    hidden_BTR: torch.Tensor  # True where there is no source


class SourceAttention(nn.Module):
    """Attention to the sources of a rule, and to a learned sink for none of them (Xiao et al. 2024,
    section 3.3, as a logit alone).

    Keys and values are projections of embeddings, not of a residual stream: with trained weights
    they are tables, so there is nothing to cache.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.n_head, config.kv_heads
        self.head_dim = config.head_dim
        kv_width = 2 * config.kv_heads * config.head_dim
        self.q = nn.Linear(config.n_embd, config.n_embd, bias=config.qkv_bias)
        self.kv = nn.Linear(config.n_embd, kv_width, bias=config.qkv_bias)
        self.out = nn.Linear(config.n_embd, config.n_embd, bias=config.attn_out_bias)
        self.sink = nn.Parameter(torch.zeros(config.n_head))
        self.weights_dropout = dropout(config.dropout)
        self.out_dropout = dropout(config.dropout)
        self.q_norm: nn.Module = nn.Identity()
        self.k_norm: nn.Module = nn.Identity()
        if config.qk_norm:
            self.q_norm = NORMS[config.norm](self.head_dim, config.norm_bias)
            self.k_norm = NORMS[config.norm](self.head_dim, config.norm_bias)

    def forward(self, x_BTC: torch.Tensor, context: Context) -> torch.Tensor:
        B, T, C = x_BTC.shape
        H, G = self.heads
        q_BTHD = self.q_norm(self.q(x_BTC).view(B, T, H, self.head_dim))
        k_XGD, v_XGD = self.kv(context.table_XC).view(-1, 2, G, self.head_dim).unbind(1)
        k_XC, v_XC = (
            x_XGD.repeat_interleave(H // G, dim=1).flatten(1)
            for x_XGD in (self.k_norm(k_XGD), v_XGD)
        )
        k_BTRHD, v_BTRHD = (
            F.embedding(context.rows_BTR, x_XC).view(B, T, -1, H, self.head_dim)
            for x_XC in (k_XC, v_XC)
        )
        scores_BTRH = (q_BTHD[:, :, None] * k_BTRHD).sum(-1) / math.sqrt(self.head_dim)
        scores_BTRH = scores_BTRH.masked_fill(context.hidden_BTR[..., None], MINUS_INF)
        sink_BT1H = self.sink.to(scores_BTRH.dtype).expand(B, T, 1, H)
        weights_BTRH = torch.cat((scores_BTRH, sink_BT1H), dim=2).softmax(dim=2)[:, :, :-1]
        y_BTHD = (self.weights_dropout(weights_BTRH)[..., None] * v_BTRHD).sum(2)
        y_BTC: torch.Tensor = self.out_dropout(self.out(y_BTHD.reshape(B, T, C)))
        return y_BTC


class KindTable(nn.Embedding):
    """A vector for each kind of slot, and a row of zeros for each kind that may be added later."""

    def __init__(self, n_embd: int) -> None:
        super().__init__(N_KINDS, n_embd)

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)
        nn.init.normal_(self.weight.data[: len(Kind)])


class SourceTransformer(LanguageModel):
    """A transformer with two streams (XLNet; Yang et al. 2019, section 2.3). That of the queries
    begins with the kind of the slot to write, not with the token before it. That of the content is
    the normalised sum of the embeddings of a token and of its place among the sources, and is the
    same in all layers."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__(config, vocab_size)
        self.token_embedding = nn.Embedding(vocab_size, config.n_embd)
        self.roles = nn.Embedding(MAX_SOURCES, config.n_embd)
        self.kinds = KindTable(config.n_embd)
        self.source_norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.embed_dropout = dropout(config.dropout)
        block, layers = BLOCKS[config.norm_position], range(config.n_layer)
        self.blocks = nn.ModuleList(block(config, SourceAttention(config)) for _ in layers)
        self.norm: nn.Module = nn.Identity()
        if block.final_norm:
            self.norm = NORMS[config.norm](config.n_embd, config.norm_bias)
        self.head = nn.Linear(config.n_embd, vocab_size, bias=config.head_bias)
        if config.tie_embeddings:
            self.head.weight = self.token_embedding.weight
        INITS[config.init](self)
        self._code_of_token = np.zeros(2**8, np.uint8)  # 0: not a character
        self._code_of_token[: len(config.characters)] = list(config.characters.encode())
        self._token_of_code = np.full(2**8, NO_SOURCE, np.int64)
        codes = self._code_of_token[: len(config.characters)]
        self._token_of_code[codes] = np.arange(len(codes))

    def text_features(self, tokens_BT: torch.Tensor) -> torch.Tensor:
        """Returns the case of each next token, (B, T, 1 + R) int64: its kind, and the tokens that
        its rule reads, NO_SOURCE for none. `tokens_BT` may also be cases themselves."""
        if tokens_BT.dim() == 3:
            return tokens_BT
        codes_BT = self._code_of_token[tokens_BT.clamp(max=2**8 - 1).cpu().numpy()]
        cases_BTR = np.stack([next_cases(codes_T.tobytes()) for codes_T in codes_BT])
        features_BTR = self._token_of_code[cases_BTR]
        features_BTR[..., 0] = cases_BTR[..., 0]
        return torch.from_numpy(features_BTR).to(tokens_BT.device)

    def n_parameters(self) -> int:
        """Returns the number of trainable parameters, without rows reserved for new kinds."""
        return super().n_parameters() - (N_KINDS - len(Kind)) * self.config.n_embd

    def forward(
        self,
        tokens_BT: torch.Tensor,
        cache: KVCache | None = None,
        last_only: bool = False,
        features: torch.Tensor | None = None,
    ) -> torch.Tensor:
        start, T = cache.length if cache else 0, tokens_BT.size(1)
        self._check_length(start + T)
        tokens_BS = tokens_BT if cache is None else cache.append_tokens(tokens_BT)
        features_BSR = self.text_features(tokens_BS) if features is None else features
        if cache is not None:
            cache.length += T
        features_BTR = features_BSR[:, -1:] if last_only else features_BSR[:, start:]
        tokens_BTR, V = features_BTR[..., 1:], self.vocab_size
        rows_BTR = tokens_BTR.clamp(min=0) + V * torch.arange(MAX_SOURCES, device=self.device)
        embeddings_RVC = self.token_embedding.weight + self.roles.weight[:, None]
        table_XC = self.source_norm(embeddings_RVC.flatten(0, 1))
        context = Context(table_XC, rows_BTR, tokens_BTR == NO_SOURCE)
        x_BTC = self.embed_dropout(self.kinds(features_BTR[..., 0]))
        for block in self.blocks:
            x_BTC = block(x_BTC, context)
        logits_BTV: torch.Tensor = self.head(self.norm(x_BTC))
        return logits_BTV


def next_cases(line: bytes, start: int = 0) -> NDArray[np.uint8]:
    """Returns the case of the character after each character of a line from `start` on, (T, 1 +
    MAX_SOURCES): its kind, and the ASCII codes of its sources, 0 for none.

    The line may be unfinished, and any text is allowed: where no slot follows, or the question is
    not complete, the case is all 0.
    """
    kinds, sources = next_slots(line, start)
    codes = np.frombuffer(line + b"\0", np.uint8)  # NOWHERE reads the last one
    return np.hstack((kinds[:, None], codes[sources]))


def next_slots(line: bytes, start: int = 0) -> Slots:
    """Returns the slots of the cases of `next_cases`."""
    n = len(line) - start
    result = Slots(np.zeros(n, np.uint8), np.full((n, MAX_SOURCES), NOWHERE, np.int32))
    end = line.find(b"=") + 1
    shape = shape_of(line[:end].decode("ascii", "replace")) if end else None
    if shape is None:
        return result
    plan, first = layout(shape), max(end, start + 1)  # the first slot to fill
    _fill(result, plan, first, start + 1)
    n_work = len(plan)
    if len(line) >= n_work:
        answer = as_arrays(answer_slots(plan, answer_shape(plan, line)))
        _fill(result, answer, max(0, first - n_work), start + 1 - n_work)
    return result


def _fill(result: Slots, slots: Layout | Slots, first: int, offset: int) -> None:
    """Writes slots from `first` on into the rows of `result`, in place: slot `offset` is in the
    first row."""
    stop = min(len(slots.kinds), offset + len(result.kinds))
    if first < stop:
        rows = slice(first - offset, stop - offset)
        result.kinds[rows] = slots.kinds[first:stop]
        result.sources[rows] = slots.sources[first:stop]
