"""Classes of `transformers` that compute what a `GPT` does.

GPT-2 (Radford et al. 2019): learned positions, LayerNorm, a plain feed-forward network.
The Llama family is in `hf_llama`.
MPT (MosaicML 2023): ALiBi, LayerNorm, no biases.

Shapes: C n_embd, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.export.hf_base import HFClass, Weights, bias_or_zeros, block_weights
from calcgpt.export.hf_llama import Llama, Mistral, Qwen3
from calcgpt.model.gpt import GPT


def hf_class_of(config: ModelConfig) -> tuple[str, HFClass]:
    """Returns the name of the class that computes what `config` describes, and its `HFClass`.

    Raises ConfigError, one line with a reason for each class, if there is none.
    """
    if config.architecture != "gpt":
        raise ConfigError(f"transformers has no class for architecture {config.architecture!r}")
    reasons = []
    for name, hf_class in HF_CLASSES.items():
        reason = unsupported(name, config)
        if reason is None:
            return name, hf_class
        reasons.append(reason)
    raise ConfigError(f"transformers has no class for this model: {'; '.join(reasons)}")


def unsupported(name: str, config: ModelConfig) -> str | None:
    """Returns the first difference between `config` and what the class `name` supports, if any."""
    return first_difference(name, HF_CLASSES[name].supported(config), config)


def first_difference(
    name: str, supported: dict[str, tuple[Any, ...]], config: ModelConfig
) -> str | None:
    """Returns the first field of `config` whose value is not among the `supported` ones of what is
    called `name`; None if all are."""
    for field, values in supported.items():
        if (value := getattr(config, field)) not in values:
            return f"{field} is {value!r}, {name} has {' or '.join(map(repr, values))}"
    return None


GPT2_ACTIVATIONS = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu-tanh": "gelu_new",
    "silu": "silu",
}


class GPT2(HFClass):
    """GPT-2 has every bias except that of the head. Zeros replace the biases that our model
    lacks."""

    model_type = "gpt2"

    def supported(self, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        return super().supported(config) | {
            "position": ("learned",),
            "norm": ("layernorm",),
            "feedforward": tuple(GPT2_ACTIVATIONS),
            "kv_heads": (config.n_head,),
        }

    def settings(self, config: ModelConfig) -> dict[str, Any]:
        dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), config.dropout)
        return dropout | {
            "n_positions": config.block_size,
            "n_embd": config.n_embd,
            "n_layer": config.n_layer,
            "n_head": config.n_head,
            "n_inner": config.ff_width,
            "activation_function": GPT2_ACTIVATIONS[config.feedforward],
            "layer_norm_epsilon": 1e-5,
            "tie_word_embeddings": config.tie_embeddings,
        }

    def weights(self, model: GPT) -> Weights:
        state = model.state_dict()
        weights = {
            "transformer.wte.weight": state["token_embedding.weight"],
            "transformer.wpe.weight": state["positions.table.weight"],
            "transformer.ln_f.weight": state["norm.weight"],
            "transformer.ln_f.bias": final_norm_bias(state),
            "lm_head.weight": state["head.weight"],
        }
        norms = {"ln_1": "attn_norm", "ln_2": "ff_norm"}
        matrices = {
            "attn.c_attn": "attn.qkv",
            "attn.c_proj": "attn.out",
            "mlp.c_fc": "ff.up",
            "mlp.c_proj": "ff.down",
        }
        for index, block in enumerate(block_weights(model)):
            for hf_name, name in (norms | matrices).items():
                prefix, weight = f"transformer.h.{index}.{hf_name}", block[f"{name}.weight"]
                # GPT-2 multiplies by its matrices from the right: they are (inputs, outputs).
                weights[f"{prefix}.weight"] = weight.T if hf_name in matrices else weight
                weights[f"{prefix}.bias"] = bias_or_zeros(block, name)
        return weights


def final_norm_bias(state: Weights) -> torch.Tensor:
    """Returns a bias of the last norm, (C,), that includes the effect of the head's bias.

    With the head's matrix W (V, C) and bias c, W (x + d) = W x + c for every d with W d = c. Such
    a d exists for every c if W has full row rank, which requires V <= C; it is computed in float64.
    Raises ConfigError if there is none.
    """
    bias = bias_or_zeros(state, "norm")
    if "head.bias" not in state:
        return bias
    matrix_VC, head_bias_V = state["head.weight"].double(), state["head.bias"].double()
    shift_C: torch.Tensor = torch.linalg.pinv(matrix_VC) @ head_bias_V
    residual_V = (matrix_VC @ shift_C - head_bias_V).abs()
    residual = float(residual_V.max() / head_bias_V.abs().max().clamp(min=1))
    if not residual <= 1e-9:
        vocab_size, n_embd = matrix_VC.shape
        raise ConfigError(
            "head_bias is True, GPT2LMHeadModel has False; and the last norm's bias cannot replace "
            f"it: with a head of {vocab_size} x {n_embd} the remainder is {residual:.1e}"
        )
    return bias + shift_C.to(bias.dtype)


class MPT(HFClass):
    """MPT. Its feed-forward network always has a width of 4 C."""

    model_type = "mpt"

    def supported(self, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        biases = ("norm_bias", "qkv_bias", "attn_out_bias", "ff_bias", "head_bias")
        return super().supported(config) | {
            "position": ("alibi",),
            "norm": ("layernorm",),
            "feedforward": ("gelu",),
            "ff_hidden": (None, 4 * config.n_embd),
            "kv_heads": (config.n_head,),
            **dict.fromkeys(biases, (False,)),
        }

    def settings(self, config: ModelConfig) -> dict[str, Any]:
        return {
            "max_seq_len": config.block_size,
            "d_model": config.n_embd,
            "n_layers": config.n_layer,
            "n_heads": config.n_head,
            "layer_norm_epsilon": 1e-5,
            "learned_pos_emb": False,
            "tie_word_embeddings": config.tie_embeddings,
            "use_cache": True,
        }

    def weights(self, model: GPT) -> Weights:
        state = model.state_dict()
        weights = {
            "transformer.wte.weight": state["token_embedding.weight"],
            "transformer.norm_f.weight": state["norm.weight"],
            "lm_head.weight": state["head.weight"],
        }
        names = {
            "norm_1": "attn_norm",
            "norm_2": "ff_norm",
            "attn.Wqkv": "attn.qkv",
            "attn.out_proj": "attn.out",
            "ffn.up_proj": "ff.up",
            "ffn.down_proj": "ff.down",
        }
        for index, block in enumerate(block_weights(model)):
            for hf_name, name in names.items():
                weights[f"transformer.blocks.{index}.{hf_name}.weight"] = block[f"{name}.weight"]
        return weights


HF_CLASSES: dict[str, HFClass] = {
    "GPT2LMHeadModel": GPT2(),
    "LlamaForCausalLM": Llama(),
    "MistralForCausalLM": Mistral(),
    "MptForCausalLM": MPT(),
    "Qwen3ForCausalLM": Qwen3(),
}
