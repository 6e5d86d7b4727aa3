"""Three figures of the study `train`: how good Angle is without tuning, what compute it saves, and where it fails.

Each has a function that computes its numbers from the runs, and one that draws them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradline.lab.figures import style
from gradline.lab.figures.catalogue import Entry
from gradline.lab.figures.curves import cases_of_training, missing
from gradline.lab.figures.labels import plain
from gradline.lab.figures.line_styles import styles
from gradline.lab.findings.cases import OURS, Case, Spread
from gradline.lab.findings.comparison import OWN
from gradline.lab.findings.reading import Source
from gradline.lab.findings.training import CLOSE, UNTOUCHED, TrainingCases
from gradline.plot.inks import LIGHT, Inks

SHOWN = (OURS, UNTOUCHED, "schedule-free", "prodigy")
"""Methods without tuning that the first figure shows, as far as there are runs of them."""
WIDEST = (0.5, 4.0)
"""Range of the axis; ratios beyond it are drawn at its ends."""
TICKS = (0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0)


class CaseRow(NamedTuple):
    """A case in a figure of ratios of losses: those of methods, and what is written at its right end."""

    case: Case
    ratios: dict[str, Spread]
    note: str


class Spent(NamedTuple):
    """Evaluations of a case until the target is reached, tuning included."""

    case: Case
    ours: float
    """Evaluations of one run without tuning: to the target, or of the whole run if it did not reach it."""
    reached: bool
    tuned: float
    """Evaluations of all candidates on the tuning seed, and of the chosen one to the target."""
    candidates: int


def quality_data(training: TrainingCases) -> list[CaseRow]:
    """Return validation losses without tuning over those with tuning, for each case with a tuned method."""
    rows = []
    for case in training.ordered:
        if (tuned := case.tuned) is not None:
            ratios = {name: case.ratio(name, tuned.method) for name in SHOWN if name in case.entries}
            rows.append(CaseRow(case, ratios, tuned.chosen or ""))
    return rows


def compute_data(training: TrainingCases) -> list[Spent]:
    """Return evaluations to a validation loss as good as the tuned method's, for each case that has one."""
    found = []
    for case in training.ordered:
        tuned, ours = case.tuned, case.entries.get(OURS)
        if tuned is None or ours is None or not math.isfinite(tuned.validation_loss.median):
            continue
        needed, own = (entry.evaluations_to(CLOSE * tuned.validation_loss.median) for entry in (ours, tuned))
        reached = math.isfinite(needed)
        spent = tuned.tuning_evaluations + (own if math.isfinite(own) else tuned.evaluations)
        found.append(Spent(case, needed if reached else ours.evaluations, reached, spent, len(tuned.candidates)))
    return found


def limits_data(training: TrainingCases) -> list[CaseRow]:
    """Return our validation loss over that of the best other method without tuning, the worst case first."""
    rows = []
    for case in training.cases:
        others = case.untuned()
        if OURS in case.entries and others:
            rows.append(CaseRow(case, {OURS: case.ratio(OURS, others[0].method)}, others[0].method))
    return sorted(rows, key=lambda row: -row.ratios[OURS].median)


def draw_quality(data: Sequence[CaseRow], inks: Inks = LIGHT) -> style.Figure:
    """Draw a row for each case and a mark for each method: left of 1 if it ends lower than the tuned one."""
    with style.settings(inks):
        figure, axis = _rows([row.case for row in data], [row.note for row in data], inks)
        known = styles(list(dict.fromkeys(name for row in data for name in row.ratios)), inks)
        for name, look in known.items():
            there = [(place + 0.5, _within(row.ratios[name])) for place, row in enumerate(data) if name in row.ratios]
            if name in OWN:
                for y, ratio in there:
                    axis.plot(ratio[1:], [y, y], color=look.color, linewidth=2.4, alpha=0.35, zorder=2.5)
            options: dict[str, Any] = {"color": look.color, "zorder": look.above, "label": plain(name)}
            x, heights = [ratio.median for _, ratio in there], [y for y, _ in there]
            axis.plot(x, heights, look.marker or "o", markersize=6 if name in OWN else 4.5, **options)
        _ratio_axis(axis, inks)
        axis.set_xlabel("validation loss over that of the best tuned baseline (left of 1: lower without tuning)")
        style.legend(figure, [axis], columns=4)
    return figure


