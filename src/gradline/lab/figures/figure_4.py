"""Figure 4: a discontinuous function, its slopes, and the continuous function that has the same slopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradline.lab.figures import style
from gradline.lab.jobs.result import Array
from gradline.plot.inks import LIGHT, Inks

TITLE = "The minimiser and the NN-GPP of a discontinuous function"
CAPTION = (
    "The lowest value of the discontinuous function is at a jump where the slope is negative on both sides: it is no "
    "optimum. The sign change from - to + (the NN-GPP) ignores all jumps, and is the minimum of the continuous "
    "function that has the same slopes."
)


class Piece(NamedTuple):
    """offset + curvature (α - bottom)²/2, up to the step `end`."""

    end: float
    offset: float
    curvature: float
    bottom: float


PIECES = (
    Piece(0.8, 2.0, 1.0, 3.2),
    Piece(1.7, 1.3, 1.6, 2.7),
    Piece(2.5, 3.4, 0.8, 4.1),
    Piece(3.3, 3.2, 1.5, 2.9),
    Piece(4.1, 4.6, 0.9, 2.9),
    Piece(5.0, 2.9, 1.2, 3.1),
)
"""Pieces of the function; each stands for a mini-batch with its own sampling error in value and slope."""


@dataclass(frozen=True, eq=False)
class Data:
    """The function at steps that do not fall on a jump; `piece` tells where it is continuous."""

    steps: Array
    piece: NDArray[np.int64]
    values: Array
    slopes: Array
    continuous: Array
    """The integral of the slopes, from the function's first value."""
    minimiser: float
    """Where the discontinuous function is lowest."""
    nngpp: float
    """Where the slope changes sign from - to +."""


def data(*, pieces: Sequence[Piece] = PIECES, points: int = 2000) -> Data:
    """Sample a function of quadratic pieces between 0 and the end of the last one."""
    ends = np.array([piece.end for piece in pieces])
    width = ends[-1] / points
    steps = width * (np.arange(points) + 0.5)
    which = np.searchsorted(ends, steps)
    _, offsets, curvatures, bottoms = (column[which] for column in np.array(pieces).T)
    slopes = curvatures * (steps - bottoms)
    values = offsets + curvatures * (steps - bottoms) ** 2 / 2.0
    continuous = values[0] + np.concatenate(([0.0], np.cumsum((slopes[1:] + slopes[:-1]) / 2.0 * width)))
    crossed = np.flatnonzero((slopes[:-1] <= 0.0) & (slopes[1:] > 0.0))
    return Data(
        steps=steps,
        piece=which,
        values=values,
        slopes=slopes,
        continuous=continuous,
        minimiser=float(steps[np.argmin(values)]),
        nngpp=float(steps[crossed[0]] + width / 2.0) if crossed.size else float("nan"),
    )


def draw(data: Data, inks: Inks = LIGHT) -> style.Figure:
    """Draw values above, slopes in the middle, the continuous function below."""
    with style.settings(inks):
        figure, axes = style.panels(3, 1, height=5.6, width=5.0, sharex=True)
        top, middle, bottom = axes[:, 0]
        for axis, heights in ((top, data.values), (middle, data.slopes)):
            for number in np.unique(data.piece):
                here = data.piece == number
                axis.plot(data.steps[here], heights[here], color=inks.blue, linewidth=1.8)
            for place in np.flatnonzero(np.diff(data.piece)):
                axis.plot(data.steps[place : place + 2], heights[place : place + 2], ":", color=inks.faint, lw=0.8)
        bottom.plot(data.steps, data.continuous, color=inks.blue, linewidth=1.8)
        middle.axhline(0.0, color=inks.faint, linewidth=0.8, zorder=0)
        _dots(top, data, data.values, inks)
        _dots(middle, data, data.slopes, inks)
        _dots(bottom, data, data.continuous, inks)
        for axis, name, title, label in (
            (top, "a", "a discontinuous function", "value F(α)"),
            (middle, "b", "its slopes", "slope F'(α)"),
            (bottom, "c", "the continuous function with the same slopes", "∫ F'(α) dα"),
        ):
            style.letter(axis, name, title)
            axis.set_ylabel(label)
        bottom.set_xlabel("step α")
        style.legend(figure, [top], columns=1)
    return figure


def _dots(axis: style.Axes, data: Data, heights: Array, inks: Inks) -> None:
    for step, marker, color, label in (
        (data.minimiser, "s", "#8c8c8c", "lowest value: the false minimiser"),
        (data.nngpp, "o", inks.orange, "sign change from - to +: the NN-GPP"),
    ):
        height = np.interp(step, data.steps, heights)
        axis.axvline(step, color=color, linewidth=0.8, linestyle="--", zorder=0)
        axis.plot(step, height, marker, color=color, ms=7, mec=inks.text, label=label, zorder=4)
