"""Draw the panels of a search: values, slopes and the probability of the Wolfe conditions."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from gradline.plot.data import Array, Point, SearchData
from gradline.plot.panel import Panel
from gradline.plot.scales import drawable, extended, threshold, window
from gradline.searches.arguments import require

SIZES = {1: (7.6, 3.6), 2: (7.6, 5.6), 3: (7.6, 7.4)}
HEIGHTS = {1: [1.0], 2: [3.0, 2.0], 3: [3.0, 2.0, 2.0]}


def draw(data: SearchData, axes: Any = None) -> Figure | SubFigure:
    """Draw on the given axes, from the top panel down, or on a new figure; return the figure."""
    chosen = _new(data.panels) if axes is None else _checked(axes, data.panels)
    painters = [_values, _slopes, _chances] if data.values else [_slopes]
    known: list[str] = []
    for axis, paint in zip(chosen, painters, strict=False):
        panel = Panel(axis, data)
        paint(panel)
        known += panel.legend(known)
    for axis in chosen[:-1]:
        axis.set_xlabel("")
    title = "\n".join([data.headline, *textwrap.wrap(data.reason, 84)])
    chosen[0].set_title(title, loc="left", fontsize="medium", color=chosen[0].xaxis.label.get_color())
    figure = chosen[0].get_figure()
    assert figure is not None
    return figure


class SearchFigure(Figure):
    """A figure that pyplot does not manage and that notebooks display by themselves, without a magic command."""

    def _repr_png_(self) -> bytes:
        """Return the figure as PNG, for IPython."""
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=144)
        return buffer.getvalue()


def _new(panels: int) -> list[Axes]:
    """Return axes on a new figure that pyplot does not manage."""
    figure = SearchFigure(figsize=SIZES[panels], layout="constrained")
    grid = figure.subplots(panels, 1, squeeze=False, sharex=True, height_ratios=HEIGHTS[panels])
    return list(grid.flat)


def _checked(axes: Any, panels: int) -> list[Axes]:
    chosen = [axes] if isinstance(axes, Axes) else list(np.ravel(axes))
    if not chosen or not all(isinstance(axis, Axes) for axis in chosen):
        raise TypeError(f"axes must be an Axes of matplotlib or several of them, got {axes!r}")
    reason = "this picture has no more panels; search_data(...).panels tells"
    require(len(chosen) <= panels, "axes", f"at most {panels}", reason, len(chosen))
    return chosen


# ---- Values ----


def _values(panel: Panel) -> None:
    data, axis = panel.data, panel.axis
    axis.set_ylabel("value F(α)")
    seen = [(point, point.value) for point in data.points if point.value is not None]
    _limit_values(panel, [value for _, value in seen])
    if data.decrease is not None and data.origin is not None and data.origin.value is not None:
        steps = np.array([0.0, *np.geomspace(data.span[0], axis.get_xlim()[1], 400)])
        with np.errstate(over="ignore"):
            line = np.clip(data.origin.value + data.decrease * steps, *_around(axis))
        panel.curve(steps, line, panel.inks.faint, 1.2, "F(0) + c1·F'(0)·α", linestyle="--")
    if data.beliefs is not None:
        _belief(panel, data.beliefs.mean, data.beliefs.deviation, "expected value")
    inside = _inside(panel, seen, 0)
    _points(panel, inside, None if data.noise is None else data.noise[0])
    panel.tangents([(point.step, value, point.slope) for point, value in inside])
    panel.decided(None if data.accepted is None else data.accepted.value)
    panel.beyond(seen)
    panel.number([(point, value, _beside(point)) for point, value in inside])


def _limit_values(panel: Panel, values: Sequence[float]) -> None:
    """Set limits that include the origin, the accepted and the lowest probes; the rest only if it is near."""
    data = panel.data
    finite = [value for value in values if drawable(value)]
    must = [point.value for point in (data.origin, data.accepted) if point is not None and point.value is not None]
    must += sorted(finite)[:2]
    if data.noise is not None and data.origin is not None and data.origin.value is not None:
        must += [data.origin.value - data.noise[0], data.origin.value + data.noise[0]]
    low, high = window(must, values)
    if data.beliefs is not None:
        low, high = _with_belief(low, high, data, data.beliefs.mean, data.beliefs.deviation)
    panel.axis.set_ylim(low, high)


# ---- Slopes ----


def _slopes(panel: Panel) -> None:
    data, inks, axis = panel.data, panel.inks, panel.axis
    axis.set_ylabel("slope F'(α)")
    axis.axhline(0.0, color=inks.text, linewidth=0.9, zorder=1)
    seen = [(point, point.slope) for point in data.points]
    _limit_slopes(panel, [slope for _, slope in seen])
    if data.rule is not None:
        low, high = axis.get_ylim()
        bottom, top = max(data.rule.low, low), min(data.rule.high, high)
        if drawable(data.rule.high) and bottom < top:
            style: dict[str, Any] = {"linewidth": 0.0, "zorder": 0}
            axis.axhspan(bottom, top, color=inks.faint, alpha=0.3, label=data.rule.says, **style)
    if data.bracket is not None:
        says = "sign change" if data.level == 0.0 else "bound passed"
        fill: dict[str, Any] = {"facecolor": inks.green, "edgecolor": inks.green, "hatch": "//", "alpha": 0.18}
        axis.axvspan(*data.bracket, linewidth=0.0, zorder=0, label=says, **fill)
    if data.beliefs is not None:
        _belief(panel, data.beliefs.slope, data.beliefs.slope_deviation, "expected slope")
    inside = _inside(panel, seen, 1)
    if data.values:
        _points(panel, inside, None if data.noise is None else data.noise[1])
    else:
        _signs(panel, inside)
    panel.decided(None if data.accepted is None else data.accepted.slope)
    panel.beyond(seen)
    panel.number(
        [(point, slope, _beside(point) if data.beliefs else (0, 1 if slope >= 0.0 else -1)) for point, slope in inside]
    )


def _limit_slopes(panel: Panel, slopes: Sequence[float]) -> None:
    """Set limits that include 0, origin and accepted probe; the rest if near, or all on a logarithmic axis."""
    data, axis = panel.data, panel.axis
    must = [0.0, *(point.slope for point in (data.origin, data.accepted) if point is not None)]
    typical = data.origin.slope if data.origin is not None else math.nan
    linear = threshold(slopes, typical)
    if linear is None:
        bounds = [] if data.rule is None else [data.rule.low, data.rule.high]
        low, high = window(must, [*slopes, *bounds])
        if data.beliefs is not None:
            low, high = _with_belief(low, high, data, data.beliefs.slope, data.beliefs.slope_deviation)
        axis.set_ylim(low, high)
        return
    sizes = [slope for slope in slopes if drawable(slope)]
    if data.beliefs is not None:
        sizes += extended(min(sizes), max(sizes), data.beliefs.slope.tolist(), room=1.0)
    axis.set_yscale("symlog", linthresh=linear)
    down, up = min([*sizes, -linear]), max([*sizes, linear])
    grow = (max(-down, up) / linear) ** 0.12
    axis.set_ylim(down * grow * 1.3, up * grow * 1.3)


def _signs(panel: Panel, seen: Sequence[tuple[Point, float]]) -> None:
    """Draw triangles that point down for negative slopes and up for others."""
    inks = panel.inks
    panel.marks([(point.step, slope) for point, slope in seen if not point.number], "s", inks.text, "origin")
    probes = [(point.step, slope) for point, slope in seen if point.number]
    panel.marks([one for one in probes if one[1] < 0.0], "v", inks.blue, "downhill", markersize=7)
    panel.marks([one for one in probes if one[1] >= 0.0], "^", inks.orange, "uphill", markersize=7)


# ---- The probability of the Wolfe conditions ----


def _chances(panel: Panel) -> None:
    data, inks, axis = panel.data, panel.inks, panel.axis
    beliefs = data.beliefs
    assert beliefs is not None
    assert data.acceptance is not None
    axis.set_ylabel("P(Wolfe)")
    axis.set_ylim(-0.25, 1.2)
    axis.set_yticks([0.0, 0.5, 1.0])
    panel.curve(beliefs.steps, beliefs.probability, inks.blue, 1.6, "probability")
    bound: dict[str, Any] = {"linestyle": "--", "linewidth": 1.2, "label": f"accepted above {data.acceptance:g}"}
    axis.axhline(data.acceptance, color=inks.orange, **bound)
    _considered(panel, 2)
    heights = [(probe, beliefs[probe.step][2]) for probe in data.probes]
    panel.marks([(probe.step, height) for probe, height in heights], "o", inks.blue, "probe")
    panel.decided(None if data.accepted is None else beliefs[data.accepted.step][2])
    panel.number([(probe, height, (0, 1 if height > 0.5 else -1)) for probe, height in heights])


# ---- What panels share ----


def _belief(panel: Panel, mean: Array, deviation: Array, says: str) -> None:
    """Draw a mean and its bands of one and two standard deviations."""
    beliefs, inks = panel.data.beliefs, panel.inks
    assert beliefs is not None
    low, high = _around(panel.axis)
    for width, alpha, label in ((2.0, 0.14, "±2σ"), (1.0, 0.22, "±1σ")):
        bottom, top = (np.clip(mean + side * width * deviation, low, high) for side in (-1.0, 1.0))
        panel.axis.fill_between(beliefs.steps, bottom, top, color=inks.blue, alpha=alpha, linewidth=0.0, label=label)
    panel.axis.plot(beliefs.steps, np.clip(mean, low, high), color=inks.blue, linewidth=1.6, label=says)


def _inside(panel: Panel, seen: Sequence[tuple[Point, float]], quantity: int) -> list[tuple[Point, float]]:
    """Draw the options of the last probe, or a line through the probes; return the points within the axes."""
    if panel.data.beliefs is not None:
        _considered(panel, quantity)
    else:
        probes = [(point.step, height) for point, height in seen if point.number and drawable(height)]
        line = np.reshape(probes, (-1, 2))
        panel.curve(line[:, 0], line[:, 1], panel.inks.faint, 0.9, linestyle=":", zorder=2)
    low, high = panel.axis.get_ylim()
    return [(point, height) for point, height in seen if low <= height <= high]


def _around(axis: Axes) -> tuple[float, float]:
    """Return limits far outside of the axes; numbers are clipped to them so that matplotlib does not overflow."""
    low, high = axis.get_ylim()
    return low - 10.0 * (high - low), high + 10.0 * (high - low)


def _with_belief(low: float, high: float, data: SearchData, mean: Array, deviation: Array) -> tuple[float, float]:
    """Extend a range to show the posterior: the mean first, then its band."""
    assert data.beliefs is not None
    within = data.beliefs.steps <= (max(point.step for point in data.points) or data.span[1])
    low, high = extended(low, high, mean[within].tolist(), room=2.0)
    low, high = extended(low, high, [*(mean - deviation)[within], *(mean + deviation)[within]], room=0.4)
    pad = 0.07 * (high - low)  # to keep marks off the edge
    return low - pad, high + pad


def _considered(panel: Panel, quantity: int) -> None:
    """Mark the other options of the last probe on the curve."""
    beliefs = panel.data.beliefs
    assert beliefs is not None
    low, high = panel.axis.get_ylim()
    probes = {probe.step for probe in panel.data.probes}
    places = [(step, beliefs[step][quantity]) for step in panel.data.considered if step not in probes]
    inside = [(step, height) for step, height in places if low <= height <= high]
    panel.marks(inside, "D", panel.inks.purple, "considered too", hollow=True, markersize=6, markeredgewidth=1.4)


def _beside(point: Point) -> tuple[int, int]:
    """Return the side of a point, upper left or upper right, that its tangent does not cross."""
    return (-1, 1) if point.slope >= 0.0 else (1, 1)


def _points(panel: Panel, seen: Sequence[tuple[Point, float]], noise: float | None) -> None:
    """Draw the origin and the probes, with bars of one standard deviation if the noise is known."""
    inks = panel.inks
    if noise is not None and drawable(noise) and noise > 0.0 and seen:
        steps, heights = [point.step for point, _ in seen], [height for _, height in seen]
        style: dict[str, Any] = {"fmt": "none", "ecolor": inks.text, "elinewidth": 1.0, "capsize": 2.5, "zorder": 3}
        panel.axis.errorbar(steps, heights, yerr=noise, label="noise, ±1σ", **style)
    panel.marks([(point.step, height) for point, height in seen if point.number == 0], "s", inks.text, "origin")
    panel.marks([(point.step, height) for point, height in seen if point.number], "o", inks.orange, "probe")
