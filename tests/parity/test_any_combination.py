"""What holds of every model, for combinations across all registries at once.

`test_combinations` multiplies the registries that meet in the code; here any names may meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import naive
from parity.variants import VOCAB, build, like, random_tokens, small

from calcgpt.model.attention import ATTENTIONS
from calcgpt.model.gpt import BLOCKS
from calcgpt.model.layers import FEEDFORWARDS, NORMS
from calcgpt.model.parameters import count
from calcgpt.model.positions import POSITIONS

choices = st.fixed_dictionaries(
    {
        "position": st.sampled_from(list(POSITIONS)),
        "attention": st.sampled_from(list(ATTENTIONS)),
        "feedforward": st.sampled_from(list(FEEDFORWARDS)),
        "norm": st.sampled_from(list(NORMS)),
        "norm_position": st.sampled_from(list(BLOCKS)),
        "n_kv_head": st.sampled_from([1, 2, 4]),
        "qk_norm": st.booleans(),
        "tie_embeddings": st.booleans(),
        "qkv_bias": st.booleans(),
        "attn_out_bias": st.booleans(),
        "ff_bias": st.booleans(),
        "norm_bias": st.booleans(),
    }
)


@settings(max_examples=120)
@given(choices, st.integers(0, 14))
@torch.no_grad()
def test_any_names_go_together(chosen: dict[str, Any], changed: int) -> None:
    config = small(**chosen, head_bias=not chosen["tie_embeddings"])
    model = build(config)
    assert sum(count(config, VOCAB).values()) == model.n_parameters()
    tokens = random_tokens(2, 15)
    logits = model(tokens)

    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    expected = naive.logits(weights, config, VOCAB, tokens[0].tolist())
    np.testing.assert_allclose(logits[0].numpy(), expected, rtol=0, atol=1e-5 * abs(expected).max())

    cache = model.new_cache(2, 15)
    pieces = [model(piece, cache) for piece in tokens.split([6, 1, 8], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), logits, rtol=1e-9, atol=1e-9)

    plain = like(model, config.model_copy(update={"attention_kernel": "plain"}))
    torch.testing.assert_close(plain(tokens), logits, rtol=1e-9, atol=1e-9)

    other = tokens.clone()
    other[:, changed] = (other[:, changed] + 1) % VOCAB
    torch.testing.assert_close(model(other)[:, :changed], logits[:, :changed], rtol=0, atol=1e-12)
