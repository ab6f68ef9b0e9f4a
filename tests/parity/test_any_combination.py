"""Properties of every model, for random combinations of all names.

`test_combinations` tests all pairs of names. Here, more than two names may be combined.
"""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import naive
from parity.variants import FACTORS, VOCAB, build, like, random_tokens, small, with_head

from calcgpt_lab.model import attention
from calcgpt_lab.model.parameters import count

choices = st.fixed_dictionaries({name: st.sampled_from(FACTORS[name]) for name in FACTORS})


@settings(max_examples=50)
@given(choices, st.integers(0, 14))
@torch.no_grad()
def test_any_names_can_be_combined(changes: dict[str, Any], position: int) -> None:
    config = small(**with_head(changes))
    model = build(config)
    assert sum(count(config, VOCAB).values()) == model.n_parameters()
    tokens = random_tokens(2, 15)
    logits = model(tokens)

    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    expected = naive.logits(weights, config, VOCAB, tokens[0].tolist())
    np.testing.assert_allclose(logits[0].numpy(), expected, rtol=0, atol=1e-5 * abs(expected).max())

    for n in (1, 2):  # kernels may have special code for one or two tokens
        torch.testing.assert_close(model(tokens[:, :n]), logits[:, :n], rtol=1e-9, atol=1e-9)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "FIRST_CAPACITY", 4)  # its memory grows twice, then to the end
        cache = model.new_cache(2, 15)
    chunks = [model(chunk, cache) for chunk in tokens.split([3, 3, 1, 8], dim=1)]
    torch.testing.assert_close(torch.cat(chunks, dim=1), logits, rtol=1e-9, atol=1e-9)

    for kernel in ("sdpa", "plain"):
        same = like(model, config.model_copy(update={"attention_kernel": kernel}))
        torch.testing.assert_close(same(tokens), logits, rtol=1e-9, atol=1e-9)

    other = tokens.clone()
    other[:, position] = (other[:, position] + 1) % VOCAB
    torch.testing.assert_close(model(other)[:, :position], logits[:, :position], rtol=0, atol=1e-12)
