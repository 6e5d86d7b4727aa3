"""Losses and errors of a comparison along training: a panel for each setting, a line for each method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradline.lab.figures import labels, style
from gradline.lab.figures.catalogue import Entry
from gradline.lab.figures.curves import TEST_ERROR, TRAIN_LOSS, Band, Measure, compared
from gradline.lab.figures.labels import plain
from gradline.lab.figures.line_styles import styles
from gradline.lab.figures.panels import set_scale
from gradline.lab.findings.cases import Case, MethodRuns
from gradline.lab.findings.comparison import OWN, Comparison
from gradline.lab.findings.traces import POINTS, Trace, grid_of
from gradline.lab.jobs.result import Array, Status, held
from gradline.plot.inks import LIGHT, Inks

VALIDATION_LOSS = Measure("validation_loss", "validation loss")
VALIDATION_ERROR = Measure("validation_error", "validation error", logarithmic=False)
ABOVE = 1.5
"""Top of a panel over the highest start: a line that explodes would hide all others."""
COLUMNS = 3


def draw_losses(
    cases: Sequence[Case],
    methods: Sequence[str],
    inks: Inks = LIGHT,
    *,
    measures: Sequence[Measure] = (TRAIN_LOSS,),
    against: str = "evaluations",
    points: int = POINTS,
) -> style.Figure:
    """Draw a panel for each measure and case: a line for each method, and the range over seeds of gradline's.

    Infinite values are left out, and lines that explode leave the panel at its top. Measures are shown against
    "evaluations" or "seconds", at so many points at most, and training losses with their targets.
    """
    known = styles(methods, inks)
    panels = [(measure, case) for measure in measures for case in cases if set(methods) & set(case.entries)]
    columns = min(len(panels), COLUMNS) or 1
    lines = math.ceil(len(panels) / columns) or 1
    with style.settings(inks):
        figure, axes = style.panels(lines, columns, height=1.75 * lines + (0.9 if lines > 1 else 1.6), width=8.4)
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        for number, (axis, (measure, case)) in enumerate(zip(axes.flat, panels, strict=False)):
            bands = bands_of(
                {name: case.entries[name] for name in methods if name in case.entries}, measure, against, points
            )
            for place, (method, band) in enumerate(bands.items()):
                look = known[method]
                x, middle, low, high = (np.where(np.isfinite(part), part, np.nan) for part in band)
                if method in OWN:
                    axis.fill_between(x, low, high, color=look.color, alpha=0.09, linewidth=0)
                every = max(len(x) // 3, 1)
                options = look.options(every=(every * (place % 5) // 5, every))
                axis.plot(x, middle, label=plain(method), **{**options, "markersize": 3.2})
            _scale(axis, measure, against, bands)
            setting = case.setting
            axis.set_title(f"{plain(setting.problem.name)}, {labels.batch(setting.batch_size)}", fontsize=8.5)
            if measure is TRAIN_LOSS and setting.target is not None:
                axis.axhline(setting.target, color=inks.text, linewidth=0.6, linestyle=":", zorder=1.0)
            if number % columns == 0 or measure != panels[number - 1][0]:
                axis.set_ylabel(measure.words)
        for axis in axes[-1]:
            axis.set_xlabel(against)
        style.legend(figure, axes.flat, columns=5)
    return figure


def bands_of(entries: Mapping[str, MethodRuns], measure: Measure, against: str, points: int) -> dict[str, Band]:
    """Return the median over seeds of each method along training, the lowest and the highest.

    From where a run failed or diverged on, it is infinite.
    """
    runs = [run for entry in entries.values() for run in entry.runs]
    grid = grid_of(max(run.budget for run in runs), points)
    if against == "seconds":
        longest = max((run.columns["seconds"][run.counted - 1] for run in runs if run.counted), default=0.0)
        grid = np.linspace(0.0, longest, points + 1)
    bands = {}
    for method, entry in entries.items():
        ordered = np.sort(np.stack([_held(run, grid, measure.name, against) for run in entry.runs]), axis=0)
        bands[method] = Band(grid, ordered[len(ordered) // 2], ordered[0], ordered[-1])
    return bands


def _held(run: Trace, grid: Array, measure: str, against: str) -> Array:
    at, values = (run.column(name)[: run.counted] for name in (against, measure))
    shown = held(at, np.where(np.isnan(values), math.inf, values), grid)
    ended = at[-1] if len(at) else 0.0
    return shown if run.status is Status.DONE else np.where(grid > ended, math.inf, shown)


def _scale(axis: style.Axes, measure: Measure, against: str, bands: Mapping[str, Band]) -> None:
    """Set the axes of a panel: from the lowest line to the highest, but at most `ABOVE` times the highest start."""
    middles = np.array([band.middle for band in bands.values()])
    roof = ABOVE * max(middles[np.isfinite(middles[:, 0]), 0], default=math.inf)
    shown = middles[np.isfinite(middles) & (middles > 0.0) & (middles <= roof)]
    set_scale(axis, measure, [shown])
    if against == "seconds":
        axis.xaxis.set_major_formatter(style.matplotlib("ticker").ScalarFormatter())


def _draw(data: Comparison, inks: Inks = LIGHT, **options: Any) -> style.Figure:
    return draw_losses(data.cases, data.drawn, inks, **options)


ENTRIES = tuple(
    Entry(
        f"compare_{measure.name}_{against}",
        f"{measure.words.capitalize()} along training, against {against}",
        "A panel for each setting, a line for each method: the median over seeds, with the range of gradline's.",
        compared,
        partial(_draw, measures=(measure,), against=against),
        needs=("compare",),
    )
    for measure in (TRAIN_LOSS, TEST_ERROR)
    for against in ("evaluations", "seconds")
)
