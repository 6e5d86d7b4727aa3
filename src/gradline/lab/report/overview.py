"""The two charts of a page that show all settings at once: who is best where, and how searches ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from gradline.lab.figures import labels
from gradline.lab.report.charts import line_styles
from gradline.lab.report.tables import distinct, varied
from gradline.lab.tools.formatting import count, number, percent
from gradline.protocol import Stop

MEASURES: dict[str, tuple[str, float, Callable[[float], str]]] = {
    "final_train_loss": ("final training loss", 0.0, number),
    "final_train_error": ("final training error", 1e-4, lambda value: f"{percent(value)}%"),
    "final_test_error": ("final test error", 1e-4, lambda value: f"{percent(value)}%"),
    "final_test_loss": ("final test loss", 0.0, number),
    "zero_error_at": ("evaluations to zero training error", 0.0, count),
}
"""Columns of a summary whose lowest median is the best: their words, what is added to show zero, their format."""


def settings(summary: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """Return the problem, the name in it and the runs of each setting of batch size and what else differs."""
    found = []
    values: Any
    problems = {str(name): runs for name, runs in distinct(summary).groupby("problem", observed=True)}
    for name, runs in sorted(problems.items(), key=lambda pair: labels.order(pair[0], "")):
        problem, shown = labels.problem(name), varied(runs)
        for values, rows in runs.groupby(["batch_size", *shown], observed=True, dropna=False):
            parts = [labels.batch(int(values[0]))]
            for field, value in zip(shown, values[1:], strict=True):
                if field == "direction_batch_size":
                    parts += [] if pd.isna(value) else [f"direction of {value}"]
                elif field in ("diagonal", "repetition"):
                    parts.append(f"{'with' if value else 'without'} {field}")
                else:
                    parts.append(f"{value:,} evaluations" if field == "budget" else str(value))
            found.append((problem, ", ".join(parts), rows))
    return found


def overview(summary: pd.DataFrame) -> dict[str, Any]:
    """Return the median of each method in each setting with its range over seeds, and which is the best."""
    found = settings(summary)
    names = list(dict.fromkeys(str(name) for *_, rows in found for name in rows["method"].unique()))
    names.sort(key=lambda name: labels.order("", name))
    measures = []
    for column, (words, nugget, show) in MEASURES.items():
        cells = [[_cell(rows[rows["method"] == name][column], show) for name in names] for *_, rows in found]
        if any(cell is not None and cell["value"] is not None for line in cells for cell in line):
            best = [_best(line) for line in cells]
            measures.append({"name": column, "words": words, "nugget": nugget, "cells": cells, "best": best})
    return {
        "settings": [f"{problem}, {label}" for problem, label, _ in found],
        "short": [label for _, label, _ in found],
        "problems": [problem for problem, *_ in found],
        "methods": [
            {"label": labels.method(name), **style} for name, style in zip(names, line_styles(names), strict=True)
        ],
        "measures": measures,
    }


def _cell(values: pd.Series[Any], show: Callable[[float], str]) -> dict[str, Any] | None:
    """Return the median over seeds, without a value if fewer than half of the runs have one; `None` without runs."""
    if not len(values):
        return None
    there = values.dropna().astype(float)
    if len(there) * 2 < len(values):
        return {"value": None, "text": "–", "runs": len(values)}
    middle, low, high = (float(part(there)) for part in (np.median, np.min, np.max))
    finite = math.isfinite(middle)
    return {
        "value": middle if finite else None,
        "low": low if math.isfinite(low) else None,
        "high": high if math.isfinite(high) else None,
        "text": show(middle) if finite else "not finite",
        "range": f"{show(low)} to {show(high)}",
        "runs": len(values),
    }


def _best(line: list[dict[str, Any] | None]) -> list[int]:
    """Return the places of the lowest values of a row (several if equal), if at least two methods were run."""
    there = {place: cell["value"] for place, cell in enumerate(line) if cell is not None and cell["value"] is not None}
    if sum(cell is not None for cell in line) < 2 or not there:
        return []
    lowest = min(there.values())
    return [place for place, value in there.items() if value == lowest]


def endings(summary: pd.DataFrame) -> dict[str, Any] | None:
    """Return why searches ended, as shares, and their evaluations; `None` without searches.

    There is a row for each method on all problems, and one for each method in each setting.
    """
    names = [str(name) for name in summary if str(name).startswith("stop.")]
    rows: list[dict[str, Any]] = []
    for problem, label, runs in [("all", "", distinct(summary)), *settings(summary)]:
        for method, some in runs.groupby("method", observed=True):
            total = float(some[names].to_numpy().sum()) if names else 0.0
            if not total or not some["probes_max"].any() or some.get("stop.FIXED", pd.Series([0])).any():
                continue  # no searches, or steps that are fixed
            rows.append(
                {
                    "problem": problem,
                    "label": ", ".join(filter(None, [label, labels.method(str(method))])),
                    "searches": round(total),
                    "shares": [float(some[name].sum()) / total for name in names],
                    "fewest": int(some["probes_min"].min()),
                    "mean": round(float(some["probes_mean"].mean()), 3),
                    "most": int(some["probes_max"].max()),
                    "most_later": int(some["probes_max_later"].max()),
                }
            )
    if not rows:
        return None
    used = [place for place in range(len(names)) if any(row["shares"][place] for row in rows)]
    for row in rows:
        row["shares"] = [round(row["shares"][place], 5) for place in used]
    stops = [names[place].removeprefix("stop.") for place in used]
    meanings = {stop.name: str(stop) for stop in Stop}
    return {
        "stops": [
            {"label": stop.replace("_", " ").lower(), "meaning": meanings.get(stop, stop), **style}
            for stop, style in zip(stops, line_styles(stops), strict=True)
        ],
        "rows": rows,
    }
