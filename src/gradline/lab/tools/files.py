"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

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


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """Up to so many bytes; none at its end."""
        ...


class Limited:
    """Reads from a stream, and no more than some bytes: what is compressed may be a thousand times as large as it says.

    Args:
        stream: what is read.
        most: bytes.
        what: what it is, for the error.
    """

    def __init__(self, stream: Readable, most: int, what: str) -> None:
        self._stream, self._left, self._most, self._what = stream, most, most, what

    def read(self, size: int = -1) -> bytes:
        """Up to so many bytes, or all of them. Raises `ValueError` if there are too many."""
        wanted = self._left + 1 if size < 0 else min(size, self._left + 1)
        found = self._stream.read(wanted)
        self._left -= len(found)
        if self._left < 0:
            raise ValueError(f"{self._what} must have at most {self._most:,} bytes when it is unpacked, got more")
        return found


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
