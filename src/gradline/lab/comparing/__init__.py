"""Comparing methods on a model of your own: `gradline compare my_model.py`, or `gradline.lab.compare(build)`."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from gradline.lab import engines
from gradline.lab.comparing.outcome import Outcome, read, write
from gradline.lab.jobs.estimate import measure_pace
from gradline.lab.jobs.executors import default_workers, open_executor
from gradline.lab.jobs.progress import Observer, Snapshot
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import GROUPS, METHODS, Method
from gradline.lab.problems import Script
from gradline.lab.problems.script import check, script
from gradline.lab.studies import Setting, Study, StudyError
from gradline.lab.studies.reading import named
from gradline.lab.studies.running import run_study
from gradline.lab.tools.files import atomic_write
from gradline.lab.tools.formatting import duration, number, plural
from gradline.lab.tools.threads import threads as thread_count
from gradline.searches.arguments import require

__all__ = ["DEFAULT", "MINUTES", "Outcome", "compare"]

DEFAULT = ("angle", "adam-0.001", "adamw-cosine", "prodigy", "schedule-free")
"""The methods, and groups of them, that are compared where none are named."""
MINUTES = 5.0
"""Minutes that a comparison takes where no budget is given."""
POINTS = 40
"""Measurements of losses and errors in a run."""
FEWEST = 100
"""Evaluations of a run, at least, where minutes are given."""
PACE_SECONDS = 2.0
"""Seconds for which each worker measures the pace of evaluations."""
PAGE_SECONDS = 3.0
"""Seconds that the picture and the page take, about."""
RUNNING = 0.6
"""Share of the minutes that runs have at least, however long workers take to start."""
MARGIN = 1.25
"""Factor by which runs may become slower than measured."""
PLAN = "compare.json"
"""File of a directory with the number of evaluations per run that the minutes allow."""


def compare(
    build: str | os.PathLike[str] | Callable[[], Any],
    out: str | os.PathLike[str] | None = None,
    *,
    function: str = "build",
    minutes: float | None = None,
    budget: int | None = None,
    seeds: int = 1,
    batch_size: int | None = None,
    methods: Sequence[str] = (),
    workers: int | None = None,
    threads: int = 1,
    backend: str = "processes",
    observer: Observer | None = None,
    notice: Callable[[str], None] = print,
) -> Outcome:
    """Train a model of your own with several methods, and return how they compare.

    Results are stored in a directory: what is there already is not computed again, so a comparison that was stopped
    goes on where it was. The directory also gets a picture and a page, `report.html`.

    ```python
    import tempfile
    import torch
    import gradline.lab

    def build():
        inputs = torch.randn(200, 4)
        targets = inputs.sum(dim=1, keepdim=True)
        return torch.nn.Linear(4, 1), torch.nn.functional.mse_loss, (inputs, targets)

    with tempfile.TemporaryDirectory() as folder:
        found = gradline.lab.compare(
            build, folder, budget=60, methods=["angle", "adam-0.001"], backend="inline", notice=lambda text: None
        )
    assert {row.method for row in found.rows} == {"angle", "adam-0.001"}
    ```

    Args:
        build: a function without arguments, or the path of a Python file that has one. It returns model, loss,
            training data and perhaps validation data, or a [`Training`][gradline.lab.Training].
        out: the directory; `None`: `results/` and the name of the file or function.
        function: the name of the function, if `build` is a file.
        minutes: about how long it takes in all; `None`: 5, or as long as `budget` takes.
        budget: evaluations (forward and backward passes of a batch) of each run, in place of `minutes`.
        seeds: runs of each method, from different initial weights and with different batches.
        batch_size: samples of a batch; `None`: as the function says.
        methods: names of methods or of groups of them (`gradline list methods`); none: `DEFAULT`, as far as installed.
        workers: processes; `None`: one for each core, or one if the model is on a GPU.
        threads: torch's threads in each process.
        backend: as in [`run_study`][gradline.lab.run_study]; a function that is in no file is run "inline".
        observer: is told how the runs go on; `None`: a progress bar.
        notice: is told what is left out, what time was estimated, and how large the budget is.
    """
    began = time.monotonic()
    require(minutes is None or budget is None, "minutes", "None if budget is given", "both limit the runs", minutes)
    require(minutes is None or 0.0 < minutes < math.inf, "minutes", "above 0 and finite", "it is a time", minutes)
    require(type(seeds) is int and seeds > 0, "seeds", "a whole number above 0", "it counts runs", seeds)
    problem = script(build if callable(build) else Path(build), function)
    size, task, _ = check(problem, batch_size)
    on_gpu = any(parameter.device.type != "cpu" for parameter in task.model.parameters())
    if not problem.path:
        backend = "inline"
    count = 1 if backend == "inline" else workers or (1 if on_gpu else default_workers())
    chosen = _methods(methods, notice)
    directory = Path(out) if out is not None else Path("results") / problem.name
    if budget is None:
        wanted = {
            "source": problem.digest,
            "minutes": minutes or MINUTES,
            "runs": len(chosen) * seeds,
            "batch_size": size,
            "workers": count,
        }
        share = partial(_measured, problem, chosen, size, threads)
        budget = _planned(directory, wanted) or _plan(directory, wanted, began, backend, share, notice)
    epochs = budget * size / task.samples
    notice(f"{len(chosen) * seeds} runs of {budget:,} evaluations ({epochs:.1f} epochs with batches of {size})")
    problem = replace(problem, budget=budget, batch_sizes=(size,))
    study = Study(
        name=problem.name,
        problems=(problem,),
        methods=chosen,
        seeds=tuple(range(seeds)),
        benchmark=True,
        settings=(Setting(problem=problem, batch_size=size, budget=budget, record_every=max(budget // POINTS, 1)),),
    )
    done = run_study(
        study, directory, workers=count, threads=threads, backend=backend, observer=observer or _Bar(notice)
    )
    if done.failures:
        raise RuntimeError(f"{len(done.failures)} runs failed: {done.failures[0].error}")
    found = read(study, directory)
    write(found, directory)
    return found


def _methods(names: Sequence[str], notice: Callable[[str], None]) -> tuple[Method, ...]:
    """Return the methods of these names; of `DEFAULT`, where there are none, those that are installed."""
    found = []
    for method in named("method", names or DEFAULT, METHODS, GROUPS):
        reason = method.unavailable()
        if reason is None:
            found.append(method)
        elif names:
            raise StudyError(f"method {method.name} cannot be run: {reason}")
        else:
            notice(f"{method.name} is left out: {reason}")
    return tuple(found)


def _planned(directory: Path, wanted: dict[str, Any]) -> int | None:
    """Return the budget that an earlier call stored for the same arguments, so that its runs are resumed; or `None`."""
    try:
        known = json.loads((directory / PLAN).read_text(encoding="utf-8"))
        return int(known["budget"]) if known["wanted"] == wanted else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


class _Pace(NamedTuple):
    """Seconds of an evaluation with the method's step, of a measurement, and to begin a run (the data, the model)."""

    evaluation: float
    measuring: float
    beginning: float

    def run(self, budget: int) -> float:
        """Return the seconds of a run, with a margin."""
        return MARGIN * (self.beginning + POINTS * self.measuring + budget * self.evaluation)

    def budget(self, seconds: float) -> int:
        """Return the evaluations of a run that takes so many seconds, rounded down to two digits, and at least some."""
        found = int((seconds / MARGIN - self.beginning - POINTS * self.measuring) / self.evaluation)
        unit: int = 10 ** max(len(str(found)) - 2, 0)
        return max(found - found % unit, FEWEST)


