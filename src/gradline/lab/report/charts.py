"""Which charts a page has and what is in them. The numbers of a run are packed once, whichever charts show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradline.lab.figures import FIGURES, labels
from gradline.lab.figures.catalogue import BATCH, METHOD, PROBLEM, Key, labels_by
from gradline.lab.figures.curves import MEASURES, FigureRuns, Measure, MissingRuns
from gradline.lab.figures.line_styles import numbers as numbers_of
from gradline.lab.findings.traces import LOGARITHMS, Trace
from gradline.plot.inks import DARK, DASHES, LIGHT, MARKERS, stroke

FIELDS = ("iterations", "train_error", "train_loss", "test_error", "test_loss", "step", "angle")
"""Numbers of each run on the page, for every point of its grid; angles in degrees."""

LOOKS = ("mean and deviation", "all runs")


def line_styles(methods: Sequence[str]) -> list[dict[str, str]]:
    """Return how the lines of methods look, on a light and on a dark page: never by their colour alone."""
    known, found = numbers_of(methods), []
    for name in methods:
        light, dark = stroke(known[name], LIGHT), stroke(known[name], DARK)
        dash, symbol = dict(DASHES)[light.linestyle], dict(MARKERS)[light.marker]
        found.append({"light": light.color, "dark": dark.color, "dash": dash, "symbol": symbol})
    return found


Chart: TypeAlias = dict[str, Any]
"""A chart of curves: which runs it can show, and how they are told apart.

Each run has a facet and a panel (one of them is shown, or all side by side) and a line: `runs` has the number, facet,
panel and line of each. `paper` is what the paper says, `notes` what is missing of the whole study, and the first of
`looks` is what is shown at first.
"""


def figure_charts(runs: Sequence[Trace]) -> tuple[list[Chart], dict[str, Any], list[str]]:
    """Return charts of the figures of curves, data of the other figures, and why figures without runs are left out.

    The last chart is of the runs that no other figure shows, if there are any.
    """
    places = {id(run): place for place, run in enumerate(runs)}
    charts: list[Chart] = []
    others, left_out = {}, []
    for name, figure in FIGURES.items():
        if not figure.needs or figure.compares:
            continue
        try:
            found = figure.data(list(runs))
        except MissingRuns as reason:
            left_out.append(f"{figure.label} is left out: {reason}")
            continue
        if isinstance(found, FigureRuns):
            words = (figure.heading, f"{figure.about or figure.caption}.")
            chart = _chart(name, *words, found.runs, figure.keys, places, figure.measures)
            looks = LOOKS if figure.means else LOOKS[::-1]
            charts.append(chart | {"paper": figure.paper, "notes": found.notes(), "looks": looks})
        else:
            others[name] = found
    shown = {number for chart in charts for number, *_ in chart["runs"]}
    if "study_direction_vs_step" in others:
        shown |= {place for place, run in enumerate(runs) if run.direction_batch_size is not None}
    if rest := [run for place, run in enumerate(runs) if place not in shown]:
        words = ("Other runs", "Runs that none of the figures above shows.")
        if not charts:
            words = ("All runs", "Every run in the directory.")
        charts.append(_chart("other_runs", *words, rest, (PROBLEM, BATCH, _line_of(rest)), places))
    return charts, others, left_out


def _line_of(runs: Sequence[Trace]) -> Key:
    """Return a key that tells all these runs of a problem and batch size apart."""
    samplings, budgets = ({getattr(run, name) for run in runs} for name in ("sampling", "budget"))

    def line(run: Trace) -> str:
        parts = [METHOD.of(run)]
        parts += [run.sampling] if len(samplings) > 1 else []
        parts += [] if run.direction_batch_size is None else [f"direction of {run.direction_batch_size}"]
        parts += [f"{run.budget:,} evaluations"] if len(budgets) > 1 else []
        return ", ".join(parts)

    return Key("Method", line)


def _chart(
    name: str,
    title: str,
    caption: str,
    runs: Sequence[Trace],
    keys: tuple[Key, Key, Key],
    places: Mapping[int, int],
    first: Sequence[Measure] = (),
) -> Chart:
    runs = sorted(runs, key=_order)
    facets, panels, lines = found = [labels_by(key, runs) for key in keys]
    measured = [name for name in MEASURES if any(np.isfinite(run.columns[name]).any() for run in runs)]
    shown = {measure.name: measure for measure in first if measure.name in measured}
    shown |= {name: MEASURES[name] for name in measured if name not in shown}
    return {
        "id": name,
        "title": title,
        "caption": caption,
        "facet_name": keys[0].title,
        "facets": facets,
        "panel_name": keys[1].title,
        "panels": panels,
        "line_name": keys[2].title,
        "lines": [{"label": label, **style} for label, style in zip(lines, line_styles(lines), strict=True)],
        "measures": [{**measure._asdict(), "against": measure.against} for measure in shown.values()],
        "runs": [
            (places[id(run)], *(names.index(key.of(run)) for names, key in zip(found, keys, strict=True)))
            for run in runs
        ],
        "paper": "",
        "notes": [],
        "looks": LOOKS,
    }


def _order(run: Trace) -> tuple[Any, ...]:
    names = labels.order(run.problem, run.method)
    return *names, run.batch_size, run.sampling, run.direction_batch_size or 0, run.budget, run.seed


def run_table(runs: Sequence[Trace]) -> list[dict[str, Any]]:
    """Return the settings and the number of points of each run, in the order of `numbers`."""
    names = ("problem", "method", "batch_size", "seed", "sampling", "direction_batch_size", "budget")
    return [{name: getattr(run, name) for name in names} | {"points": len(run.grid)} for run in runs]


def numbers(runs: Sequence[Trace]) -> NDArray[np.float64]:
    """Return the numbers of all runs, field by field: similar numbers together compress well."""
    columns = {field: np.concatenate([run.on_grid(field) for run in runs]) for field in FIELDS}
    with np.errstate(divide="ignore", invalid="ignore"):
        columns |= {field: np.log10(columns[field]) for field in LOGARITHMS}
    columns["angle"] = np.degrees(columns["angle"])
    return np.concatenate([*(run.grid for run in runs), *columns.values()])
