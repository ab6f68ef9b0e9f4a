"""Products of rows with matrices that are stored in panels (`weights.panels`), compiled by Numba.

The sums of a product stay in registers: of one row and four panels, or of six rows and one panel.
"""

from __future__ import annotations

import numpy as np

from calcgpt.inference.native.numba_types import Floats, add, compiled, fma, load, store, zeros
from calcgpt.inference.native.weights import PANEL

F32 = np.float32
TILE = 6  # rows of a product that are computed at once: their sums fill the registers


@compiled
def four_panels(
    w: Floats, w0: int, w_step: int, x: Floats, x0: int, y: Floats, y0: int, n_in: int
) -> None:
    """Adds four panels of the product of one row: four sums, because each takes some cycles."""
    w1, w2, w3 = w0 + w_step, w0 + 2 * w_step, w0 + 3 * w_step
    y1, y2, y3 = y0 + PANEL, y0 + 2 * PANEL, y0 + 3 * PANEL
    sum0, sum1, sum2, sum3 = load(y, y0), load(y, y1), load(y, y2), load(y, y3)
    for k in range(n_in):
        sum0 = fma(x[x0 + k], load(w, w0 + k * PANEL), sum0)
        sum1 = fma(x[x0 + k], load(w, w1 + k * PANEL), sum1)
        sum2 = fma(x[x0 + k], load(w, w2 + k * PANEL), sum2)
        sum3 = fma(x[x0 + k], load(w, w3 + k * PANEL), sum3)
    store(y, y0, sum0), store(y, y1, sum1), store(y, y2, sum2), store(y, y3, sum3)


@compiled
def one_panel(w: Floats, w0: int, x: Floats, x0: int, y: Floats, y0: int, n_in: int) -> None:
    """Adds one panel of the product of one row: four partial sums, for the same reason."""
    sum0, sum1, sum2, sum3 = load(y, y0), zeros(), zeros(), zeros()
    whole = n_in - n_in % 4
    for k in range(0, whole, 4):
        sum0 = fma(x[x0 + k], load(w, w0 + k * PANEL), sum0)
        sum1 = fma(x[x0 + k + 1], load(w, w0 + (k + 1) * PANEL), sum1)
        sum2 = fma(x[x0 + k + 2], load(w, w0 + (k + 2) * PANEL), sum2)
        sum3 = fma(x[x0 + k + 3], load(w, w0 + (k + 3) * PANEL), sum3)
    for k in range(whole, n_in):
        sum0 = fma(x[x0 + k], load(w, w0 + k * PANEL), sum0)
    store(y, y0, add(add(sum0, sum1), add(sum2, sum3)))


@compiled
def six_rows(
    w: Floats,
    w0: int,
    x: Floats,
    x0: int,
    x_step: int,
    y: Floats,
    y0: int,
    y_step: int,
    n_in: int,
) -> None:
    """Adds one panel of the products of six rows."""
    x1, x2, x3 = x0 + x_step, x0 + 2 * x_step, x0 + 3 * x_step
    x4, x5 = x0 + 4 * x_step, x0 + 5 * x_step
    y1, y2, y3 = y0 + y_step, y0 + 2 * y_step, y0 + 3 * y_step
    y4, y5 = y0 + 4 * y_step, y0 + 5 * y_step
    sum0, sum1, sum2 = load(y, y0), load(y, y1), load(y, y2)
    sum3, sum4, sum5 = load(y, y3), load(y, y4), load(y, y5)
    for k in range(n_in):
        column = load(w, w0 + k * PANEL)
        sum0, sum1 = fma(x[x0 + k], column, sum0), fma(x[x1 + k], column, sum1)
        sum2, sum3 = fma(x[x2 + k], column, sum2), fma(x[x3 + k], column, sum3)
        sum4, sum5 = fma(x[x4 + k], column, sum4), fma(x[x5 + k], column, sum5)
    store(y, y0, sum0), store(y, y1, sum1), store(y, y2, sum2)
    store(y, y3, sum3), store(y, y4, sum4), store(y, y5, sum5)


@compiled
def add_product(
    w: Floats,
    w0: int,
    w_step: int,
    x: Floats,
    x0: int,
    x_step: int,
    y: Floats,
    y0: int,
    y_step: int,
    n_in: int,
    n_out: int,
    rows: int,
) -> None:
    """y += x W, for rows x of n_in numbers and W in panels that are `w_step` numbers apart.

    Four panels stay in the processor's nearest cache while all rows use them.
    """
    tiled, n_panel = rows - rows % TILE, n_out // PANEL
    for panel in range(0, n_panel, 4):
        group = min(4, n_panel - panel)
        for p in range(panel, panel + group):
            for r in range(0, tiled, TILE):
                to = y0 + r * y_step + p * PANEL
                six_rows(w, w0 + p * w_step, x, x0 + r * x_step, x_step, y, to, y_step, n_in)
        for r in range(tiled, rows):
            of, to = x0 + r * x_step, y0 + r * y_step + panel * PANEL
            if group == 4:
                four_panels(w, w0 + panel * w_step, w_step, x, of, y, to, n_in)
            else:
                for p in range(group):
                    one_panel(w, w0 + (panel + p) * w_step, x, of, y, to + p * PANEL, n_in)


@compiled
def add_linear(
    w: Floats,
    bias: int,
    x: Floats,
    x0: int,
    x_step: int,
    y: Floats,
    y0: int,
    y_step: int,
    n_in: int,
    n_out: int,
    rows: int,
) -> None:
    """y += x W + b."""
    for r in range(rows):
        for i in range(n_out):
            y[y0 + r * y_step + i] += w[bias + i]
    add_product(w, bias + n_out, n_in * PANEL, x, x0, x_step, y, y0, y_step, n_in, n_out, rows)


@compiled
def linear(
    w: Floats,
    bias: int,
    x: Floats,
    x0: int,
    x_step: int,
    y: Floats,
    y0: int,
    y_step: int,
    n_in: int,
    n_out: int,
    rows: int,
) -> None:
    """y = x W + b, for a matrix that follows its bias."""
    for r in range(rows):
        for i in range(n_out):
            y[y0 + r * y_step + i] = F32(0)
    add_linear(w, bias, x, x0, x_step, y, y0, y_step, n_in, n_out, rows)
