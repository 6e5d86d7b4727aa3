"""What a page says in words: signs of claims, configuration, versions of packages."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gradline.lab.jobs.result import Header
from gradline.lab.methods import Method, SearchMethod
from gradline.lab.problems import Network, Problem
from gradline.lab.tools.formatting import count, duration, ranges

SIGNS = {
    "reproduced": ("✓", "reproduced"),
    "reproduced as far as run": ("✓", "reproduced"),
    "partly reproduced": ("◐", "partly"),
    "not reproduced": ("✗", "failed"),
    "not run": ("–", "open"),
}
"""A verdict's sign, so that it is not told by colour alone, and its class in the style sheet."""
HOLDS = {True: ("✓", "yes"), False: ("✗", "no"), None: ("–", "not run")}
"""The sign of a part of a claim, and what it means."""


def _facts(problem: Problem) -> dict[str, str]:
    """Return what is known of a problem, by the headers of the table of problems."""
    if not isinstance(problem, Network):
        unknown = ("Hidden units", "Activation", "Loss", "Scale of start", "Precision", "Inputs", "Measured on")
        return {"Data": problem.data or "–", "Network": problem.described, **dict.fromkeys(unknown, "–")}
    return {
        "Data": problem.data,
        "Network": problem.model or "fully connected",
        "Hidden units": problem.units,
        "Activation": problem.activation.value,
        "Loss": problem.loss.value,
        "Scale of start": f"{problem.scale:.3g}",
        "Precision": problem.dtype,
        "Inputs": f"standardised by {'the training' if problem.z_score == 'train' else 'all'} rows",
        "Measured on": "all samples" if problem.error_samples is None else f"{problem.error_samples:,} samples",
    }


def _settings(method: Method) -> str:
    if not isinstance(method, SearchMethod):
        return method.package
    fields = dataclasses.fields(method.search)  # type: ignore[arg-type]
    return ", ".join(f"{field.name} = {getattr(method.search, field.name)}" for field in fields)


def configuration(found: Sequence[Header]) -> dict[str, Any]:
    """Return problems, methods and other settings of the runs, and the versions of packages that computed them."""
    problems = {header.run.problem.name: header.run.problem for header in found}
    methods = {header.run.method.name: header.run.method for header in found}
    runs = [header.run for header in found]

    def different(values: Any) -> str:
        return ", ".join(str(value) for value in sorted(set(values), key=lambda value: (str(type(value)), value)))

    versions = Counter((name, version) for header in found for name, version in header.versions.items())
    return {
        "problems": [(name, _facts(problem)) for name, problem in problems.items()],
        "methods": [
            {"name": method.name, "search": method.described, "settings": _settings(method) or "none"}
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
