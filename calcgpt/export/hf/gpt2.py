"""GPT-2 (Radford et al. 2019): learned positions, LayerNorm, a plain feed-forward network."""

from __future__ import annotations

from typing import Any

import torch

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.export.hf.counterpart import (
    COUNTERPARTS,
    Counterpart,
    Weights,
    bias_or_zeros,
    layers,
)
from calcgpt.model import FEEDFORWARDS, GPT

ACTIVATIONS = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu-tanh": "gelu_new",
    "silu": "silu",
}


@COUNTERPARTS.register("GPT2LMHeadModel")
class GPT2(Counterpart):
    """It has all biases, which zeros make up for, except for one of the head."""

    model_type = "gpt2"

    @classmethod
    def has(cls, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        return super().has(config) | {
            "position": ("learned",),
            "norm": ("layernorm",),
            "feedforward": tuple(ACTIVATIONS),
            "kv_heads": (config.n_head,),
        }

    @classmethod
    def settings(cls, config: ModelConfig) -> dict[str, Any]:
        network, _ = FEEDFORWARDS[config.feedforward]
        dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), config.dropout)
        return dropout | {
            "n_positions": config.block_size,
            "n_embd": config.n_embd,
            "n_layer": config.n_layer,
            "n_head": config.n_head,
            "n_inner": network.hidden(config),
            "activation_function": ACTIVATIONS[config.feedforward],
            "layer_norm_epsilon": 1e-5,
            "tie_word_embeddings": config.tie_embeddings,
        }

    @classmethod
    def weights(cls, model: GPT) -> Weights:
        ours = model.state_dict()
        theirs = {
            "transformer.wte.weight": ours["token_embedding.weight"],
            "transformer.wpe.weight": ours["positions.table.weight"],
            "transformer.ln_f.weight": ours["norm.weight"],
            "transformer.ln_f.bias": final_bias(ours),
            "lm_head.weight": ours["head.weight"],
        }
        norms = {"ln_1": "attn_norm", "ln_2": "ff_norm"}
        matrices = {
            "attn.c_attn": "attn.qkv",
            "attn.c_proj": "attn.out",
            "mlp.c_fc": "ff.up",
            "mlp.c_proj": "ff.down",
        }
        for index, block in enumerate(layers(model)):
            for there, here in (norms | matrices).items():
                name, weight = f"transformer.h.{index}.{there}", block[f"{here}.weight"]
                # Its matrices stand on the right of what they multiply: (inputs, outputs).
                theirs[f"{name}.weight"] = weight.T if there in matrices else weight
                theirs[f"{name}.bias"] = bias_or_zeros(block, here)
        return theirs


def final_bias(ours: Weights) -> torch.Tensor:
    """(C,): a bias of the last norm that does what this norm's and the head's do together.

    With the head's matrix W (V, C) and its bias c, W (x + d) = W x + c for every d with W d = c.
    There is one for every c where W has full row rank, which takes V <= C; it is looked for in
    float64. Raises ConfigError where there is none.
    """
    bias = bias_or_zeros(ours, "norm")
    if "head.bias" not in ours:
        return bias
    matrix, wanted = ours["head.weight"].double(), ours["head.bias"].double()
    shift: torch.Tensor = torch.linalg.pinv(matrix) @ wanted
    residual = float((matrix @ shift - wanted).abs().max() / wanted.abs().max().clamp(min=1))
    if not residual <= 1e-9:
        raise ConfigError(
            "head_bias is True, GPT2LMHeadModel has False; and the last norm's cannot stand in for "
            f"it: the head's matrix, {len(matrix)} x {matrix.size(1)}, leaves {residual:.1e} of it"
        )
    return bias + shift.to(bias.dtype)
