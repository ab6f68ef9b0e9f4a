"""Products of rows with matrices that are stored in panels (`weights.panels`), compiled by Numba.

The sums of a product stay in registers: of one row and four panels, or of six rows and one panel.
They start with a row z, such as the bias. `x_step` is the distance of rows of x in numbers, and so
on; pointers are to the first number of the first row.
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
def four_panels(w: Floats, w_step: int, x: Floats, z: Floats, y: Floats, n_in: int) -> None:
    """Four panels of the product of one row: four sums, because each takes some cycles."""
    w1, w2, w3 = at(w, w_step), at(w, 2 * w_step), at(w, 3 * w_step)
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
    """One panel of the product of one row: four partial sums, for the same reason."""
    sum0, sum1, sum2, sum3 = load(z, 0), zeros(), zeros(), zeros()
    whole = n_in - n_in % 4
    for k in range(0, whole, 4):
        sum0 = fma(x[k], load(w, k * PANEL), sum0)
        sum1 = fma(x[k + 1], load(w, (k + 1) * PANEL), sum1)
        sum2 = fma(x[k + 2], load(w, (k + 2) * PANEL), sum2)
        sum3 = fma(x[k + 3], load(w, (k + 3) * PANEL), sum3)
    for k in range(whole, n_in):
        sum0 = fma(x[k], load(w, k * PANEL), sum0)
    store(y, 0, add(add(sum0, sum1), add(sum2, sum3)))


@compiled
def six_rows(
    w: Floats, x: Floats, x_step: int, z: Floats, z_step: int, y: Floats, y_step: int, n_in: int
) -> None:
    """One panel of the products of six rows."""
    x1, x2, x3 = at(x, x_step), at(x, 2 * x_step), at(x, 3 * x_step)
    x4, x5 = at(x, 4 * x_step), at(x, 5 * x_step)
    sum0, sum1, sum2 = load(z, 0), load(z, z_step), load(z, 2 * z_step)
    sum3, sum4, sum5 = load(z, 3 * z_step), load(z, 4 * z_step), load(z, 5 * z_step)
    for k in range(n_in):
        column = load(w, k * PANEL)
        sum0, sum1 = fma(x[k], column, sum0), fma(x1[k], column, sum1)
        sum2, sum3 = fma(x2[k], column, sum2), fma(x3[k], column, sum3)
        sum4, sum5 = fma(x4[k], column, sum4), fma(x5[k], column, sum5)
    store(y, 0, sum0), store(y, y_step, sum1), store(y, 2 * y_step, sum2)
    store(y, 3 * y_step, sum3), store(y, 4 * y_step, sum4), store(y, 5 * y_step, sum5)


@compiled
def product(
    w: Floats,
    w_step: int,
    x: Floats,
    x_step: int,
    z: Floats,
    z_step: int,
    y: Floats,
    y_step: int,
    n_in: int,
    n_out: int,
    n_row: int,
) -> None:
    """y = z + x W, for rows x of n_in numbers and W in panels that are `w_step` numbers apart.

    Four panels stay in the processor's nearest cache while all rows use them. The last tile of six
    rows may be computed with up to three rows too many, for which there must be room.
    """
    n_panel = n_out // PANEL
    n_single = n_row % TILE if n_row % TILE < TILE // 2 else 0
    for first in range(0, n_panel, 4):
        last = min(first + 4, n_panel)
        for p in range(first, last):
            w_p, z_p, y_p = at(w, p * w_step), at(z, p * PANEL), at(y, p * PANEL)
            for r in range(0, n_row - n_single, TILE):
                x_r, z_r, y_r = at(x, r * x_step), at(z_p, r * z_step), at(y_p, r * y_step)
                six_rows(w_p, x_r, x_step, z_r, z_step, y_r, y_step, n_in)
        for r in range(n_row - n_single, n_row):
            x_r, z_r, y_r = at(x, r * x_step), at(z, r * z_step), at(y, r * y_step)
            if last - first == 4:
                z_p, y_p = at(z_r, first * PANEL), at(y_r, first * PANEL)
                four_panels(at(w, first * w_step), w_step, x_r, z_p, y_p, n_in)
            else:
                for p in range(first, last):
                    z_p, y_p = at(z_r, p * PANEL), at(y_r, p * PANEL)
                    one_panel(at(w, p * w_step), x_r, z_p, y_p, n_in)


@compiled
def linear(w: Floats, x: Floats, x_step: int, y: Floats, n_in: int, n_out: int, n_row: int) -> None:
    """y = x W + b, for a matrix that follows its bias. The rows of y follow each other."""
    panels = at(w, n_out)
    product(panels, n_in * PANEL, x, x_step, w, 0, y, n_out, n_in, n_out, n_row)


@compiled
def add_linear(
    w: Floats, x: Floats, x_step: int, y: Floats, n_in: int, n_out: int, n_row: int
) -> None:
    """y += x W + b. The rows of y follow each other."""
    for r in range(n_row):
        for i in range(0, n_out, PANEL):
            store(y, r * n_out + i, add(load(y, r * n_out + i), load(w, i)))
    panels = at(w, n_out)
    product(panels, n_in * PANEL, x, x_step, y, n_out, y, n_out, n_in, n_out, n_row)
