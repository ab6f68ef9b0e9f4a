"""Configs: what a model is and how it is trained. Recipes are TOML files of the same shape.

A config holds names and numbers only. Names are resolved in the registries of `calcgpt.model`,
`calcgpt.optim` and `calcgpt.batches`; everything that can be wrong is refused when the config is
built, in one line, before anything runs.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from calcgpt.batches import BATCHES
from calcgpt.errors import ConfigError
from calcgpt.model import FEEDFORWARDS, INITS, NORMS, POSITIONS
from calcgpt.optim import OPTIMIZERS, SCHEDULES
from calcgpt.tokenizer import TOKENIZERS

S = TypeVar("S", bound=BaseModel)

RECIPES = resources.files("calcgpt") / "recipes"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ModelConfig(_Section):
    """The architecture. Each field is one choice; the defaults are the blog's baseline."""

    block_size: int = Field(128, ge=1, le=1_000_000, description="longest sequence, in tokens")
    n_layer: int = Field(8, ge=1, le=1_000)
    n_embd: int = Field(96, ge=1, le=100_000, description="width of the residual stream")
    n_head: int = Field(8, ge=1, description="query heads")
    n_kv_head: int | None = Field(
        None, ge=1, description="key/value heads: n_head is multi-head, 1 multi-query; null: n_head"
    )
    position: str = Field("learned", description="positional scheme")
    rope_base: float = Field(10_000.0, gt=1, description="base of the rotary frequencies")
    qk_norm: bool = Field(False, description="normalise queries and keys per head")
    feedforward: str = Field("relu", description="feed-forward network")
    ff_hidden: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="hidden width; null: 4 n_embd, scaled by 2/3 for gated networks",
    )
    norm: str = Field("layernorm", description="normalisation, ahead of each sub-layer")
    dropout: float = Field(0.0, ge=0, lt=1)
    tie_embeddings: bool = Field(False, description="output head shares the token embedding")
    qkv_bias: bool = False
    attn_out_bias: bool = True
    ff_bias: bool = False
    head_bias: bool = True
    init: str = Field("torch", description="weight initialisation")

    @property
    def kv_heads(self) -> int:
        """Key/value heads, resolved."""
        return self.n_head if self.n_kv_head is None else self.n_kv_head

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.n_embd // self.n_head

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd {self.n_embd} is not divisible by n_head {self.n_head}")
        if self.n_head % self.kv_heads:
            raise ValueError(f"n_head {self.n_head} is not divisible by n_kv_head {self.kv_heads}")
        if self.tie_embeddings and self.head_bias:
            raise ValueError("tie_embeddings needs head_bias = false")
        _ = FEEDFORWARDS[self.feedforward], NORMS[self.norm], INITS[self.init]
        POSITIONS[self.position].check(self)
        return self


