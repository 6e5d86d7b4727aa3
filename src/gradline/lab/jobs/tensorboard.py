"""A study in TensorBoard while it runs: curves that grow, also of runs in the middle of their budgets.

One curve for each setting (problem, batch size, method), not for each run: a study of 240 runs has 24. It is the median
of the setting's runs that have come so far, over evaluations. Where a run that came later changes what was written, the
curve is written anew from there on, after a mark that makes TensorBoard forget what it had (as after a crash).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradline.lab.jobs.partial import FOLLOWED, Growth
from gradline.lab.jobs.runs import Run
from gradline.lab.tools.extras import import_extra

TAGS = {
    "train_loss": "loss/train",
    "test_loss": "loss/test",
    "train_error": "error/train",
    "test_error": "error/test",
    "step": "step/accepted",
}
POINTS = 300
"""Of a curve, at most."""
FEW = 20
"""So many points may be written anew at any time; more only now and then, or when a run has ended."""
REST = 60.0
"""Seconds between two times of writing more points anew."""

Array = NDArray[np.float64]


class TensorBoard:
    """Writes what grows into event files, one folder for each setting.

    Args:
        folder: where. It may hold events of an earlier time; they are superseded.
        clock: seconds that pass.
    """

    def __init__(self, folder: str | os.PathLike[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = Path(folder)
        self._clock = clock
        import_extra("tensorboard", "writing for TensorBoard", "tensorboard")
        self._make: Any = import_module("torch.utils.tensorboard").SummaryWriter
        self._lines: dict[tuple[Any, ...], _Line] = {}

    def follow(self, grown: dict[str, tuple[Run, Growth]], finished: set[str]) -> None:
        """Write what is new."""
        settings: dict[tuple[Any, ...], list[tuple[Run, Growth]]] = {}
        for run, growth in grown.values():
            settings.setdefault(_setting(run), []).append((run, growth))
        for setting, runs in settings.items():
            if setting not in self._lines:
                folder = self.folder / folder_of(runs[0][0])
                purge = 0 if any(folder.glob("events.*")) else None
                self._lines[setting] = _Line(self._make(str(folder), purge_step=purge, flush_secs=5))
            ended = sum(run.key in finished for run, _ in runs)
            self._lines[setting].write(runs, ended, self._clock())

    def close(self) -> None:
        """Write what is left, and close the files."""
        for line in self._lines.values():
            line.finish()


class _Line:
    """The curves of one setting, and what has been written of them."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._written: Array = np.empty((len(FOLLOWED), 0))
        self._latest: Array = self._written
        self._ended = 0
        self._rewritten = -REST

    def write(self, runs: list[tuple[Run, Growth]], ended: int, now: float) -> None:
        """Write the medians of some runs, of which so many have ended, where they are new or others."""
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
            values = dict(zip(FOLLOWED, point, strict=True))
            for name, tag in TAGS.items():
                if np.isfinite(values[name]):
                    self._writer.add_scalar(tag, values[name], int(values["evaluations"]))
        self._written = self._latest
        self._writer.flush()

    def _forget(self, step: int) -> None:
        """Make TensorBoard drop what it has from a step on."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self._writer.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
        self._writer.file_writer.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))

    def finish(self) -> None:
        """The curve as it is now, whatever was held back."""
        self._put(_shared(self._written, self._latest))
        self._writer.close()


def medians(runs: list[tuple[Run, Growth]]) -> Array:
    """Rows `FOLLOWED` at points of a grid: the median over the runs that have come so far, of what they last measured.

    The grid is that of the runs' measurements, thinned.
    """
    run = runs[0][0]
    every = run.record_every * max(1, -(-run.budget // (run.record_every * POINTS)))
    furthest = max((growth["evaluations"][-1] for _, growth in runs if len(growth["evaluations"])), default=-1.0)
    grid = np.arange(0.0, min(furthest, float(run.budget)) + 1.0, every)
    if furthest >= run.budget and (not len(grid) or grid[-1] < run.budget):
        grid = np.append(grid, run.budget)
    columns = np.full((len(runs), len(FOLLOWED), len(grid)), np.nan)
    for rows, (_, growth) in zip(columns, runs, strict=True):
        at = growth["evaluations"]
        place = np.searchsorted(at, grid, side="right") - 1
        there = (place >= 0) & (grid <= (at[-1] if len(at) else -1.0))
        for row, name in zip(rows, FOLLOWED, strict=True):
            row[there] = growth[name][place[there]]
    made = np.full((len(FOLLOWED), len(grid)), np.nan)
    made[0] = grid
    for row in range(1, len(FOLLOWED)):
        some = ~np.isnan(columns[:, row]).all(axis=0)
        made[row, some] = np.nanmedian(columns[:, row][:, some], axis=0)
    return made


def _shared(one: Array, other: Array) -> int:
    """How many first columns are the same."""
    length = min(one.shape[1], other.shape[1])
    same = ((one[:, :length] == other[:, :length]) | (np.isnan(one[:, :length]) & np.isnan(other[:, :length]))).all(
        axis=0
    )
    return length if same.all() else int(np.argmin(same))


def _setting(run: Run) -> tuple[Any, ...]:
    return (*_parts(run), run.budget, run.repetition, run.diagonal, run.angle)


def _parts(run: Run) -> list[str]:
    parts = [run.problem.name, f"b{run.batch_size}", run.method.name]
    if run.sampling.value != "dynamic":
        parts.append(run.sampling.value)
    if run.direction_batch_size is not None:
        parts.append(f"direction-b{run.direction_batch_size}")
    return parts


def folder_of(run: Run) -> Path:
    """The folder of a run's setting, which is its name in TensorBoard."""
    return Path(*_parts(run))  # names are such that a folder can have them
