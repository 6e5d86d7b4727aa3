"""Three figures of the study `train`, one for each question of a reader: how good, how much compute, where not.

Each has a function that computes its numbers from the runs and one that draws them, which computes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradline.lab.figures import style
from gradline.lab.figures.catalogue import Entry
from gradline.lab.figures.curves import cases_of_training, missing
from gradline.lab.figures.labels import plain
from gradline.lab.figures.line_styles import styles
from gradline.lab.findings.cases import OURS, Spread
from gradline.lab.findings.reading import Source
from gradline.lab.findings.training import CLOSE, UNTOUCHED, TrainingCases
from gradline.plot.inks import LIGHT, Inks

SHOWN = (OURS, UNTOUCHED, "schedule-free", "prodigy")
"""Methods without tuning that the first figure shows, as far as there are runs of them."""
WIDEST = (0.5, 4.0)
"""Range of the axis; ratios beyond it are drawn at its ends."""
TICKS = (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0)


@dataclass(frozen=True)
class CaseRow:
    """A case in a figure: its words, and a number for each method."""

    case: str
    held_out: bool
    values: dict[str, Spread]
    note: str = ""


def quality_data(training: TrainingCases) -> tuple[CaseRow, ...]:
    """Return validation losses without tuning over those with tuning, for each case with a tuned method."""
    rows = []
    for case in training.ordered:
        if case.tuned is not None:
            values = {name: case.ratio(name, case.tuned.method) for name in SHOWN if name in case.entries}
            rows.append(CaseRow(case.name, case.setting.held_out, values, case.tuned.chosen or ""))
    return tuple(rows)


def draw_quality(data: Sequence[CaseRow], inks: Inks = LIGHT) -> style.Figure:
    """Draw a row for each case and a mark for each method: left of 1 if it ends lower than the tuned one."""
    with style.settings(inks):
        figure, axis = _rows(data, inks)
        known = styles(list(dict.fromkeys(name for row in data for name in row.values)), inks)
        for name, look in known.items():
            places = [(place, row.values[name]) for place, row in enumerate(data) if name in row.values]
            x = [_within(ratio.median) for _, ratio in places]
            y = [place + 0.5 for place, _ in places]
            if look.own:
                for place, ratio in places:
                    ends = [_within(ratio.best), _within(ratio.worst)]
                    axis.plot(ends, [place + 0.5] * 2, color=look.stroke.color, linewidth=2.4, alpha=0.35, zorder=2.5)
            options: dict[str, Any] = {"color": look.stroke.color, "zorder": look.above, "label": plain(name)}
            axis.plot(x, y, look.stroke.marker or "o", markersize=6 if look.own else 4.5, **options)
        _ratio_axis(axis, inks)
        axis.set_xlabel("validation loss over that of the best tuned baseline (left of 1: lower without tuning)")
        for place, row in enumerate(data):
            _aside(axis, place, row.note, inks)
        style.legend(figure, [axis], columns=4)
    return figure


@dataclass(frozen=True)
class Spent:
    """Evaluations of a case until the target is reached, tuning included."""

    case: str
    held_out: bool
    ours: float
    """Evaluations of one run without tuning: to the target, or of the whole run if it did not reach it."""
    reached: bool
    tuned: float
    """Evaluations of all candidates on the tuning seed, and of the chosen one to the target."""
    candidates: int


def compute_data(training: TrainingCases) -> tuple[Spent, ...]:
    """Return evaluations to a validation loss as good as the tuned method's, for each case that has one."""
    found = []
    for case in training.ordered:
        tuned, ours = case.tuned, case.entries.get(OURS)
        if tuned is None or ours is None or not math.isfinite(tuned.validation_loss.median):
            continue
        target = CLOSE * tuned.validation_loss.median
        needed = ours.evaluations_to(target)
        own = tuned.evaluations_to(target)
        found.append(
            Spent(
                case.name,
                case.setting.held_out,
                needed if math.isfinite(needed) else ours.evaluations,
                math.isfinite(needed),
                tuned.tuning_evaluations + (own if math.isfinite(own) else tuned.evaluations),
                len(tuned.candidates),
            )
        )
    return tuple(found)


def draw_compute(data: Sequence[Spent], inks: Inks = LIGHT) -> style.Figure:
    """Draw a row for each case: evaluations with and without tuning, and a line between them."""
    with style.settings(inks):
        figure, axis = _rows(data, inks)
        look = styles([OURS], inks)[OURS]
        for place, spent in enumerate(data):
            y = place + 0.5
            axis.plot([spent.ours, spent.tuned], [y, y], color=inks.faint, linewidth=1.0, zorder=1.0)
            face = look.stroke.color if spent.reached else "none"
            axis.plot(spent.ours, y, "o", color=look.stroke.color, markerfacecolor=face, markersize=6)
            axis.plot(spent.tuned, y, "D", color=inks.text, markersize=4.5)
            _aside(axis, place, f"{spent.tuned / spent.ours:.0f}×" if spent.reached else "not reached", inks)
        handles: list[Any] = [
            style.matplotlib("lines").Line2D([], [], linestyle="", marker=marker, color=color, markerfacecolor=face)
            for marker, color, face in (
                ("o", look.stroke.color, look.stroke.color),
                ("o", look.stroke.color, "none"),
                ("D", inks.text, inks.text),
            )
        ]
        words = [f"{OURS}, one run", f"{OURS}, target not reached: whole run", "tuned: all candidates, and its run"]
        figure.legend(handles, words, loc="outside lower center", ncols=3, frameon=False)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(style.matplotlib("ticker").StrMethodFormatter("{x:,.0f}"))
        axis.xaxis.set_minor_formatter(style.matplotlib("ticker").NullFormatter())
        axis.grid(axis="x", color=inks.faint, linewidth=0.4, alpha=0.6)
        axis.set_xlabel(f"evaluations to {CLOSE - 1:.0%} above the tuned method's final validation loss")
    return figure


