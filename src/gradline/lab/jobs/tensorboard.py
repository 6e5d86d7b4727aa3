"""Write the curves of a study for TensorBoard while it runs.

There is one curve for each setting (problem, batch size, method): the median over the runs that have reached a number
of evaluations. When a run has ended, its curve is written again, after an event that makes TensorBoard discard the
points that later runs may have changed, as after a crash.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gradline.lab.jobs.result import PARTIAL_COLUMNS, Measurements, held
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


class TensorBoard:
    """Follower that writes event files, in one folder for each setting; they supersede those that are there."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
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
            self._curves[setting].write(runs, sum(run.key in finished for run, _ in runs))

    def close(self) -> None:
        for curve in self._curves.values():
            curve.writer.close()


class _Curve:
    """The curve of one setting."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer
        self._points = 0
        self._ended = 0

    def write(self, runs: list[tuple[Run, Measurements]], ended: int) -> None:
        """Write the medians of runs: those of new points, and when a run has ended, all of them."""
        points = medians(runs)
        if len(points) < self._points:
            return  # a worker died, and its runs have gone back to their checkpoint
        if self._points and ended > self._ended:
            self._forget()
        for values in points.iloc[self._points :].to_dict("records"):
            for name, tag in TAGS.items():
                if np.isfinite(values[name]):
                    self.writer.add_scalar(tag, values[name], int(values["evaluations"]))
        self._points, self._ended = len(points), ended
        self.writer.flush()

    def _forget(self) -> None:
        """Make TensorBoard discard all points."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self.writer.file_writer.add_event(Event(step=0, file_version="brain.Event:2"))
        self.writer.file_writer.add_event(Event(step=0, session_log=SessionLog(status=SessionLog.START)))
        self._points = 0


def medians(runs: list[tuple[Run, Measurements]]) -> pd.DataFrame:
    """Return medians over runs, with columns `PARTIAL_COLUMNS`, at a grid of evaluations.

    At each point they are over the runs that have reached it, of their latest measurements.
    """
    run = runs[0][0]
    every = run.record_every * max(1, -(-run.budget // (run.record_every * POINTS)))
    furthest = max((one["evaluations"][-1] for _, one in runs if len(one["evaluations"])), default=-1.0)
    grid = np.arange(0.0, min(furthest, float(run.budget)) + 1.0, every)
    if furthest >= run.budget and (not len(grid) or grid[-1] < run.budget):
        grid = np.append(grid, run.budget)
    tables = []
    for _, measured in runs:
        at = measured["evaluations"]
        reached = grid[grid <= at.max(initial=-1.0)]
        tables.append(pd.DataFrame({name: held(at, measured[name], reached) for name in PARTIAL_COLUMNS[1:]}))
    found = pd.concat(tables).groupby(level=0).median()  # of the runs that have a number there
    found.insert(0, PARTIAL_COLUMNS[0], grid)
    return found


def folder_of(run: Run) -> Path:
    """Return the folder of a run's setting, which is its name in TensorBoard."""
    parts = [run.problem.name, f"b{run.batch_size}", run.method.name]  # valid names are valid folder names
    if run.sampling.value != "dynamic":
        parts.append(run.sampling.value)
    if run.direction_batch_size is not None:
        parts.append(f"direction-b{run.direction_batch_size}")
    return Path(*parts)
