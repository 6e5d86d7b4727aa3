"""Two figures of the benchmark, in the look of the paper's: performance profiles, and losses against evaluations.

Each has a function that computes its numbers from records and one that draws them, which computes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gradline.bench.measures import Table
from gradline.bench.profiles import Profile, profile
from gradline.figures import style
from gradline.figures.curves import Band
from gradline.figures.traces import POINTS, grid_of, held
from gradline.figures.words import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.bench.runs import Record

Array = NDArray[np.float64]
WORDS = {"train_loss": "training loss", "test_error": "test error"}
MARKS = ("X*<>dh", "x+1234", "|_.,78")
"""Of the lines after the first six."""
FARTHEST = 64.0
"""The largest ratio that is shown."""


@dataclass(frozen=True, eq=False)
class Outline:
    """A performance profile as it is drawn: corners of steps."""

    method: str
    ratios: Array
    shares: Array


@dataclass(frozen=True, eq=False)
class Outlines:
    """The numbers of the figure of profiles."""

    outlines: tuple[Outline, ...]
    settings: tuple[str, ...]


def profile_data(table: Table, targets: Mapping[str, float], shown: Sequence[str] | None = None) -> Outlines:
    """The profiles of methods over the settings on which all were run, from ratio 1 to `FARTHEST`.

    Args:
        table: the records.
        targets: the training loss to be reached, of each setting.
        shown: the methods to draw; `None`: all. The best one of a setting is the best of all, drawn or not.
    """
    found: Profile = profile(table, targets)
    outlines = []
    for method in found.methods if shown is None else shown:
        ratios, shares = found.steps(method)
        seen = ratios <= FARTHEST
        last = float(shares[seen][-1]) if seen.any() else 0.0
        outlines.append(Outline(method, np.array([1.0, *ratios[seen], FARTHEST]), np.array([0.0, *shares[seen], last])))
    return Outlines(tuple(outlines), found.settings)


def draw_profile(data: Outlines) -> Figure:
    """One panel: a step line for each method."""
    with style.settings():
        figure, axes = style.panels(1, 1, height=4.2)
        axis = axes[0, 0]
        for place, outline in enumerate(data.outlines):
            axis.step(
                outline.ratios,
                outline.shares,
                where="post",
                label=plain(outline.method),
                **_stroke(place).options(every=(0, max(len(outline.ratios) // 3, 1))),
            )
        axis.set_xscale("log", base=2)
        axis.set_xlim(1.0, FARTHEST)
        axis.set_ylim(0.0, 1.02)
        axis.set_xlabel("evaluations to the target, over those of the best method")
        axis.set_ylabel(f"share of {len(data.settings)} settings")
        style.legend_below(figure, [axis], columns=4)
    return figure


@dataclass(frozen=True, eq=False)
class Losses:
    """A measure of a method on a setting: the median over seeds, the lowest and the highest."""

    setting: str
    method: str
    band: Band
    measure: str = "train_loss"
    against: str = "evaluations"


def losses_data(
    table: Table,
    settings: Sequence[str],
    methods: Sequence[str],
    *,
    measure: str = "train_loss",
    against: str = "evaluations",
) -> tuple[Losses, ...]:
    """What was measured along training. From where a run failed or diverged on, it is infinite.

    Args:
        table: the records.
        settings: which, a panel each.
        methods: which, a line each.
        measure: "train_loss" or "test_error".
        against: "evaluations" or "seconds".
    """
    found = []
    for setting in settings:
        known = table.get(setting, {})
        together = [record for method in methods for record in known.get(method, [])]
        if not together:
            continue
        grid = _grid(together, against)
        for method in methods:
            if records := known.get(method):
                ordered = np.sort(np.stack([_held(record, grid, measure, against) for record in records]), axis=0)
                band = Band(grid, ordered[len(ordered) // 2], ordered[0], ordered[-1])
                found.append(Losses(setting, method, band, measure, against))
    return tuple(found)


def _grid(records: Sequence[Record], against: str) -> Array:
    if against == "evaluations":
        return grid_of(max(record.run.budget for record in records))
    longest = max((point.seconds for record in records for point in record.counted), default=0.0)
    return np.linspace(0.0, longest, POINTS + 1)


def _held(record: Record, grid: Array, measure: str, against: str) -> Array:
    points = record.counted
    at = np.array([point.thirds / 3 if against == "evaluations" else point.seconds for point in points])
    values = np.array([getattr(point, measure) for point in points])
    shown = held(at, np.where(np.isnan(values), math.inf, values), grid)
    ended = at[-1] if len(at) else 0.0
    return shown if record.status.value == "done" else np.where(grid > ended, math.inf, shown)


def draw_losses(data: Sequence[Losses]) -> Figure:
    """A panel for each setting, with a line for each method and the range over its seeds; nothing is infinite there."""
    settings = list(dict.fromkeys(losses.setting for losses in data))
    methods = list(dict.fromkeys(losses.method for losses in data))
    columns = min(len(settings), 3) or 1
    lines = math.ceil(len(settings) / columns) or 1
    with style.settings():
        figure, axes = style.panels(lines, columns, height=0.8 + 2.1 * lines)
        for axis in axes.flat[len(settings) :]:
            axis.set_visible(False)
        for axis, setting in zip(axes.flat, settings, strict=False):
            for losses in data:
                if losses.setting != setting:
                    continue
                stroke = _stroke(methods.index(losses.method))
                x, middle, low, high = (np.where(np.isfinite(part), part, np.nan) for part in losses.band)
                axis.fill_between(x, low, high, color=stroke.color, alpha=0.12, linewidth=0)
                every = max(len(x) // 4, 1)
                axis.plot(x, middle, label=plain(losses.method), linewidth=1.1, **stroke.options(every=(0, every)))
            axis.set_yscale("log")
            axis.set_title(plain(setting))
            axis.set_xlabel(data[0].against)
        if data:
            axes[0, 0].set_ylabel(WORDS[data[0].measure])
        style.legend_below(figure, axes.flat, columns=4)
    return figure


def _stroke(place: int) -> style.Stroke:
    """Six lines, and then the same colours, drawn through and with other marks."""
    turn, colour = divmod(place, len(style.LINES))
    base = style.LINES[colour]
    return base if turn == 0 else base._replace(marker=MARKS[(turn - 1) % len(MARKS)][colour], linestyle="-")