def limits_data(training: TrainingCases) -> tuple[CaseRow, ...]:
    """Return our validation loss over that of the best other method without tuning, the worst case first."""
    rows = []
    for case in training.cases:
        others = case.untuned()
        if OURS in case.entries and others:
            ratio = case.ratio(OURS, others[0].method)
            rows.append(CaseRow(case.name, case.setting.held_out, {OURS: ratio}, others[0].method))
    return tuple(sorted(rows, key=lambda row: -row.values[OURS].median))


def draw_limits(data: Sequence[CaseRow], inks: Inks = LIGHT) -> style.Figure:
    """Draw a bar for each case from 1 to the ratio; to the right of 1 the other method is better."""
    with style.settings(inks):
        figure, axis = _rows(data, inks, parts=False)
        look = styles([OURS], inks)[OURS]
        for place, row in enumerate(data):
            ratio = row.values[OURS]
            x, y = _within(ratio.median), place + 0.5
            worse = ratio.median > CLOSE
            color = inks.orange if worse else look.stroke.color
            axis.plot([1.0, x], [y, y], color=color, linewidth=5.0, alpha=0.55, solid_capstyle="butt")
            axis.plot([_within(ratio.best), _within(ratio.worst)], [y, y], color=color, linewidth=1.2)
            axis.plot(x, y, "X" if worse else "o", color=color, markersize=5)
            _aside(axis, place, row.note, inks)
        _ratio_axis(axis, inks)
        axis.set_xlabel(
            f"validation loss of {OURS} over that of the best other method without tuning (named at the right)"
        )
    return figure


def _within(ratio: float) -> float:
    return min(max(ratio, WIDEST[0]), WIDEST[1])


def _rows(data: Sequence[CaseRow | Spent], inks: Inks, *, parts: bool = True) -> tuple[style.Figure, style.Axes]:
    """Return a figure and its axes, with a row for each case, named at the left."""
    figure, axes = style.panels(1, 1, height=1.3 + 0.21 * max(len(data), 4), width=8.4)
    axis: style.Axes = axes[0, 0]
    axis.set_ylim(len(data), 0)
    words = [plain(row.case) + ("" if parts or not row.held_out else " (held out)") for row in data]
    axis.set_yticks([place + 0.5 for place in range(len(data))], words, fontsize=7)
    axis.tick_params(axis="y", length=0)
    for place, row in enumerate(data):
        if place % 2:
            axis.axhspan(place, place + 1, color=inks.faint, alpha=0.12, linewidth=0, zorder=0.0)
        if parts and (place == 0 or row.held_out != data[place - 1].held_out):
            if place:
                axis.axhline(place, color=inks.text, linewidth=0.8)
            name, at = "held-out problems" if row.held_out else "problems for tuning", (0.006, place + 0.08)
            axis.annotate(name, at, xycoords=axis.get_yaxis_transform(), fontsize=6.5, va="top", color=inks.text)
    return figure, axis


def _ratio_axis(axis: style.Axes, inks: Inks) -> None:
    axis.set_xscale("log")
    axis.set_xlim(WIDEST[0] * 0.97, WIDEST[1] * 1.03)
    axis.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axis.minorticks_off()
    axis.axvline(1.0, color=inks.text, linewidth=0.8, zorder=1.0)
    axis.grid(axis="x", color=inks.faint, linewidth=0.4, alpha=0.6)


def _aside(axis: style.Axes, place: int, text: str, inks: Inks) -> None:
    """Write text at the right end of a row."""
    look: dict[str, Any] = {"fontsize": 6.5, "va": "center", "color": inks.text, "annotation_clip": False}
    axis.annotate(plain(text), (1.01, place + 0.5), xycoords=axis.get_yaxis_transform(), **look)


def _entry(
    name: str, title: str, caption: str, rows: Callable[[TrainingCases], Any], draw: Callable[..., style.Figure]
) -> Entry:
    def data(source: Source) -> Any:
        found = rows(cases_of_training(source))
        if not found:
            raise missing("the figure of train", "train")
        return found

    return Entry(name, title, caption, data, draw, needs=("train",))


ENTRIES = (
    _entry(
        "train_quality",
        "How good is it without tuning?",
        "A row for each problem, batch size and budget: validation losses over that of the tuned method named at the "
        "right. Left of 1 a method without tuning ends lower.",
        quality_data,
        draw_quality,
    ),
    _entry(
        "train_compute",
        "How much compute does that save?",
        "Evaluations until the validation loss is as good as the tuned method's at its end, of one run, and with all "
        "candidates of tuning.",
        compute_data,
        draw_compute,
    ),
    _entry(
        "train_limits",
        "Where should it not be used?",
        "Validation loss of Angle over that of the best other method without tuning, which is named at the right; the "
        "worst case comes first.",
        limits_data,
        draw_limits,
    ),
)
