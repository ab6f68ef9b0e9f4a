"""What acts on each token alone, written from the papers' formulas: see `naive`."""

import math
from collections.abc import Callable

import numpy as np

from calcgpt.config import ModelConfig

Vector = np.ndarray
Weights = dict[str, np.ndarray]


def linear(w: Weights, name: str, x: Vector, bias: bool) -> Vector:
    return w[f"{name}.weight"] @ x + (w[f"{name}.bias"] if bias else 0.0)


def softmax(scores: list[float]) -> list[float]:
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]


# ------------------------------------------------------------------------------------- norms


def layernorm(w: Weights, name: str, config: ModelConfig, x: Vector) -> Vector:
    """Ba et al. 2016, eqs. 3 and 4."""
    mean = sum(x) / len(x)
    variance = sum((x - mean) ** 2) / len(x)
    y = (x - mean) / math.sqrt(variance + 1e-5) * w[f"{name}.weight"]
    return y + w[f"{name}.bias"] if config.norm_bias else y


def rmsnorm(w: Weights, name: str, config: ModelConfig, x: Vector) -> Vector:
    """Zhang & Sennrich 2019, eq. 4."""
    return x / math.sqrt(sum(x**2) / len(x) + 1e-6) * w[f"{name}.weight"]


NORMS = {"layernorm": layernorm, "rmsnorm": rmsnorm}


def norm(w: Weights, name: str, config: ModelConfig, x: Vector) -> Vector:
    return NORMS[config.norm](w, name, config, x)


# ------------------------------------------------------------------------------ feed-forward


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gelu(x: float) -> float:
    """x Phi(x) (Hendrycks & Gimpel 2016, section 2)."""
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def gelu_tanh(x: float) -> float:
    """Ibid., the approximation."""
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: float) -> float:
    return x * sigmoid(x)


# Name -> (whether there is a gate, the function of each number).
FEEDFORWARDS: dict[str, tuple[bool, Callable[[float], float]]] = {
    "relu": (False, lambda x: max(x, 0.0)),
    "relu2": (False, lambda x: max(x, 0.0) ** 2),  # So et al. 2021
    "gelu": (False, gelu),
    "gelu-tanh": (False, gelu_tanh),
    "silu": (False, silu),
    "glu": (True, sigmoid),  # Shazeer 2020, eqs. 4 to 6
    "geglu": (True, gelu),
    "swiglu": (True, silu),
}


def feedforward(w: Weights, config: ModelConfig, name: str, x: Vector) -> Vector:
    gated, function = FEEDFORWARDS[config.feedforward]
    if gated:
        both = linear(w, f"{name}.gate_up", x, config.ff_bias)
        gate, up = both[: len(both) // 2], both[len(both) // 2 :]
        hidden = np.array([function(g) * u for g, u in zip(gate, up, strict=True)])
    else:
        hidden = np.array([function(u) for u in linear(w, f"{name}.up", x, config.ff_bias)])
    return linear(w, f"{name}.down", hidden, config.ff_bias)
