"""Figures of the comparison: performance profiles, and losses against evaluations. `compare_heat` has a third one.

Each has a function that computes its numbers from runs and one that only draws them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from gradline.lab.figures import style
from gradline.lab.figures.compare_heat import draw_heat, heat_data
from gradline.lab.figures.curves import TEST_ERROR, TRAIN_LOSS, Band, Measure
from gradline.lab.figures.labels import plain
from gradline.lab.figures.line_styles import styles
from gradline.lab.figures.panels import set_scale
from gradline.lab.findings.comparison import Comparison
from gradline.lab.findings.measures import RunTable, costs, ratios
from gradline.lab.findings.traces import POINTS, Trace, grid_of
from gradline.lab.jobs.result import Array, Status, held
from gradline.plot.inks import LIGHT, Inks

MEASURES = {
    "train_loss": TRAIN_LOSS,
    "test_error": TEST_ERROR,
    "validation_loss": Measure("validation_loss", "validation loss"),
    "validation_error": Measure("validation_error", "validation error", logarithmic=False),
}
FARTHEST = 64.0
"""The largest ratio that is shown."""
ABOVE = 1.5
"""Top of a panel over the highest start: a line that explodes would hide all others."""
COLUMNS = 3


def drawings(known: Comparison) -> dict[str, Callable[..., style.Figure]]:
    """Return functions that draw the two figures of all settings together, by name; their argument is `inks`."""
    profiles = profile_data(known.table, known.targets, known.drawn)
    return {"heat": partial(draw_heat, heat_data(known)), "profile": partial(draw_profile, profiles)}


class Outlines(NamedTuple):
    """Performance profiles as they are drawn: corners of each method's steps, as ratios and shares of settings."""

    corners: dict[str, tuple[Array, Array]]
    settings: int


def profile_data(table: RunTable, targets: Mapping[str, float], shown: Sequence[str] | None = None) -> Outlines:
    """Return the profiles of some methods over the settings on which all were run, from ratio 1 to `FARTHEST`.

    The best one of a setting is the best of all methods, drawn or not.
    """
    found = ratios(costs(table, targets))
    corners = {}
    for method in found.index if shown is None else shown:
        own = found.loc[method].to_numpy()
        seen = np.sort(own[own <= FARTHEST])
        shares = np.arange(len(seen) + 1) / max(len(found.columns), 1)
        corners[method] = np.array([1.0, *seen, FARTHEST]), np.array([*shares, shares[-1]])
    return Outlines(corners, len(found.columns))


