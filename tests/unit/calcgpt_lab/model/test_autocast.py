"""Mixed precision on a CPU."""

import pytest
import torch
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt_lab.model.gpt import build_model


@pytest.mark.parametrize("change", [{}, {"position": "alibi"}, {"attention": "window"}])
def test_attention_is_trained_in_float32(
    change: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.dtype] = []
    kernel = F.scaled_dot_product_attention

    def record(*tensors: torch.Tensor, **options: object) -> torch.Tensor:
        result = kernel(*tensors, **options)
        seen.append(result.dtype)
        return result

    monkeypatch.setattr(F, "scaled_dot_product_attention", record)
    config = ModelConfig(block_size=16, n_layer=1, n_embd=16, n_head=4, n_kv_head=2)
    torch.manual_seed(0)
    model = build_model(config.model_copy(update=change), 8)
    tokens = torch.randint(8, (2, 12))
    exact = model(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = model(tokens)
        model.eval()(tokens)
    assert seen == [torch.float32, torch.float32, torch.bfloat16]
    assert mixed.dtype == torch.bfloat16  # the products are not
    torch.testing.assert_close(mixed.float(), exact, rtol=0.05, atol=0.05)
