"""Figure 6: where minima and sign changes are found along -∇L, for mini-batches of 10 to all 150 samples (claim 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradline.lab.figures import style
from gradline.lab.figures.iris import SEED, iris
from gradline.lab.tools.threads import threads
from gradline.plot.inks import LIGHT, Inks, stroke

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Where minima and sign changes are found"
CAPTION = (
    "With dynamic mini-batches local minima of the value are found all along the line, nearly as often far from the "
    "optimum as near it. Sign changes of the slope (SNN-GPPs) stay in a ball around the optimum that shrinks as "
    "mini-batches grow (below B = 30 it reaches the end of this line); with all samples both are at the optimum only."
)
NEEDS: tuple[str, ...] = ()

Array = NDArray[np.float64]
SIZES = tuple(range(10, 151, 10))


@dataclass(frozen=True, eq=False)
class Data:
    """What was found at each step (columns) with each size of mini-batch (rows), and how far apart it was.

    Ranges and deviations are of the steps where something was found, over all walks; NaN where nothing was.
    """

    steps: Array
    batch_sizes: NDArray[np.int64]
    repeats: int
    optimum: float
    """Where the full-batch slope changes sign: the first step after it."""
    minima: Array
    """Minima of the value in a walk, on average."""
    sign_changes: Array
    """Sign changes of the slope in a walk, on average."""
    minima_range: Array
    minima_deviation: Array
    minima_mean: Array
    sign_changes_range: Array
    sign_changes_deviation: Array
    sign_changes_mean: Array
    balls: Array
    """Lower and upper end (columns) of B_ε, as far as seen."""
    uniform_deviation: float
    """The standard deviation of steps spread evenly over the line."""

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Columns of equal length: the spreads for each size of mini-batch, to check claim 1 by."""
        names = ("range", "deviation", "mean")
        spreads = {f"{of}_{name}": getattr(self, f"{of}_{name}") for of in ("minima", "sign_changes") for name in names}
        return {"batch_size": self.batch_sizes, **spreads, "ball_low": self.balls[:, 0], "ball_high": self.balls[:, 1]}


@threads()
def data(
    *,
    seed: int = SEED,
    batch_sizes: Sequence[int] = SIZES,
    repeats: int = 100,
    points: int = 100,
    spacing: float = 0.002,
    repetition: bool = False,
    order: int = 0,
) -> Data:
    """Walk along -∇L of the Iris network again and again, with a new mini-batch at each step.

    Args:
        seed: of the network's weights.
        batch_sizes: samples in a mini-batch.
        repeats: walks for each size.
        points: how many steps.
        spacing: between two steps.
        repetition: whether a sample may be drawn twice for one mini-batch.
        order: the seed of the mini-batches.
    """
    from gradline import landscape

    model, loss, samples = iris(seed=seed)
    steps = spacing * np.arange(points, dtype=np.float64)
    found = landscape.optima(
        *(model, loss, samples),
        steps=steps,
        batch_sizes=batch_sizes,
        repeats=repeats,
        repetition=repetition,
        seed=order,
    )
    whole = landscape.line(model, loss, samples, steps=steps, seed=order)
    assert whole.full is not None
    spreads = found.spreads()
    balls = [found[size].ball() or (np.nan, np.nan) for size in batch_sizes]
    optima = whole.full.found().steps_of_sign_changes
    return Data(
        steps=steps,
        batch_sizes=np.array(batch_sizes),
        repeats=repeats,
        optimum=float(optima[0]) if optima.size else float("nan"),
        minima=np.stack([found[size].minima_per_walk for size in batch_sizes]),
        sign_changes=np.stack([found[size].sign_changes_per_walk for size in batch_sizes]),
        minima_range=spreads["minima_range"],
        minima_deviation=spreads["minima_deviation"],
        minima_mean=spreads["minima_mean"],
        sign_changes_range=spreads["sign_changes_range"],
        sign_changes_deviation=spreads["sign_changes_deviation"],
        sign_changes_mean=spreads["sign_changes_mean"],
        balls=np.array(balls, dtype=np.float64),
        uniform_deviation=float(steps[1:-1].std()),
    )


def draw(data: Data, inks: Inks = LIGHT) -> Figure:
    """How often, over step and size: minima left, sign changes right. Below, how far apart they are."""
    with style.settings(inks):
        figure, axes = style.panels(2, 2, height=6.0, height_ratios=[3, 2])
        rows = np.arange(len(data.batch_sizes))
        ticks = rows[:: max(1, len(rows) // 8)]
        most = max(data.minima.max(), data.sign_changes.max())
        for axis, share, name, title in (
            (axes[0, 0], data.minima, "a", "local minima of F"),
            (axes[0, 1], data.sign_changes, "b", "sign changes of F', - to + (SNN-GPPs)"),
        ):
            mesh = axis.pcolormesh(
                *(data.steps, rows, np.sqrt(share / most)),
                cmap=style.SURFACE,
                vmin=0.0,
                vmax=1.0,
                shading="nearest",
                rasterized=True,
            )
            axis.set_yticks(ticks, [str(data.batch_sizes[row]) for row in ticks])
            axis.set_xlabel("step α along d = -∇L")
            axis.locator_params(axis="x", nbins=6)
            style.letter(axis, name, title)
        axes[0, 0].set_ylabel("samples in a mini-batch, B")
        bar = figure.colorbar(mesh, ax=axes[0], pad=0.02)
        marks = [mark for mark in (0.0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if mark <= most]
        bar.set_ticks([float(np.sqrt(mark / most)) for mark in marks], labels=[f"{mark:g}" for mark in marks])
        bar.set_label(f"found at a step in a walk\n(mean of {data.repeats}; root scale)")
        for axis, name, minima, changes, title in (
            (axes[1, 0], "c", data.minima_deviation, data.sign_changes_deviation, "standard deviation of their steps"),
            (axes[1, 1], "d", data.minima_range, data.sign_changes_range, "range of their steps"),
        ):
            axis.plot(data.batch_sizes, minima, **stroke(1, inks).options(every=1), label="local minima of F")
            axis.plot(data.batch_sizes, changes, **stroke(0, inks).options(every=1), label="sign changes of F'")
            axis.set_xlabel("samples in a mini-batch, B")
            axis.set_ylim(bottom=0.0)
            style.letter(axis, name, title)
        even = {"color": inks.text, "linewidth": 0.8, "linestyle": (0, (1, 2))}
        axes[1, 0].axhline(data.uniform_deviation, **even, label="evenly over the line")
        axes[1, 1].axhline(data.steps[-1] - data.steps[0], **even)
        axes[1, 0].set_ylabel("spread in steps α")
        style.legend(figure, [axes[1, 0]], columns=3)
    return figure
