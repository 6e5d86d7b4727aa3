"""Figure 5: the Iris loss and its directional derivative over two weights, with all samples and with mini-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import gradline
from gradline.lab.figures import style
from gradline.lab.figures.iris import iris
from gradline.lab.jobs.result import Array
from gradline.lab.tools.threads import threads
from gradline.plot.inks import LIGHT, Inks

TITLE = "Values and slopes over two weights"
CAPTION = (
    "With a new mini-batch of 10 at each point the shape of the loss is lost in the jumps from one mini-batch to the "
    "next. The directional derivative can still be recognised, and is least noisy towards the edges."
)

WEIGHTS = (8, 9)
"""Two parameters, by their numbers as torch lists them, counted from 1."""


@dataclass(frozen=True, eq=False)
class Data:
    """Values, and slopes along (1, 1)/√2, over the two weights: rows are the second weight, columns the first."""

    x: Array
    """Values of either weight."""
    full: gradline.landscape.Surfaces
    dynamic: gradline.landscape.Surfaces
    """With a new mini-batch at each point."""
    batch_size: int
    samples: int
    value_correlation: float
    """Between the dynamic and the full-batch values: how much of the shape is left."""
    slope_correlation: float
    """Between the dynamic and the full-batch slopes."""


@threads()
def data(*, reach: float = 10.0, points: int = 51, batch_size: int = 10, repetition: bool = True) -> Data:
    """Evaluate the loss over two weights around 0, the other weights being those of the random start.

    A sample may be drawn twice for one mini-batch, as the paper says.
    """
    import torch

    model, loss, samples = iris()
    weights = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    first, second = (torch.eye(len(weights), dtype=weights.dtype)[number - 1] for number in WEIGHTS)
    now = [float(weights[number - 1]) for number in WEIGHTS]
    grid = np.linspace(-reach, reach, points)
    options: dict[str, Any] = {"batch_size": batch_size, "dynamic": 1, "repetition": repetition, "seed": 0}
    seen = gradline.landscape.plane(
        model, loss, samples, directions=(first, second), x=grid - now[0], y=grid - now[1], **options
    )
    assert seen.full is not None
    assert seen.dynamic is not None
    full, dynamic = seen.full, gradline.landscape.Surfaces(seen.dynamic.values[0], seen.dynamic.slopes[0])
    return Data(
        x=grid,
        full=full,
        dynamic=dynamic,
        batch_size=batch_size,
        samples=len(samples[0]),
        value_correlation=float(np.corrcoef(full.values.ravel(), dynamic.values.ravel())[0, 1]),
        slope_correlation=float(np.corrcoef(full.slopes.ravel(), dynamic.slopes.ravel())[0, 1]),
    )


def draw(data: Data, inks: Inks = LIGHT) -> style.Figure:
    """Draw values left and slopes right; all samples above, mini-batches below, each column on one scale."""
    with style.settings(inks):
        figure, axes = style.panels(2, 2, height=6.2, subplot_kw={"projection": "3d"})
        x, y = np.meshgrid(data.x, data.x)
        for column, (full, dynamic, says) in enumerate(
            (
                (data.full.values, data.dynamic.values, "value F"),
                (data.full.slopes, data.dynamic.slopes, "slope F' along (1, 1)/√2"),
            )
        ):
            low, high = min(full.min(), dynamic.min()), max(full.max(), dynamic.max())
            for row, heights in enumerate((full, dynamic)):
                axis = axes[row, column]
                style.surface(axis, x, y, heights, vmin=low, vmax=high)
                axis.set_zlim(low, high)
                axis.set_xlabel(f"weight $x_{{{WEIGHTS[0]}}}$", labelpad=-4)
                axis.set_ylabel(f"weight $x_{{{WEIGHTS[1]}}}$", labelpad=-4)
                axis.set_zlabel(says.split(" along")[0], labelpad=-3)
                axis.tick_params(pad=-2)
                axis.set_box_aspect(None, zoom=1.1)
                axis.set_xticks([data.x[0], 0.0, data.x[-1]])
                axis.set_yticks([data.x[0], 0.0, data.x[-1]])
                axis.locator_params(axis="z", nbins=5)
                axis.view_init(elev=28, azim=-125)
                name = "abcd"[2 * row + column]
                batch = f"all {data.samples} samples" if row == 0 else f"a new mini-batch of {data.batch_size} a point"
                left = (data.value_correlation, data.slope_correlation)[column]
                like = f"\n(correlation with {'ab'[column]}: {left:.2f})" if row else ""
                style.letter(axis, name, f"{says},\n{batch}{like}")
    return figure
