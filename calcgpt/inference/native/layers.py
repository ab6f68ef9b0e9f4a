"""The parts of a layer other than its matrix products and attention, compiled by Numba: norms,
activations and rotations."""

from __future__ import annotations

import numpy as np

from calcgpt.inference.native import entries as e
from calcgpt.inference.native.numba_types import (
    Floats,
    Ints,
    Vector,
    add,
    at,
    broadcast,
    compiled,
    divide,
    load,
    maximum,
    minimum,
    multiply,
    power_of_two,
    reduce_sum,
    round_nearest,
    select_first,
    sqrt,
    store,
    subtract,
    zeros,
)
from calcgpt.inference.native.weights import PANEL

F32 = np.float32


@compiled
def padded_width(width: int) -> int:
    """Returns a width rounded up to a multiple of PANEL."""
    n_panel: int = (width + PANEL - 1) // PANEL
    return n_panel * PANEL


@compiled
def exp(x: Vector) -> Vector:
    """Returns e^x to the precision of float32, for x clamped to -87 ... 88.

    x = n log 2 + r for an integer n, and a polynomial approximates e^r (Cephes, expf).
    """
    x = minimum(maximum(x, broadcast(F32(-87))), broadcast(F32(88)))
    n = round_nearest(multiply(x, broadcast(F32(1.44269504))))
    r = subtract(x, multiply(n, broadcast(F32(0.693359375))))
    r = add(r, multiply(n, broadcast(F32(2.12194440e-4))))
    p = add(multiply(broadcast(F32(1.9875691500e-4)), r), broadcast(F32(1.3981999507e-3)))
    p = add(multiply(p, r), broadcast(F32(8.3334519073e-3)))
    p = add(multiply(p, r), broadcast(F32(4.1665795894e-2)))
    p = add(multiply(p, r), broadcast(F32(1.6666665459e-1)))
    p = add(multiply(p, r), broadcast(F32(5.0000001201e-1)))
    p = add(multiply(multiply(p, r), r), add(r, broadcast(F32(1))))
    return multiply(p, power_of_two(n))


@compiled
def sigmoid(x: Vector) -> Vector:
    """Returns 1 / (1 + e^-x)."""
    return divide(broadcast(F32(1)), add(broadcast(F32(1)), exp(subtract(zeros(), x))))


@compiled
def activation(kind: int, x: Vector) -> Vector:
    """Returns the activation function `kind` of x. The kinds are those of `weights.ACTIVATIONS`."""
    if kind == e.RELU:
        return maximum(x, zeros())
    if kind == e.SQUARED_RELU:
        return multiply(maximum(x, zeros()), maximum(x, zeros()))
    if kind == e.SILU:
        return multiply(x, sigmoid(x))
    if kind == e.SIGMOID:
        return sigmoid(x)
    # e.GELU_TANH: (1 + tanh(u)) / 2 = sigmoid(2 u)
    cubic = multiply(multiply(x, x), multiply(x, broadcast(F32(0.044715))))
    return multiply(x, sigmoid(multiply(broadcast(F32(1.5957691216)), add(x, cubic))))


@compiled
def activate(plan: Ints, hidden: Floats, stride: int, n_row: int) -> None:
    """Applies the activation function to the hidden layer, in place.

    A gated layer has rows of gates and then values. The activated gates times the values replace
    the gates.
    """
    width, kind, is_gated = padded_width(plan[e.FF_WIDTH]), plan[e.ACTIVATION], plan[e.IS_GATED]
    for r in range(n_row):
        for i in range(r * stride, r * stride + width, PANEL):
            value = activation(kind, load(hidden, i))
            store(hidden, i, multiply(value, load(hidden, i + width)) if is_gated else value)


@compiled
def norm_row(plan: Ints, gain: Floats, width: int, x: Floats, y: Floats) -> None:
    """Computes y = LayerNorm(x) or RMSNorm(x) for a row. The bias follows the gain. y may be x."""
    n, epsilon, mean = F32(width), F32(1e-6), zeros()
    if plan[e.IS_LAYERNORM]:
        epsilon, total = F32(1e-5), zeros()
        for i in range(0, width, PANEL):
            total = add(total, select_first(width - i, load(x, i), zeros()))
        mean = broadcast(reduce_sum(total) / n)
    square = zeros()
    for i in range(0, width, PANEL):
        centred = select_first(width - i, subtract(load(x, i), mean), zeros())
        square = add(square, multiply(centred, centred))
    scale = broadcast(F32(1) / sqrt(reduce_sum(square) / n + epsilon))
    for i in range(0, width, PANEL):
        x_i = load(x, i)
        value = multiply(multiply(subtract(x_i, mean), scale), load(gain, i))
        value = add(value, load(gain, width + i))
        store(y, i, select_first(width - i, value, x_i))


@compiled
def norm_rows(
    plan: Ints, gain: Floats, x: Floats, x_stride: int, y: Floats, y_stride: int, n_row: int
) -> None:
    """Computes y = norm(x) for rows of n_embd numbers."""
    for r in range(n_row):
        norm_row(plan, gain, plan[e.N_EMBD], at(x, r * x_stride), at(y, r * y_stride))


@compiled
def rotate_heads(
    plan: Ints, layer: Floats, rotations: Floats, cache_index: int, position: int, qkv: Floats
) -> None:
    """Normalises and rotates the queries and keys of a row, in place, if the model does so.

    `cache_index` is slot * capacity + position. `rotations` are those of `kernels.decode`.
    """
    head_dim, half = plan[e.HEAD_DIM], plan[e.HEAD_DIM] // 2
    for head in range(plan[e.N_HEAD] + plan[e.N_KV_HEAD]):
        is_key, x = head >= plan[e.N_HEAD], at(qkv, head * head_dim)
        if plan[e.HAS_QK_NORM]:
            gain = plan[e.K_NORM] if is_key else plan[e.Q_NORM]
            norm_row(plan, at(layer, gain), head_dim, x, x)
        if plan[e.ROTATION]:
            by_coordinates = plan[e.ROTATION] == e.ROTATE_BY_COORDINATES
            index = (2 * cache_index + is_key if by_coordinates else position) * head_dim
            n_vector = half if half % PANEL == 0 else 0
            for i in range(0, n_vector, PANEL):
                cos, sin = load(rotations, index + i), load(rotations, index + half + i)
                left, right = load(x, i), load(x, half + i)
                store(x, i, subtract(multiply(left, cos), multiply(right, sin)))
                store(x, half + i, add(multiply(right, cos), multiply(left, sin)))
            for i in range(n_vector, half):
                cos, sin = rotations[index + i], rotations[index + half + i]
                left, right = x[i], x[half + i]
                x[i], x[half + i] = left * cos - right * sin, right * cos + left * sin
