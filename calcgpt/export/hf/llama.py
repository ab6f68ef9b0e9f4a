"""The Llama family: rotary positions, RMSNorm, gated feed-forward networks, grouped queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from calcgpt.config import ModelConfig
from calcgpt.export.hf.counterpart import (
    COUNTERPARTS,
    Counterpart,
    Weights,
    bias_or_zeros,
    layers,
)
from calcgpt.model import FEEDFORWARDS, GPT, LanguageModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ACTIVATIONS = {"swiglu": "silu", "geglu": "gelu", "glu": "sigmoid"}


@COUNTERPARTS.register("LlamaForCausalLM")
class Llama(Counterpart):
    """Llama (Touvron et al. 2023). Its attention has four biases or none, which zeros make up
    for."""

    model_type = "llama"

    @classmethod
    def has(cls, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        return super().has(config) | {
            "position": ("rope",),
            "norm": ("rmsnorm",),
            "feedforward": tuple(ACTIVATIONS),
            "head_bias": (False,),
        }

    @classmethod
    def settings(cls, config: ModelConfig) -> dict[str, Any]:
        network, _ = FEEDFORWARDS[config.feedforward]
        return {
            "hidden_size": config.n_embd,
            "intermediate_size": network.hidden(config),
            "num_hidden_layers": config.n_layer,
            "num_attention_heads": config.n_head,
            "num_key_value_heads": config.kv_heads,
            "head_dim": config.head_dim,
            "hidden_act": ACTIVATIONS[config.feedforward],
            "max_position_embeddings": config.block_size,
            "rms_norm_eps": 1e-6,
            "rope_theta": config.rope_base,
            "tie_word_embeddings": config.tie_embeddings,
            "attention_bias": cls._attention_bias(config),
            "mlp_bias": config.ff_bias,
            "attention_dropout": config.dropout,
        }

    @classmethod
    def weights(cls, model: GPT) -> Weights:
        config = model.config
        heads = [n * config.head_dim for n in (config.n_head, config.kv_heads, config.kv_heads)]
        kinds = ["weight", "bias"] if cls._attention_bias(config) else ["weight"]
        ours = model.state_dict()
        theirs = {
            "model.embed_tokens.weight": ours["token_embedding.weight"],
            "model.norm.weight": ours["norm.weight"],
            "lm_head.weight": ours["head.weight"],
        }
        for index, block in enumerate(layers(model)):
            block["attn.qkv.bias"] = bias_or_zeros(block, "attn.qkv")
            block["attn.out.bias"] = bias_or_zeros(block, "attn.out")
            there = {
                "input_layernorm.weight": block["attn_norm.weight"],
                "post_attention_layernorm.weight": block["ff_norm.weight"],
            }
            for kind in kinds:
                parts = torch.split(block[f"attn.qkv.{kind}"], heads)
                there |= {
                    f"self_attn.{name}_proj.{kind}": part
                    for name, part in zip("qkv", parts, strict=True)
                }
                there[f"self_attn.o_proj.{kind}"] = block[f"attn.out.{kind}"]
            for kind in ("weight", "bias") if config.ff_bias else ("weight",):
                gate, up = block[f"ff.gate_up.{kind}"].chunk(2)
                there[f"mlp.gate_proj.{kind}"] = gate
                there[f"mlp.up_proj.{kind}"] = up
                there[f"mlp.down_proj.{kind}"] = block[f"ff.down.{kind}"]
            if config.qk_norm:
                there["self_attn.q_norm.weight"] = block["attn.q_norm.weight"]
                there["self_attn.k_norm.weight"] = block["attn.k_norm.weight"]
            theirs |= {f"model.layers.{index}.{name}": tensor for name, tensor in there.items()}
        return theirs

    @classmethod
    def build(cls, model: LanguageModel, **tokens: int | None) -> PreTrainedModel:
        theirs = super().build(model, **tokens)
        # Since version 5 it is called otherwise: a config that names it twice is read by both.
        theirs.config.rope_theta = model.config.rope_base
        return theirs

    @classmethod
    def _attention_bias(cls, config: ModelConfig) -> bool:
        return config.qkv_bias or config.attn_out_bias


@COUNTERPARTS.register("MistralForCausalLM")
class Mistral(Llama):
    """Mistral 7B (Jiang et al. 2023): Llama with a sliding window, without biases.

    Its key/value cache (`DynamicSlidingWindowLayer`, in versions 5) is wrong for a window of one.
    """

    model_type = "mistral"

    @classmethod
    def has(cls, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        biases = dict.fromkeys(("qkv_bias", "attn_out_bias", "ff_bias"), (False,))
        attention = {"attention": ("window",), "window": (max(2, config.window),)}
        return super().has(config) | attention | biases

    @classmethod
    def settings(cls, config: ModelConfig) -> dict[str, Any]:
        return super().settings(config) | {"sliding_window": config.window}


@COUNTERPARTS.register("Qwen3ForCausalLM")
class Qwen3(Llama):
    """Qwen3 (Yang et al. 2025): Llama with normalised queries and keys."""

    model_type = "qwen3"

    @classmethod
    def has(cls, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        return super().has(config) | {"qk_norm": (True,), "ff_bias": (False,)}
