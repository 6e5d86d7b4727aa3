"""Figures of results: grids of panels of curves."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd

from gradline.lab.figures import labels, style
from gradline.lab.figures.catalogue import BATCH, METHOD, PROBLEM, Entry, Key, labels_by
from gradline.lab.figures.curves import (
    STEP,
    TEST_ERROR,
    TRAIN_ERROR,
    TRAIN_LOSS,
    FigureRuns,
    Measure,
    cloud,
    figure_runs,
    quantiles,
    rows_of,
)
from gradline.lab.figures.line_styles import numbers
from gradline.lab.findings.reading import Source
from gradline.lab.findings.traces import Trace
from gradline.lab.jobs.result import Array
from gradline.plot.inks import LIGHT, Inks, stroke

REACH = (1e-16, 1e16)
"""Widest range of a logarithmic axis: a few steps of 1e-140 would hide all others."""
ZERO = " Errors of zero are shown at 1e-4."


class Look(Enum):
    """What is drawn of the seeds of a setting."""

    CLOUD = "the mean of the runs, and one standard deviation around it"
    RUNS = "every run thin, their median thick"
    DOTTED = "every run thin and dotted, their mean thick"


def grid(
    name: str,
    study: str,
    title: str,
    about: str,
    paper: str = "",
    *,
    measures: tuple[Measure, ...] = (TRAIN_ERROR, TRAIN_LOSS, TEST_ERROR, STEP),
    look: Look = Look.RUNS,
    remark: str = ZERO,
    height: float = 1.45,
    width: float = 4.6,
    keys: tuple[Key, Key, Key] = (PROBLEM, BATCH, METHOD),
    by_measure: bool = False,
    prepare: Callable[[FigureRuns], FigureRuns] = lambda found: found,
    **choice: Any,
) -> Entry:
    """Return a figure of curves: a row for each facet and measure, a column for each panel, a line for each line's key.

    Args:
        name: see `Entry`.
        study: the study whose runs it shows.
        title: one line.
        about: what is shown, in a sentence without its end.
        paper: what the paper says of it.
        measures: one row each.
        look: what is drawn of the seeds of a setting.
        remark: added to the caption.
        height: of a row, in inches.
        width: of the figure, in inches, at least.
        keys: the keys of facets, panels and lines.
        by_measure: one batch size, and a panel for each measure.
        prepare: changes the runs, or raises `MissingRuns`.
        **choice: see `figure_runs`.
    """

    def data(source: Source) -> FigureRuns:
        return prepare(figure_runs(source, study, **choice))

    def draw(data: FigureRuns, inks: Inks = LIGHT) -> style.Figure:
        if by_measure:
            return draw_measures(data, measures, look=look, inks=inks)
        return draw_panels(data, measures, keys, look=look, inks=inks, height=height, width=width)

    def parts(data: FigureRuns) -> dict[str, FigureRuns]:
        problems: dict[str, dict[str, None]] = {}
        for run in data.runs:
            problems.setdefault(keys[0].of(run), {})[run.problem] = None
        if keys[0].title != PROBLEM.title or len(problems) == 1:  # problems have a drawing each
            return {"": data}
        return {facet.lower().replace(", ", "_"): data.part(*names) for facet, names in problems.items()}

    return Entry(
        name=name,
        title=title,
        caption=f"{about}: {look.value}.{remark}",
        data=data,
        draw=draw,
        needs=(study,),
        about=about,
        paper=paper,
        measures=measures,
        keys=keys,
        means=look is not Look.RUNS,
        parts=parts,
    )


def draw_panels(
    data: FigureRuns,
    measures: Sequence[Measure],
    keys: tuple[Key, Key, Key],
    *,
    look: Look,
    inks: Inks,
    height: float,
    width: float,
) -> style.Figure:
    """Draw a grid of panels; see `grid`."""
    facets, columns, lines = (labels_by(key, data.runs) for key in keys)
    rows = [(facet, measure) for facet in facets for measure in measures]
    with style.settings(inks):
        figure, axes = style.panels(
            len(rows),
            len(columns),
            height=1.15 + height * len(rows),
            width=max(width, 1.2 + 1.7 * len(columns)),
            layout="none",
        )
        for place, (facet, measure) in enumerate(rows):
            shown: list[Array] = []
            of_row = [run for run in data.runs if keys[0].of(run) == facet]
            for axis, column in zip(axes[place], columns, strict=True):
                runs = [run for run in of_row if keys[1].of(run) == column]
                shown += draw_curves(axis, runs, measure, keys[2], lines, look, inks)
                axis.tick_params(labelleft=column == columns[0])
                if place == 0:
                    axis.set_title(labels.plain(column))
                if place + 1 == len(rows) or rows[place + 1][1].against != measure.against:
                    axis.set_xlabel(measure.against)
            for axis in axes[place]:
                set_scale(axis, measure, shown)
            words = f"{facet}\n{measure.words}" if len(facets) > 1 else measure.words
            axes[place, 0].set_ylabel(labels.plain(words))
        _place(figure, head(figure, axes.flat, data))
    return figure


def draw_measures(data: FigureRuns, measures: Sequence[Measure], *, look: Look, inks: Inks) -> style.Figure:
    """Draw a panel for each measure, two side by side, of curves of one problem and batch size."""
    lines = labels_by(METHOD, data.runs)
    with style.settings(inks):
        figure, axes = style.panels(-(-len(measures) // 2), 2, height=5.4, layout="none")
        for axis, name, measure in zip(axes.flat, "abcdef", measures, strict=False):
            shown = draw_curves(axis, data.runs, measure, METHOD, lines, look, inks)
            set_scale(axis, measure, shown)
            axis.set_xlabel(measure.against)
            style.letter(axis, name, measure.words)
        width, tall = figure.get_size_inches()
        top = 1.0 - head(figure, axes.flat, data) / tall
        figure.subplots_adjust(0.65 / width, 0.45 / tall, 1.0 - 0.15 / width, top, wspace=0.22, hspace=0.36)
    return figure


def head(figure: style.Figure, axes: Iterable[style.Axes], data: FigureRuns) -> float:
    """Put the legend at the top of a figure, and below it what is not as in the whole study.

    Returns the inches above the panels, with room for a title.
    """
    width, height = figure.get_size_inches()
    style.legend(figure, axes, columns=max(4, round(width / 1.9)), where="upper center")
    notes = data.notes()
    lines = textwrap.wrap(f"Not the whole study: {'; '.join(notes)}.", int(14 * width)) if notes else []
    text = labels.plain("\n".join(lines))
    figure.text(0.5, 1.0 - 0.3 / height, text, ha="center", va="top", style="italic", fontsize=7.5)
    return 0.55 + 0.14 * len(lines)


def _place(figure: style.Figure, room: float) -> None:
    """Set the positions of the panels, which are all alike; a layout engine would take long."""
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


def draw_curves(
    axis: style.Axes, runs: Sequence[Trace], measure: Measure, key: Key, lines: Sequence[str], look: Look, inks: Inks
) -> list[Array]:
    """Draw a line for each label of a key, and return the values that were drawn.

    No setting hides another: single runs of the first are above those of the others, middle lines are above all runs,
    and there the first, whose stroke is solid, is below the others, which have gaps. The middle line of steps, which
    jump from one iteration to the next, is smoothed.
    """
    known, shown = numbers(lines), []
    drawn = labels_by(key, runs)
    for place, label in enumerate(drawn):
        x, rows = rows_of([run for run in runs if key.of(run) == label], measure)
        under = 1.0 - place / len(drawn)
        line = stroke(known[label], inks)
        middle = (quantiles if look is Look.RUNS else cloud)(x, rows, measure)
        if look is Look.CLOUD:
            axis.fill_between(middle.x, middle.low, middle.high, color=line.color, alpha=0.18, linewidth=0)
            shown.append(np.concatenate([middle.low, middle.high]))
        else:
            shown.append(measure.shown(rows).ravel())
            thin: dict[str, Any] = {"linewidth": 0.5, "linestyle": "-", "alpha": 0.28}
            if look is Look.DOTTED:
                thin = {"linewidth": 0.7, "linestyle": ":", "alpha": 0.45}
            for row in measure.shown(rows):
                axis.plot(x, row, color=line.color, zorder=1.0 + under, **thin)
        every, steps = max(1, len(middle.x) // 4), measure.name == "step"
        axis.plot(
            middle.x,
            smooth(middle.middle) if steps else middle.middle,
            label=labels.plain(label),
            linewidth=0.9 if steps else 1.2,
            zorder=4.0 - under,
            **line.options(every=(every * (1 + place) // (1 + len(drawn)), every)),
            markeredgecolor=axis.figure.get_facecolor(),
            markeredgewidth=0.4,
        )
    return shown


def smooth(values: Array) -> Array:
    """Return the running median of values over a thirtieth of the points; NaN counts nowhere."""
    width = 2 * max(1, len(values) // 60) + 1
    return pd.Series(values).rolling(width, center=True, min_periods=1).median().to_numpy()


def set_scale(axis: style.Axes, measure: Measure, shown: Sequence[Array]) -> None:
    """Set the axes: the vertical one from the lowest to the highest value shown in any panel of its row."""
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
    if top < 100.0 * bottom:  # less than two decades: their powers alone would be too few marks
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
        axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, place: f"{y:g}"))
    else:
        axis.yaxis.set_major_locator(ticker.LogLocator(numticks=6))
    axis.yaxis.set_minor_locator(ticker.NullLocator())
