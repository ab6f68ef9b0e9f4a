"""The preset `llama` as a `LlamaForCausalLM` of `transformers`: rotary positions, RMSNorm, SwiGLU
(Touvron et al. 2023), without biases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from calcgpt.base.errors import ConfigError
from calcgpt.config import ModelConfig
from calcgpt_lab.model.base import LanguageModel
from calcgpt_lab.model.gpt import GPT

if TYPE_CHECKING:
    from transformers import PreTrainedModel


Weights = dict[str, torch.Tensor]
RMS_NORM_EPS = 1e-6
# Fields and properties of a config that a Llama has. Any other field may have any value.
LLAMA: dict[str, Any] = {
    "architecture": "gpt",
    "position": "rope",
    "attention": "full",
    "norm_position": "pre",
    "qk_norm": False,
    "norm": "rmsnorm",
    "feedforward": "swiglu",
    "qkv_bias": False,
    "attn_out_bias": False,
    "ff_bias": False,
    "head_bias": False,
}


def check_llama(config: ModelConfig, target: str) -> None:
    """Raises ConfigError, which names the first field that differs, unless `config` describes a
    Llama. `target` is the format of the export."""
    for field, expected in LLAMA.items():
        if (value := getattr(config, field)) != expected:
            raise ConfigError(
                f"export to {target}: {field} is {value!r}, and a Llama has {expected!r}"
            )


def llama_settings(config: ModelConfig) -> dict[str, Any]:
    """Returns the fields of the config of `transformers`, without the vocabulary."""
    return {
        "hidden_size": config.n_embd,
        "intermediate_size": config.ff_width,
        "num_hidden_layers": config.n_layer,
        "num_attention_heads": config.n_head,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.block_size,
        "rms_norm_eps": RMS_NORM_EPS,
        "rope_theta": config.rope_base,
        "tie_word_embeddings": config.tie_embeddings,
        "attention_dropout": config.dropout,
    }


def llama_weights(model: GPT) -> Weights:
    """Returns the weights under their names in `transformers`."""
    config, state = model.config, model.state_dict()
    widths = [n * config.head_dim for n in (config.n_head, config.kv_heads, config.kv_heads)]
    weights = {
        "model.embed_tokens.weight": state["token_embedding.weight"],
        "model.norm.weight": state["norm.weight"],
        "lm_head.weight": state["head.weight"],
    }
    for index, block in enumerate(model.blocks):
        own = block.state_dict()
        q, k, v = torch.split(own["attn.qkv.weight"], widths)
        gate, up = own["ff.gate_up.weight"].chunk(2)
        layer = {
            "input_layernorm": own["attn_norm.weight"],
            "self_attn.q_proj": q,
            "self_attn.k_proj": k,
            "self_attn.v_proj": v,
            "self_attn.o_proj": own["attn.out.weight"],
            "post_attention_layernorm": own["ff_norm.weight"],
            "mlp.gate_proj": gate,
            "mlp.up_proj": up,
            "mlp.down_proj": own["ff.down.weight"],
        }
        weights |= {f"model.layers.{index}.{name}.weight": each for name, each in layer.items()}
    return weights


def build_llama(model: LanguageModel, **tokens: int | None) -> PreTrainedModel:
    """Returns the same model as one of `transformers`, with the same dtype.

    `tokens` are the ids of special tokens, such as `eos_token_id`. Tokens that are not passed have
    the defaults of `transformers`.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    assert isinstance(model, GPT)
    settings = llama_settings(model.config) | {"vocab_size": model.vocab_size} | tokens
    hf_model = LlamaForCausalLM(LlamaConfig(**settings)).to(model.head.weight.dtype)
    hf_model.load_state_dict(llama_weights(model))
    # Version 5 renamed the field. With both names, versions 4 and 5 can read the config.
    hf_model.config.rope_theta = model.config.rope_base
    return hf_model.eval()
