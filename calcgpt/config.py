"""Configs: what a model is and how it is trained, as names and numbers.

Each name stands for an entry of a table, such as `POSITIONS` in `calcgpt_lab.model.positions`. Each
`Literal` here lists the names of one table, so a config with an unknown name is rejected. A test
checks that the lists and the tables agree. Plug-ins add names to a `Variant`.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from calcgpt.section import Section
from calcgpt.variants import Variant
from datagen.formats import has_work
from datagen.operations import SIGNS, Sign

# Names of variants, each list in alphabetical order.
Architecture = Literal["bigram", "gpt", "sources"]
Position = Literal[
    "alibi",
    "coupled",
    "coupled+rope",
    "integrated",
    "integrated-per-head",
    "learned",
    "learned+rope",
    "none",
    "rope",
    "shaw",
    "sinusoidal",
    "t5",
    "t5-buckets",
]
Attention = Literal["full", "landmark", "window"]
FeedForward = Literal["geglu", "gelu", "gelu-tanh", "glu", "relu", "relu2", "silu", "swiglu"]
Norm = Literal["layernorm", "rmsnorm"]
NormPosition = Literal["post", "pre"]
Init = Literal["gpt2", "torch"]
Batches = Literal["cases", "problems", "stream"]
Optimizer = Literal["adamw", "muon"]
Schedule = Literal["constant", "cosine", "linear"]
TokenizerName = Literal["arithmetic", "bpe", "chars", "scratchpad"]
Format = Literal["direct", "scratchpad", "scratchpad-second-choices"]
Distribution = Literal[
    "blog",
    "calculator",
    "everyday",
    "tricky-5",
    "wide",
    "wide-12",
    "wide-16",
    "wide-40",
]

TokenId = Annotated[int, Field(ge=0, lt=2**16)]
MAX_STEPS = 99_999_999  # the names of checkpoints have eight digits
MAX_TABLE = 2**24  # numbers in a table of positions: 131,072 positions of a head of width 128


class ModelConfig(Section):
    """The architecture. The defaults are the blog's baseline."""

    architecture: Variant[Architecture] = Field("gpt", description="kind of model")
    block_size: int = Field(128, ge=1, le=1_000_000, description="longest sequence, in tokens")
    n_layer: int = Field(8, ge=1, le=1_000, description="blocks")
    n_embd: int = Field(96, ge=1, le=100_000, description="width of the residual stream")
    n_head: int = Field(8, ge=1, description="query heads")
    n_kv_head: int | None = Field(
        None, ge=1, description="key/value heads: n_head is multi-head, 1 multi-query; null: n_head"
    )
    position: Variant[Position] = Field("learned", description="positional scheme")
    rope_base: float = Field(10_000.0, gt=1, description="base of the rotary frequencies")
    row_marks: list[TokenId] = Field([], description="coupled: ids of the tokens that start a row")
    n_place: int = Field(32, ge=2, le=1_000_000, description="coupled: distinct places in a row")
    place_offset: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="coupled: largest random offset of the places in training",
    )
    characters: str = Field(
        "",
        max_length=256,
        pattern=r"^[\x00-\x7f]*$",
        description="sources: the character of each token id",
    )
    max_distance: int = Field(
        128, ge=1, le=1_000_000, description="shaw, t5-buckets: larger distances count as this one"
    )
    n_bucket: int = Field(32, ge=2, le=1_000_000, description="t5-buckets: buckets of distances")
    attention: Variant[Attention] = Field("full", description="which part of the past a token sees")
    window: int = Field(32, ge=1, le=1_000_000, description="window: tokens seen, itself included")
    landmark_block: int = Field(16, ge=1, le=1_000_000, description="landmark: tokens per block")
    attention_kernel: Literal["sdpa", "plain"] = Field(
        "sdpa", description="torch's fused attention, or the formula step by step"
    )
    qk_norm: bool = Field(False, description="normalise queries and keys per head")
    feedforward: Variant[FeedForward] = Field("relu", description="feed-forward network")
    ff_hidden: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="hidden width; null: 4 n_embd, scaled by 2/3 for gated networks",
    )
    norm: Variant[Norm] = Field("layernorm", description="normalisation")
    norm_position: Variant[NormPosition] = Field(
        "pre", description="pre: normalise the input of each sub-layer; post: the sum after it"
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="probability that an activation is set to 0"
    )
    tie_embeddings: bool = Field(False, description="output head shares the token embedding")
    qkv_bias: bool = Field(False, description="bias of queries, keys and values")
    attn_out_bias: bool = Field(True, description="bias of the attention output")
    ff_bias: bool = Field(False, description="biases of the feed-forward network")
    norm_bias: bool = Field(True, description="bias of layernorm; rmsnorm has none")
    head_bias: bool = Field(True, description="bias of the output head")
    init: Variant[Init] = Field("torch", description="weight initialisation")

    @property
    def kv_heads(self) -> int:
        """Number of key/value heads."""
        return self.n_head if self.n_kv_head is None else self.n_kv_head

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.n_embd // self.n_head

    @property
    def gated(self) -> bool:
        """Whether the feed-forward network has a gate: three matrices instead of two."""
        return self.feedforward in ("geglu", "glu", "swiglu")

    @property
    def ff_width(self) -> int:
        """Hidden width of the feed-forward network. A gated network has 2/3 of the default width,
        so that it has as many parameters as a plain one (Shazeer 2020, section 2)."""
        default = int(2 * self.n_embd / 3) if self.gated else self.n_embd
        return self.ff_hidden or 4 * default

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd {self.n_embd} is not divisible by n_head {self.n_head}")
        if self.n_head % self.kv_heads:
            raise ValueError(f"n_head {self.n_head} is not divisible by n_kv_head {self.kv_heads}")
        if self.tie_embeddings and self.head_bias:
            raise ValueError("tie_embeddings needs head_bias = false")
        if self.architecture == "gpt":
            self._check_positions()
        return self

    def _check_positions(self) -> None:
        """Raises ValueError for values that the positional scheme does not support."""
        if self.position in ("rope", "learned+rope", "coupled+rope"):
            if self.head_dim % 2:
                raise ValueError(f"rope needs an even head width, not {self.head_dim}")
            self._check_table(self.head_dim)
        if self.position == "sinusoidal":
            if self.n_embd % 2:
                raise ValueError(f"sinusoidal positions need an even n_embd, not {self.n_embd}")
            self._check_table(self.n_embd)
        if self.position == "t5-buckets" and self.max_distance <= self.n_bucket // 2:
            raise ValueError(
                f"max_distance {self.max_distance} must be above half of n_bucket {self.n_bucket}"
            )
        if self.position in ("coupled", "coupled+rope"):
            if len(set(self.row_marks)) < len(self.row_marks):
                raise ValueError("row_marks must be different token ids")
            if self.place_offset >= self.n_place:
                raise ValueError(
                    f"place_offset {self.place_offset} must be below n_place {self.n_place}"
                )

    def _check_table(self, width: int) -> None:
        """Raises ValueError if a table with a row of this width for each position is too large. The
        table is computed from the config and never stored, so a small file can ask for a huge one.
        """
        if self.block_size * width > MAX_TABLE:
            limit = MAX_TABLE // width
            raise ValueError(f"block_size must be at most {limit} with position {self.position!r}")


