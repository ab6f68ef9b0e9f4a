"""Classes of `transformers` that compute what a `GPT` does.

GPT-2 (Radford et al. 2019): learned positions, LayerNorm, a plain feed-forward network.
The Llama family: rotary positions, RMSNorm, gated feed-forward networks, grouped queries.
MPT (MosaicML 2023): ALiBi, LayerNorm, no biases.

Shapes: C n_embd, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import datagen.operations
from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.model import windows
from calcgpt.model.gpt import GPT, LanguageModel
from datagen.coordinates import rotary_frequencies
from datagen.slots import N_KINDS

if TYPE_CHECKING:
    from transformers import PreTrainedModel


Weights = dict[str, torch.Tensor]


class HFClass(ABC):
    """A causal language model of `transformers`: which configs it can express, and how."""

    model_type: str  # of its config in `transformers`
    code: tuple[Path, ...] = ()  # the files of a class that is not in `transformers`

    def supported(self, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        """Returns the supported values of fields and properties of a config. Any other field may
        have any value. `unsupported` checks the fields in this order."""
        return {
            "architecture": ("gpt",),
            "position": (),  # set by each class; listed here for the order
            "attention": ("full",),
            "norm_position": ("pre",),
            "qk_norm": (False,),
        }

    @abstractmethod
    def settings(self, config: ModelConfig) -> dict[str, Any]:
        """Returns the fields of the config of `transformers`, without the vocabulary."""

    @abstractmethod
    def weights(self, model: GPT) -> Weights:
        """Returns the weights under their names in `transformers`. Raises ConfigError for weights
        that the class cannot express."""

    def build(self, model: LanguageModel, **tokens: int | None) -> PreTrainedModel:
        """Returns the same model as one of `transformers`, with the same dtype.

        `tokens` are the ids of special tokens, such as `eos_token_id`. Tokens that are not passed
        have the defaults of `transformers`.
        """
        assert isinstance(model, GPT)
        settings = self.settings(model.config) | {"vocab_size": model.vocab_size} | tokens
        hf_model = self._new(settings).to(model.head.weight.dtype)
        hf_model.load_state_dict(self.weights(model))
        return hf_model.eval()

    def auto_class(self) -> Any:
        """Returns the class whose `from_pretrained` loads such a model."""
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM

    def _new(self, settings: dict[str, Any]) -> PreTrainedModel:
        """Returns a model with random weights."""
        from transformers import AutoConfig, AutoModelForCausalLM

        return AutoModelForCausalLM.from_config(AutoConfig.for_model(self.model_type, **settings))


def hf_class_of(config: ModelConfig) -> tuple[str, HFClass]:
    """Returns the name of the class that computes what `config` describes, and its `HFClass`.

    Raises ConfigError, one line with a reason for each class, if there is none.
    """
    reasons = []
    for name, hf_class in HF_CLASSES.items():
        reason = unsupported(name, config)
        if reason is None:
            return name, hf_class
        reasons.append(reason)
    raise ConfigError(f"transformers has no class for this model: {'; '.join(reasons)}")


def unsupported(name: str, config: ModelConfig) -> str | None:
    """Returns the first difference between `config` and what the class `name` supports, if any."""
    for field, values in HF_CLASSES[name].supported(config).items():
        if (value := getattr(config, field)) not in values:
            return f"{field} is {value!r}, {name} has {' or '.join(map(repr, values))}"
    return None


def block_weights(model: GPT) -> list[Weights]:
    """Returns the weights of each block, under their names within the block."""
    return [Weights(block.state_dict()) for block in model.blocks]


def bias_or_zeros(weights: Weights, layer: str) -> torch.Tensor:
    """Returns the bias of a layer, or zeros of the same shape if it has none."""
    weight = weights[f"{layer}.weight"]
    return weights.get(f"{layer}.bias", weight.new_zeros(len(weight)))


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


class Coordinates(Qwen3):
    """Qwen3 with positions from the text; see `calcgpt.export.hf_coordinates`."""

    code = (
        Path(__file__).with_name("hf_coordinates.py"),
        Path(windows.__file__),
        *(
            Path(datagen.__file__).with_name(f"{name}.py")
            for name in (
                "answer_layout",
                "arithmetic",
                "coordinates",
                "errors",
                "layout",
                "rules",
                "slots",
            )
        ),
        *sorted(Path(datagen.operations.__file__).parent.glob("*.py")),
    )

    def supported(self, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        return super().supported(config) | {"position": ("coordinates",)}

    def settings(self, config: ModelConfig) -> dict[str, Any]:
        module = self.code[0].stem
        auto = {"AutoConfig": "CalcGPTConfig", "AutoModelForCausalLM": "CalcGPTForCausalLM"}
        return super().settings(config) | {
            "characters": config.characters,
            "frequencies": rotary_frequencies(config.head_dim).tolist(),
            "n_kind": N_KINDS,
            "row_window": config.row_window,
            "column_window": config.column_window,
            "auto_map": {name: f"{module}.{class_name}" for name, class_name in auto.items()},
        }

    def weights(self, model: GPT) -> Weights:
        state = model.state_dict()
        names = ("kinds", "next_kinds")
        kinds = {f"{name}.weight": state[f"positions.{name}.weight"] for name in names}
        return super().weights(model) | kinds

    def auto_class(self) -> Any:
        from calcgpt.export.hf_coordinates import CalcGPTForCausalLM

        return CalcGPTForCausalLM

    def _new(self, settings: dict[str, Any]) -> PreTrainedModel:
        from calcgpt.export.hf_coordinates import CalcGPTConfig, CalcGPTForCausalLM

        return CalcGPTForCausalLM(CalcGPTConfig(**settings))


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
    "CalcGPTForCausalLM": Coordinates(),
}
