"""The interface that all counterparts share, and the choice among them.

GPT-2 (Radford et al. 2019): learned positions, LayerNorm, a plain feed-forward network.

The Llama family: rotary positions, RMSNorm, gated feed-forward networks, grouped queries.

MPT (MosaicML 2023): ALiBi, LayerNorm, no biases at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.model.gpt import GPT, LanguageModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel


Weights = dict[str, torch.Tensor]


class Counterpart(ABC):
    """A class of `transformers`, registered under its name, that computes what a `GPT` does."""

    model_type: str  # the name of its config in `transformers`

    @classmethod
    def has(cls, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        """What this class can be: the values it has for the fields of a config, and for the
        properties. What is not named may be anything; what differs first is told. Here stands
        what most have in common."""
        return {
            "architecture": ("gpt",),
            "position": (),  # each has its own: named for its place in the order
            "attention": ("full",),
            "norm_position": ("pre",),
            "qk_norm": (False,),
        }

    @classmethod
    @abstractmethod
    def settings(cls, config: ModelConfig) -> dict[str, Any]:
        """The fields of the config of `transformers`, without the vocabulary."""

    @classmethod
    @abstractmethod
    def weights(cls, model: GPT) -> Weights:
        """Our weights, by the names that they have there; ConfigError for those it cannot hold."""

    @classmethod
    def build(cls, model: LanguageModel, **tokens: int | None) -> PreTrainedModel:
        """The same model as one of `transformers`, of the same type of numbers. `tokens`: the ids
        of the special tokens, as in `eos_token_id`, without which that library has its own."""
        from transformers import AutoConfig, AutoModelForCausalLM

        assert isinstance(model, GPT)
        settings = cls.settings(model.config) | {"vocab_size": model.vocab_size} | tokens
        config = AutoConfig.for_model(cls.model_type, **settings)
        theirs = AutoModelForCausalLM.from_config(config).to(model.head.weight.dtype)
        theirs.load_state_dict(cls.weights(model))
        return theirs.eval()


def counterpart_of(config: ModelConfig) -> tuple[str, type[Counterpart]]:
    """The name of the class that computes what `config` describes, and how to get there.

    Raises ConfigError, one line that says of each class what it lacks, where there is none.
    """
    reasons = []
    for name in COUNTERPARTS:
        reason = difference(name, config)
        if reason is None:
            return name, COUNTERPARTS[name]
        reasons.append(reason)
    raise ConfigError(f"no class of transformers is this model: {'; '.join(reasons)}")


def difference(name: str, config: ModelConfig) -> str | None:
    """The first thing that the class `name` does otherwise than `config`; None: nothing."""
    for field, values in COUNTERPARTS[name].has(config).items():
        if (value := getattr(config, field)) not in values:
            return f"{field} is {value!r}, {name} has {' or '.join(map(repr, values))}"
    return None


def layers(model: GPT) -> list[Weights]:
    """The weights of each block, by their names within it."""
    return [Weights(block.state_dict()) for block in model.blocks]


def bias_or_zeros(weights: Weights, layer: str) -> torch.Tensor:
    """The bias of a layer, or what is the same as none, of as many numbers as it has outputs."""
    weight = weights[f"{layer}.weight"]
    return weights.get(f"{layer}.bias", weight.new_zeros(len(weight)))


GPT2_ACTIVATIONS = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu-tanh": "gelu_new",
    "silu": "silu",
}


class GPT2(Counterpart):
    """It has all biases, which zeros make up for, except for one of the head."""

    model_type = "gpt2"

    @classmethod
    def has(cls, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        return super().has(config) | {
            "position": ("learned",),
            "norm": ("layernorm",),
            "feedforward": tuple(GPT2_ACTIVATIONS),
            "kv_heads": (config.n_head,),
        }

    @classmethod
    def settings(cls, config: ModelConfig) -> dict[str, Any]:
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


LLAMA_ACTIVATIONS = {"swiglu": "silu", "geglu": "gelu", "glu": "sigmoid"}


class Llama(Counterpart):
    """Llama (Touvron et al. 2023). Its attention has four biases or none, which zeros make up
    for."""

    model_type = "llama"

    @classmethod
    def has(cls, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        return super().has(config) | {
            "position": ("rope",),
            "norm": ("rmsnorm",),
            "feedforward": tuple(LLAMA_ACTIVATIONS),
            "head_bias": (False,),
        }

    @classmethod
    def settings(cls, config: ModelConfig) -> dict[str, Any]:
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


class Qwen3(Llama):
    """Qwen3 (Yang et al. 2025): Llama with normalised queries and keys."""

    model_type = "qwen3"

    @classmethod
    def has(cls, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        return super().has(config) | {"qk_norm": (True,), "ff_bias": (False,)}


NAMES = {
    "norm_1": "attn_norm",
    "norm_2": "ff_norm",
    "attn.Wqkv": "attn.qkv",
    "attn.out_proj": "attn.out",
    "ffn.up_proj": "ff.up",
    "ffn.down_proj": "ff.down",
}


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


COUNTERPARTS: dict[str, type[Counterpart]] = {
    "GPT2LMHeadModel": GPT2,
    "LlamaForCausalLM": Llama,
    "MistralForCausalLM": Mistral,
    "MptForCausalLM": MPT,
    "Qwen3ForCausalLM": Qwen3,
}
