"""Qwen3 (Yang et al. 2025) with positions that are computed from the text.

`calcgpt export` puts this file and the modules of the layout beside the weights, so that
`AutoModelForCausalLM` needs no other code. Three things differ from Qwen3:

- Learned vectors for the kind of a character and the kind of the next are added to the embedding.
- Queries and keys are rotated by coordinates: a key by its own, a query by those it has to look at.
- With windows, a query sees only some keys: those without a row or column, those near the row or
  column that it looks for, and the highest digits of some rows (see `CoordinatePositions`).

Shapes: B sequences, S tokens so far, T new tokens, C hidden size, X heads, D head width. The last
dimension of coordinates is 6.
"""

import numpy as np
import torch
from torch import nn
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from calcgpt.model.windows import Windows
from datagen.coordinates import N_COORDINATES, coordinates


class CalcGPTConfig(Qwen3Config):  # type: ignore[misc]
    """Qwen3's, with `characters` (the vocabulary as one text), `frequencies` of the rotation,
    `n_kind`, the number of kinds of characters, and `row_window` and `column_window`, how many rows
    and columns on each side a query sees; None means all."""

    model_type = "calcgpt"
    row_window = None
    column_window = None


class RotatedNorm(Qwen3RMSNorm):  # type: ignore[misc]
    """Normalises queries or keys, (B, T, X, D), and rotates them by `cos` and `sin`, (B, T, 1, D),
    which are set for each pass."""

    def forward(self, x_BTXD: torch.Tensor) -> torch.Tensor:
        x_BTXD = super().forward(x_BTXD)
        rotated: torch.Tensor = (
            x_BTXD * self.cos + x_BTXD.roll(x_BTXD.size(3) // 2, dims=3) * self.sin
        )
        return rotated


class NoRotation(nn.Module):
    """Replaces the rotation by positions, which Qwen3 applies after the norms."""

    def forward(
        self, x_BTC: torch.Tensor, position_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return x_BTC.new_ones(1), x_BTC.new_zeros(1)


class CalcGPTForCausalLM(Qwen3ForCausalLM):  # type: ignore[misc]
    """The model. `generate` works as with any other model. A call with a cache needs the whole text
    so far as `text`, (B, S), because the coordinates are computed from it."""

    config_class = CalcGPTConfig

    def __init__(self, config: CalcGPTConfig) -> None:
        super().__init__(config)
        self.kinds = nn.Embedding(config.n_kind, config.hidden_size)
        self.next_kinds = nn.Embedding(config.n_kind, config.hidden_size)
        for layer in self.model.layers:
            attention = layer.self_attn
            attention.q_norm = RotatedNorm(attention.head_dim, config.rms_norm_eps)
            attention.k_norm = RotatedNorm(attention.head_dim, config.rms_norm_eps)
        self.model.rotary_emb = NoRotation()
        self.post_init()

    def forward(  # type: ignore[no-untyped-def]
        self, input_ids, attention_mask=None, past_key_values=None, text=None, **kwargs
    ):
        if text is None:
            if past_key_values is not None and past_key_values.get_seq_length():
                raise ValueError("with a cache, give the whole text so far as `text`")
            text = input_ids
        all_BS6 = self._read(text, attention_mask)
        new_BT6 = all_BS6[:, -input_ids.size(1) :]
        self._rotate_by(new_BT6[..., 2:])
        windows = Windows(self.config.row_window, self.config.column_window)
        if not windows.is_open:
            attention_mask = self._visible(windows, all_BS6, new_BT6, attention_mask)
        embedded_BTC = self.model.embed_tokens(input_ids)
        embedded_BTC = embedded_BTC + self.kinds(new_BT6[..., 0])
        return super().forward(
            inputs_embeds=embedded_BTC + self.next_kinds(new_BT6[..., 1]),
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            **kwargs,
        )

    def prepare_inputs_for_generation(self, input_ids, **kwargs):  # type: ignore[no-untyped-def]
        return {**super().prepare_inputs_for_generation(input_ids, **kwargs), "text": input_ids}

    def _read(self, text_BS: torch.Tensor, mask_BS: torch.Tensor | None) -> torch.Tensor:
        """Returns the coordinates of all characters, (B, S, 6); 0 where the mask is 0."""
        codes = np.zeros(self.config.vocab_size, np.uint8)
        codes[: len(self.config.characters)] = list(self.config.characters.encode())
        codes_BS = codes[text_BS.cpu().numpy()]
        if mask_BS is not None:
            codes_BS = np.where(mask_BS.cpu().numpy() != 0, codes_BS, 0)
        result_BS6 = np.zeros((*codes_BS.shape, N_COORDINATES), np.int64)
        for row_S6, codes_S in zip(result_BS6, codes_BS, strict=True):
            is_character = codes_S != 0
            row_S6[is_character] = coordinates(codes_S[is_character].tobytes())
        return torch.from_numpy(result_BS6).to(text_BS.device)

    def _visible(
        self,
        windows: Windows,
        all_BS6: torch.Tensor,
        new_BT6: torch.Tensor,
        mask_BS: torch.Tensor | None,
    ) -> torch.Tensor:
        """Returns the additive attention mask of all heads, (B, 1, T, S): 0, or the lowest number
        of the dtype where a query does not see a key."""
        visible_BTS = windows.to(new_BT6.device)(all_BS6, new_BT6)
        visible_BTS = visible_BTS.tril(visible_BTS.size(2) - visible_BTS.size(1))
        if mask_BS is not None:
            visible_BTS = visible_BTS & (mask_BS[:, None] != 0)
        scores_BTS = torch.zeros(visible_BTS.shape, dtype=self.dtype, device=visible_BTS.device)
        return scores_BTS.masked_fill(~visible_BTS, torch.finfo(self.dtype).min)[:, None]

    def _rotate_by(self, axes_BT4: torch.Tensor) -> None:
        """Sets the rotation of this pass: keys by the first two axes, queries by the others."""
        frequencies = torch.tensor(self.config.frequencies, device=axes_BT4.device)
        half = self.config.head_dim // 2
        for name, axes_BT2 in (("k_norm", axes_BT4[..., :2]), ("q_norm", axes_BT4[..., 2:])):
            angles = (axes_BT2[..., None] * frequencies).flatten(2)
            angles = nn.functional.pad(angles, (0, half - angles.size(2)))[:, :, None]
            for layer in self.model.layers:
                norm = getattr(layer.self_attn, name)
                norm.cos = angles.cos().repeat(1, 1, 1, 2).to(norm.weight.dtype)
                norm.sin = torch.cat((-angles.sin(), angles.sin()), dim=3).to(norm.weight.dtype)
