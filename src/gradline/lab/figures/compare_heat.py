"""The whole comparison in one picture: every method on every setting, coloured by how far it is behind the best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradline.lab.figures import style
from gradline.lab.figures.curves import compared
from gradline.lab.figures.labels import plain
from gradline.lab.figures.line_styles import styles
from gradline.lab.findings.comparison import Comparison, decades
from gradline.lab.findings.reading import Source
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


@dataclass(frozen=True, eq=False)
class Heat:
    """The numbers of the picture: methods × settings."""

    methods: tuple[str, ...]
    """The best first."""
    columns: tuple[Setting, ...]
    """Problems for tuning first, then those that are held out."""
    behind: Array
    """Decades behind the best; infinite: failed, NaN: not run."""
    scores: Array
    """Loss of each method over the best one's (see `gradline.lab.findings.comparison.Score`)."""


def data(source: Source) -> Heat:
    """Return how far every method is behind the best one in every setting."""
    return heat(compared(source))


def heat(known: Comparison) -> Heat:
    """Return the numbers of a comparison."""
    settings = sorted((case.setting for case in known.cases), key=lambda setting: setting.held_out)
    scores = known.scores()
    methods = tuple(score.method for score in scores)
    return Heat(
        methods,
        tuple(settings),
        decades(known.cases).loc[list(methods), [setting.name for setting in settings]].to_numpy(),
        np.array([score.behind for score in scores]),
    )


def draw(data: Heat, inks: Inks = LIGHT) -> style.Figure:
    """Draw a row for each method and a column for each setting, with dots at the best and crosses at failures."""
    colours = style.matplotlib("colors")
    left = _places(data)
    with style.settings(inks):
        figure, axes = style.panels(1, 1, height=1.9 + 0.21 * len(data.methods), width=8.4)
        axis = axes[0, 0]
        norm = colours.PowerNorm(GAMMA, 0.0, DARKEST, clip=True)
        shades: Any = style.matplotlib("").colormaps[style.SURFACE]
        for place, x in enumerate(left):
            cells = data.behind[:, place]
            column = np.ma.masked_invalid(np.where(np.isposinf(cells), DARKEST, cells))[:, None]
            shown = axis.pcolormesh(
                [x, x + 1], np.arange(len(data.methods) + 1), column, norm=norm, cmap=shades.reversed(), rasterized=True
            )
        for mark, which, colour in (("x", np.isposinf(data.behind), "white"), ("o", data.behind == 0.0, "black")):
            lines, places = np.nonzero(which)
            axis.plot(left[places] + 0.5, lines + 0.5, mark, color=colour, markersize=4.2)
        _name_rows(axis, data, float(left[-1]) + 1.0, inks)
        _name_columns(axis, data, left, inks)
        bar = figure.colorbar(shown, ax=axis, location="bottom", fraction=0.035, pad=0.02, aspect=45, shrink=0.75)
        bar.set_ticks(
            [math.log10(ratio) for ratio in TICKS],
            labels=[*(f"{ratio:,g}×" for ratio in TICKS[:-1]), "10,000× or more"],
        )
        bar.set_label("final training loss over the best method's (● the best, × failed)")
        bar.outline.set_visible(False)
    return figure


def _places(data: Heat) -> Array:
    """Return the left edge of each column, in cells."""
    edges, x = [], 0.0
    for place, column in enumerate(data.columns):
        before = data.columns[place - 1] if place else column
        x += GAP * ((before.problem != column.problem) + (before.held_out != column.held_out))
        edges.append(x)
        x += 1.0
    return np.array(edges)


def _name_rows(axis: style.Axes, data: Heat, right: float, inks: Inks) -> None:
    known = styles(data.methods, inks)
    axis.set_ylim(len(data.methods), 0)
    axis.set_xlim(0.0, right)
    axis.set_yticks(np.arange(len(data.methods)) + 0.5, [plain(name) for name in data.methods])
    for label, name in zip(axis.get_yticklabels(), data.methods, strict=True):
        if known[name].own:
            label.set_fontweight("bold")
            label.set_color(known[name].stroke.color)
    for line, score in enumerate(data.scores):
        text = "" if math.isnan(score) else f"{score:.1f}×" if score < 9.95 else f"{score:.0f}×"
        axis.annotate(text, (right + 0.3, line + 0.5), va="center", fontsize=7, annotation_clip=False)
    _above(axis, "mean", right + 0.3, RULE + 3.0, ha="left", fontsize=7, fontweight="bold")


def _name_columns(axis: style.Axes, data: Heat, left: Array, inks: Inks) -> None:
    axis.set_xticks(left + 0.5, [str(column.batch_size) for column in data.columns], rotation=90, fontsize=6.5)
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    for held_out, words in ((False, "problems for tuning"), (True, "held-out problems")):
        own = [place for place, column in enumerate(data.columns) if column.held_out == held_out]
        if own:
            _above(axis, words, (left[own[0]] + left[own[-1]] + 1.0) / 2, RULE + 26.0, fontweight="bold")
    transforms = style.matplotlib("transforms")
    rule = transforms.offset_copy(axis.get_xaxis_transform(), axis.get_figure(), y=RULE, units="points")
    for problem in dict.fromkeys(column.problem.name for column in data.columns):
        own = [place for place, column in enumerate(data.columns) if column.problem.name == problem]
        first, last = left[own[0]], left[own[-1]] + 1.0
        axis.plot([first + 0.1, last - 0.1], [1.0, 1.0], color=inks.faint, linewidth=0.8, clip_on=False, transform=rule)
        text = "\n".join(plain(problem).split("-", 1))
        _above(axis, text, (first + last) / 2, RULE + 3.0, fontsize=6.8, linespacing=0.9)


def _above(axis: style.Axes, text: str, x: float, points: float, **options: Any) -> None:
    """Write text above the rows, at a distance in points."""
    where = {"ha": "center", "va": "bottom", "annotation_clip": False, "textcoords": "offset points"}
    axis.annotate(text, (x, 0.0), xytext=(0.0, points), **{**where, **options})
