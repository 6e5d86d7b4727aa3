"""What a page says in words and tables: results, claims, configuration, versions."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from typing import Any

import pandas as pd

from gradline.lab.figures import words
from gradline.lab.findings.claims import Verdict
from gradline.lab.findings.query import SETTINGS
from gradline.lab.jobs.store import Header, Store
from gradline.lab.methods import Method, SearchMethod
from gradline.lab.problems import Network, Problem
from gradline.lab.tools.files import Report
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
                    "seen": part.seen,
                }
                for part in verdict.parts
            ],
        }
        for verdict in verdicts
    ]


def result_tables(summary: pd.DataFrame) -> list[dict[str, Any]]:
    """A table for each problem: medians over seeds, a row for each setting."""
    summary = summary.drop_duplicates([name for name in SETTINGS if name != "key"])  # angles measured beside, or not
    more = {"sampling": "Sampling", "direction_batch_size": "B of direction", "budget": "Budget"}
    shown = {name: title for name, title in more.items() if summary[name].nunique(dropna=False) > 1}
    keys = ["batch_size", "method", *shown]
    tables = []
    for problem, rows in summary.groupby("problem", observed=True):
        lines = [_line(values, some, keys) for values, some in rows.groupby(keys, observed=True, dropna=False)]
        name = str(problem)
        tables.append({"problem": name, "title": words.problem(name), "rows": lines})
    header = ["B", "Method", *shown.values(), "Runs", "Train loss", "Train error", "Test error", "Lowest test error"]
    header += ["Zero train error at", "Evaluations an iteration", "Steps", "Stalled"]
    return [{**table, "header": header, "words": 1 + len(shown)} for table in tables]


def _line(values: Any, rows: pd.DataFrame, keys: list[str]) -> list[str]:
    settings = dict(zip(keys, values, strict=True))
    zeros = rows["zero_error_at"].dropna()
    direction = settings.get("direction_batch_size")
    cells = [str(settings["batch_size"]), words.method(str(settings["method"]))]
    cells += [str(settings["sampling"])] if "sampling" in settings else []
    cells += ["same" if pd.isna(direction) else str(direction)] if "direction_batch_size" in settings else []
    cells += [count(settings["budget"])] if "budget" in settings else []
    return [
        *cells,
        str(len(rows)),
        number(float(rows["final_train_loss"].median())),
        f"{percent(float(rows['final_train_error'].median()))}%",
        f"{percent(float(rows['final_test_error'].median()))}%",
        f"{percent(float(rows['best_test_error'].median()))}%",
        count(float(zeros.median())) if len(zeros) * 2 >= len(rows) else "–",
        f"{rows['probes_mean'].mean():.2f} (up to {int(rows['probes_max'].max())})"
        if rows["probes_max"].any()
        else "–",
        _range(float(rows["step_min"].min()), float(rows["step_max"].max())),
        str(int(rows["stalled"].sum())) if rows["stalled"].any() else "–",
    ]


def _range(low: float, high: float) -> str:
    return "–" if low != low else f"{number(low)} to {number(high)}"


def _units(hidden: tuple[int, ...]) -> str:
    if len(hidden) > 3 and len(set(hidden)) == 1:
        return f"{len(hidden)} layers of {hidden[0]}"
    return ", ".join(map(str, hidden)) or "none"


def headers(directory: str | os.PathLike[str], report: Report | None) -> list[Header]:
    """What the files say of themselves."""
    return [header for _, header in Store(directory, report=report).headers()]


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
