"""Matrix products y = z + x W, compiled by Numba, with W stored in panels (`weights.pack_panels`).

The sums of a product stay in registers: those of one row and four panels, of six rows and one
panel or, with the 32 registers of AVX-512, of six rows and two panels. They start at z, for example
the bias.

Arguments: pointers are to the first number of the first row. Strides count numbers: `x_stride` is
the distance between rows of x, and `w_stride` the distance between panels of W.
"""

from __future__ import annotations

from llvmlite import binding as llvm

from calcgpt.inference.native.numba_types import (
    Floats,
    add,
    at,
    compiled,
    fma,
    load,
    store,
    zeros,
)
from calcgpt.inference.native.weights import PANEL, TILE

HAS_AVX512 = bool(llvm.get_host_cpu_features().get("avx512f"))


@compiled
def four_panels(w: Floats, w_stride: int, x: Floats, z: Floats, y: Floats, n_in: int) -> None:
    """Computes four panels of the product of one row. Independent sums hide the latency of FMA."""
    w1, w2, w3 = at(w, w_stride), at(w, 2 * w_stride), at(w, 3 * w_stride)
    sum0, sum1 = load(z, 0), load(z, PANEL)
    sum2, sum3 = load(z, 2 * PANEL), load(z, 3 * PANEL)
    for k in range(n_in):
        sum0 = fma(x[k], load(w, k * PANEL), sum0)
        sum1 = fma(x[k], load(w1, k * PANEL), sum1)
        sum2 = fma(x[k], load(w2, k * PANEL), sum2)
        sum3 = fma(x[k], load(w3, k * PANEL), sum3)
    store(y, 0, sum0), store(y, PANEL, sum1)
    store(y, 2 * PANEL, sum2), store(y, 3 * PANEL, sum3)


@compiled
def one_panel(w: Floats, x: Floats, z: Floats, y: Floats, n_in: int) -> None:
    """Computes one panel of the product of one row, as four partial sums, for the same reason."""
    sum0, sum1, sum2, sum3 = load(z, 0), zeros(), zeros(), zeros()
    n_unrolled = n_in - n_in % 4
    for k in range(0, n_unrolled, 4):
        sum0 = fma(x[k], load(w, k * PANEL), sum0)
        sum1 = fma(x[k + 1], load(w, (k + 1) * PANEL), sum1)
        sum2 = fma(x[k + 2], load(w, (k + 2) * PANEL), sum2)
        sum3 = fma(x[k + 3], load(w, (k + 3) * PANEL), sum3)
    for k in range(n_unrolled, n_in):
        sum0 = fma(x[k], load(w, k * PANEL), sum0)
    store(y, 0, add(add(sum0, sum1), add(sum2, sum3)))


@compiled
def six_rows(
    w: Floats,
    x: Floats,
    x_stride: int,
    z: Floats,
    z_stride: int,
    y: Floats,
    y_stride: int,
    n_in: int,
) -> None:
    """Computes one panel of the product of TILE rows."""
    x1, x2, x3 = at(x, x_stride), at(x, 2 * x_stride), at(x, 3 * x_stride)
    x4, x5 = at(x, 4 * x_stride), at(x, 5 * x_stride)
    sum0, sum1, sum2 = load(z, 0), load(z, z_stride), load(z, 2 * z_stride)
    sum3, sum4, sum5 = load(z, 3 * z_stride), load(z, 4 * z_stride), load(z, 5 * z_stride)
    for k in range(n_in):
        w_k = load(w, k * PANEL)
        sum0, sum1 = fma(x[k], w_k, sum0), fma(x1[k], w_k, sum1)
        sum2, sum3 = fma(x2[k], w_k, sum2), fma(x3[k], w_k, sum3)
        sum4, sum5 = fma(x4[k], w_k, sum4), fma(x5[k], w_k, sum5)
    store(y, 0, sum0), store(y, y_stride, sum1), store(y, 2 * y_stride, sum2)
    store(y, 3 * y_stride, sum3), store(y, 4 * y_stride, sum4), store(y, 5 * y_stride, sum5)


