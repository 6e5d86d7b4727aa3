"""Figure 3: the Iris loss along one direction under full, static and dynamic sampling, and the ball B_ε."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gradline
from gradline.lab.figures import style
from gradline.lab.figures.iris import iris
from gradline.lab.jobs.result import Array
from gradline.lab.tools.threads import threads
from gradline.plot.inks import LIGHT, Inks, stroke

TITLE = "Static and dynamic mini-batches along one direction"
CAPTION = (
    "Four static mini-batches give four smooth losses with four different optima, all inside the ball B_ε; jumping "
    "between the four at each step gives a loss with minima all along the line. The slope that jumps still changes "
    "sign from - to + inside B_ε only."
)


@dataclass(frozen=True, eq=False)
class Data:
    """Values and slopes at the steps."""

    line: gradline.landscape.Line
    """With all samples, and with the static mini-batches."""
    jumps: NDArray[np.int64]
    """Which of the mini-batches the dynamic sampling took at each step."""
    dynamic: gradline.landscape.Curves
    optimum: float
    """Where the full-batch slope changes sign (on a straight line between two steps)."""
    optima: Array
    """Where the slope of each mini-batch changes sign."""

    @property
    def ball(self) -> tuple[float, float]:
        """B_ε: the range of the mini-batches' sign changes."""
        return float(self.optima.min()), float(self.optima.max())

    @property
    def sign_changes(self) -> Array:
        """Sign changes of the dynamic slopes, each between two steps: the middle of what the ball has of that interval.

        A slope is negative only before its mini-batch's optimum and positive only behind it, so the interval always has
        a part inside the ball.
        """
        after = self.dynamic.found().steps_of_sign_changes
        middle: Array = (np.clip(after - self.line.steps[1], *self.ball) + np.clip(after, *self.ball)) / 2.0
        return middle


@threads()
def data(*, points: int = 100, spacing: float = 0.002) -> Data:
    """Walk along -∇L of the network; the samples are dealt into four mini-batches at random."""
    rng = np.random.default_rng(0)
    model, loss, samples = iris()
    dealt = np.array_split(rng.permutation(len(samples[0])), 4)
    seen = gradline.landscape.line(model, loss, samples, steps=spacing * np.arange(points), static=dealt, seed=0)
    assert seen.full is not None
    assert seen.static is not None
    jumps = rng.integers(len(dealt), size=points)
    taken = jumps, np.arange(points)
    dynamic = gradline.landscape.Curves(seen.steps, seen.static.values[taken], seen.static.slopes[taken])
    optimum, *optima = (_root(seen.steps, row) for row in (seen.full.slopes, *seen.static.slopes))
    return Data(seen, jumps, dynamic, optimum, np.array(optima))


def _root(steps: Array, slopes: Array) -> float:
    """Return the first sign change of the slope from - to +, interpolated between two steps; NaN if there is none."""
    crossed = np.flatnonzero((slopes[:-1] <= 0.0) & (slopes[1:] > 0.0))
    if not crossed.size:
        return float("nan")
    left = crossed[0]
    part = -slopes[left] / (slopes[left + 1] - slopes[left])
    return float(steps[left] + part * (steps[left + 1] - steps[left]))


def draw(data: Data, inks: Inks = LIGHT) -> style.Figure:
    """Draw values left and slopes right; static above, dynamic in the middle, the slopes near B_ε below."""
    with style.settings(inks):
        figure, axes = style.panels(3, 2, height=8.0)
        (a, b), (c, d), (e, f) = axes
        full, static = data.line.full, data.line.static
        assert full is not None
        assert static is not None
        _static(a, data, full.values, static.values, inks)
        _dynamic(c, data, full.values, data.dynamic.values, inks)
        for above, below in ((b, d), (e, f)):
            _static(above, data, full.slopes, static.slopes, inks)
            _dynamic(below, data, full.slopes, data.dynamic.slopes, inks)
        for axis in (b, d, e, f):
            axis.axhline(0.0, color=inks.faint, linewidth=0.8, zorder=0)
            axis.set_ylabel("slope F'(α)")
        for axis in (a, c):
            axis.set_ylabel("value F(α)")
        for axis in axes.flat:
            axis.axvspan(*data.ball, color=inks.green, alpha=0.15, linewidth=0.0, label="ball $B_ε$", zorder=0)
        for axis in (e, f):
            axis.set_xlabel("step α along d = -∇L")
            _come_close(axis, data, static.slopes)
        minima = np.flatnonzero(data.dynamic.found().minima)
        marks: dict[str, Any] = {"ms": 5, "mfc": "none", "mec": inks.blue, "linestyle": "", "zorder": 4}
        heights = data.dynamic.values[minima]
        c.plot(data.line.steps[minima], heights, marker="v", **marks, label="local minimum, dynamic")
        for axis in (d, f):
            label = "SNN-GPP: dynamic sign change"
            axis.plot(data.sign_changes, np.zeros_like(data.sign_changes), marker="^", **marks, label=label)
        for axis in (b, e):
            axis.plot(data.optima, np.zeros_like(data.optima), "o", ms=5, mfc=inks.page, mec=inks.text, zorder=4)
            axis.plot(data.optimum, 0.0, "o", ms=6, color=inks.text, zorder=4)
        e.lines[-2].set_label("NN-GPP of a mini-batch")
        e.lines[-1].set_label("NN-GPP of the full batch")
        titles = ["values, static", "slopes, static", "values, dynamic", "slopes, dynamic"]
        titles += [f"slopes, {sampling}, near $B_ε$" for sampling in ("static", "dynamic")]
        for axis, name, title in zip(axes.flat, "abcdef", titles, strict=True):
            style.letter(axis, name, title)
            axis.locator_params(axis="x", nbins=6)
        style.legend(figure, [a, c, e, f], columns=3)
    return figure


def _static(axis: style.Axes, data: Data, full: Array, rows: Array, inks: Inks) -> None:
    steps, sizes = data.line.steps, [len(batch) for batch in data.line.batches]
    for number, (row, size) in enumerate(zip(rows, sizes, strict=True), start=1):
        label = f"static mini-batch {number} (B = {size})"
        axis.plot(steps, row, label=label, **stroke(number, inks).options())
    axis.plot(steps, full, color=inks.text, linewidth=2.0, label=f"full batch (M = {sum(sizes)})")


def _dynamic(axis: style.Axes, data: Data, full: Array, row: Array, inks: Inks) -> None:
    axis.plot(data.line.steps, full, color=inks.text, linewidth=2.0)
    marks: dict[str, Any] = {"marker": ".", "ms": 3, "mec": inks.orange, "mfc": inks.orange}
    label = "dynamic: a new one at each step"
    axis.plot(data.line.steps, row, color=inks.faint, linewidth=0.7, label=label, **marks)


def _come_close(axis: style.Axes, data: Data, slopes: Array) -> None:
    """Show the ball and as much again on both sides, and the slopes there."""
    width = data.ball[1] - data.ball[0]
    low, high = data.ball[0] - 0.5 * width, data.ball[1] + 0.5 * width
    inside = (data.line.steps >= low) & (data.line.steps <= high)
    seen = slopes[:, inside]
    pad = 0.08 * (seen.max() - seen.min())
    axis.set_xlim(low, high)
    axis.set_ylim(seen.min() - pad, seen.max() + pad)
