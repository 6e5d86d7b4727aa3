"""Partial results: what has been measured of runs in progress, for those who follow a study live.

Workers write them to one file per task every few seconds. The files may be lost without harm: results and checkpoints
are stored elsewhere.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gradline.lab.jobs.result import PARTIAL_COLUMNS, Measurements, measurements
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store
from gradline.lab.tools.files import atomic_write

SUFFIX = ".partial.npz"
INTERVAL = 5.0
"""Seconds between two partial results."""


class Follower(Protocol):
    """Receives the partial results of a study, for example to write them for TensorBoard."""

    def follow(self, measured: dict[str, tuple[Run, Measurements]], finished: set[str]) -> None:
        """Receive what has been measured of each run, by its key, and the keys of finished runs."""

    def close(self) -> None:
        """Called once, at the end."""


class Following:
    """Passes what workers wrote into a folder, and stored results of runs, to a follower."""

    def __init__(self, follower: Follower, runs: list[Run], store: Store, folder: Path) -> None:
        self.follower = follower
        self._runs = {run.key: run for run in runs}
        self._store = store
        self._folder = folder
        self._measured: dict[str, tuple[Run, Measurements]] = {}
        self._finished: set[str] = set()
        self._next = 0.0

    def update(self, stored: set[str], *, now: bool = False) -> None:
        """Read partial results, and results of `stored` runs, if the interval has passed or `now` is true."""
        if not (now or time.monotonic() >= self._next):
            return
        for path in self._folder.glob(f"*{SUFFIX}"):
            for key, measured in read(path).items():
                if key in self._runs and key not in self._finished:
                    self._measured[key] = self._runs[key], measured
        for key in stored - self._finished:
            with suppress(KeyError):  # it exists but cannot be read, which the store reports
                self._measured[key] = self._runs[key], measurements(self._store.load(key).columns)
                self._finished.add(key)
        self.follower.follow(self._measured, self._finished)
        self._next = time.monotonic() + INTERVAL


def write(path: Path, runs: dict[str, Measurements]) -> None:
    """Write the partial results of a task."""
    arrays: dict[str, Any] = {key: np.stack([run[name] for name in PARTIAL_COLUMNS]) for key, run in runs.items()}
    with atomic_write(path, sync=False) as file:
        np.savez(file, **arrays)


def read(path: Path) -> dict[str, Measurements]:
    """Read the partial results of a task; none if the file has just been removed."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {key: dict(zip(PARTIAL_COLUMNS, rows, strict=True)) for key, rows in file.items()}
    except OSError:
        return {}
