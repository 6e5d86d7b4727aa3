"""Locks on runs, so that no two processes do the same work.

They are locks of the operating system on files: when a process dies, however it dies, its locks are gone. Whoever gets
a lock must look again whether the result is there by now. For this reason the file of a lock may be removed once the
result is stored: those who still wait for the removed file find the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import filelock


def is_free(directory: Path, key: str) -> bool:
    """Whether nobody holds the lock of a run at this moment."""
    path = Path(directory) / "locks" / f"{key}.lock"
    if not path.exists():
        return True
    try:
        with filelock.FileLock(path, timeout=0):
            return True
    except filelock.Timeout:
        return False


def forget(directory: Path, keys: Iterable[str]) -> None:
    """Remove the locks of runs whose results are stored."""
    for key in keys:
        with suppress(OSError):
            (Path(directory) / "locks" / f"{key}.lock").unlink(missing_ok=True)


class Locks:
    """The locks that one worker holds. Leaving the context lets go of all."""

    def __init__(self, directory: Path) -> None:
        self._folder = Path(directory) / "locks"
        self._held: dict[str, filelock.BaseFileLock] = {}

    def take(self, keys: Iterable[str]) -> set[str]:
        """Lock as many of these as nobody else holds, and say which."""
        self._folder.mkdir(parents=True, exist_ok=True)
        taken = set()
        for key in keys:
            lock = filelock.FileLock(self._folder / f"{key}.lock", timeout=0)
            with suppress(filelock.Timeout):
                lock.acquire()
                self._held[key] = lock
                taken.add(key)
        return taken

    def done(self, key: str) -> None:
        """The result is stored: let go, and remove the file."""
        lock = self._held.pop(key, None)
        if lock is not None:
            with suppress(OSError):  # Windows removes no open file
                Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()

    def __enter__(self) -> Locks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lock in self._held.values():
            lock.release()
        self._held.clear()
