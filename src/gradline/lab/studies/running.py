"""Run a study: plan it, and compute its runs with the engines of `gradline.lab.engines`.

Among candidates one is chosen by the validation loss at the end of their runs on the tuning seed, in each setting.
"""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Callable, Hashable, Mapping

import numpy as np

from gradline.lab import engines
from gradline.lab.jobs.progress import Follower, Observer
from gradline.lab.jobs.result import MakeEngine, Result, Status
from gradline.lab.jobs.runner import Summary, run_all
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.methods import Method
from gradline.lab.studies import Setting, Study, Tuned, load, plan, plan_tuned, validate
from gradline.lab.studies.study import runs_of


def run_study(
    study: Study | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    backend: str = "processes",
    checkpoint_every: float = 30.0,
    threads: int = 1,
    observer: Observer | None = None,
    follower: Follower | None = None,
    known: Mapping[str, float] | None = None,
    make_engine: MakeEngine | None = None,
    key: Callable[[Run], Hashable] | None = None,
) -> Summary:
    """Compute those runs of a study that are not stored in a directory yet.

    Where a study tunes methods, its runs on the tuning seed are made first, with those of all other methods; the runs
    of the chosen ones follow.

    In a script, call it under `if __name__ == "__main__":`, as the worker processes import the script.

    Args:
        study: the study, its name, or the path of its TOML file.
        out: the directory for results and checkpoints. Another process that runs a study there is waited for.
        workers: processes; `None`: one for each core, here or in the cluster.
        backend: "processes", "inline" (this process, for debuggers), "dask" (a cluster of this machine) or the address
            of a Dask scheduler, "tcp://host:port".
        checkpoint_every: seconds between checkpoints of a task.
        threads: of torch in each worker. With 1, the default, results do not depend on the number of cores.
        observer: receives the progress.
        follower: receives partial results every few seconds, and those that are stored already. See
            `gradline.lab.jobs.tensorboard`.
        known: keys of runs that are not computed, since their results are elsewhere, with their last validation losses
            (candidates of tuned methods are chosen by them). See `gradline.lab.findings.reading.known_runs`.
        make_engine: makes engines other than those of `gradline.lab.engines`.
        key: returns a key of a run; runs with equal keys may share an engine.

    Raises `Interrupted` after Ctrl-C or SIGTERM. Failures of runs do not raise: they are in the summary. Without an
    observer there is a warning of them.
    """
    chosen = study if isinstance(study, Study) else load(study)

    elsewhere = known or {}

    def make(runs: list[Run]) -> Summary:
        missing = [run for run in runs if run.key not in elsewhere]
        validate(missing)
        return run_all(
            missing,
            out,
            make_engine=make_engine or engines.make,
            key=key or engines.group_key,
            workers=workers,
            backend=backend,
            checkpoint_every=checkpoint_every,
            threads=threads,
            observer=observer,
            follower=follower,
        )

    done = make(plan(chosen))
    if chosen.tuned:
        then = make(plan_tuned(chosen, choices(out, chosen, elsewhere)))
        counts = {name: getattr(done, name) + getattr(then, name) for name in ("runs", "before", "made", "seconds")}
        done = dataclasses.replace(done, failures=done.failures + then.failures, **counts)
    if done.failures and observer is None:
        warnings.warn(
            f"gradline: {len(done.failures)} of {done.runs} runs failed, the first one by {done.failures[0].error}; "
            f"`failures` of the summary has all",
            RuntimeWarning,
            stacklevel=2,
        )
    return done


def choices(
    directory: str | os.PathLike[str] | None, study: Study, known: Mapping[str, float] | None = None
) -> Callable[[Setting, Tuned], Method | None]:
    """Return a function that chooses a candidate for a setting, by the results that are in a directory (or none).

    `known` has the last validation losses of runs that are elsewhere, by key.
    """
    store = Store(directory) if directory is not None else None

    def choose(setting: Setting, tuned: Tuned) -> Method | None:
        losses: dict[str, float] = {}
        methods = {method.name: method for method in tuned.candidates + tuned.others}
        for method in methods.values():
            for run in runs_of(study, setting, method, study.tuning_seed):
                loss = final_loss(store.load(run.key)) if store and store.has(run) else (known or {}).get(run.key)
                if loss is not None:
                    losses[method.name] = loss
        name = lowest(losses)
        return None if name is None else methods[name]

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
