"""Write the curves of a study for TensorBoard while it runs.

There is one curve for each setting (problem, batch size, method): the median over the runs that have reached a number
of evaluations. If later runs change points that were written, the curve is written again from there on when a run has
ended, after an event that makes TensorBoard discard the old points, as after a crash.
"""

from __future__ import annotations

import os
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
    """The curve of one setting, and its points that have been written."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer
        self._written: Array = np.empty((len(PARTIAL_COLUMNS), 0))
        self._ended = 0

    def write(self, runs: list[tuple[Run, Measurements]], ended: int) -> None:
        """Write the medians of runs: those of new points, and when a run has ended, those that have changed."""
        latest, begin = medians(runs), self._written.shape[1]
        if latest.shape[1] < begin:
            return  # a worker died, and its runs have gone back to their checkpoint
        if ended > self._ended:
            same = np.isclose(self._written, latest[:, :begin], 0.0, 0.0, equal_nan=True).all(axis=0)
            if not same.all():
                begin = int(np.argmin(same))
                self._forget(int(self._written[0, begin]))
        for point in latest[:, begin:].T:
            values = dict(zip(PARTIAL_COLUMNS, point, strict=True))
            for name, tag in TAGS.items():
                if np.isfinite(values[name]):
                    self.writer.add_scalar(tag, values[name], int(values["evaluations"]))
        self._written = np.concatenate([self._written[:, :begin], latest[:, begin:]], axis=1)
        self._ended = ended
        self.writer.flush()

    def _forget(self, step: int) -> None:
        """Make TensorBoard discard points from a step on."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self.writer.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
        self.writer.file_writer.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))


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


def folder_of(run: Run) -> Path:
    """Return the folder of a run's setting, which is its name in TensorBoard."""
    parts = [run.problem.name, f"b{run.batch_size}", run.method.name]  # valid names are valid folder names
    if run.sampling.value != "dynamic":
        parts.append(run.sampling.value)
    if run.direction_batch_size is not None:
        parts.append(f"direction-b{run.direction_batch_size}")
    return Path(*parts)
