"""The table of a run in progress: compact, saved exactly, and converted to the columns of a `Result` at the end."""

from __future__ import annotations

import platform
from array import array
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradline.lab.jobs.result import COLUMNS, Measurements, Result, Status
from gradline.lab.jobs.runs import Run
from gradline.protocol import Origin, Outcome, Stop

STOPS = [stop.name for stop in Stop]
_CODES = {stop: float(code) for code, stop in enumerate(Stop)}
_NO_STOP = -1.0
_ITERATION = ("evaluations", "probes", "step", "stop", "slope", "norm")
_LOSSES = ("train_loss", "train_error", "test_loss", "test_error", "validation_loss", "validation_error")
_MEASURED = ("iteration", *_LOSSES, "angle", "seconds", "cpu_seconds")
_NAN = float("nan")


class Table:
    """A row for each iteration, and measurements of some of them; `due` says when to measure."""

    __slots__ = ("_every", "_iterations", "_measured", "_next")

    def __init__(self, record_every: int) -> None:
        self._every = record_every
        self._next: float = record_every
        self._iterations = array("d", (0.0, 0.0, 0.0, _NO_STOP, _NAN, _NAN))
        self._measured = array("d")

    @property
    def iterations(self) -> int:
        """Number of iterations so far."""
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

    def reserve(self, angle: float = _NAN, seconds: float = _NAN, cpu_seconds: float = _NAN) -> int:
        """Add a row for measurements of the last iteration, and return its index for `fill`."""
        self._measured.extend((self.iterations, *(_NAN for _ in _LOSSES), angle, seconds, cpu_seconds))
        return len(self._measured) - len(_MEASURED)

    def fill(self, place: int, measured: Sequence[float]) -> None:
        """Fill a reserved row with losses and errors, in the order of their columns."""
        self._measured[place + 1 : place + 1 + len(measured)] = array("d", measured)

    def measurements(self) -> Measurements:
        """Return the measurements so far, without rows that are reserved but not filled."""
        measured = np.array(self._measured).reshape(-1, len(_MEASURED))
        measured = measured[~np.isnan(measured[:, 1 : 1 + len(_LOSSES)]).all(axis=1)]
        rows = np.array(self._iterations).reshape(-1, len(_ITERATION))[measured[:, 0].astype(np.int64)]
        columns = {name: rows[:, _ITERATION.index(name)] for name in ("evaluations", "step")}
        return columns | {name: measured[:, place] for place, name in enumerate(_LOSSES, start=1)}

    def result(self, run: Run, seconds: float, engine: str, status: Status = Status.DONE, reason: str = "") -> Result:
        """Return the table as a result."""
        rows = np.frombuffer(self._iterations, np.float64).reshape(-1, len(_ITERATION))
        columns: dict[str, NDArray[Any]] = {"iteration": np.arange(len(rows), dtype=np.int64)}
        for place, name in enumerate(_ITERATION):
            columns[name] = rows[:, place].copy()
        # No stop is "", at index -1.
        columns["stop"] = np.array([*STOPS, ""])[columns["stop"].astype(np.int64)]
        measured = np.frombuffer(self._measured, np.float64).reshape(-1, len(_MEASURED))
        at = measured[:, 0].astype(np.int64)
        for place, name in enumerate(_MEASURED[1:], start=1):
            columns[name] = np.full(len(rows), np.nan)
            columns[name][at] = measured[:, place]
        columns = {name: columns[name].astype(kind) for name, kind in COLUMNS.items()}
        made_with = versions() | {run.method.package: run.method.version()}
        return Result(run, columns, seconds, engine, made_with, status, reason)

    def state_dict(self) -> dict[str, Any]:
        """Return the table as plain values."""
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
        """Return the table of a `state_dict`."""
        if state["stops"] != STOPS:
            raise ValueError("state must be of this version of gradline (it has other reasons for searches to stop)")
        if state.get("columns") != list(_MEASURED):
            raise ValueError("state must be of this version of gradline (it has other columns of measurements)")
        table = cls(state["every"])
        table._next = state["next"]
        table._iterations = array("d", state["iterations"])
        table._measured = array("d", state["measured"])
        return table


@cache
def versions() -> dict[str, str]:
    """Return the versions of what computes results."""
    return {"python": platform.python_version()} | {name: version(name) for name in ("gradline", "torch", "numpy")}