def _plan(
    directory: Path,
    wanted: dict[str, Any],
    began: float,
    backend: str,
    share: Callable[..., tuple[_Pace, float]],
    notice: Callable[[str], None],
) -> int:
    """Measure how fast all workers are at the same time, and return the evaluations that the minutes allow a run."""
    workers, opened = wanted["workers"], time.monotonic()
    with open_executor(backend, workers) as (executor, _):
        measured = [one.result() for one in [executor.submit(share, place, workers) for place in range(workers)]]
    pace = _Pace(*map(fmean, zip(*(one for one, _ in measured), strict=True)))
    rounds, now = math.ceil(wanted["runs"] / workers), time.monotonic()
    starting = now - opened - max(spent for _, spent in measured)
    other = now - began + starting + PAGE_SECONDS
    seconds = 60.0 * wanted["minutes"]
    budget = pace.budget(max(seconds - other, RUNNING * seconds) / rounds)
    running = rounds * pace.run(budget)
    if running > seconds:
        notice(f"{wanted['minutes']:g} minutes are too short for {FEWEST} evaluations a run")
    notice(
        f"estimated: {duration(other + running)} in all, {duration(running)} of it for the runs; "
        f"measured with {plural(workers, 'worker')} at once: {number(1000.0 * pace.evaluation)} ms an evaluation, "
        f"{number(1000.0 * pace.measuring)} ms a measurement"
    )
    with atomic_write(directory / PLAN) as file:
        file.write(json.dumps({"wanted": wanted, "budget": budget}).encode())
    return budget


def _measured(
    problem: Script, methods: Sequence[Method], batch_size: int, torch_threads: int, place: int, workers: int
) -> tuple[_Pace, float]:
    """Return the mean pace of a worker's share of the methods, and the seconds that measuring it took."""
    share = methods[place % len(methods) :: workers]
    options: dict[str, Any] = {"seed": 0, "budget": 10**9, "record_every": 10**9, "benchmark": True}
    runs = [Run(problem=problem, method=method, batch_size=batch_size, **options) for method in share]
    beginnings: list[float] = []
    evaluations: list[float] = []
    with thread_count(torch_threads):
        engines.make(runs[:1]).advance()  # imports what every process imports once
        began = time.perf_counter()
        for run in runs:
            if evaluations and time.perf_counter() - began > 2.0 * PACE_SECONDS:
                break  # steps are so slow that the first methods have to do
            beginning, evaluation = measure_pace([run], PACE_SECONDS / len(share), engines.make)
            beginnings.append(beginning)
            evaluations.append(evaluation)
        task = problem.build(0)
        task.model.eval()
        now = time.perf_counter()
        task.measure(task.model)
        measuring = time.perf_counter() - now
    return _Pace(fmean(evaluations), measuring, median(beginnings)), time.perf_counter() - began


class _Bar(Observer):
    """Shows progress as a bar, in a terminal or in a notebook."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        from tqdm.auto import tqdm

        self._notice = notice
        self._bar = tqdm(
            total=100, unit="%", bar_format="{l_bar}{bar}| {elapsed}<{remaining}", disable=notice is not print
        )

    def update(self, snapshot: Snapshot) -> None:
        self._bar.n = round(100 * snapshot.fraction)
        self._bar.refresh()
        if snapshot.fraction >= 1.0:
            self._bar.close()

    def message(self, text: str) -> None:
        self._notice(text)

    error = message
