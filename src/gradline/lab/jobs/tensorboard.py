"""Write the curves of a study for TensorBoard while it runs.

There is one curve for each setting (problem, batch size, method): the median over the runs that have reached a number
of evaluations. If a later run changes points that were written, the curve is written again from there on, after an
event that makes TensorBoard discard the old points, as after a crash.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gradline.lab.jobs.result import PARTIAL_COLUMNS, Array, Measurements, held
from gradline.lab.jobs.runs import Run
from gradline.lab.tools.imports import import_extra

TAGS = {
    "train_loss": "loss/train",
    "test_loss": "loss/test",
    "train_error": "error/train",
    "test_error": "error/test",
    "step": "step/accepted",
}
POINTS = 300
"""Largest number of points of a curve."""
FEW = 20
"""Number of points that may be rewritten at any time; more are rewritten after `REST` or when a run has ended."""
REST = 60.0
"""Seconds between two rewritings of many points."""


class TensorBoard:
    """Follower that writes event files, in one folder for each setting; they supersede those that are there."""

    def __init__(self, folder: str | os.PathLike[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = Path(folder)
        self._clock = clock
        import_extra("tensorboard", "writing for TensorBoard", "tensorboard")
        self._make: Any = import_module("torch.utils.tensorboard").SummaryWriter
        self._curves: dict[tuple[Any, ...], _Curve] = {}

    def follow(self, measured: dict[str, tuple[Run, Measurements]], finished: set[str]) -> None:
        settings: dict[tuple[Any, ...], list[tuple[Run, Measurements]]] = {}
        for run, points in measured.values():
            setting = (folder_of(run), run.budget, run.repetition, run.diagonal, run.angle)
            settings.setdefault(setting, []).append((run, points))
        for setting, runs in settings.items():
            if setting not in self._curves:
                folder = self.folder / folder_of(runs[0][0])
                purge = 0 if any(folder.glob("events.*")) else None
                self._curves[setting] = _Curve(self._make(str(folder), purge_step=purge, flush_secs=5))
            ended = sum(run.key in finished for run, _ in runs)
            self._curves[setting].write(runs, ended, self._clock())

    def close(self) -> None:
        for curve in self._curves.values():
            curve.finish()


class _Curve:
    """The curve of one setting, and its points that have been written."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._written: Array = np.empty((len(PARTIAL_COLUMNS), 0))
        self._latest: Array = self._written
        self._ended = 0
        self._rewritten = -REST

    def write(self, runs: list[tuple[Run, Measurements]], ended: int, now: float) -> None:
        """Write the medians of runs, `ended` of which have ended, that are new or have changed."""
        self._latest = medians(runs)
        same = _shared(self._written, self._latest)
        again = self._written.shape[1] - same
        if again > FEW and ended == self._ended and now - self._rewritten < REST:
            return
        if again > FEW:
            self._rewritten = now
        self._ended = ended
        self._put(same)

    def _put(self, begin: int) -> None:
        if begin < self._written.shape[1]:
            self._forget(int(self._written[0, begin]))
        for point in self._latest[:, begin:].T:
            values = dict(zip(PARTIAL_COLUMNS, point, strict=True))
            for name, tag in TAGS.items():
                if np.isfinite(values[name]):
                    self._writer.add_scalar(tag, values[name], int(values["evaluations"]))
        self._written = self._latest
        self._writer.flush()

    def _forget(self, step: int) -> None:
        """Make TensorBoard discard points from a step on."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self._writer.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
        self._writer.file_writer.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))

    def finish(self) -> None:
        self._put(_shared(self._written, self._latest))
        self._writer.close()


def medians(runs: list[tuple[Run, Measurements]]) -> Array:
    """Return medians over runs as rows `PARTIAL_COLUMNS`, at a grid of evaluations.

    At each point they are over the runs that have reached it, of their latest measurements.
    """
    run = runs[0][0]
    every = run.record_every * max(1, -(-run.budget // (run.record_every * POINTS)))
    furthest = max((one["evaluations"][-1] for _, one in runs if len(one["evaluations"])), default=-1.0)
    grid = np.arange(0.0, min(furthest, float(run.budget)) + 1.0, every)
    if furthest >= run.budget and (not len(grid) or grid[-1] < run.budget):
        grid = np.append(grid, run.budget)
    made = [grid]
    for name in PARTIAL_COLUMNS[1:]:
        rows = []
        for _, measured in runs:
            at = measured["evaluations"]
            rows.append(np.where(grid <= at.max(initial=-1.0), held(at, measured[name], grid), np.nan))
        made.append(pd.DataFrame(rows).median().to_numpy())  # of the runs that have a number there
    return np.stack(made)


def _shared(one: Array, other: Array) -> int:
    """Return the number of leading columns that are equal."""
    length = min(one.shape[1], other.shape[1])
    same = np.isclose(one[:, :length], other[:, :length], rtol=0.0, atol=0.0, equal_nan=True).all(axis=0)
    return length if same.all() else int(np.argmin(same))


def folder_of(run: Run) -> Path:
    """Return the folder of a run's setting, which is its name in TensorBoard."""
    parts = [run.problem.name, f"b{run.batch_size}", run.method.name]  # valid names are valid folder names
    if run.sampling.value != "dynamic":
        parts.append(run.sampling.value)
    if run.direction_batch_size is not None:
        parts.append(f"direction-b{run.direction_batch_size}")
    return Path(*parts)
