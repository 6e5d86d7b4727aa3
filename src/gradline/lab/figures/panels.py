"""How figures of results are drawn: a grid of panels of curves, a column for each batch size."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradline.lab.figures import labels, style
from gradline.lab.figures.curves import Band, Curve, Curves, Measure, cloud, quantiles
from gradline.lab.figures.line_styles import numbers
from gradline.lab.figures.traces import Array
from gradline.plot.inks import LIGHT, Inks, Stroke, stroke

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REACH = (1e-16, 1e16)
"""No logarithmic axis goes beyond: a few steps of 1e-140 would hide all others."""


class Look(Enum):
    """What is drawn of the seeds of a setting."""

    CLOUD = "the mean of the runs, and one standard deviation around it"
    RUNS = "every run thin, their median thick"
    DOTTED = "every run thin and dotted, their mean thick"


class Line(NamedTuple):
    """How a curve is drawn, and what it is called."""

    label: str
    stroke: Stroke


class Row(NamedTuple):
    """The panels of one row: which curves, and what they measure."""

    label: str
    measure: Measure
    where: Mapping[str, Any] = {}


Lines = Callable[[Curve], Line]
"""Returns how a curve is drawn."""


def by_method(data: Curves, inks: Inks = LIGHT) -> Lines:
    """Return how curves are drawn if there is a line for each method."""
    known = numbers(data.values_of("method"))
    return lambda curve: Line(labels.plain(labels.method(curve.method)), stroke(known[curve.method], inks))


def draw_panels(
    data: Curves,
    rows: Sequence[Row],
    *,
    look: Look,
    inks: Inks = LIGHT,
    line: Lines | None = None,
    height: float = 1.45,
    width: float = 4.6,
    column: str = "batch_size",
) -> Figure:
    """Draw a grid of panels: the rows given, and a column for each value of a field of curves.

    Args:
        data: the curves.
        rows: from above.
        look: what is drawn of a setting's seeds.
        inks: of the page.
        line: how each curve is drawn; `None`: a line for each method.
        height: of a row, in inches.
        width: of the figure, in inches, at least.
        column: the field.
    """
    columns, line = sorted(data.values_of(column)), line or by_method(data, inks)
    with style.settings(inks):
        figure, axes = style.panels(
            len(rows),
            len(columns),
            height=1.15 + height * len(rows),
            width=max(width, 1.2 + 1.7 * len(columns)),
            layout="none",
        )
        for place, row in enumerate(rows):
            shown: list[Array] = []
            for axis, value in zip(axes[place], columns, strict=True):
                curves = data.of(measure=row.measure.name, **{column: value}, **row.where)
                shown += draw_curves(axis, curves, row.measure, line, look)
                axis.tick_params(labelleft=value == columns[0])
                if place == 0:
                    axis.set_title(labels.batch(value) if column == "batch_size" else str(value))
                if place + 1 == len(rows) or rows[place + 1].measure.against != row.measure.against:
                    axis.set_xlabel(row.measure.against)
            for axis in axes[place]:
                set_scale(axis, row.measure, shown)
            axes[place, 0].set_ylabel(labels.plain(row.label))
        _place(figure, _room(data, figure))
        head(figure, axes.flat, data)
    return figure


def draw_measures(data: Curves, measures: Sequence[Measure], *, look: Look, inks: Inks = LIGHT) -> Figure:
    """Draw a panel for each measure, two side by side.

    Args:
        data: the curves, of one setting of problem and batch size.
        measures: in order.
        look: what is drawn of a setting's seeds.
        inks: of the page.
    """
    line = by_method(data, inks)
    with style.settings(inks):
        figure, axes = style.panels(-(-len(measures) // 2), 2, height=5.4, layout="none")
        for axis, name, measure in zip(axes.flat, "abcdef", measures, strict=False):
            shown = draw_curves(axis, data.of(measure=measure.name), measure, line, look)
            set_scale(axis, measure, shown)
            axis.set_xlabel(measure.against)
            style.letter(axis, name, measure.words)
        width, tall = figure.get_size_inches()
        top = 1.0 - _room(data, figure) / tall
        figure.subplots_adjust(0.65 / width, 0.45 / tall, 1.0 - 0.15 / width, top, wspace=0.22, hspace=0.36)
        head(figure, axes.flat, data)
    return figure


def head(figure: Figure, axes: Iterable[Axes], data: Curves) -> None:
    """Put the legend at the top of a figure, and below it what is not as in the whole study."""
    style.legend(figure, axes, columns=4, where="upper center")
    _, height = figure.get_size_inches()
    text = "\n".join(_notes(data, figure))
    figure.text(0.5, 1.0 - 0.3 / height, labels.plain(text), ha="center", va="top", style="italic", fontsize=7.5)


def _notes(data: Curves, figure: Figure) -> list[str]:
    """Return what is not as in the whole study, as lines that fit."""
    notes = data.notes()
    return textwrap.wrap(f"Not the whole study: {'; '.join(notes)}.", int(14 * figure.get_figwidth())) if notes else []


def _room(data: Curves, figure: Figure) -> float:
    """Return the inches above the panels: for the legend, the notes and a title."""
    return 0.55 + 0.14 * len(_notes(data, figure))


def _place(figure: Figure, room: float) -> None:
    """Put the panels where they belong: they are alike, so nothing needs to be solved for, which takes long."""
    width, height = figure.get_size_inches()
    figure.subplots_adjust(
        left=1.0 / width,
        right=1.0 - 0.2 / width,
        bottom=0.42 / height,
        top=1.0 - room / height,
        wspace=0.13,
        hspace=0.46,
    )
    for axis in figure.axes:
        axis.yaxis.set_label_coords(-0.58 / width / axis.get_position().width, 0.5)


def draw_curves(axis: Axes, curves: Sequence[Curve], measure: Measure, line: Lines, look: Look) -> list[Array]:
    """Draw the runs of settings, and return the values that were drawn.

    No setting hides another: single runs of the first are above those of the others, middle lines are above all runs,
    and there the first, whose stroke is solid, is below the others, which have gaps. The middle line of steps, which
    jump from one iteration to the next, is smoothed.
    """
    return [
        _draw_curve(axis, curve, measure, line(curve), look, place, len(curves)) for place, curve in enumerate(curves)
    ]


def _draw_curve(axis: Axes, curve: Curve, measure: Measure, line: Line, look: Look, place: int, count: int) -> Array:
    color, under = line.stroke.color, 1.0 - place / count
    middle: Band = quantiles(curve, measure) if look is Look.RUNS else cloud(curve, measure)
    if look is Look.CLOUD:
        axis.fill_between(middle.x, middle.low, middle.high, color=color, alpha=0.18, linewidth=0)
        drawn = np.concatenate([middle.low, middle.high])
    else:
        drawn = measure.shown(curve.runs).ravel()
        dotted = look is Look.DOTTED
        for run in measure.shown(curve.runs):
            axis.plot(
                *(curve.x, run),
                color=color, alpha=0.45 if dotted else 0.28, zorder=1.0 + under,
                linewidth=0.7 if dotted else 0.5, linestyle=":" if dotted else "-",
            )  # fmt: skip
    every = max(1, len(middle.x) // 4)
    width = 0.9 if measure.name == "step" else 1.2
    axis.plot(
        middle.x,
        smooth(middle.middle) if measure.name == "step" else middle.middle,
        label=line.label,
        linewidth=width,
        zorder=4.0 - under,
        **line.stroke.options(every=(every * (1 + place) // (1 + count), every)),
        markeredgecolor=axis.figure.get_facecolor(),
        markeredgewidth=0.4,
    )
    return drawn


def smooth(values: Array) -> Array:
    """Return the running median of values over a thirtieth of the points; NaN counts nowhere."""
    half = max(1, len(values) // 60)
    windows = (values[max(0, place - half) : place + half + 1] for place in range(len(values)))
    return np.array([np.median(some[~np.isnan(some)]) if (~np.isnan(some)).any() else np.nan for some in windows])


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
