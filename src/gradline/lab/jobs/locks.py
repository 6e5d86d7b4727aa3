"""Locks on runs, so that no two processes compute the same run.

They are file locks of the operating system, which end with their process. Whoever gets a lock must check again whether
the result is stored by now; therefore the lock file may be removed once it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

import filelock


def is_free(directory: Path, key: str) -> bool:
    """Return whether no process holds the lock of a run."""
    path = Path(directory) / "locks" / f"{key}.lock"
    if not path.exists():
        return True
    try:
        with filelock.FileLock(path, timeout=0):
            return True
    except filelock.Timeout:
        return False


def remove_locks(directory: Path, keys: Iterable[str]) -> None:
    """Remove the lock files of stored runs."""
    for key in keys:
        with suppress(OSError):
            (Path(directory) / "locks" / f"{key}.lock").unlink(missing_ok=True)


class Locks(ExitStack):
    """The locks that one worker holds; leaving the context releases them."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._folder = Path(directory) / "locks"
        self._held: dict[str, filelock.BaseFileLock] = {}

    def acquire(self, keys: Iterable[str]) -> set[str]:
        """Lock those runs that no other process holds, and return their keys."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for key in keys:
            with suppress(filelock.Timeout):
                lock = filelock.FileLock(self._folder / f"{key}.lock", timeout=0)
                self.enter_context(lock)
                self._held[key] = lock
        return set(self._held)

    def release(self, key: str) -> None:
        """Release the lock of a stored run, and remove its file."""
        lock = self._held.pop(key, None)
        if lock is not None:
            with suppress(OSError):  # Windows removes no open file
                Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()
