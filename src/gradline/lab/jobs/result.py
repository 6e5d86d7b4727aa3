"""The result of one run: a table with a row for each iteration. `Table` is that of a run in progress.

| column | |
|---|---|
| iteration | 0 is the start |
| evaluations | so far, including the first gradient; a forward pass alone counts a third |
| probes | number of probes of the search; NaN for other methods, as in the next four |
| step | the accepted step; 0 if none was accepted |
| stop | why the search ended, the name of a `gradline.protocol.Stop` |
| slope, norm | at the origin of the search: d·g and ‖d‖ |
| train_loss, train_error, test_loss, test_error | at the accepted point; NaN if not measured |
| angle | between direction and full-batch direction, in radians; NaN if not measured |
| seconds, cpu_seconds | of training so far, by the clock and of this thread's processor, without measurements;
    NaN if not measured, and in lock-step |
| validation_loss, validation_error | on the samples that choices are made by; NaN if a problem has none. With them,
    test loss and error are measured at the end of a run only |
"""

from __future__ import annotations

import dataclasses
import platform
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradline.lab.jobs.runs import Run
from gradline.lab.problems.task import Measured
from gradline.lab.tools.imports import version
from gradline.protocol import Origin, Outcome, Stop

_ITERATION = ("evaluations", "probes", "step", "stop", "slope", "norm")
_TIMES = ("angle", "seconds", "cpu_seconds")
_MEASURED = ("iteration", *Measured._fields, *_TIMES)
LATER = ("validation_loss", "validation_error")
"""Columns that results of earlier versions need not have: they are read as NaN. New columns are added at the end."""
_FIRST = tuple(name for name in Measured._fields if name not in LATER)
COLUMNS: dict[str, Any] = {
    "iteration": np.int64,
    **dict.fromkeys((*_ITERATION, *_FIRST, *_TIMES, *LATER), np.float64),
    "stop": np.str_,
}
"""The columns of a result and their types, in the order of files."""
PARTIAL_COLUMNS = ("evaluations", "step", *_FIRST)
"""The columns of partial results."""
STOPS = [stop.name for stop in Stop]
_CODES = {stop: float(code) for code, stop in enumerate(Stop)}
_NO_STOP, _NAN = -1.0, float("nan")

Array: TypeAlias = NDArray[np.float64]
Columns: TypeAlias = dict[str, NDArray[Any]]
Measurements: TypeAlias = dict[str, Array]
"""The columns `PARTIAL_COLUMNS`, with one row per measurement."""


class Status(Enum):
    """How a run ended."""

    DONE = "done"
    DIVERGED = "diverged"
    """Its parameters became non-finite."""
    FAILED = "failed"
    """The method raised an error, which is the reason; only in runs of a comparison."""


@dataclass(frozen=True)
class Header:
    """A result without its table.

    Args:
        run: the run.
        seconds: the time it took; in lock-step its share of the common time.
        engine: "lockstep" or "ordinary".
        versions: versions of the packages that computed it.
        status: how it ended.
        reason: why it failed, or empty.
    """

    run: Run
    seconds: float
    engine: str
    versions: dict[str, str] = field(default_factory=dict)
    status: Status = Status.DONE
    reason: str = ""


@dataclass(frozen=True)
class Result(Header):
    """A run and its table: the columns of `COLUMNS`."""

    columns: Columns = field(kw_only=True)

    def __len__(self) -> int:
        return len(self.columns["iteration"])

    @property
    def header(self) -> Header:
        return Header(*(getattr(self, one.name) for one in dataclasses.fields(Header)))


def measurements(columns: Columns) -> Measurements:
    """Return the rows of a table at which losses or errors were measured."""
    measured = ~np.isnan(np.stack([columns[name] for name in _FIRST])).all(axis=0)
    return {name: np.asarray(columns[name], dtype=np.float64)[measured] for name in PARTIAL_COLUMNS}


def held(at: Array, values: Array, grid: Array) -> Array:
    """Return the last of some values known at each point of a grid; NaN before the first."""
    if not len(at):
        return np.full(len(grid), np.nan)
    place = np.searchsorted(at, grid, side="right") - 1
    return np.where(place >= 0, np.asarray(values, dtype=np.float64)[np.maximum(place, 0)], np.nan)