@compiled
def six_rows_and_two_panels(
    w: Floats,
    w_stride: int,
    x: Floats,
    x_stride: int,
    z: Floats,
    z_stride: int,
    y: Floats,
    y_stride: int,
    n_in: int,
) -> None:
    """Computes two panels of the product of TILE rows. Twelve sums keep two FMA units busy: with
    six, each waits for its own last addition."""
    v = at(w, w_stride)
    x1, x2, x3 = at(x, x_stride), at(x, 2 * x_stride), at(x, 3 * x_stride)
    x4, x5 = at(x, 4 * x_stride), at(x, 5 * x_stride)
    z1, z2, z3 = at(z, z_stride), at(z, 2 * z_stride), at(z, 3 * z_stride)
    z4, z5 = at(z, 4 * z_stride), at(z, 5 * z_stride)
    sum0, sum1, sum2 = load(z, 0), load(z1, 0), load(z2, 0)
    sum3, sum4, sum5 = load(z3, 0), load(z4, 0), load(z5, 0)
    next0, next1, next2 = load(z, PANEL), load(z1, PANEL), load(z2, PANEL)
    next3, next4, next5 = load(z3, PANEL), load(z4, PANEL), load(z5, PANEL)
    for k in range(n_in):
        w_k, v_k = load(w, k * PANEL), load(v, k * PANEL)
        sum0, next0 = fma(x[k], w_k, sum0), fma(x[k], v_k, next0)
        sum1, next1 = fma(x1[k], w_k, sum1), fma(x1[k], v_k, next1)
        sum2, next2 = fma(x2[k], w_k, sum2), fma(x2[k], v_k, next2)
        sum3, next3 = fma(x3[k], w_k, sum3), fma(x3[k], v_k, next3)
        sum4, next4 = fma(x4[k], w_k, sum4), fma(x4[k], v_k, next4)
        sum5, next5 = fma(x5[k], w_k, sum5), fma(x5[k], v_k, next5)
    y1, y2, y3 = at(y, y_stride), at(y, 2 * y_stride), at(y, 3 * y_stride)
    y4, y5 = at(y, 4 * y_stride), at(y, 5 * y_stride)
    store(y, 0, sum0), store(y1, 0, sum1), store(y2, 0, sum2)
    store(y3, 0, sum3), store(y4, 0, sum4), store(y5, 0, sum5)
    store(y, PANEL, next0), store(y1, PANEL, next1), store(y2, PANEL, next2)
    store(y3, PANEL, next3), store(y4, PANEL, next4), store(y5, PANEL, next5)


@compiled
def product(
    w: Floats,
    w_stride: int,
    x: Floats,
    x_stride: int,
    z: Floats,
    z_stride: int,
    y: Floats,
    y_stride: int,
    n_in: int,
    n_out: int,
    n_row: int,
) -> None:
    """Computes y = z + x W, for x (n_row, n_in) and W (n_in, n_out). n_out is a multiple of PANEL.

    Four panels stay in the L1 cache while all rows use them. The last tile may read and write up to
    three rows too many. x, y and z must have room for them.
    """
    n_panel = n_out // PANEL
    n_single = n_row % TILE if n_row % TILE < TILE // 2 else 0
    for start in range(0, n_panel, 4):
        stop = min(start + 4, n_panel)
        n_paired = (stop - start) // 2 * 2 if HAS_AVX512 else 0
        for p in range(start, start + n_paired, 2):
            w_p, z_p, y_p = at(w, p * w_stride), at(z, p * PANEL), at(y, p * PANEL)
            for r in range(0, n_row - n_single, TILE):
                x_r, z_r, y_r = at(x, r * x_stride), at(z_p, r * z_stride), at(y_p, r * y_stride)
                six_rows_and_two_panels(
                    w_p, w_stride, x_r, x_stride, z_r, z_stride, y_r, y_stride, n_in
                )
        for p in range(start + n_paired, stop):
            w_p, z_p, y_p = at(w, p * w_stride), at(z, p * PANEL), at(y, p * PANEL)
            for r in range(0, n_row - n_single, TILE):
                x_r, z_r, y_r = at(x, r * x_stride), at(z_p, r * z_stride), at(y_p, r * y_stride)
                six_rows(w_p, x_r, x_stride, z_r, z_stride, y_r, y_stride, n_in)
        for r in range(n_row - n_single, n_row):
            x_r, z_r, y_r = at(x, r * x_stride), at(z, r * z_stride), at(y, r * y_stride)
            if stop - start == 4:
                z_p, y_p = at(z_r, start * PANEL), at(y_r, start * PANEL)
                four_panels(at(w, start * w_stride), w_stride, x_r, z_p, y_p, n_in)
            else:
                for p in range(start, stop):
                    z_p, y_p = at(z_r, p * PANEL), at(y_r, p * PANEL)
                    one_panel(at(w, p * w_stride), x_r, z_p, y_p, n_in)


@compiled
def linear(
    w: Floats, x: Floats, x_stride: int, y: Floats, n_in: int, n_out: int, n_row: int
) -> None:
    """Computes y = x W + b. `w` has the bias b and then W. The rows of y are contiguous."""
    panels = at(w, n_out)
    product(panels, n_in * PANEL, x, x_stride, w, 0, y, n_out, n_in, n_out, n_row)


@compiled
def add_linear(
    w: Floats, x: Floats, x_stride: int, y: Floats, n_in: int, n_out: int, n_row: int
) -> None:
    """Computes y += x W + b, otherwise as `linear`."""
    for r in range(n_row):
        for i in range(0, n_out, PANEL):
            store(y, r * n_out + i, add(load(y, r * n_out + i), load(w, i)))
    panels = at(w, n_out)
    product(panels, n_in * PANEL, x, x_stride, y, n_out, y, n_out, n_in, n_out, n_row)
