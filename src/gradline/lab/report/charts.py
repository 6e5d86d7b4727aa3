"""Which charts a page has and what is in them. The numbers of a run are packed once, whichever charts show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradline.lab.figures import FIGURES, Entry, labels
from gradline.lab.figures.catalogue import BATCH, METHOD, PROBLEM, Key, labels_by
from gradline.lab.figures.curves import MEASURES, Curves, Measure, MissingRuns, setting_of
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
    """Return charts of the figures of curves, data of the other figures, and why figures without runs are left out."""
    charts, others, left_out = [], {}, []
    for name, figure in FIGURES.items():
        if not figure.needs or figure.compares:
            continue
        try:
            found = figure.data(list(runs))
        except MissingRuns as reason:
            left_out.append(str(reason))
            continue
        if isinstance(found, Curves):
            charts.append(_chart(name, figure, found, runs))
        else:
            others[name] = found
    return charts, others, left_out


def _chart(name: str, figure: Entry, found: Curves, runs: Sequence[Trace]) -> Chart:
    settings = {setting_of(curve) for curve in found.curves}
    angled = "angle" in found.values_of("measure")
    budgets = {
        curve.problem: int(curve.x[-1]) for curve in found.curves if MEASURES[curve.measure].against == "evaluations"
    }
    chosen = [
        (number, run)
        for number, run in enumerate(runs)
        if setting_of(run) in settings and run.angled == angled and run.budget == budgets.get(run.problem)
    ]
    first = list(figure.measures) or [MEASURES[measure] for measure in found.values_of("measure")]
    made = _made(name, figure.heading, f"{figure.about or figure.caption}.", chosen, figure.keys, first)
    return made | {"paper": figure.paper, "notes": found.notes(), "looks": LOOKS if figure.means else LOOKS[::-1]}


def remaining(runs: Sequence[Trace], made: Sequence[Chart], *, directions: bool) -> list[Chart]:
    """Return a chart of the runs that no other chart shows, in a list; an empty list if there are none.

    `directions` says whether runs whose directions had batches of their own are shown elsewhere.
    """
    shown = {number for chart in made for number, *_ in chart["runs"]}
    shown |= {number for number, run in enumerate(runs) if directions and run.direction_batch_size is not None}
    rest = [(number, run) for number, run in enumerate(runs) if number not in shown]
    if not rest:
        return []
    samplings = len({run.sampling for _, run in rest}) > 1
    budgets = len({run.budget for _, run in rest}) > 1

    def line(run: Trace) -> str:
        parts = [METHOD.of(run)]
        parts += [run.sampling] if samplings else []
        parts += [] if run.direction_batch_size is None else [f"direction of {run.direction_batch_size}"]
        parts += [f"{run.budget:,} evaluations"] if budgets else []
        return ", ".join(parts)

    words = ("Other runs", "Runs that none of the figures above shows.")
    if not made:
        words = ("All runs", "Every run in the directory.")
    return [_made("other_runs", *words, rest, (PROBLEM, BATCH, Key("Method", line)), [])]


def _made(
    name: str,
    title: str,
    caption: str,
    runs: Sequence[tuple[int, Trace]],
    keys: tuple[Key, Key, Key],
    first: Sequence[Measure],
) -> Chart:
    runs = sorted(runs, key=lambda pair: _order(pair[1]))
    facets, panels, lines = (labels_by(key, [run for _, run in runs]) for key in keys)
    measured = [name for name in MEASURES if any(np.isfinite(run.columns[name]).any() for _, run in runs)]
    shown = [measure for measure in first if measure.name in measured]
    shown += [MEASURES[name] for name in measured if name not in {measure.name for measure in shown}]
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
        "measures": [{**measure._asdict(), "against": measure.against} for measure in shown],
        "runs": [
            (number, facets.index(keys[0].of(run)), panels.index(keys[1].of(run)), lines.index(keys[2].of(run)))
            for number, run in runs
        ],
        "paper": "",
        "notes": [],
        "looks": LOOKS,
    }


def _order(run: Trace) -> tuple[Any, ...]:
    return (
        *labels.order(run.problem, run.method),
        *setting_of(run)[2:4],
        run.direction_batch_size or 0,
        run.budget,
        run.seed,
    )


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
