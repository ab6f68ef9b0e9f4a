"""Qwen3 (Yang et al. 2025) with coupled positions, which are computed from the text.

`calcgpt export` puts this file beside the weights, so that `AutoModelForCausalLM` needs no other
code. One thing differs from Qwen3: learned vectors for the place of a token in its row, and for the
token that starts the row, are added to the embedding (position coupling; Cho et al. 2024).

Shapes: B sequences, S tokens so far, T new tokens, C hidden size.
"""

import torch
from torch import nn
from transformers import Qwen3Config, Qwen3ForCausalLM


class CalcGPTCoupledConfig(Qwen3Config):  # type: ignore[misc]
    """Qwen3's, with `row_marks`, the ids of the tokens that start a row, and `n_place`, the number
    of distinct places in a row."""

    model_type = "calcgpt_coupled"
    row_marks: tuple[int, ...] = ()
    n_place = 2


class CalcGPTCoupledForCausalLM(Qwen3ForCausalLM):  # type: ignore[misc]
    """The model. `generate` works as with any other model. A call with a cache needs the whole text
    so far as `text`, (B, S), because the places are computed from it."""

    config_class = CalcGPTCoupledConfig

    def __init__(self, config: CalcGPTCoupledConfig) -> None:
        super().__init__(config)
        self.places = nn.Embedding(config.n_place, config.hidden_size)
        self.rows = nn.Embedding(len(config.row_marks) + 1, config.hidden_size)
        self.post_init()

    def forward(  # type: ignore[no-untyped-def]
        self, input_ids, attention_mask=None, past_key_values=None, text=None, **kwargs
    ):
        if text is None:
            if past_key_values is not None and past_key_values.get_seq_length():
                raise ValueError("with a cache, give the whole text so far as `text`")
            text = input_ids
        places_BS, rows_BS = self._read(text, attention_mask)
        new = slice(-input_ids.size(1), None)
        embedded_BTC = self.model.embed_tokens(input_ids)
        return super().forward(
            inputs_embeds=embedded_BTC
            + self.places(places_BS[:, new])
            + self.rows(rows_BS[:, new]),
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            **kwargs,
        )

    def prepare_inputs_for_generation(self, input_ids, **kwargs):  # type: ignore[no-untyped-def]
        return {**super().prepare_inputs_for_generation(input_ids, **kwargs), "text": input_ids}

    def _read(
        self, text_BS: torch.Tensor, mask_BS: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the place and the row of every token, each (B, S). A text begins where the mask
        does: padding is on the left."""
        row_of_token = torch.zeros(self.config.vocab_size, dtype=torch.int64, device=text_BS.device)
        marks = list(self.config.row_marks)
        row_of_token[marks] = torch.arange(1, len(marks) + 1, device=text_BS.device)
        row_BS = row_of_token[text_BS]
        first_B1 = row_BS.new_zeros((len(row_BS), 1))
        if mask_BS is not None:
            row_BS = row_BS * (mask_BS != 0)
            first_B1 = (mask_BS != 0).int().argmax(dim=1, keepdim=True)
        index_S = torch.arange(text_BS.size(1), device=text_BS.device)
        last_mark_BS = torch.cummax(index_S * (row_BS > 0), dim=1)[0].maximum(first_B1)
        places_BS = (index_S - last_mark_BS).clamp(0, self.config.n_place - 1)
        return places_BS, row_BS.gather(1, last_mark_BS)