class TrainConfig(Section):
    """How a model is trained. The defaults are the blog's: 5,000 steps of AdamW at 3e-4."""

    batches: Batches = Field("stream", description="how batches are made from text")
    case_share: float = Field(
        1.0, gt=0, le=1, description="cases: share of them to train on; the others are held out"
    )
    join_lines: bool = Field(True, description="stream: remove newlines, as the blog does")
    batch_size: int = Field(16, ge=1, le=1_000_000, description="sequences per step")
    grad_accum: int = Field(1, ge=1, description="micro-batches per step; divides batch_size")
    steps: int = Field(5_000, ge=1, le=MAX_STEPS, description="updates of the weights")
    optimizer: Variant[Optimizer] = Field("adamw", description="what updates the weights")
    lr: float = Field(3e-4, gt=0, description="peak learning rate")
    schedule: Variant[Schedule] = Field(
        "constant", description="course of the learning rate after warm-up"
    )
    warmup_steps: int = Field(0, ge=0, le=MAX_STEPS, description="steps of a linear warm-up")
    min_lr_ratio: float = Field(0.0, ge=0, le=1, description="final learning rate over the peak")
    weight_decay: float = Field(
        0.01, ge=0, description="decoupled weight decay, multiplied by the learning rate"
    )
    decayed: Literal["all", "matrices"] = Field(
        "all", description="adamw: what decays; matrices: no gain, bias, embedding or tied head"
    )
    beta1: float = Field(0.9, ge=0, lt=1, description="adamw: decay of the mean of gradients")
    beta2: float = Field(0.999, ge=0, lt=1, description="adamw: decay of the mean of squares")
    muon_lr: float = Field(3e-3, gt=0, description="muon: peak learning rate of hidden matrices")
    grad_clip: float = Field(0.0, ge=0, description="largest gradient norm; 0: no clipping")
    ema_decay: float = Field(
        0.0, ge=0, lt=1, description="decay of a moving average of the weights; 0: none"
    )
    weights: Literal["fp32", "int8"] = Field(
        "fp32", description="int8: matrices are rounded to 8 bits by rows, in training as well"
    )
    seed: int = Field(42, ge=0, lt=2**63, description="seed of every random draw")
    precision: Literal["auto", "fp32", "bf16"] = Field("auto", description="auto: bf16 on CUDA")
    compile: bool = Field(
        False, description="use torch.compile; batches 'stream' on a GPU also use CUDA graphs"
    )
    log_interval: int = Field(
        50, ge=1, le=MAX_STEPS, description="steps between rows of metrics.jsonl"
    )
    eval_interval: int = Field(500, ge=1, le=MAX_STEPS, description="steps between validations")
    eval_batches: int = Field(20, ge=1, le=1_000_000, description="validation batches for the loss")
    eval_problems: int = Field(
        1_000, ge=0, le=1_000_000, description="validation problems answered greedily"
    )
    checkpoint_interval: int = Field(
        500, ge=1, le=MAX_STEPS, description="steps between checkpoints"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.batch_size % self.grad_accum:
            raise ValueError(
                f"batch_size {self.batch_size} is not divisible by grad_accum {self.grad_accum}"
            )
        if self.weights == "int8" and self.ema_decay:
            raise ValueError("weights 'int8' needs ema_decay 0: an average is not rounded")
        return self


VOCAB_SIZE = 1_024  # default of a recipe
Weight = Annotated[float, Field(ge=0)]


PositiveWeight = Annotated[float, Field(gt=0)]


WEIGHTS: dict[Sign, float] = dict.fromkeys(SIGNS, 1.0)


class DataConfig(Section):
    """Problems that are drawn during training, without files. Weights are relative."""

    format: Variant[Format] = Field("scratchpad", description="how problems are written")
    mixture: dict[Variant[Distribution], PositiveWeight] = Field(
        min_length=1, description="distributions of problems and their weights"
    )
    operations: dict[Sign, Weight] = Field(
        WEIGHTS, description="weight of each operation, in every distribution; 1 if not listed"
    )
    validation: Variant[Distribution] = Field(
        "blog", description="distribution of the validation problems"
    )

    @field_validator("operations")
    @classmethod
    def _complete_operations(cls, weights: dict[str, float]) -> dict[str, float]:
        weights = WEIGHTS | weights
        if not any(weights.values()):
            raise ValueError("one operation needs a weight above 0")
        return weights


class Recipe(Section):
    """A model and its training: one experiment, as a file in `calcgpt_lab/recipes/`."""

    description: str = Field("", description="what it is, in one line")
    tokenizer: TokenizerName = Field("arithmetic", description="how tokens are made from text")
    vocab_size: int = Field(
        VOCAB_SIZE, ge=256, le=65_536, description="bpe: tokens; fewer for a short text"
    )
    model: ModelConfig = Field(default_factory=ModelConfig)
    train: TrainConfig = Field(default_factory=TrainConfig)
    data: DataConfig | None = Field(None, description="what to train on without a data folder")
    plugins: list[str] = Field([], description="files of --plugin whose variants are used")

    @property
    def has_work(self) -> bool:
        """Whether the model writes worked steps."""
        return self.data is not None and has_work(self.data.format)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.tokenizer == "bpe" and (self.train.batches == "problems" or self.data):
            raise ValueError(
                "tokenizer 'bpe' is for plain text: [data] and train.batches = 'problems' need "
                "one token per character"
            )
        return self
