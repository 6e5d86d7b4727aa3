"""Questions to a store, answered as pandas data frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradline.lab.jobs.result import COLUMNS, Result
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.problems import Network
from gradline.lab.tools.files import Report

T = TypeVar("T")
Choice: TypeAlias = T | Collection[T] | None
"""One value, or several, or `None` for any."""

STALLED = 10
"""Steps of length zero at the end of a run that are a stall."""


def results(
    directory: str | os.PathLike[str],
    *,
    problem: Choice[str] = None,
    method: Choice[str] = None,
    batch_size: Choice[int] = None,
    seed: Choice[int] = None,
    sampling: Choice[str] = None,
    report: Report | None = None,
) -> pd.DataFrame:
    """Return all iterations of runs: one row an iteration, the run's configuration as the first columns.

    ```python
    import tempfile
    import gradline.lab

    with tempfile.TemporaryDirectory() as directory:
        frame = gradline.lab.results(directory, problem="bcwd-logr", batch_size=[10, 50])
    assert frame.empty and {"problem", "method", "seed", "step", "train_loss"} <= set(frame)
    ```
    """
    chosen = {"problem": problem, "method": method, "batch_size": batch_size, "seed": seed, "sampling": sampling}
    found = list(stored(directory, partial(matches, chosen=chosen), report))
    if not found:
        return pd.DataFrame(columns=[*_CONFIGURATION, *COLUMNS])
    runs = _typed(pd.DataFrame([configuration(result.run) for result in found]))
    rows = runs.loc[np.repeat(np.arange(len(found)), [len(result) for result in found])].reset_index(drop=True)
    columns = {name: np.concatenate([result.columns[name] for result in found]) for name in COLUMNS}
    return pd.concat([rows, _typed(pd.DataFrame(columns))], axis=1)


def summary(
    directory: str | os.PathLike[str],
    *,
    problem: Choice[str] = None,
    method: Choice[str] = None,
    batch_size: Choice[int] = None,
    seed: Choice[int] = None,
    sampling: Choice[str] = None,
    report: Report | None = None,
) -> pd.DataFrame:
    """Return a summary of runs: one row a run, the run's configuration as the first columns.

    `directory` may also be a file that `gradline results --pack` wrote.

    | column | meaning |
    |---|---|
    | iterations, evaluations | number of steps, and of gradient evaluations |
    | probes_min, probes_mean, probes_max | evaluations in one search: fewest, mean, most |
    | probes_max_later | most evaluations in one search, without the first search |
    | step_min, step_max | smallest and largest step that is not zero |
    | step_early, step_late | median step of the first tenth of the iterations, and of the last tenth |
    | start_train_loss | training loss before the first step |
    | final_train_loss, best_train_loss, ... | last and lowest measured value of each loss and error |
    | zero_error_at, tenth_error_at | evaluations at the first training error of zero, and of at most 0.1 |
    | best_test_loss_at | evaluations at the lowest test loss |
    | status | done, diverged, or failed (then the result has the reason) |
    | stalled | whether the last 10 steps were zero, or the run ended early with a step of zero |
    | stop.SIGN_CHANGE, ... | number of searches that ended for this reason |
    """
    chosen = {"problem": problem, "method": method, "batch_size": batch_size, "seed": seed, "sampling": sampling}
    if Path(directory).is_file():
        from gradline.lab.findings.packed import unpack

        rows = [run.row for run in unpack(directory).runs if matches(run.run, chosen)]
    else:
        found = stored(directory, partial(matches, chosen=chosen), report)
        rows = [configuration(result.run) | summary_row(result) for result in found]
    return summary_frame(rows)


def summary_frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return rows of configurations and summaries as one table, as `summary` has it."""
    if not rows:
        return pd.DataFrame(columns=[*_CONFIGURATION, "iterations", "evaluations"])
    frame = _typed(pd.DataFrame(rows))
    names = [str(name) for name in frame]
    stops = sorted(name for name in names if name.startswith("stop."))
    frame[stops] = frame[stops].fillna(0).astype("int64")
    frame = frame.sort_values(["problem", "batch_size", "method", "sampling", "seed"], ignore_index=True)
    return frame[[name for name in names if name not in stops] + stops]


