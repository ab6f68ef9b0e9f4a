"""The Llama family of `transformers`: rotary positions, RMSNorm, gated feed-forward networks."""

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
LLAMA_ACTIVATIONS = {"swiglu": "silu", "geglu": "gelu", "glu": "sigmoid"}


class Llama:
    """Llama (Touvron et al. 2023). Its attention has four biases or none. If our model has only
    some of them, zeros replace the others."""

    model_type = "llama"  # of its config in `transformers`

    def supported(self, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        """Returns the supported values of fields and properties of a config. Any other field may
        have any value. `first_difference` checks the fields in this order."""
        return {
            "architecture": ("gpt",),
            "position": ("rope",),
            "attention": ("full",),
            "norm_position": ("pre",),
            "qk_norm": (False,),
            "norm": ("rmsnorm",),
            "feedforward": tuple(LLAMA_ACTIVATIONS),
            "head_bias": (False,),
        }

    def settings(self, config: ModelConfig) -> dict[str, Any]:
        """Returns the fields of the config of `transformers`, without the vocabulary."""
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
        """Returns the weights under their names in `transformers`."""
        config, state = model.config, model.state_dict()
        widths = [n * config.head_dim for n in (config.n_head, config.kv_heads, config.kv_heads)]
        attention_kinds = ("weight", "bias") if self._attention_bias(config) else ("weight",)
        weights = {
            "model.embed_tokens.weight": state["token_embedding.weight"],
            "model.norm.weight": state["norm.weight"],
            "lm_head.weight": state["head.weight"],
        }
        for index, module in enumerate(model.blocks):
            block = Weights(module.state_dict())
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
        """Returns the same model as one of `transformers`, with the same dtype.

        `tokens` are the ids of special tokens, such as `eos_token_id`. Tokens that are not passed
        have the defaults of `transformers`.
        """
        from transformers import AutoConfig, AutoModelForCausalLM

        assert isinstance(model, GPT)
        settings = self.settings(model.config) | {"vocab_size": model.vocab_size} | tokens
        hf_config = AutoConfig.for_model(self.model_type, **settings)
        hf_model = AutoModelForCausalLM.from_config(hf_config).to(model.head.weight.dtype)
        hf_model.load_state_dict(self.weights(model))
        # Version 5 renamed the field. With both names, versions 4 and 5 can read the config.
        hf_model.config.rope_theta = model.config.rope_base
        return hf_model.eval()

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


HF_CLASSES: dict[str, Llama] = {
    "LlamaForCausalLM": Llama(),
    "MistralForCausalLM": Mistral(),
    "Qwen3ForCausalLM": Qwen3(),
}


def hf_class_of(config: ModelConfig) -> tuple[str, Llama]:
    """Returns the name of the class that computes what `config` describes, and the class.

    Raises ConfigError, one line with a reason for each class, if there is none.
    """
    if config.architecture != "gpt":
        raise ConfigError(f"transformers has no class for architecture {config.architecture!r}")
    reasons = []
    for name, hf_class in HF_CLASSES.items():
        reason = first_difference(name, hf_class.supported(config), config)
        if reason is None:
            return name, hf_class
        reasons.append(reason)
    raise ConfigError(f"transformers has no class for this model: {'; '.join(reasons)}")


def first_difference(
    name: str, supported: dict[str, tuple[Any, ...]], config: ModelConfig
) -> str | None:
    """Returns the first field of `config` whose value is not among the `supported` ones of what is
    called `name`; None if all are."""
    for field, values in supported.items():
        if (value := getattr(config, field)) not in values:
            return f"{field} is {value!r}, {name} has {' or '.join(map(repr, values))}"
    return None


def bias_or_zeros(weights: Weights, layer: str) -> torch.Tensor:
    """Returns the bias of a layer, or zeros of the same shape if it has none."""
    weight = weights[f"{layer}.weight"]
    return weights.get(f"{layer}.bias", weight.new_zeros(len(weight)))
