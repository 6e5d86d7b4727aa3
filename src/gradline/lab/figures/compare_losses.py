"""Losses and errors of a comparison along training: a panel for each setting, a line for each method."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from gradline.lab.figures import labels, style
from gradline.lab.figures.catalogue import Entry
from gradline.lab.figures.curves import TEST_ERROR, TRAIN_LOSS, Band, Measure, compared
from gradline.lab.figures.labels import plain
from gradline.lab.figures.line_styles import styles
from gradline.lab.figures.panels import set_scale
from gradline.lab.findings.cases import Case
from gradline.lab.findings.reading import Source
from gradline.lab.findings.traces import POINTS, Trace, grid_of
from gradline.lab.jobs.result import Array, Status, held
from gradline.plot.inks import LIGHT, Inks

VALIDATION_LOSS = Measure("validation_loss", "validation loss")
VALIDATION_ERROR = Measure("validation_error", "validation error", logarithmic=False)
ABOVE = 1.5
"""Top of a panel over the highest start: a line that explodes would hide all others."""
COLUMNS = 3


class LossPanel(NamedTuple):
    """A measure of methods on a setting: of each the median over seeds, the lowest and the highest."""

    title: str
    measure: Measure
    against: str
    target: float
    """The training loss to be reached; NaN: none is shown."""
    bands: dict[str, Band]


def loss_panels(
    cases: Iterable[Case],
    methods: Sequence[str],
    *,
    measure: Measure = TRAIN_LOSS,
    against: str = "evaluations",
    points: int = POINTS,
) -> list[LossPanel]:
    """Return what was measured along training: a panel for each case, a line for each method that was run there.

    From where a run failed or diverged on, it is infinite. The measure is shown against "evaluations" or "seconds", at
    so many points at most, and training losses with their targets.
    """
    found = []
    for case in cases:
        known = {method: case.entries[method].runs for method in methods if method in case.entries}
        if not known:
            continue
        grid = _grid([run for runs in known.values() for run in runs], against, points)
        target = case.setting.target if measure is TRAIN_LOSS else None
        bands = {}
        for method, runs in known.items():
            ordered = np.sort(np.stack([_held(run, grid, measure.name, against) for run in runs]), axis=0)
            bands[method] = Band(grid, ordered[len(ordered) // 2], ordered[0], ordered[-1])
        title = f"{case.setting.problem.name}, {labels.batch(case.setting.batch_size)}"
        found.append(LossPanel(title, measure, against, math.nan if target is None else target, bands))
    return found


def _grid(runs: Sequence[Trace], against: str, points: int) -> Array:
    if against == "evaluations":
        return grid_of(max(run.budget for run in runs), points)
    longest = max((run.columns["seconds"][run.counted - 1] for run in runs if run.counted), default=0.0)
    return np.linspace(0.0, longest, points + 1)


def _held(run: Trace, grid: Array, measure: str, against: str) -> Array:
    at, values = (run.column(name)[: run.counted] for name in (against, measure))
    shown = held(at, np.where(np.isnan(values), math.inf, values), grid)
    ended = at[-1] if len(at) else 0.0
    return shown if run.status is Status.DONE else np.where(grid > ended, math.inf, shown)


def draw_losses(panels: Sequence[LossPanel], inks: Inks = LIGHT) -> style.Figure:
    """Draw the panels: a line for each method, and the range over seeds of gradline's.

    Infinite values are left out, and lines that explode leave the panel at its top.
    """
    known = styles(list(dict.fromkeys(method for panel in panels for method in panel.bands)), inks)
    columns = min(len(panels), COLUMNS) or 1
    lines = math.ceil(len(panels) / columns) or 1
    with style.settings(inks):
        figure, axes = style.panels(lines, columns, height=1.75 * lines + (0.9 if lines > 1 else 1.6), width=8.4)
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        for number, (axis, panel) in enumerate(zip(axes.flat, panels, strict=False)):
            for place, (method, band) in enumerate(panel.bands.items()):
                look = known[method]
                x, middle, low, high = (np.where(np.isfinite(part), part, np.nan) for part in band)
                if look.own:
                    axis.fill_between(x, low, high, color=look.stroke.color, alpha=0.09, linewidth=0)
                every = max(len(x) // 3, 1)
                options = look.options(every=(every * (place % 5) // 5, every))
                axis.plot(x, middle, label=plain(method), **{**options, "markersize": 3.2})
            _scale(axis, panel)
            axis.set_title(plain(panel.title), fontsize=8.5)
            if not math.isnan(panel.target):
                axis.axhline(panel.target, color=inks.text, linewidth=0.6, linestyle=":", zorder=1.0)
            if number % columns == 0 or panel.measure != panels[number - 1].measure:
                axis.set_ylabel(panel.measure.words)
        for axis in axes[-1]:
            axis.set_xlabel(panels[0].against if panels else "")
        style.legend(figure, axes.flat, columns=5)
    return figure


def _scale(axis: style.Axes, panel: LossPanel) -> None:
    """Set the axes of a panel: from the lowest line to the highest, but at most `ABOVE` times the highest start."""
    middles = np.array([band.middle for band in panel.bands.values()])
    roof = ABOVE * max(middles[np.isfinite(middles[:, 0]), 0], default=math.inf)
    shown = middles[np.isfinite(middles) & (middles > 0.0) & (middles <= roof)]
    set_scale(axis, panel.measure, [shown])
    if panel.against == "seconds":
        axis.xaxis.set_major_formatter(style.matplotlib("ticker").ScalarFormatter())


def _data(source: Source, measure: Measure, against: str) -> list[LossPanel]:
    known = compared(source)
    return loss_panels(known.cases, known.drawn, measure=measure, against=against)


ENTRIES = tuple(
    Entry(
        f"compare_{measure.name}_{against}",
        f"{measure.words.capitalize()} along training, against {against}",
        "A panel for each setting, a line for each method: the median over seeds, with the range of gradline's.",
        partial(_data, measure=measure, against=against),
        draw_losses,
        needs=("compare",),
    )
    for measure in (TRAIN_LOSS, TEST_ERROR)
    for against in ("evaluations", "seconds")
)