def draw_profile(data: Outlines, inks: Inks = LIGHT) -> style.Figure:
    """Draw one panel: a step line for each method, with its name at the right end."""
    known = styles(list(data.corners), inks)
    with style.settings(inks):
        figure, axes = style.panels(1, 1, height=4.4)
        axis = axes[0, 0]
        for method, (x, shares) in data.corners.items():
            options = known[method].options(every=slice(1, -1, max(len(x) // 3, 1)))
            axis.step(x, shares, where="post", label=plain(method), **options)
        ends = {method: float(shares[-1]) for method, (_, shares) in data.corners.items()}
        ordered = sorted(ends, key=lambda method: (ends[method], data.corners[method][1].mean()))
        for method, height in zip(ordered, apart([ends[method] for method in ordered], 0.052, 1.02), strict=True):
            look = known[method]
            # From the end of the line to its name, and there the line once more, as in a legend.
            reach, sample = FARTHEST * np.array([1.0, 1.1]), FARTHEST * np.array([1.1, 1.22, 1.35])
            axis.plot(reach, [ends[method], height], color=look.stroke.color, linewidth=0.6, clip_on=False)
            axis.plot(sample, [height] * 3, clip_on=False, **look.options(every=[1]))
            weight, text = "bold" if look.own else "normal", {"fontsize": 8, "va": "center", "annotation_clip": False}
            where = (FARTHEST * 1.43, height)
            axis.annotate(plain(method), where, color=look.stroke.color, fontweight=weight, **text)
        axis.set_xscale("log", base=2)
        axis.set_xlim(1.0, FARTHEST)
        axis.set_ylim(0.0, 1.02)
        axis.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1 (best)", "2", "4", "8", "16", "32", "64"])
        axis.set_yticks(np.linspace(0.0, 1.0, 6), [f"{share} %" for share in range(0, 101, 20)])
        axis.grid(axis="y", color=inks.faint, linewidth=0.4, alpha=0.6)
        axis.set_xlabel("evaluations to the target, over those of the best method")
        axis.set_ylabel(f"share of {data.settings} settings")
    return figure


def apart(values: Sequence[float], gap: float, top: float) -> list[float]:
    """Return values in rising order, moved as little as it takes to be a gap apart, between 0 and the top."""
    from scipy.optimize import isotonic_regression

    if not values:
        return []
    # Without the gaps the values need only not fall.
    gaps = gap * np.arange(len(values))
    level = isotonic_regression(np.asarray(values) - gaps).x
    moved: list[float] = (np.clip(level, 0.0, top - gaps[-1]) + gaps).tolist()
    return moved


class LossPanel(NamedTuple):
    """A measure of methods on a setting: of each the median over seeds, the lowest and the highest."""

    setting: str
    measure: str
    against: str
    target: float
    """The training loss to be reached; NaN: none is shown."""
    bands: dict[str, Band]


def losses_data(
    table: RunTable,
    settings: Sequence[str],
    methods: Sequence[str],
    *,
    measure: str = "train_loss",
    against: str = "evaluations",
    targets: Mapping[str, float] | None = None,
    points: int = POINTS,
) -> list[LossPanel]:
    """Return what was measured along training: a panel for each setting that has runs, a line for each method.

    From where a run failed or diverged on, it is infinite. The measure is one of `MEASURES`, against
    "evaluations" or "seconds", at so many points at most; `targets` are drawn beside training losses.
    """
    found = []
    for setting in settings:
        known = table.get(setting, {})
        together = [run for method in methods for run in known.get(method, [])]
        if not together:
            continue
        grid = _grid(together, against, points)
        target = (targets or {}).get(setting, math.nan) if measure == "train_loss" else math.nan
        bands = {}
        for method in methods:
            if runs := known.get(method):
                ordered = np.sort(np.stack([_held(run, grid, measure, against) for run in runs]), axis=0)
                bands[method] = Band(grid, ordered[len(ordered) // 2], ordered[0], ordered[-1])
        found.append(LossPanel(setting, measure, against, target, bands))
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
            problem, _, size = panel.setting.partition("/")
            axis.set_title(f"{plain(problem)}, B = {size}", fontsize=8.5)
            if not math.isnan(panel.target):
                axis.axhline(panel.target, color=inks.text, linewidth=0.6, linestyle=":", zorder=1.0)
            if number % columns == 0 or panel.measure != panels[number - 1].measure:
                axis.set_ylabel(MEASURES[panel.measure].words)
        for axis in axes[-1]:
            axis.set_xlabel(panels[0].against if panels else "")
        style.legend(figure, axes.flat, columns=5)
    return figure


def _scale(axis: style.Axes, panel: LossPanel) -> None:
    """Set the axes of a panel: from the lowest line to the highest, but at most `ABOVE` times the highest start."""
    middles = np.array([band.middle for band in panel.bands.values()])
    roof = ABOVE * max(middles[np.isfinite(middles[:, 0]), 0], default=math.inf)
    shown = middles[np.isfinite(middles) & (middles > 0.0) & (middles <= roof)]
    set_scale(axis, MEASURES[panel.measure], [shown])
    if panel.against == "seconds":
        axis.xaxis.set_major_formatter(style.matplotlib("ticker").ScalarFormatter())
