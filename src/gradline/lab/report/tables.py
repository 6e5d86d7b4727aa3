"""The tables that the terminal, the report page and the documentation share: a header and rows of text."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from gradline.lab.figures import labels
from gradline.lab.findings.comparison import Comparison
from gradline.lab.findings.query import SETTINGS
from gradline.lab.findings.training import TrainingCases
from gradline.lab.tools.formatting import count, number, percent, plural


class Cell(NamedTuple):
    """A cell of a table: its text, the value it is sorted by, and whether it is the best of its setting."""

    text: str
    value: float | str
    best: bool = False


class Table(NamedTuple):
    """A table: its header, its rows, and how many columns at its left are words."""

    header: list[str]
    rows: list[list[Cell]]
    words: int = 1


def times(value: float) -> str:
    """Format a ratio, with its sign."""
    digits = 2 if value < 1.995 else 1 if value < 9.95 else 0
    return "-" if math.isnan(value) else f"{value:.{digits}f}×"


def text_table(header: list[str], rows: list[list[str]]) -> Table:
    """Return a table of texts, which are sorted by themselves."""
    return Table(header, [[Cell(text, text) for text in row] for row in rows])


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]], words: Container[int] = (0,)) -> str:
    """Return a table in Markdown; columns that are not words are aligned to the right."""
    marks = ["---" if place in words else "---:" for place in range(len(header))]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in (header, marks, *rows))


def scores_table(comparison: Comparison, settings: Sequence[str] | None = None) -> Table:
    """Return the methods of a comparison over some settings (`None`: all), the best score first."""
    header = ["method", "loss over the best's", "first at the target", "within 2×", "within 10×", "reached"]
    rows = []
    for score in comparison.scores(settings):
        shares = (score.best, score.near, score.far, score.reached, score.always)
        rows.append([score.method, times(score.behind), *(f"{share:.0%}" for share in shares)])
    return text_table([*header, "by all seeds"], rows)


def versus_table(training: TrainingCases) -> Table:
    """Return how each method compares with the best tuned one over all cases, the lowest loss first."""
    header = ["method", "validation loss", "95% interval", "median", "as good in", "test loss", "lower in"]
    found = {name: one for name in training.methods if (one := training.versus(name)) is not None}
    rows = [
        [
            name,
            f"{one.ratio:.3f}×",
            f"{one.low:.2f} to {one.high:.2f}",
            f"{one.middle:.3f}×",
            f"{one.close} of {plural(one.cases, 'case')}",
            f"{one.test:.3f}×",
            f"{one.better} of {plural(one.pairs, 'run')}",
            f"{one.always_worse} of {plural(one.cases, 'case')}",
            str(sum(len(case.entries[name].failures) for case in training.cases if name in case.entries)),
        ]
        for name, one in sorted(found.items(), key=lambda pair: pair[1].ratio)
    ]
    return text_table([*header, "higher in all seeds", "failed runs"], rows)


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{percent(value)}%"


BEST: dict[str, tuple[str, Callable[[float], str]]] = {
    "final_train_loss": ("train loss", number),
    "final_train_error": ("train error", _percent),
    "final_test_error": ("test error", _percent),
    "best_test_error": ("lowest test error", _percent),
}
"""Columns of a summary whose lowest median is the best: their headers and formats."""
VARIED = ("sampling", "direction_batch_size", "budget", "loss", "diagonal", "repetition")
"""Columns of a summary by which the settings of a problem may differ, beside its batch size."""


def distinct(summary: pd.DataFrame) -> pd.DataFrame:
    """Return each run once: two studies may have made it, one of them with angles beside it."""
    return summary.drop_duplicates([name for name in SETTINGS if name != "key"])


def varied(summary: pd.DataFrame) -> list[str]:
    """Return the columns of `VARIED` in which settings of one problem differ."""
    within = summary.groupby("problem", observed=True)[list(VARIED)].nunique(dropna=False).max()
    return [name for name in VARIED if within[name] > 1]


def results_table(summary: pd.DataFrame, *, each: bool = False) -> Table:
    """Return medians over seeds, a row for each setting and method, with the best method of a setting marked.

    `summary` is the table of `gradline.lab.summary`; with `each` there is a row for each run instead.
    """
    if not each:
        summary = distinct(summary)
    shown = varied(summary)
    varying = ["B of direction" if name == "direction_batch_size" else name for name in shown]
    header = ["problem", "B", *varying, "method", "seed" if each else "runs"]
    words = len(header) - 1
    header += [title for title, _ in BEST.values()]
    header += ["zero train error at", "evaluations an iteration", "steps", "stalled", "failed"]
    rows = []
    for _, setting in summary.groupby(["problem", "batch_size", *shown], observed=True, dropna=False):
        lines = [some for _, some in setting.groupby(["method", "key"] if each else ["method"], observed=True)]
        medians = {name: [float(some[name].median()) for some in lines] for name in BEST}
        compared = setting["method"].nunique() > 1 and not each
        for place, some in enumerate(lines):
            first = some.iloc[0]
            rows.append(
                [
                    Cell(labels.problem(str(first["problem"])), str(first["problem"])),
                    *(_word(first[name]) for name in ("batch_size", *shown)),
                    Cell(labels.method(str(first["method"])), str(first["method"])),
                    _word(first["seed"] if each else len(some)),
                    *(
                        Cell(show(values[place]), values[place], compared and values[place] == min(values))
                        for (_, show), values in zip(BEST.values(), medians.values(), strict=True)
                    ),
                    *_rest(some),
                ]
            )
    return Table(header, rows, words)


def _word(value: Any) -> Cell:
    """Return a cell for the value of a setting; only a batch size of directions can be missing."""
    if pd.isna(value):
        return Cell("same", 0)
    if isinstance(value, str | bool):
        return Cell(str(value), str(value))
    return Cell(count(value), int(value))


def _rest(rows: pd.DataFrame) -> list[Cell]:
    zeros, none = rows["zero_error_at"].dropna(), Cell("–", math.inf)
    mean, most = float(rows["probes_mean"].mean()), int(rows["probes_max"].max())
    low, high = float(rows["step_min"].min()), float(rows["step_max"].max())
    stalled, failed = int(rows["stalled"].sum()), int((rows["status"] != "done").sum())
    reached = len(zeros) * 2 >= len(rows)
    return [
        Cell(count(float(zeros.median())), float(zeros.median())) if reached else none,
        Cell(f"{mean:.2f} (up to {most})", mean) if most else none,
        none if low != low else Cell(f"{number(low)} to {number(high)}", high),
        Cell(str(stalled) if stalled else "–", stalled),
        Cell(str(failed) if failed else "–", failed),
    ]
