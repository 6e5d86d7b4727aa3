"""Write files atomically."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

Report: TypeAlias = Callable[[str], None]
"""Receives messages about files that were ignored, and why."""


@contextmanager
def atomic_write(path: Path, *, sync: bool = True) -> Iterator[BinaryIO]:
    """Context manager with a stream whose content replaces the file at `path` at exit.

    The content is written to a temporary file beside it, which is then renamed: a process that is killed leaves the old
    file or the new one, and perhaps a temporary file that nobody reads. An exception leaves the old file.

    Args:
        path: the file. Its folder is created if missing.
        sync: flush content and rename to the disk, so that they survive a power cut.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if sync:
        _sync_directory(path.parent)


def remove_temporary_files(directory: Path) -> None:
    """Remove the temporary files of killed processes. Only for a directory that nobody else writes to now."""
    for path in directory.glob(".*.tmp"):
        with suppress(OSError):
            path.unlink()


def _sync_directory(directory: Path) -> None:
    """Flush a rename to the disk, if directories can be opened (not on Windows)."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
