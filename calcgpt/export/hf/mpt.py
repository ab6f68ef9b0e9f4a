"""MPT (MosaicML 2023): ALiBi, LayerNorm, no biases at all."""

from __future__ import annotations

from typing import Any

from calcgpt.config import ModelConfig
from calcgpt.export.hf.counterpart import COUNTERPARTS, Counterpart, Weights, layers
from calcgpt.model import GPT

NAMES = {
    "norm_1": "attn_norm",
    "norm_2": "ff_norm",
    "attn.Wqkv": "attn.qkv",
    "attn.out_proj": "attn.out",
    "ffn.up_proj": "ff.up",
    "ffn.down_proj": "ff.down",
}


@COUNTERPARTS.register("MptForCausalLM")
class MPT(Counterpart):
    """Its feed-forward network is four times as wide as the rest, whatever its config says."""

    model_type = "mpt"

    @classmethod
    def has(cls, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        biases = ("norm_bias", "qkv_bias", "attn_out_bias", "ff_bias", "head_bias")
        return super().has(config) | {
            "position": ("alibi",),
            "norm": ("layernorm",),
            "feedforward": ("gelu",),
            "ff_hidden": (None, 4 * config.n_embd),
            "kv_heads": (config.n_head,),
            **dict.fromkeys(biases, (False,)),
        }

    @classmethod
    def settings(cls, config: ModelConfig) -> dict[str, Any]:
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

    @classmethod
    def weights(cls, model: GPT) -> Weights:
        ours = model.state_dict()
        theirs = {
            "transformer.wte.weight": ours["token_embedding.weight"],
            "transformer.norm_f.weight": ours["norm.weight"],
            "lm_head.weight": ours["head.weight"],
        }
        for index, block in enumerate(layers(model)):
            for there, here in NAMES.items():
                theirs[f"transformer.blocks.{index}.{there}.weight"] = block[f"{here}.weight"]
        return theirs
