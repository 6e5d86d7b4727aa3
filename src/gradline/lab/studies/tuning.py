"""Choose among candidates by the validation loss at the end of their runs on the tuning seed, in each setting."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping

import numpy as np

from gradline.lab.jobs.result import Result, Status
from gradline.lab.jobs.store import Store
from gradline.lab.methods import Method
from gradline.lab.studies.study import Setting, Study, Tuned, plan


def choices(
    directory: str | os.PathLike[str], study: Study, known: Mapping[str, float] | None = None
) -> Callable[[Setting, Tuned], Method | None]:
    """Return a function that chooses a candidate for a setting, by the results that are in a directory.

    Args:
        directory: where the study's runs are.
        study: which candidates there are.
        known: last validation losses of runs that are elsewhere, by key.
    """
    store = Store(directory)
    found: dict[tuple[str, int, int, str], float] = {}
    everyone = tuple(Tuned(name, candidates + others) for name, candidates, others in study.tuned)
    for run in plan(dataclasses.replace(study, methods=(), tuned=everyone)):
        loss = final_loss(store.load(run.key)) if store.has(run) else (known or {}).get(run.key)
        if loss is not None:
            found[run.problem.name, run.batch_size, run.budget, run.method.name] = loss

    def choose(setting: Setting, tuned: Tuned) -> Method | None:
        losses = {
            method.name: found[place]
            for method in tuned.candidates + tuned.others
            if (place := (setting.problem.name, setting.batch_size, setting.budget, method.name)) in found
        }
        name = lowest(losses)
        return next((method for method in tuned.candidates + tuned.others if method.name == name), None)

    return choose


def lowest(losses: Mapping[str, float]) -> str | None:
    """Return the name with the lowest loss, the first of equal ones; `None` if there is none or all are infinite."""
    finite = {name: loss for name, loss in losses.items() if math.isfinite(loss)}
    return min(finite, key=lambda name: finite[name], default=None)


def final_loss(result: Result) -> float:
    """Return the last validation loss within the budget; infinite if the run did not reach its end or if it is NaN."""
    if result.status is not Status.DONE:
        return math.inf
    losses = result.columns["validation_loss"]
    counted = losses[(result.columns["evaluations"] <= result.run.budget) & ~np.isnan(losses)]
    return float(counted[-1]) if len(counted) else math.inf