def summary_row(result: Result) -> dict[str, Any]:
    """Return the columns of `summary` for one result."""
    columns = result.columns
    searched = columns["iteration"] > 0
    probes, steps = columns["probes"][searched], columns["step"][searched]
    probes = probes[~np.isnan(probes)]  # of a method that is no search of ours there are none
    evaluations = float(columns["evaluations"][-1]) if len(result) else 0.0
    moved = steps[steps > 0]
    tenth = -(-steps.size // 10)
    row: dict[str, Any] = {
        "iterations": int(searched.sum()),
        "evaluations": evaluations,
        "probes_min": int(probes.min()) if probes.size else 0,
        "probes_mean": float(probes.mean()) if probes.size else np.nan,
        "probes_max": int(probes.max()) if probes.size else 0,
        "probes_max_later": int(probes[1:].max(initial=0)),
        "step_min": float(moved.min()) if moved.size else np.nan,
        "step_max": float(moved.max()) if moved.size else np.nan,
        "step_early": _median(steps[:tenth]),
        "step_late": _median(steps[steps.size - tenth :]),
    }
    row["start_train_loss"] = float(columns["train_loss"][0]) if len(result) else np.nan
    for name in ("train_loss", "train_error", "test_loss", "test_error"):
        measured = columns[name][~np.isnan(columns[name])]
        row[f"final_{name}"] = float(measured[-1]) if measured.size else np.nan
        row[f"best_{name}"] = float(measured.min()) if measured.size else np.nan
    row["zero_error_at"] = _first(columns["evaluations"], columns["train_error"] == 0.0)
    row["tenth_error_at"] = _first(columns["evaluations"], columns["train_error"] <= 0.1)
    row["best_test_loss_at"] = _first(columns["evaluations"], columns["test_loss"] == row["best_test_loss"])
    row["stalled"] = bool(
        steps.size
        and steps[-1] == 0.0
        and (evaluations < result.run.budget or (steps.size >= STALLED and not steps[-STALLED:].any()))
    )
    row |= {"seconds": result.seconds, "engine": result.engine, "status": result.status.value}
    stops = columns["stop"][searched]
    names, counts = np.unique(stops[stops != ""], return_counts=True)
    return row | {f"stop.{name}": int(count) for name, count in zip(names, counts, strict=True)}


def _median(steps: NDArray[Any]) -> float:
    return float(np.median(steps)) if steps.size else float("nan")


def _first(evaluations: NDArray[Any], when: NDArray[np.bool_]) -> float | None:
    """Return the evaluations at the first row where a condition holds."""
    return float(evaluations[np.argmax(when)]) if when.any() else None


def stored(
    directory: str | os.PathLike[str], wanted: Callable[[Run], bool] = lambda run: True, report: Report | None = None
) -> Iterator[Result]:
    """Yield the results of a directory, or those of the runs that are wanted; one is in memory at a time."""
    if Path(directory).is_file():
        raise NotADirectoryError(
            f"directory must be one that a study was run into (a packed file has no iterations), got {directory}"
        )
    if not Path(directory).is_dir():
        raise FileNotFoundError(f"directory must be one that a study was run into, but {directory} does not exist")
    return Store(directory, report=report).results(wanted)


def matches(run: Run, chosen: Mapping[str, Choice[Any]]) -> bool:
    """Return whether a run has the chosen values of its configuration."""
    row = configuration(run)
    choices = {name: (choice,) if isinstance(choice, str | int) else choice for name, choice in chosen.items()}
    return all(choice is None or row[name] in choice for name, choice in choices.items())


_CONFIGURATION: dict[str, Callable[[Run], Any]] = {
    "problem": lambda run: run.problem.name,
    "method": lambda run: run.method.name,
    "batch_size": lambda run: run.batch_size,
    "seed": lambda run: run.seed,
    "sampling": lambda run: run.sampling.value,
    "direction_batch_size": lambda run: run.direction_batch_size,
    "budget": lambda run: run.budget,
    "repetition": lambda run: run.repetition,
    "diagonal": lambda run: run.diagonal,
    "loss": lambda run: run.problem.loss.value if isinstance(run.problem, Network) else "",
    "key": lambda run: run.key,
}
SETTINGS = tuple(_CONFIGURATION)
"""The first columns of every table: the configuration of a run."""


def configuration(run: Run) -> dict[str, Any]:
    """Return the first columns of every table for a run."""
    return {name: value(run) for name, value in _CONFIGURATION.items()}


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert columns to types that allow missing values, and texts to categories."""
    for name in ("evaluations", "zero_error_at", "tenth_error_at", "best_test_loss_at"):
        if name in frame and not (frame[name].dropna() % 1).any():  # thirds are those of passes without a gradient
            frame[name] = frame[name].astype("Int64")
    if "direction_batch_size" in frame:
        frame["direction_batch_size"] = frame["direction_batch_size"].astype("Int64")
    for name in ("problem", "method", "sampling", "loss", "engine", "key", "stop", "status"):
        if name in frame:
            frame[name] = frame[name].astype("category")
    return frame
