"""Closed formulas, by part, for the parameters of a model and its FLOPs per token. No model is
built.

The formulas are arithmetic over the letters of `SIZES`. With numbers they give the counts, with
sympy symbols the formulas that `calcgpt info` prints.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from calcgpt.base.extras import is_installed
from calcgpt.config import ModelConfig
from calcgpt.variants import plugins_of
from datagen.slots import MAX_SOURCES, N_KINDS, Kind

SIZES = {
    "V": "vocabulary",
    "C": "n_embd, width of the residual stream",
    "L": "n_layer",
    "H": "n_head, query heads",
    "G": "n_kv_head, key/value heads",
    "D": "width of a head",
    "F": "hidden width of the feed-forward network",
    "N": "positions: block_size, and the tokens that attention inserts",
    "P": "n_place, places of coupled positions",
    "R": "kinds of rows of coupled positions: row_marks, and one for the text before them",
    "Y": "kinds of characters in worked steps",
    "S": "characters that a rule reads, at most",
    "K": "n_bucket, buckets of distances",
    "M": "distances that have an embedding of their own",
}

Formulas = Callable[[ModelConfig, SimpleNamespace], dict[str, Any]]


def _parts(c: ModelConfig, s: SimpleNamespace) -> dict[str, Any]:
    """Returns part -> its parameters, over the sizes `s`, which are numbers or symbols."""
    if c.architecture == "bigram":
        return {"table of logits": s.V * s.V}
    n_inserted = {"full": 0, "window": 0, "landmark": 1}[c.attention]
    positions = {
        "none": 0,
        "sinusoidal": 0,
        "rope": 0,
        "alibi": 0,
        "learned": s.N * s.C,
        "learned+rope": s.N * s.C,
        "coupled": (s.P + s.R) * s.C,
        "coupled+rope": (s.P + s.R) * s.C,
        "integrated": s.L * s.N * s.D,
        "integrated-per-head": s.L * s.G * s.N * s.D,
        "shaw": s.L * s.M * s.D,
        "t5": s.H * s.N,
        "t5-buckets": s.H * s.K,
    }
    is_local = c.architecture == "sources"
    norm = 2 if c.norm == "layernorm" and c.norm_bias else 1  # vectors of one norm
    qkv_width = (s.H + 2 * s.G) * s.D
    attention = s.C * qkv_width + s.C * s.C
    attention += (qkv_width if c.qkv_bias else 0) + (s.C if c.attn_out_bias else 0)
    attention += 2 * norm * s.D if c.qk_norm else 0
    attention += s.H if is_local else 0  # sinks
    n_up = 2 if c.gated else 1  # matrices from C to F
    feedforward = (n_up + 1) * s.C * s.F + (n_up * s.F + s.C if c.ff_bias else 0)
    final_norm = {"pre": norm * s.C, "post": 0}[c.norm_position]
    final_norm += norm * s.C if is_local else 0  # of the sources
    return {
        "token embedding": (s.V + n_inserted) * s.C,
        "positions": (s.Y + s.S) * s.C if is_local else positions[c.position],
        "attention": s.L * attention,
        "feed-forward": s.L * feedforward,
        "norms": s.L * 2 * norm * s.C + final_norm,
        "head": (0 if c.tie_embeddings else s.C * s.V) + (s.V if c.head_bias else 0),
    }


def sizes(config: ModelConfig, vocab_size: int) -> dict[str, int]:
    """Returns the numbers that the letters of `SIZES` stand for."""
    n_positions = config.block_size
    if config.architecture == "gpt" and config.attention == "landmark":
        n_positions += config.block_size // config.landmark_block
    return {
        "V": vocab_size,
        "C": config.n_embd,
        "L": config.n_layer,
        "H": config.n_head,
        "G": config.kv_heads,
        "D": config.head_dim,
        "F": config.ff_width,
        "N": n_positions,
        "P": config.n_place,
        "R": len(config.row_marks) + 1,
        "Y": len(Kind),
        "S": MAX_SOURCES,
        "K": config.n_bucket,
        "M": min(config.max_distance + 1, n_positions),
    }


def flop_formulas(c: ModelConfig, s: SimpleNamespace) -> dict[str, Any]:
    """Returns part -> FLOPs of the matrix products of a forward pass, for each position of a
    sequence of s.N of them. Keys that a query does not see count too."""
    if c.architecture == "bigram":
        return {"table of logits": 0}
    n_up = 2 if c.gated else 1
    projected = s.C * (s.H + 2 * s.G) * s.D
    scores = 4 * s.N * s.C + (2 * s.N * s.C if c.position == "shaw" else 0)
    if c.architecture == "sources":  # keys and values are tables
        projected, scores = s.C * s.C, 4 * s.S * s.C
    return {
        "attention": s.L * 2 * (projected + s.C * s.C),
        "scores": s.L * scores,
        "feed-forward": s.L * 2 * (n_up + 1) * s.C * s.F,
        "head": 2 * s.C * s.V,
    }


def flops(config: ModelConfig, vocab_size: int, n_position: int | None = None) -> dict[str, int]:
    """Returns part -> FLOPs of a forward pass for each position of a sequence, by default of a full
    context. Training takes three times as many (Kaplan et al. 2020, section 2.1)."""
    s = sizes(config, vocab_size)
    return flop_formulas(config, SimpleNamespace(**{**s, "N": n_position or s["N"]}))


def has_formulas(config: ModelConfig) -> bool:
    """Returns whether there are formulas for all variants of a model. Those of plug-ins, and new
    ones, have none: their parameters are counted in a model that is built."""
    try:
        return not plugins_of(config) and bool(count(config, 1))
    except KeyError:
        return False


def count(config: ModelConfig, vocab_size: int) -> dict[str, int]:
    """Returns part -> its parameters. Shared parameters count once, in the first of their parts.
    The model must have formulas (`has_formulas`)."""
    return _parts(config, SimpleNamespace(**sizes(config, vocab_size)))


def n_stored(config: ModelConfig, vocab_size: int) -> int:
    """Returns how many numbers a checkpoint's weights are: the parameters, and the rows of
    KIND_TABLE that are reserved."""
    letters = {**sizes(config, vocab_size), "Y": N_KINDS}
    return sum(_parts(config, SimpleNamespace(**letters)).values())


def formulas(config: ModelConfig, parts: Formulas = _parts) -> dict[str, Any]:
    """Returns part -> a sympy expression over the letters of `SIZES`: its parameters, or its
    operations if `parts` is `flop_formulas`. Without sympy, the expressions are empty texts."""
    if not is_installed("sympy"):
        return dict.fromkeys(parts(config, SimpleNamespace(**sizes(config, 1))), "")
    import sympy  # its import takes a moment

    symbols = SimpleNamespace(**{letter: sympy.Symbol(letter) for letter in SIZES})
    return {part: sympy.sympify(formula) for part, formula in parts(config, symbols).items()}
