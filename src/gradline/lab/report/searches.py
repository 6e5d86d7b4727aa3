"""Single searches of a page: the first ones of one run of each setting, probe by probe, made anew.

A run that cannot be made here (its data are not on this machine, or its problem is not known any more) is left out, and
why is said.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gradline.lab.engines.recorder import watch
from gradline.lab.figures import labels
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import SearchMethod
from gradline.lab.tools.packing import plain_number
from gradline.protocol import Record, Value

SEARCHES = 12
"""Number of searches shown of each run."""
PROBES = 60
"""Largest number of probes shown of one search."""


def searches(runs: Sequence[Run]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the first searches of the run with the lowest seed of each setting, and what was left out and why."""
    first: dict[tuple[Any, ...], Run] = {}
    for run in sorted(runs, key=_order):
        if isinstance(run.method, SearchMethod) and not run.benchmark:
            key = (run.problem.name, run.method.name, run.batch_size, run.sampling, run.direction_batch_size)
            first.setdefault(key, run)
    found, left_out = [], {}
    for run in first.values():
        if run.problem.name in left_out:
            continue
        try:
            found.append(_run(run))
        except Exception as error:  # whatever a problem of one's own may raise; the page does without
            left_out[run.problem.name] = f"searches of {run.problem.name} are not shown: {error}"
    return found, list(left_out.values())


def _order(run: Run) -> tuple[Any, ...]:
    return (*labels.order(run.problem.name, run.method.name), run.batch_size, run.seed)


def _run(run: Run) -> dict[str, Any]:
    shown = replace(run, record_every=10**9, angle=False)
    records = itertools.islice(watch(shown), SEARCHES)
    extra = [run.sampling.value] if run.sampling.value != "dynamic" else []
    extra += [f"direction of {run.direction_batch_size}"] if run.direction_batch_size is not None else []
    return {
        "problem": labels.problem(run.problem.name),
        "method": ", ".join([labels.method(run.method.name), *extra]),
        "batch": labels.batch(run.batch_size),
        "seed": run.seed,
        "searches": [_search(record) for record in records],
    }


def _search(record: Record[Any, Any]) -> dict[str, Any]:
    """Return the start and the probes of a search: step, slope, and value if it was observed."""
    observed = [(0.0, record.origin.at_zero), *record.transcript[:PROBES]]
    return {
        "probes": [
            [step, plain_number(seen.slope, 6), plain_number(seen.value, 6) if isinstance(seen, Value) else None]
            for step, seen in observed
        ],
        "accepted": None if record.outcome.probe is None else record.outcome.probe + 1,
        "step": record.step,
        "count": record.evaluations,
        "stop": str(record.stop),
    }
