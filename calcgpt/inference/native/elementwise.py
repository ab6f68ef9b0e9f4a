"""What happens to the numbers of a row by themselves: norms, activations and rotations, compiled by
Numba."""

from __future__ import annotations

import numpy as np

from calcgpt.inference.native.numba_types import (
    Floats,
    Ints,
    Vector,
    add,
    compiled,
    divide,
    every,
    first,
    larger,
    load,
    multiply,
    nearest,
    power_of_two,
    smaller,
    sqrt,
    store,
    subtract,
    sum_of,
    zeros,
)
from calcgpt.inference.native.weights import (
    ACTIVATION,
    BY_ROW,
    FF_WIDTH,
    HAS_QK_NORM,
    HEAD_DIM,
    IS_GATED,
    IS_LAYERNORM,
    K_NORM,
    N_EMBD,
    N_HEAD,
    N_KV_HEAD,
    PANEL,
    Q_NORM,
    RELU,
    ROTATION,
    SIGMOID,
    SILU,
    SQUARED_RELU,
)

F32 = np.float32


@compiled
def whole_panels(width: int) -> int:
    n_panel: int = (width + PANEL - 1) // PANEL
    return n_panel * PANEL


@compiled
def exp(x: Vector) -> Vector:
    """e^x to float32's precision.

    x = n log 2 + r, and e^r is a polynomial (Cephes, expf). Beyond the limits of float32, the
    result is the smallest or nearly the largest number.
    """
    x = smaller(larger(x, every(F32(-87))), every(F32(88)))
    n = nearest(multiply(x, every(F32(1.44269504))))
    r = subtract(x, multiply(n, every(F32(0.693359375))))
    r = add(r, multiply(n, every(F32(2.12194440e-4))))
    p = add(multiply(every(F32(1.9875691500e-4)), r), every(F32(1.3981999507e-3)))
    p = add(multiply(p, r), every(F32(8.3334519073e-3)))
    p = add(multiply(p, r), every(F32(4.1665795894e-2)))
    p = add(multiply(p, r), every(F32(1.6666665459e-1)))
    p = add(multiply(p, r), every(F32(5.0000001201e-1)))
    p = add(multiply(multiply(p, r), r), add(r, every(F32(1))))
    return multiply(p, power_of_two(n))


@compiled
def sigmoid(x: Vector) -> Vector:
    return divide(every(F32(1)), add(every(F32(1)), exp(subtract(zeros(), x))))


@compiled
def activated(kind: int, x: Vector) -> Vector:
    if kind == RELU:
        return larger(x, zeros())
    if kind == SQUARED_RELU:
        return multiply(larger(x, zeros()), larger(x, zeros()))
    if kind == SILU:
        return multiply(x, sigmoid(x))
    if kind == SIGMOID:
        return sigmoid(x)
    # GELU_TANH: (1 + tanh(u)) / 2 = sigmoid(2 u)
    cubic = multiply(multiply(x, x), multiply(x, every(F32(0.044715))))
    return multiply(x, sigmoid(multiply(every(F32(1.5957691216)), add(x, cubic))))


@compiled
def activate(plan: Ints, s: Floats, h: int, step: int, rows: int) -> None:
    """Applies the activation to the hidden layer; where it is gated, to the gates."""
    width, kind, is_gated = whole_panels(plan[FF_WIDTH]), plan[ACTIVATION], plan[IS_GATED]
    for r in range(rows):
        for x in range(h + r * step, h + r * step + width, PANEL):
            value = activated(kind, load(s, x))
            store(s, x, multiply(value, load(s, x + width)) if is_gated else value)


@compiled
def normalise(plan: Ints, w: Floats, gain: int, width: int, s: Floats, x: int, y: int) -> None:
    """Layer or root-mean-square normalisation of one row; y may be x."""
    n, epsilon, mean = F32(width), F32(1e-6), zeros()
    if plan[IS_LAYERNORM]:
        epsilon, total = F32(1e-5), zeros()
        for i in range(0, width, PANEL):
            total = add(total, first(width - i, load(s, x + i), zeros()))
        mean = every(sum_of(total) / n)
    square = zeros()
    for i in range(0, width, PANEL):
        centred = first(width - i, subtract(load(s, x + i), mean), zeros())
        square = add(square, multiply(centred, centred))
    scale = every(F32(1) / sqrt(sum_of(square) / n + epsilon))
    for i in range(0, width, PANEL):
        before = load(s, x + i)
        value = multiply(multiply(subtract(before, mean), scale), load(w, gain + i))
        value = add(value, load(w, gain + width + i))
        store(s, y + i, first(width - i, value, before))


@compiled
def norm(
    plan: Ints,
    w: Floats,
    gain: int,
    s: Floats,
    x: int,
    x_step: int,
    y: int,
    y_step: int,
    rows: int,
) -> None:
    """y = norm(x), for rows of the model's width."""
    for r in range(rows):
        normalise(plan, w, gain, plan[N_EMBD], s, x + r * x_step, y + r * y_step)


@compiled
def heads(
    plan: Ints,
    w: Floats,
    layer: int,
    rotations: Floats,
    place: int,
    position: int,
    s: Floats,
    qkv: int,
) -> None:
    """Normalises and rotates the queries and keys of a row, where the model does."""
    width, half = plan[HEAD_DIM], plan[HEAD_DIM] // 2
    for head in range(plan[N_HEAD] + plan[N_KV_HEAD]):
        is_key = head >= plan[N_HEAD]
        x = qkv + head * width
        if plan[HAS_QK_NORM]:
            gain = layer + (plan[K_NORM] if is_key else plan[Q_NORM])
            normalise(plan, w, gain, width, s, x, x)
        if plan[ROTATION]:
            angle = (2 * place + is_key if plan[ROTATION] == BY_ROW else position) * width
            for i in range(half):
                cos, sin = rotations[angle + i], rotations[angle + half + i]
                left, right = s[x + i], s[x + half + i]
                s[x + i] = left * cos - right * sin
                s[x + half + i] = right * cos + left * sin
