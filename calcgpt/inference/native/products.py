"""Products of rows with matrices that are stored in panels (`weights.panels`), compiled by Numba.

The sums of a product stay in registers: of one row and four panels, or of six rows and one panel.
They start with a row z, such as the bias.
"""

from __future__ import annotations

from calcgpt.inference.native.numba_types import Floats, add, compiled, fma, load, store, zeros
from calcgpt.inference.native.weights import PANEL, TILE


@compiled
def four_panels(
    w: Floats,
    w0: int,
    w_step: int,
    x: Floats,
    x0: int,
    z: Floats,
    z0: int,
    y: Floats,
    y0: int,
    n_in: int,
) -> None:
    """Four panels of the product of one row: four sums, because each takes some cycles."""
    w1, w2, w3 = w0 + w_step, w0 + 2 * w_step, w0 + 3 * w_step
    sum0, sum1 = load(z, z0), load(z, z0 + PANEL)
    sum2, sum3 = load(z, z0 + 2 * PANEL), load(z, z0 + 3 * PANEL)
    for k in range(n_in):
        sum0 = fma(x[x0 + k], load(w, w0 + k * PANEL), sum0)
        sum1 = fma(x[x0 + k], load(w, w1 + k * PANEL), sum1)
        sum2 = fma(x[x0 + k], load(w, w2 + k * PANEL), sum2)
        sum3 = fma(x[x0 + k], load(w, w3 + k * PANEL), sum3)
    store(y, y0, sum0), store(y, y0 + PANEL, sum1)
    store(y, y0 + 2 * PANEL, sum2), store(y, y0 + 3 * PANEL, sum3)


@compiled
def one_panel(
    w: Floats, w0: int, x: Floats, x0: int, z: Floats, z0: int, y: Floats, y0: int, n_in: int
) -> None:
    """One panel of the product of one row: four partial sums, for the same reason."""
    sum0, sum1, sum2, sum3 = load(z, z0), zeros(), zeros(), zeros()
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
    z: Floats,
    z0: int,
    z_step: int,
    y: Floats,
    y0: int,
    y_step: int,
    n_in: int,
) -> None:
    """One panel of the products of six rows."""
    x1, x2, x3 = x0 + x_step, x0 + 2 * x_step, x0 + 3 * x_step
    x4, x5 = x0 + 4 * x_step, x0 + 5 * x_step
    sum0, sum1, sum2 = load(z, z0), load(z, z0 + z_step), load(z, z0 + 2 * z_step)
    sum3, sum4 = load(z, z0 + 3 * z_step), load(z, z0 + 4 * z_step)
    sum5 = load(z, z0 + 5 * z_step)
    for k in range(n_in):
        column = load(w, w0 + k * PANEL)
        sum0, sum1 = fma(x[x0 + k], column, sum0), fma(x[x1 + k], column, sum1)
        sum2, sum3 = fma(x[x2 + k], column, sum2), fma(x[x3 + k], column, sum3)
        sum4, sum5 = fma(x[x4 + k], column, sum4), fma(x[x5 + k], column, sum5)
    store(y, y0, sum0), store(y, y0 + y_step, sum1), store(y, y0 + 2 * y_step, sum2)
    store(y, y0 + 3 * y_step, sum3), store(y, y0 + 4 * y_step, sum4)
    store(y, y0 + 5 * y_step, sum5)


@compiled
def product(
    w: Floats,
    w0: int,
    w_step: int,
    x: Floats,
    x0: int,
    x_step: int,
    z: Floats,
    z0: int,
    z_step: int,
    y: Floats,
    y0: int,
    y_step: int,
    n_in: int,
    n_out: int,
    rows: int,
) -> None:
    """y = z + x W, for rows x of n_in numbers and W in panels that are `w_step` numbers apart.

    Four panels stay in the processor's nearest cache while all rows use them. The last tile of six
    rows may be computed with up to three rows too many, for which there must be room.
    """
    n_panel = n_out // PANEL
    single = rows % TILE if rows % TILE < TILE // 2 else 0
    for panel in range(0, n_panel, 4):
        group = min(4, n_panel - panel)
        for p in range(panel, panel + group):
            for r in range(0, rows - single, TILE):
                six_rows(
                    w,
                    w0 + p * w_step,
                    x,
                    x0 + r * x_step,
                    x_step,
                    z,
                    z0 + r * z_step + p * PANEL,
                    z_step,
                    y,
                    y0 + r * y_step + p * PANEL,
                    y_step,
                    n_in,
                )
        for r in range(rows - single, rows):
            of, to = x0 + r * x_step, y0 + r * y_step + panel * PANEL
            start = z0 + r * z_step + panel * PANEL
            if group == 4:
                four_panels(w, w0 + panel * w_step, w_step, x, of, z, start, y, to, n_in)
            else:
                for p in range(group):
                    next_ = w0 + (panel + p) * w_step
                    one_panel(w, next_, x, of, z, start + p * PANEL, y, to + p * PANEL, n_in)


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
    product(
        w, bias + n_out, n_in * PANEL, x, x0, x_step, w, bias, 0, y, y0, y_step, n_in, n_out, rows
    )  # fmt: skip


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
        for i in range(0, n_out, PANEL):
            to = y0 + r * y_step + i
            store(y, to, add(load(y, to), load(w, bias + i)))
    product(
        w,
        bias + n_out,
        n_in * PANEL,
        x,
        x0,
        x_step,
        y,
        y0,
        y_step,
        y,
        y0,
        y_step,
        n_in,
        n_out,
        rows,
    )
