"""What a page says in words and tables: results, claims, configuration, versions."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import pandas as pd

from gradline.lab.figures import labels
from gradline.lab.findings.claims import Verdict
from gradline.lab.findings.query import SETTINGS
from gradline.lab.jobs.result import Header
from gradline.lab.methods import Method, SearchMethod
from gradline.lab.problems import Network, Problem
from gradline.lab.tools.formatting import count, duration, number, percent, ranges

MARKS = {
    "reproduced": "✓",
    "reproduced as far as run": "✓",
    "partly reproduced": "◐",
    "not reproduced": "✗",
    "not run": "–",
}
"""A verdict's sign, so that it is not told by colour alone."""
_KINDS = {
    "reproduced": "reproduced",
    "reproduced as far as run": "reproduced",
    "partly reproduced": "partly",
    "not reproduced": "failed",
    "not run": "open",
}
_HOLDS = {True: ("✓", "yes"), False: ("✗", "no"), None: ("–", "not run")}


def verdict_rows(verdicts: list[Verdict]) -> list[dict[str, Any]]:
    """The claims, each with its parts."""
    return [
        {
            "number": verdict.number,
            "claim": verdict.claim,
            "verdict": verdict.verdict,
            "mark": MARKS[verdict.word],
            "kind": _KINDS[verdict.word],
            "runs": verdict.runs,
            "parts": [
                {
                    "statement": part.statement,
                    "mark": _HOLDS[part.holds][0],
                    "holds": _HOLDS[part.holds][1],
                    "seen": part.evidence,
                }
                for part in verdict.parts
            ],
        }
        for verdict in verdicts
    ]


class Cell(NamedTuple):
    """A cell of a table: its text, what it is sorted by, and whether it is the best of its setting."""

    text: str
    value: float | str
    best: bool = False


def result_table(summary: pd.DataFrame) -> dict[str, Any]:
    """Medians over seeds: a row for each setting and method, with the best method of a setting marked."""
    summary = distinct(summary)
    shown = varied(summary)
    keys = ["problem", "batch_size", *shown, "method"]
    header = ["Problem", "B", *shown.values(), "Method", "Runs", *(title for title, _ in BEST.values())]
    header += ["Zero train error at", "Evaluations an iteration", "Steps", "Stalled", "Failed"]
    rows = []
    for _, setting in summary.groupby(keys[:-1], observed=True, dropna=False):
        by_method = list(setting.groupby("method", observed=True))
        medians = {name: [float(some[name].median()) for _, some in by_method] for name in BEST}
        for place, (method, some) in enumerate(by_method):
            measured = [
                Cell(show(values[place]), values[place], len(by_method) > 1 and values[place] == min(values))
                for (name, (_, show)), values in zip(BEST.items(), medians.values(), strict=True)
            ]
            rows.append([*_setting(some.iloc[0], shown), Cell(labels.method(str(method)), str(method)),
                         Cell(str(len(some)), len(some)), *measured, *_rest(some)])  # fmt: skip
    return {"header": header, "rows": rows, "words": len(keys)}


def distinct(summary: pd.DataFrame) -> pd.DataFrame:
    """The runs, each once: angles may have been measured beside, or not."""
    return summary.drop_duplicates([name for name in SETTINGS if name != "key"])


def varied(summary: pd.DataFrame) -> dict[str, str]:
    """What else tells settings apart, by its name in a summary, and what it is called."""
    more = {"sampling": "Sampling", "direction_batch_size": "B of direction", "budget": "Budget"}
    within = summary.groupby("problem", observed=True)[list(more)].nunique(dropna=False).max()
    return {name: title for name, title in more.items() if within[name] > 1}


def _percent(value: float) -> str:
    return f"{percent(value)}%"


BEST: dict[str, tuple[str, Callable[[float], str]]] = {
    "final_train_loss": ("Train loss", number),
    "final_train_error": ("Train error", _percent),
    "final_test_error": ("Test error", _percent),
    "best_test_error": ("Lowest test error", _percent),
}
"""Columns of a summary whose lowest median is the best, what they are called and how they are written."""


