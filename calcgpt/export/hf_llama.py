"""The Llama family of `transformers`: rotary positions, RMSNorm, gated feed-forward networks.

Shapes: C n_embd, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from calcgpt.config import ModelConfig
from calcgpt.export.hf_base import HFClass, Weights, bias_or_zeros, block_weights
from calcgpt.model.base import LanguageModel
from calcgpt.model.gpt import GPT

if TYPE_CHECKING:
    from transformers import PreTrainedModel


LLAMA_ACTIVATIONS = {"swiglu": "silu", "geglu": "gelu", "glu": "sigmoid"}


class Llama(HFClass):
    """Llama (Touvron et al. 2023). Its attention has four biases or none. If our model has only
    some of them, zeros replace the others."""

    model_type = "llama"

    def supported(self, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        return super().supported(config) | {
            "position": ("rope",),
            "norm": ("rmsnorm",),
            "feedforward": tuple(LLAMA_ACTIVATIONS),
            "head_bias": (False,),
        }

    def settings(self, config: ModelConfig) -> dict[str, Any]:
        return {
            "hidden_size": config.n_embd,
            "intermediate_size": config.ff_width,
            "num_hidden_layers": config.n_layer,
            "num_attention_heads": config.n_head,
            "num_key_value_heads": config.kv_heads,
            "head_dim": config.head_dim,
            "hidden_act": LLAMA_ACTIVATIONS[config.feedforward],
            "max_position_embeddings": config.block_size,
            "rms_norm_eps": 1e-6,
            "rope_theta": config.rope_base,
            "tie_word_embeddings": config.tie_embeddings,
            "attention_bias": self._attention_bias(config),
            "mlp_bias": config.ff_bias,
            "attention_dropout": config.dropout,
        }

    def weights(self, model: GPT) -> Weights:
        config, state = model.config, model.state_dict()
        widths = [n * config.head_dim for n in (config.n_head, config.kv_heads, config.kv_heads)]
        attention_kinds = ("weight", "bias") if self._attention_bias(config) else ("weight",)
        weights = {
            "model.embed_tokens.weight": state["token_embedding.weight"],
            "model.norm.weight": state["norm.weight"],
            "lm_head.weight": state["head.weight"],
        }
        for index, block in enumerate(block_weights(model)):
            block["attn.qkv.bias"] = bias_or_zeros(block, "attn.qkv")
            block["attn.out.bias"] = bias_or_zeros(block, "attn.out")
            layer = {
                "input_layernorm.weight": block["attn_norm.weight"],
                "post_attention_layernorm.weight": block["ff_norm.weight"],
            }
            for kind in attention_kinds:
                q, k, v = torch.split(block[f"attn.qkv.{kind}"], widths)
                layer[f"self_attn.q_proj.{kind}"] = q
                layer[f"self_attn.k_proj.{kind}"] = k
                layer[f"self_attn.v_proj.{kind}"] = v
                layer[f"self_attn.o_proj.{kind}"] = block[f"attn.out.{kind}"]
            for kind in ("weight", "bias") if config.ff_bias else ("weight",):
                gate, up = block[f"ff.gate_up.{kind}"].chunk(2)
                layer[f"mlp.gate_proj.{kind}"] = gate
                layer[f"mlp.up_proj.{kind}"] = up
                layer[f"mlp.down_proj.{kind}"] = block[f"ff.down.{kind}"]
            if config.qk_norm:
                layer["self_attn.q_norm.weight"] = block["attn.q_norm.weight"]
                layer["self_attn.k_norm.weight"] = block["attn.k_norm.weight"]
            weights |= {f"model.layers.{index}.{name}": tensor for name, tensor in layer.items()}
        return weights

    def build(self, model: LanguageModel, **tokens: int | None) -> PreTrainedModel:
        hf_model = super().build(model, **tokens)
        # Version 5 renamed the field. With both names, versions 4 and 5 can read the config.
        hf_model.config.rope_theta = model.config.rope_base
        return hf_model

    def _attention_bias(self, config: ModelConfig) -> bool:
        return config.qkv_bias or config.attn_out_bias


class Mistral(Llama):
    """Mistral 7B (Jiang et al. 2023): Llama with a sliding window, without biases.

    The key/value cache of `transformers` 5 (`DynamicSlidingWindowLayer`) is wrong for a window of
    one, so that window is not supported.
    """

    model_type = "mistral"

    def supported(self, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        biases = dict.fromkeys(("qkv_bias", "attn_out_bias", "ff_bias"), (False,))
        attention = {"attention": ("window",), "window": (max(2, config.window),)}
        return super().supported(config) | attention | biases

    def settings(self, config: ModelConfig) -> dict[str, Any]:
        return super().settings(config) | {"sliding_window": config.window}


class Qwen3(Llama):
    """Qwen3 (Yang et al. 2025): Llama with normalised queries and keys."""

    model_type = "qwen3"

    def supported(self, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        return super().supported(config) | {"qk_norm": (True,), "ff_bias": (False,)}
