"""Figure 5: the Iris loss and its directional derivative over two weights, with all samples and with mini-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gradline.lab.figures import style
from gradline.lab.figures.iris import SEED, iris
from gradline.lab.tools.threads import threads
from gradline.plot.inks import LIGHT, Inks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Values and slopes over two weights"
CAPTION = (
    "With a new mini-batch of 10 at each point the shape of the loss is lost in the jumps from one mini-batch to the "
    "next. The directional derivative can still be recognised, and is least noisy towards the edges."
)
NEEDS: tuple[str, ...] = ()

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Data:
    """Values, and slopes along (1, 1)/√2, over the two weights: rows are the second weight, columns the first."""

    x: Array
    """The first weight itself."""
    y: Array
    """The second weight itself."""
    full_values: Array
    full_slopes: Array
    dynamic_values: Array
    dynamic_slopes: Array
    weights: tuple[int, int]
    """Their numbers."""
    batch_size: int
    samples: int
    value_correlation: float
    """Between the dynamic and the full-batch values: how much of the shape is left."""
    slope_correlation: float
    """Between the dynamic and the full-batch slopes."""
    same_sign: float
    """The share of points where the dynamic slope has the sign of the full-batch slope."""


@threads()
def data(
    *,
    seed: int = SEED,
    weights: tuple[int, int] = (8, 9),
    reach: float = 10.0,
    points: int = 51,
    batch_size: int = 10,
    repetition: bool = True,
    order: int = 0,
) -> Data:
    """Look at the loss over two weights around 0, the other weights being those of the random start.

    Args:
        seed: of the network's weights.
        weights: their numbers among all parameters as torch lists them, counted from 1.
        reach: the weights go from minus this to this.
        points: of the grid, along each axis.
        batch_size: samples in a mini-batch.
        repetition: whether a sample may be drawn twice for one mini-batch (here, as the paper says, it may).
        order: the seed of the mini-batches.
    """
    import torch

    from gradline import landscape

    model, loss, samples = iris(seed=seed)
    parameters = list(model.parameters())
    total = sum(parameter.numel() for parameter in parameters)
    pair, now = [], []
    for number in weights:
        unit = torch.zeros(total, dtype=torch.float64)
        unit[number - 1] = 1.0
        pair.append(unit)
        now.append(float(torch.cat([parameter.detach().reshape(-1) for parameter in parameters])[number - 1]))
    grid = np.linspace(-reach, reach, points)
    seen = landscape.plane(
        *(model, loss, samples),
        directions=(pair[0], pair[1]),
        x=grid - now[0],
        y=grid - now[1],
        batch_size=batch_size,
        dynamic=1,
        repetition=repetition,
        seed=order,
    )
    assert seen.full is not None
    assert seen.dynamic is not None
    full, dynamic = seen.full, seen.dynamic
    return Data(
        x=grid,
        y=grid,
        full_values=full.values,
        full_slopes=full.slopes,
        dynamic_values=dynamic.values[0],
        dynamic_slopes=dynamic.slopes[0],
        weights=weights,
        batch_size=batch_size,
        samples=len(samples[0]),
        value_correlation=float(np.corrcoef(full.values.ravel(), dynamic.values.ravel())[0, 1]),
        slope_correlation=float(np.corrcoef(full.slopes.ravel(), dynamic.slopes.ravel())[0, 1]),
        same_sign=float(np.mean(np.sign(full.slopes) == np.sign(dynamic.slopes[0]))),
    )


def draw(data: Data, inks: Inks = LIGHT) -> Figure:
    """Values left and slopes right; all samples above, mini-batches below, each column on one scale."""
    with style.settings(inks):
        figure, axes = style.panels(2, 2, height=6.2, subplot_kw={"projection": "3d"})
        x, y = np.meshgrid(data.x, data.y)
        for column, (full, dynamic, says) in enumerate(
            (
                (data.full_values, data.dynamic_values, "value F"),
                (data.full_slopes, data.dynamic_slopes, "slope F' along (1, 1)/√2"),
            )
        ):
            low, high = min(full.min(), dynamic.min()), max(full.max(), dynamic.max())
            for row, heights in enumerate((full, dynamic)):
                axis = axes[row, column]
                axis.plot_surface(
                    *(x, y, heights),
                    cmap=style.SURFACE,
                    vmin=low,
                    vmax=high,
                    rstride=1,
                    cstride=1,
                    linewidth=0.0,
                    antialiased=False,
                    rasterized=True,
                )
                axis.set_zlim(low, high)
                axis.set_xlabel(f"weight $x_{{{data.weights[0]}}}$", labelpad=-4)
                axis.set_ylabel(f"weight $x_{{{data.weights[1]}}}$", labelpad=-4)
                axis.set_zlabel(says.split(" along")[0], labelpad=-3)
                axis.tick_params(pad=-2)
                axis.set_box_aspect(None, zoom=1.1)
                axis.set_xticks([data.x[0], 0.0, data.x[-1]])
                axis.set_yticks([data.y[0], 0.0, data.y[-1]])
                axis.locator_params(axis="z", nbins=5)
                axis.view_init(elev=28, azim=-125)
                name = "abcd"[2 * row + column]
                batch = f"all {data.samples} samples" if row == 0 else f"a new mini-batch of {data.batch_size} a point"
                left = (data.value_correlation, data.slope_correlation)[column]
                like = f"\n(correlation with {'ab'[column]}: {left:.2f})" if row else ""
                style.letter(axis, name, f"{says},\n{batch}{like}")
    return figure
