"""Figure 6: where minima and sign changes are found along -∇L, for mini-batches of 10 to all 150 samples (claim 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import gradline
from gradline.lab.figures import style
from gradline.lab.figures.iris import iris
from gradline.lab.tools.threads import threads
from gradline.plot.inks import LIGHT, Inks, stroke

TITLE = "Where minima and sign changes are found"
CAPTION = (
    "With dynamic mini-batches local minima of the value are found all along the line, nearly as often far from the "
    "optimum as near it. Sign changes of the slope (SNN-GPPs) stay in a ball around the optimum that shrinks as "
    "mini-batches grow (below B = 30 it reaches the end of this line); with all samples both are at the optimum only."
)
SIZES = tuple(range(10, 151, 10))


@threads()
def data(
    *, batch_sizes: Sequence[int] = SIZES, repeats: int = 100, points: int = 100, spacing: float = 0.002, order: int = 0
) -> gradline.landscape.Optima:
    """Walk along -∇L of the Iris network again and again, with a new mini-batch at each step."""
    steps = spacing * np.arange(points, dtype=np.float64)
    return gradline.landscape.optima(*iris(), steps=steps, batch_sizes=batch_sizes, repeats=repeats, seed=order)


def draw(data: gradline.landscape.Optima, inks: Inks = LIGHT) -> style.Figure:
    """Draw how often minima (left) and sign changes (right) are found by step and batch size; below, their spreads."""
    with style.settings(inks):
        figure, axes = style.panels(2, 2, height=6.0, height_ratios=[3, 2])
        sizes, spreads = list(data.by_size), data.spreads()
        rows = np.arange(len(sizes))
        ticks = rows[:: max(1, len(rows) // 8)]
        minima = np.stack([data[size].minima_per_walk for size in sizes])
        changes = np.stack([data[size].sign_changes_per_walk for size in sizes])
        most = max(minima.max(), changes.max())
        look: dict[str, Any] = {"cmap": style.SURFACE, "vmin": 0.0, "vmax": 1.0, "shading": "nearest"}
        for axis, share, name, title in (
            (axes[0, 0], minima, "a", "local minima of F"),
            (axes[0, 1], changes, "b", "sign changes of F', - to + (SNN-GPPs)"),
        ):
            mesh = axis.pcolormesh(data.steps, rows, np.sqrt(share / most), rasterized=True, **look)
            axis.set_yticks(ticks, [str(sizes[row]) for row in ticks])
            axis.set_xlabel("step α along d = -∇L")
            axis.locator_params(axis="x", nbins=6)
            style.letter(axis, name, title)
        axes[0, 0].set_ylabel("samples in a mini-batch, B")
        bar = figure.colorbar(mesh, ax=axes[0], pad=0.02)
        marks = [mark for mark in (0.0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if mark <= most]
        bar.set_ticks([float(np.sqrt(mark / most)) for mark in marks], labels=[f"{mark:g}" for mark in marks])
        bar.set_label(f"found at a step in a walk\n(mean of {data.repeats}; root scale)")
        for axis, name, what, title in (
            (axes[1, 0], "c", "deviation", "standard deviation of their steps"),
            (axes[1, 1], "d", "range", "range of their steps"),
        ):
            for number, of, label in ((1, "minima", "local minima of F"), (0, "sign_changes", "sign changes of F'")):
                axis.plot(sizes, spreads[f"{of}_{what}"], **stroke(number, inks).options(every=1), label=label)
            axis.set_xlabel("samples in a mini-batch, B")
            axis.set_ylim(bottom=0.0)
            style.letter(axis, name, title)
        even: dict[str, Any] = {"color": inks.text, "linewidth": 0.8, "linestyle": (0, (1, 2))}
        axes[1, 0].axhline(data.steps[1:-1].std(), **even, label="evenly over the line")
        axes[1, 1].axhline(data.steps[-1] - data.steps[0], **even)
        axes[1, 0].set_ylabel("spread in steps α")
        style.legend(figure, [axes[1, 0]], columns=3)
    return figure