def _setting(row: Any, shown: Collection[str]) -> list[Cell]:
    problem, direction = str(row["problem"]), row["direction_batch_size"]
    cells = [Cell(labels.problem(problem), problem), Cell(str(row["batch_size"]), int(row["batch_size"]))]
    cells += [Cell(str(row["sampling"]), str(row["sampling"]))] if "sampling" in shown else []
    if "direction_batch_size" in shown:
        cells.append(Cell("same", 0) if pd.isna(direction) else Cell(str(direction), int(direction)))
    cells += [Cell(count(row["budget"]), int(row["budget"]))] if "budget" in shown else []
    return cells


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


def _units(hidden: tuple[int, ...]) -> str:
    if len(hidden) > 3 and len(set(hidden)) == 1:
        return f"{len(hidden)} layers of {hidden[0]}"
    return ", ".join(map(str, hidden)) or "none"


def _network(problem: Network) -> dict[str, str]:
    return {
        "name": problem.name,
        "data": problem.data,
        "hidden": _units(problem.hidden),
        "activation": problem.activation.value,
        "loss": problem.loss.value,
        "scale": f"{problem.scale:.3g}",
        "dtype": problem.dtype,
        "inputs": f"standardised by {'the training' if problem.z_score == 'train' else 'all'} rows",
        "measured": "all samples" if problem.error_samples is None else f"{problem.error_samples:,} samples",
        "model": problem.model or "fully connected",
    }


def _built(problem: Problem) -> dict[str, str]:
    unknown = dict.fromkeys(("hidden", "activation", "loss", "scale", "dtype", "inputs", "measured"), "–")
    return {"name": problem.name, "data": problem.data or "–", "model": problem.described, **unknown}


def _kind(method: Method) -> str:
    """What a method is: its search and direction, or what it is of a package."""
    if not isinstance(method, SearchMethod):
        return method.described
    direction = f" along {method.direction}" if method.direction else ""
    return f"{type(method.search).__name__}{direction}{', averaged' if method.average else ''}"


def _settings(method: Method) -> str:
    if not isinstance(method, SearchMethod):
        return method.package
    fields = dataclasses.fields(method.search)  # type: ignore[arg-type]
    return ", ".join(f"{field.name} = {getattr(method.search, field.name)}" for field in fields)


def configuration(found: list[Header]) -> dict[str, Any]:
    """The problems and methods of the runs in full, what else was chosen, and what computed them."""
    problems = {header.run.problem.name: header.run.problem for header in found}
    methods = {header.run.method.name: header.run.method for header in found}
    runs = [header.run for header in found]

    def different(values: Any) -> str:
        return ", ".join(str(value) for value in sorted(set(values), key=lambda value: (str(type(value)), value)))

    versions = Counter((name, version) for header in found for name, version in header.versions.items())
    return {
        "problems": [
            _network(problem) if isinstance(problem, Network) else _built(problem) for problem in problems.values()
        ],
        "methods": [
            {"name": method.name, "search": _kind(method), "settings": _settings(method) or "none"}
            for method in methods.values()
        ],
        "facts": {
            "Runs": count(len(runs)),
            "Seeds": ranges({run.seed for run in runs}),
            "Batch sizes": different(run.batch_size for run in runs),
            "Evaluations of a run": ", ".join(count(budget) for budget in sorted({run.budget for run in runs})),
            "Sampling": different(run.sampling.value for run in runs),
            "Batches of directions": different(
                "the same" if run.direction_batch_size is None else str(run.direction_batch_size) for run in runs
            ),
            "A sample may be drawn twice for a batch": different("yes" if run.repetition else "no" for run in runs),
            "Variances of slopes": different("as if independent" if run.diagonal else "exact" for run in runs),
            "Losses and errors measured every": ", ".join(
                f"{every} evaluations" for every in sorted({run.record_every for run in runs})
            ),
            "Computed": different(header.engine for header in found),
            "Computing time": duration(sum(header.seconds for header in found)),
        },
        "versions": [
            {"name": name, "version": version, "runs": count(runs_of)}
            for (name, version), runs_of in sorted(versions.items())
        ],
    }
