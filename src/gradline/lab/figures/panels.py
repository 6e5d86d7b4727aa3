"""How figures of results are drawn: a grid of panels of curves, a column for each batch size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradline.lab.figures import style, words
from gradline.lab.figures.curves import Band, Curve, Curves, Measure, cloud, quantiles
from gradline.lab.figures.traces import Array
from gradline.plot.inks import LIGHT as INKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REACH = (1e-16, 1e16)
"""No logarithmic axis goes beyond: a few steps of 1e-140 would hide all others."""


class Look(Enum):
    """What is drawn of the seeds of a setting."""

    CLOUD = "the mean, and one standard deviation around it"
    RUNS = "every run thin, their median thick"
    DOTTED = "every run thin and dotted, their mean thick"


class Line(NamedTuple):
    """How a curve is drawn, and what it is called."""

    label: str
    stroke: style.Stroke


class Row(NamedTuple):
    """The panels of one row: which curves, and what they measure."""

    label: str
    measure: Measure
    where: Mapping[str, Any] = {}


_STROKES = {
    "gols-i": style.Stroke(INKS.blue, "-", "o"),
    "prls": style.Stroke(INKS.orange, (0, (4, 1.2)), "s"),
    "fixed-1": style.Stroke(INKS.green, (0, (1, 0.8)), "^"),
    "fixed-10": style.Stroke(INKS.purple, (0, (4, 1, 1, 1)), "D"),
    "fixed-100": style.Stroke("#e69f00", (0, (6, 1.5, 1, 1.5, 1, 1.5)), "v"),
    "armijo": style.Stroke(INKS.green, (0, (1, 0.8)), "^"),
    "golden-section": style.Stroke(INKS.purple, (0, (4, 1, 1, 1)), "D"),
}


def by_method(curve: Curve) -> Line:
    """A line for each method."""
    known = list(words.METHODS)
    place = known.index(curve.method) if curve.method in known else len(curve.method)
    stroke = _STROKES.get(curve.method, style.LINES[place % len(style.LINES)])
    return Line(words.plain(words.method(curve.method)), stroke)


def draw_panels(
    data: Curves,
    rows: Sequence[Row],
    *,
    look: Look,
    line: Callable[[Curve], Line] = by_method,
    height: float = 1.45,
    column: str = "batch_size",
) -> Figure:
    """A grid of panels: the rows given, and a column for each value of a field of curves.

    Args:
        data: the curves.
        rows: from above.
        look: what is drawn of a setting's seeds.
        line: how each curve is drawn.
        height: of a row, in inches.
        column: the field.
    """
    columns = sorted(data.values_of(column))
    with style.settings():
        figure, axes = style.panels(
            len(rows),
            len(columns),
            height=0.9 + height * len(rows),
            width=max(4.6, 1.2 + 1.7 * len(columns)),
            layout="none",
        )
        for place, row in enumerate(rows):
            shown: list[Array] = []
            for axis, value in zip(axes[place], columns, strict=True):
                curves = data.of(measure=row.measure.name, **{column: value}, **row.where)
                shown += [draw_curve(axis, curve, row.measure, line(curve), look) for curve in curves]
                axis.tick_params(labelleft=value == columns[0])
                if place == 0:
                    axis.set_title(words.batch(value) if column == "batch_size" else str(value))
                if place + 1 == len(rows) or rows[place + 1].measure.against != row.measure.against:
                    axis.set_xlabel(row.measure.against)
            for axis in axes[place]:
                set_scale(axis, row.measure, shown)
            axes[place, 0].set_ylabel(words.plain(row.label))
        style.legend_below(figure, axes.flat, columns=4, loc="lower center")
        _place(figure)
    return figure


def _place(figure: Figure) -> None:
    """Put the panels where they belong: they are alike, so nothing needs to be solved for, which takes long."""
    width, height = figure.get_size_inches()
    figure.subplots_adjust(
        left=1.0 / width,
        right=1.0 - 0.2 / width,
        bottom=0.62 / height,
        top=1.0 - 0.25 / height,
        wspace=0.13,
        hspace=0.42,
    )
    for axis in figure.axes:
        axis.yaxis.set_label_coords(-0.58 / width / axis.get_position().width, 0.5)


def draw_curve(axis: Axes, curve: Curve, measure: Measure, line: Line, look: Look) -> Array:
    """Draw the runs of a setting, and return the values that were drawn."""
    color = line.stroke.color
    middle: Band = quantiles(curve, measure) if look is Look.RUNS else cloud(curve, measure)
    if look is Look.CLOUD:
        axis.fill_between(middle.x, middle.low, middle.high, color=color, alpha=0.18, linewidth=0)
        drawn = np.concatenate([middle.low, middle.high])
    else:
        drawn = measure.shown(curve.runs).ravel()
        for run in measure.shown(curve.runs):
            axis.plot(
                *(curve.x, run),
                color=color, alpha=0.45, zorder=1.5,
                linewidth=0.7 if look is Look.DOTTED else 0.5, linestyle=":" if look is Look.DOTTED else "-",
            )  # fmt: skip
    every = max(1, len(middle.x) // 4)
    offset = list(_STROKES).index(curve.method) if curve.method in _STROKES else 3
    axis.plot(
        middle.x,
        middle.middle,
        label=line.label,
        linewidth=0.9 if measure.name == "step" else 1.2,
        zorder=3,
        **line.stroke.options(every=(every * (1 + offset % 4) // 5, every)),
        markeredgecolor="white",
        markeredgewidth=0.4,
    )
    return drawn


def set_scale(axis: Axes, measure: Measure, shown: Sequence[Array]) -> None:
    """The axes: the vertical one from the lowest to the highest value shown in any panel of its row."""
    values = np.concatenate(shown) if shown else np.array([])
    values = values[np.isfinite(values)]
    axis.margins(x=0.02)
    ticker = style.matplotlib("ticker")
    axis.xaxis.set_major_locator(ticker.MaxNLocator(4, steps=[1, 2, 5, 10]))
    axis.xaxis.set_major_formatter(lambda x, place: f"{x / 1000:g}k" if x >= 10_000 else f"{x:,.0f}")
    if not measure.logarithmic:
        axis.set_ylim(0.0, 1.05 * float(values.max()) if len(values) and values.max() > 0.0 else 1.0)
        return
    axis.set_yscale("log")
    if len(values):
        low, high = np.log10(np.clip([values.min(), values.max()], *REACH))
        room = max(0.05 * (high - low), 0.05)
        axis.set_ylim(10.0 ** (low - room), 10.0 ** (high + room))
    bottom, top = axis.get_ylim()
    if top < 30.0 * bottom:  # hardly more than a decade: its powers alone would be too few marks
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
        axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, place: f"{y:g}"))
    else:
        axis.yaxis.set_major_locator(ticker.LogLocator(numticks=6))
    axis.yaxis.set_minor_locator(ticker.NullLocator())
