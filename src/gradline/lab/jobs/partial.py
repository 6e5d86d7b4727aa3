"""Runs while they grow: workers now and then lay down what they have measured so far, and whoever follows reads it.

A file holds the runs of one task. It is renamed into place, so it is whole, but it need not survive anything: what
counts is in results and checkpoints.
"""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store

FOLLOWED = ("evaluations", "step", "train_loss", "train_error", "test_loss", "test_error")
"""What is known of a run under way, for each measurement."""
SUFFIX = ".growth.npz"
SHOW_EVERY = 5.0
"""Seconds between two times."""

Growth: TypeAlias = dict[str, NDArray[np.float64]]
"""Columns `FOLLOWED`, a row for each measurement."""


class Follower(Protocol):
    """Who wants to see runs grow."""

    def follow(self, grown: dict[str, tuple[Run, Growth]], finished: set[str]) -> None:
        """Runs of the study by their keys, as far as they are; `finished` says which of them have ended."""

    def close(self) -> None:
        """Nothing more will come."""


class Following:
    """Reads what workers lay down and what is stored, and tells a follower.

    Args:
        follower: who is told. One that cannot write is told nothing more: a study does not fail for it.
        runs: of the study.
        store: with the finished ones.
        post: the folder where workers lay down the others.
        say: where to say what went wrong.
    """

    def __init__(
        self, follower: Follower, runs: list[Run], store: Store, post: Path, say: Callable[[str], None]
    ) -> None:
        self._follower: Follower | None = follower
        self._runs = {run.key: run for run in runs}
        self._store = store
        self._post = post
        self._say = say
        self._known: dict[str, tuple[Run, Growth]] = {}
        self._finished: set[str] = set()
        self._next = 0.0

    def look(self, stored: set[str], *, now: bool = False) -> None:
        """Tell the follower, if it is time."""
        if self._follower is None or not (now or time.monotonic() >= self._next):
            return
        for path in sorted(self._post.glob(f"*{SUFFIX}"), key=_modified):
            for key, growth in read(path).items():
                if key in self._runs and key not in self._finished:
                    self._known[key] = self._runs[key], growth
        for key in (stored & set(self._runs)) - self._finished:
            with suppress(KeyError):  # it is there, but cannot be believed: that is reported elsewhere
                self._known[key] = self._runs[key], grown(self._store.load(key).columns)
                self._finished.add(key)
        self._try(lambda follower: follower.follow(self._known, self._finished))
        self._next = time.monotonic() + SHOW_EVERY

    def close(self) -> None:
        """Nothing more will come."""
        self._try(lambda follower: follower.close())

    def _try(self, act: Callable[[Follower], None]) -> None:
        if self._follower is not None:
            try:
                act(self._follower)
            except OSError as error:
                self._follower = None
                self._say(f"the live view ends here ({error}); the study goes on")


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def grown(columns: dict[str, NDArray[Any]]) -> Growth:
    """What is followed, of a finished run's columns."""
    measured = ~np.isnan(np.stack([columns[name] for name in FOLLOWED[2:]])).all(axis=0)
    return {name: np.asarray(columns[name], dtype=np.float64)[measured] for name in FOLLOWED}


def write(path: Path, runs: dict[str, Growth]) -> None:
    """Put the runs of a task into a file, in the place of what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    arrays = {str(place): np.stack([growth[name] for name in FOLLOWED]) for place, growth in enumerate(runs.values())}
    with temporary.open("wb") as file:
        np.savez(file, keys=np.array(json.dumps(list(runs))), **arrays)  # type: ignore[arg-type]
    temporary.replace(path)


def read(path: Path) -> dict[str, Growth]:
    """The runs in a file; none if it has just gone."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            keys = json.loads(str(file["keys"]))
            return {key: dict(zip(FOLLOWED, file[str(place)], strict=True)) for place, key in enumerate(keys)}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}