def draw_compute(data: Sequence[Spent], inks: Inks = LIGHT) -> style.Figure:
    """Draw a row for each case: evaluations with and without tuning, and a line between them."""
    with style.settings(inks):
        notes = [f"{spent.tuned / spent.ours:.0f}×" if spent.reached else "not reached" for spent in data]
        figure, axis = _rows([spent.case for spent in data], notes, inks)
        ours = styles([OURS], inks)[OURS].color
        y = np.arange(len(data)) + 0.5
        mine, tuned = (np.array([getattr(spent, name) for spent in data]) for name in ("ours", "tuned"))
        reached = np.array([spent.reached for spent in data])
        axis.hlines(y, mine, tuned, color=inks.faint, linewidth=1.0, zorder=1.0)
        circle: dict[str, Any] = {"marker": "o", "linestyle": "", "ms": 6, "color": ours}
        axis.plot(mine[reached], y[reached], **circle, label=f"{OURS}, one run")
        not_reached = f"{OURS}, target not reached: whole run"
        axis.plot(mine[~reached], y[~reached], **circle, mfc="none", label=not_reached)
        axis.plot(tuned, y, "D", color=inks.text, ms=4.5, label="tuned: all candidates, and its run")
        style.legend(figure, [axis], columns=3)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.xaxis.set_minor_formatter("")
        axis.grid(axis="x", color=inks.faint, linewidth=0.4, alpha=0.6)
        axis.set_xlabel(f"evaluations to {CLOSE - 1:.0%} above the tuned method's final validation loss")
    return figure


def draw_limits(data: Sequence[CaseRow], inks: Inks = LIGHT) -> style.Figure:
    """Draw a bar for each case from 1 to the ratio; to the right of 1 the other method is better."""
    with style.settings(inks):
        figure, axis = _rows([row.case for row in data], [row.note for row in data], inks, parts=False)
        ours = styles([OURS], inks)[OURS].color
        for place, row in enumerate(data):
            ratio, y = _within(row.ratios[OURS]), place + 0.5
            worse = row.ratios[OURS].median > CLOSE
            color = inks.orange if worse else ours
            axis.plot([1.0, ratio.median], [y, y], color=color, linewidth=5.0, alpha=0.55, solid_capstyle="butt")
            axis.plot(ratio[1:], [y, y], color=color, linewidth=1.2)
            axis.plot(ratio.median, y, "X" if worse else "o", color=color, markersize=5)
        _ratio_axis(axis, inks)
        axis.set_xlabel(
            f"validation loss of {OURS} over that of the best other method without tuning (named at the right)"
        )
    return figure


def _within(ratio: Spread) -> Spread:
    return Spread(*(min(max(value, WIDEST[0]), WIDEST[1]) for value in ratio))


def _rows(
    cases: Sequence[Case], notes: Sequence[str], inks: Inks, *, parts: bool = True
) -> tuple[style.Figure, style.Axes]:
    """Return a figure and its axes, with a row for each case: its name at the left, a note at the right."""
    figure, axes = style.panels(1, 1, height=1.3 + 0.21 * max(len(cases), 4), width=8.4)
    axis: style.Axes = axes[0, 0]
    axis.set_ylim(len(cases), 0)
    words = [plain(case.name) + ("" if parts or not case.setting.held_out else " (held out)") for case in cases]
    axis.set_yticks(np.arange(len(cases)) + 0.5, words, fontsize=7)
    axis.tick_params(axis="y", length=0)
    text: dict[str, Any] = {"xycoords": axis.get_yaxis_transform(), "fontsize": 6.5, "color": inks.text}
    for place, (case, note) in enumerate(zip(cases, notes, strict=True)):
        axis.annotate(plain(note), (1.01, place + 0.5), va="center", annotation_clip=False, **text)
        if place % 2:
            axis.axhspan(place, place + 1, color=inks.faint, alpha=0.12, linewidth=0, zorder=0.0)
        held_out = case.setting.held_out
        if parts and (place == 0 or held_out != cases[place - 1].setting.held_out):
            if place:
                axis.axhline(place, color=inks.text, linewidth=0.8)
            name = "held-out problems" if held_out else "problems for tuning"
            axis.annotate(name, (0.006, place + 0.08), va="top", **text)
    return figure, axis


def _ratio_axis(axis: style.Axes, inks: Inks) -> None:
    axis.set_xscale("log")
    axis.set_xlim(WIDEST[0] * 0.97, WIDEST[1] * 1.03)
    axis.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axis.minorticks_off()
    axis.axvline(1.0, color=inks.text, linewidth=0.8, zorder=1.0)
    axis.grid(axis="x", color=inks.faint, linewidth=0.4, alpha=0.6)


def _entry(
    name: str, title: str, caption: str, rows: Callable[[TrainingCases], Any], draw: Callable[..., style.Figure]
) -> Entry:
    def data(source: Source) -> Any:
        found = rows(cases_of_training(source))
        if not found:
            raise missing("train")
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