class Table:
    """The table of a run in progress: iterations, and measurements of some of them; `due` says when to measure."""

    __slots__ = ("_every", "_iterations", "_measured", "_next")

    def __init__(self, record_every: int) -> None:
        self._every = record_every
        self._next: float = record_every
        self._iterations = array("d", (0.0, 0.0, 0.0, _NO_STOP, _NAN, _NAN))
        self._measured = array("d")

    @property
    def iterations(self) -> int:
        return len(self._iterations) // len(_ITERATION) - 1

    def add(self, evaluations: float, probes: int, origin: Origin[Any], outcome: Outcome[Any]) -> None:
        """Add an iteration of a search; `evaluations` counts those of all iterations so far."""
        self._iterations.extend(
            (evaluations, probes, outcome.step, _CODES[outcome.stop], origin.at_zero.slope, origin.norm)
        )

    def add_step(self, evaluations: float) -> None:
        """Add a step of a method that is not a search."""
        self._iterations.extend((evaluations, _NAN, _NAN, _NO_STOP, _NAN, _NAN))

    def due(self, evaluations: float) -> bool:
        """Return whether to measure at the iteration just added."""
        if evaluations < self._next:
            return False
        self._next = (evaluations // self._every + 1) * self._every
        return True

    def measure(self, iteration: int, measured: Sequence[float], *times: float) -> None:
        """Add measurements of an iteration: losses and errors as in `Measured`, then angle, seconds and CPU seconds."""
        missing = (_NAN for _ in _TIMES[len(times) :])
        self._measured.extend((iteration, *Measured(*measured), *times, *missing))

    def columns(self) -> Columns:
        """Return the columns of `COLUMNS`."""
        rows = np.array(self._iterations).reshape(-1, len(_ITERATION))
        columns: Columns = dict(zip(_ITERATION, rows.T, strict=True))
        columns["iteration"] = np.arange(len(rows))
        columns["stop"] = np.array([*STOPS, ""])[columns["stop"].astype(np.int64)]  # no stop is "", at index -1
        measured = np.array(self._measured).reshape(-1, len(_MEASURED))
        at = measured[:, 0].astype(np.int64)
        for place, name in enumerate(_MEASURED[1:], start=1):
            columns[name] = np.full(len(rows), np.nan)
            columns[name][at] = measured[:, place]
        return {name: columns[name].astype(kind) for name, kind in COLUMNS.items()}

    def result(self, run: Run, seconds: float, engine: str, status: Status = Status.DONE, reason: str = "") -> Result:
        made_with = versions() | {run.method.package: run.method.version()}
        return Result(run, seconds, engine, made_with, status, reason, columns=self.columns())

    def state_dict(self) -> dict[str, Any]:
        return {
            "every": self._every,
            "next": self._next,
            "iterations": self._iterations.tolist(),
            "measured": self._measured.tolist(),
            "stops": STOPS,
            "columns": list(_MEASURED),
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Table:
        if (state["stops"], state.get("columns")) != (STOPS, list(_MEASURED)):
            raise ValueError("state must be of this version of gradline (it has other stops, or other columns)")
        table = cls(state["every"])
        table._next = state["next"]
        table._iterations = array("d", state["iterations"])
        table._measured = array("d", state["measured"])
        return table


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that compute results."""
    return {"python": platform.python_version()} | {name: version(name) for name in ("gradline", "torch", "numpy")}


class Engine(Protocol):
    """Runs in progress: turns runs into results."""

    @property
    def active(self) -> int:
        """Number of unfinished runs."""

    @property
    def evaluations(self) -> float:
        """Evaluations so far, as they count for budgets."""

    def advance(self) -> None:
        """Make one evaluation of each run (lock-step), or one iteration of one run (ordinary)."""

    def finished(self) -> list[Result]:
        """Return the results of runs that finished since the last call."""

    def partial_results(self) -> dict[str, Measurements]:
        """Return what has been measured of the unfinished runs, by their keys."""

    def state_dict(self) -> dict[str, Any]:
        """Return the exact state of unfinished runs as tensors, numbers, strings, lists and dicts."""


MakeEngine: TypeAlias = Callable[[Sequence[Run], dict[str, Any] | None], Engine]
"""Creates the engine of some runs, from a state or from the beginning."""
