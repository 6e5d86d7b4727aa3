"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

Report: TypeAlias = Callable[[str], None]
"""Where to say what was found wrong and passed over."""


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears under its name when it is complete and on the disk.

    It is written beside its place and then renamed: a process killed at any moment leaves the old file, or the new
    one, or (beside them) a temporary file that nobody reads. An exception leaves nothing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def sweep(directory: Path) -> None:
    """Remove the temporary files that killed processes left. Only for a directory that nobody else writes to now."""
    for path in directory.glob(".*.tmp"):
        with suppress(OSError):
            path.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_directory(directory: Path) -> None:
    """Put the rename itself on the disk, where directories can be opened (not on Windows)."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