class TrainConfig(_Section):
    """How a model is trained. The defaults are the blog's: 5,000 steps of AdamW at 3e-4."""

    batches: str = Field("stream", description="how text becomes batches")
    join_lines: bool = Field(True, description="stream: drop the newlines, as the blog does")
    batch_size: int = Field(16, ge=1, description="sequences a step")
    grad_accum: int = Field(1, ge=1, description="micro-batches a step; divides batch_size")
    steps: int = Field(5_000, ge=1)
    optimizer: str = "adamw"
    lr: float = Field(3e-4, gt=0, description="peak learning rate")
    schedule: str = Field("constant", description="learning rate after the warm-up")
    warmup_steps: int = Field(0, ge=0)
    min_lr_ratio: float = Field(0.0, ge=0, le=1, description="last learning rate over the peak")
    weight_decay: float = Field(0.01, ge=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.999, ge=0, lt=1)
    muon_lr: float = Field(3e-3, gt=0, description="muon: peak learning rate of hidden matrices")
    grad_clip: float = Field(0.0, ge=0, description="largest gradient norm; 0: no clipping")
    seed: int = Field(42, ge=0, lt=2**63)
    precision: Literal["auto", "fp32", "bf16"] = Field("auto", description="auto: bf16 on CUDA")
    compile: bool = Field(False, description="run the model through torch.compile")
    log_interval: int = Field(50, ge=1, description="steps between rows of metrics.jsonl")
    eval_interval: int = Field(500, ge=1, description="steps between validations")
    eval_batches: int = Field(20, ge=1, description="validation batches for the loss")
    eval_problems: int = Field(1_000, ge=0, description="validation problems answered greedily")
    checkpoint_interval: int = Field(500, ge=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _ = BATCHES[self.batches], OPTIMIZERS[self.optimizer], SCHEDULES[self.schedule]
        if self.batch_size % self.grad_accum:
            raise ValueError(
                f"batch_size {self.batch_size} is not divisible by grad_accum {self.grad_accum}"
            )
        return self


class Recipe(_Section):
    """A model and its training: one experiment, as a file in `calcgpt/recipes/`."""

    description: str = ""
    tokenizer: str = Field("arithmetic", description="how text becomes tokens")
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _ = TOKENIZERS[self.tokenizer]
        return self


def recipe_names() -> list[str]:
    """Names of the recipes in the package."""
    names = (file.name for file in RECIPES.iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load_recipe(name: str, overrides: tuple[str, ...] = ()) -> Recipe:
    """The recipe `name` (of the package, or a path to a TOML file) with `section.field=value`
    overrides applied in order.

    Raises ConfigError for an unknown recipe, field or name (listing the valid ones) and for a
    value of the wrong kind.
    """
    table = _read(name)
    for override in overrides:
        _apply(table, override)
    return build(Recipe, table, f"recipe {name!r}")


def _read(name: str) -> dict[str, Any]:
    """The table of one recipe, laid over the one it extends."""
    table = _parse(name)
    base = table.pop("extends", None)
    if base is None:
        return table
    if name.endswith(".toml") and str(base).endswith(".toml"):
        base = str(Path(name).parent / str(base))
    merged = _parse(str(base))
    if "extends" in merged:
        raise ConfigError(f"recipe {name}: {base!r} extends another; one level is all there is")
    for key, value in table.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = {**merged[key], **value} if both else value
    return merged


def _parse(name: str) -> dict[str, Any]:
    if name in recipe_names():
        text = (RECIPES / f"{name}.toml").read_text("utf-8")
    elif name.endswith(".toml"):
        try:
            text = Path(name).read_text("utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read recipe {name}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"recipe {name} is not UTF-8 text") from None
    else:
        raise ConfigError(f"unknown recipe {name!r}; valid names: {', '.join(recipe_names())}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"recipe {name} is not TOML: {error}") from None


def _apply(table: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    *sections, field = key.strip().split(".")
    if not (equals and field):
        raise ConfigError(f"override {override!r} is not of the form section.field=value")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise ConfigError(f"override {override!r}: {section!r} is not a section")
    table[field] = _value(value.strip())


def _value(text: str) -> Any:
    """`text` as a TOML value, or, where it is not one, as the string itself; TOML has no null."""
    if text == "null":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def build(kind: type[S], table: Any, source: str) -> S:
    """`kind` from a table; raises ConfigError, one line that starts with `source`."""
    try:
        return kind.model_validate(table)
    except ConfigError as error:  # an unknown name, from its registry
        raise ConfigError(f"{source}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            valid = ", ".join(_section(kind, first["loc"][:-1]).model_fields)
            raise ConfigError(f"{source}: unknown field {where!r}; valid fields: {valid}") from None
        reason = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{source}: {where + ': ' if where else ''}{reason}") from None


def _section(kind: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel]:
    for part in path:
        inner = kind.model_fields[str(part)].annotation
        assert isinstance(inner, type)
        assert issubclass(inner, BaseModel)
        kind = inner
    return kind
