"""Matrix products y = z + x W, compiled by Numba, with W stored in panels (`weights.pack_panels`).

The sums of a product stay in registers: those of one row and four panels, or of six rows and one
panel. They start at z, for example the bias.

Arguments: pointers are to the first number of the first row. Strides count numbers: `x_stride` is
the distance between rows of x, and `w_stride` the distance between panels of W.
"""

from __future__ import annotations

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
        for p in range(start, stop):
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
