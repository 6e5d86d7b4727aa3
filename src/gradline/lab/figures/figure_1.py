"""Figure 1: steps on a contour plot of a loss: too small, too large, and found by a line search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import gradline
from gradline.lab.figures import style
from gradline.lab.figures.iris import iris
from gradline.lab.jobs.result import Array
from gradline.lab.tools.threads import threads
from gradline.plot.inks import LIGHT, Inks, Stroke, stroke

if TYPE_CHECKING:
    from torch import Tensor

TITLE = "Steps that are too small, too large, and found by a line search"
CAPTION = (
    "From one start on a plane through the loss of the Iris network, small constant steps hardly get anywhere, and "
    "large ones jump across the valley, further and further. The steps that GOLS-I finds lead down to the bottom."
)
REACH = 7.0
"""Half the width of the plane."""
START = (-0.75, 0.75)
"""Where all paths begin, as a share of `REACH`."""
SMALL, LARGE = 0.1, 7.0
"""Constant steps that are too small and too large."""


@dataclass(frozen=True, eq=False)
class Path:
    """The updates of one method: the start, and the place after each update."""

    x: Array
    y: Array
    values: Array
    evaluations: int
    """Gradients that were computed."""


@dataclass(frozen=True, eq=False)
class Data:
    """The full-batch loss over two random perpendicular directions, and three ways down."""

    x: Array
    """Steps along either direction."""
    values: Array
    small: Path
    large: Path
    searched: Path


@threads()
def data(*, training: int = 200, points: int = 51, updates: int = 12) -> Data:
    """Go down from one start on a plane through a trained Iris network, along the full-batch gradient in the plane."""
    import torch

    model, loss, samples = iris(training=training)
    pair = gradline.landscape.random_directions(model, seed=0)
    grid = np.linspace(-REACH, REACH, points)
    seen = gradline.landscape.plane(
        model, lambda x, y: loss(x, y).mean(), samples, directions=(pair[0], pair[1]), x=grid, y=grid, seed=0
    )
    assert seen.full is not None
    names = [name for name, _ in model.named_parameters()]
    center = [parameter.detach().clone() for parameter in model.parameters()]

    def height(place: Tensor) -> Tensor:
        moved = [c + place[0] * a + place[1] * b for c, a, b in zip(center, *pair, strict=True)]
        outputs: Tensor = torch.func.functional_call(model, dict(zip(names, moved, strict=True)), (samples[0],))
        return 100.0 / 3.0 * (samples[1] - outputs).square().sum(dim=1).mean()

    def path(make: Callable[[Tensor], torch.optim.Optimizer]) -> Path:
        place = torch.tensor([REACH * part for part in START], dtype=torch.float64, requires_grad=True)
        optimizer = make(place)

        def closure() -> float:
            optimizer.zero_grad()
            value = height(place)
            value.backward()  # type: ignore[no-untyped-call]
            return value.item()

        places, values = [place.tolist()], [height(place).item()]
        for _ in range(updates):
            optimizer.step(closure)
            places.append(place.tolist())
            values.append(height(place).item())
        x, y = np.array(places).T
        return Path(x, y, np.array(values), getattr(optimizer, "evaluations", updates))

    return Data(
        x=grid,
        values=seen.full.values,
        small=path(lambda place: torch.optim.SGD([place], lr=SMALL)),
        large=path(lambda place: torch.optim.SGD([place], lr=LARGE)),
        searched=path(lambda place: gradline.GOLSI([place])),
    )


def draw(data: Data, inks: Inks = LIGHT) -> style.Figure:
    """Draw contours of the loss, and the three paths."""
    with style.settings(inks):
        figure, ((axis,),) = style.panels(1, 1, height=5.0, width=5.6)
        levels = np.quantile(data.values, np.linspace(0.0, 1.0, 14))
        levels = np.unique(np.round(levels, 6))
        filled = axis.contourf(data.x, data.x, data.values, levels=levels, cmap=style.SURFACE, alpha=0.45)
        axis.contour(data.x, data.x, data.values, levels=levels, colors=inks.faint, linewidths=0.5)
        for path, line, label in (
            (data.large, stroke(1, inks), f"too large: constant step {LARGE:g}"),
            (data.searched, Stroke(inks.text, "-", "D"), "line search: GOLS-I"),
            (data.small, stroke(0, inks), f"too small: constant step {SMALL:g}"),
        ):
            spent = f"{len(path.x) - 1} updates, {path.evaluations} gradients"
            fell = f"loss {path.values[0]:.1f} → {path.values[-1]:.1f}"
            axis.plot(path.x, path.y, **line.options(every=1), label=f"{label}\n{spent},\n{fell}")
        axis.plot(data.small.x[0], data.small.y[0], "*", ms=13, mfc="white", mec=inks.text, label="start", zorder=5)
        axis.set_xlim(data.x[0], data.x[-1])
        axis.set_ylim(data.x[0], data.x[-1])
        axis.set_aspect("equal")
        axis.set_xlabel("step along random direction 1")
        axis.set_ylabel("step along random direction 2")
        figure.colorbar(filled, ax=axis, label="loss of all samples", shrink=0.9, format="%.0f")
        style.legend(figure, [axis], columns=2)
    return figure
