"""The whole comparison in one picture: every method on every setting, coloured by how far it is behind the best."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from gradline.lab.figures import style
from gradline.lab.figures.curves import compared
from gradline.lab.figures.labels import plain
from gradline.lab.figures.line_styles import styles
from gradline.lab.findings.comparison import OWN, Comparison, decades
from gradline.lab.jobs.result import Array
from gradline.lab.studies import Setting
from gradline.plot.inks import LIGHT, Inks

TITLE = "The whole comparison"
CAPTION = (
    "Every method (a row) in every setting of problem and batch size (a column): how far its final training loss, of "
    "the median seed, is above the lowest that any method reached there. A dot marks the lowest one, a cross a "
    "failure. Rows are sorted by the mean at their right end."
)
NEEDS = ("compare",)
DARKEST = 4.0
"""Decades behind the best at which the colour scale ends."""
GAMMA = 0.5
"""Exponent of the colour scale; below 1 it shows small differences near the best."""
TICKS = (1.0, 1.1, 1.5, 2.0, 5.0, 10.0, 100.0, 1e4)
RULE = 4.0
"""Points between the cells and the line under a problem's name."""
GAP = 0.45
"""Space between two problems, in cells; twice as much between problems for tuning and held-out ones."""


data = compared


def draw(data: Comparison, inks: Inks = LIGHT) -> style.Figure:
    """Draw a row for each method, the best first, and a column for each setting, those that are held out last."""
    settings = sorted((case.setting for case in data.cases), key=lambda setting: setting.held_out)
    scores = {score.method: score.behind for score in data.scores()}
    behind = decades(data.cases).loc[list(scores), [setting.name for setting in settings]].to_numpy()
    colours, left = style.matplotlib("colors"), _places(settings)
    with style.settings(inks):
        figure, axes = style.panels(1, 1, height=1.9 + 0.21 * len(behind), width=8.4)
        axis = axes[0, 0]
        norm = colours.PowerNorm(GAMMA, 0.0, DARKEST, clip=True)
        shades: Any = style.matplotlib("").colormaps[style.SURFACE]
        cells = np.ma.masked_invalid(np.where(np.isposinf(behind), DARKEST, behind))
        for place, x in enumerate(left):
            column, rows = cells[:, place, None], np.arange(len(behind) + 1)
            shown = axis.pcolormesh([x, x + 1], rows, column, norm=norm, cmap=shades.reversed(), rasterized=True)
        for mark, which, colour in (("x", np.isposinf(behind), "white"), ("o", behind == 0.0, "black")):
            lines, places = np.nonzero(which)
            axis.plot(left[places] + 0.5, lines + 0.5, mark, color=colour, markersize=4.2)
        _name_rows(axis, scores, float(left[-1]) + 1.0, inks)
        _name_columns(axis, settings, left, inks)
        bar = figure.colorbar(shown, ax=axis, location="bottom", fraction=0.035, pad=0.02, aspect=45, shrink=0.75)
        bar.set_ticks(
            [math.log10(ratio) for ratio in TICKS],
            labels=[*(f"{ratio:,g}×" for ratio in TICKS[:-1]), "10,000× or more"],
        )
        bar.set_label("final training loss over the best method's (● the best, × failed)")
        bar.outline.set_visible(False)
    return figure


def _places(settings: list[Setting]) -> Array:
    """Return the left edge of each column, in cells."""
    names = [(setting.problem.name, setting.held_out) for setting in settings]
    gaps = [0, *(sum(a != b for a, b in zip(*pair, strict=True)) for pair in pairwise(names))]
    return np.arange(len(names)) + GAP * np.cumsum(gaps)


def _name_rows(axis: style.Axes, scores: dict[str, float], right: float, inks: Inks) -> None:
    known = styles(list(scores), inks)
    axis.set_ylim(len(scores), 0)
    axis.set_xlim(0.0, right)
    axis.set_yticks(np.arange(len(scores)) + 0.5, [plain(name) for name in scores])
    for line, (label, (name, score)) in enumerate(zip(axis.get_yticklabels(), scores.items(), strict=True)):
        if name in OWN:
            label.set_fontweight("bold")
            label.set_color(known[name].color)
        text = "" if math.isnan(score) else f"{score:.1f}×" if score < 9.95 else f"{score:.0f}×"
        axis.annotate(text, (right + 0.3, line + 0.5), va="center", fontsize=7, annotation_clip=False)
    _above(axis, "mean", right + 0.3, RULE + 3.0, ha="left", fontsize=7, fontweight="bold")


def _name_columns(axis: style.Axes, settings: list[Setting], left: Array, inks: Inks) -> None:
    axis.set_xticks(left + 0.5, [str(setting.batch_size) for setting in settings], rotation=90, fontsize=6.5)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    columns = pd.DataFrame({"left": left, "problem": [setting.problem.name for setting in settings]})
    columns["held out"] = [setting.held_out for setting in settings]
    for held_out, own in columns.groupby("held out")["left"]:
        words = "held-out problems" if held_out else "problems for tuning"
        _above(axis, words, (own.min() + own.max() + 1.0) / 2, RULE + 26.0, fontweight="bold")
    transforms = style.matplotlib("transforms")
    rule = transforms.offset_copy(axis.get_xaxis_transform(), axis.get_figure(), y=RULE, units="points")
    for problem, own in columns.groupby("problem")["left"]:
        first, last = own.min(), own.max() + 1.0
        axis.plot([first + 0.1, last - 0.1], [1.0, 1.0], color=inks.faint, linewidth=0.8, clip_on=False, transform=rule)
        text = "\n".join(plain(str(problem)).split("-", 1))
        _above(axis, text, (first + last) / 2, RULE + 3.0, fontsize=6.8, linespacing=0.9)


def _above(axis: style.Axes, text: str, x: float, points: float, **options: Any) -> None:
    """Write text above the rows, at a distance in points."""
    where = {"ha": "center", "va": "bottom", "annotation_clip": False, "textcoords": "offset points"}
    axis.annotate(text, (x, 0.0), xytext=(0.0, points), **{**where, **options})
