"""Published files of data sets: where they are stored, and whether their bytes are the published ones.

A `File` is a path in the data directory (torchvision's layout) with the size and SHA-256 of its content.
`read_verified` returns only content that matches, so readers of a format need not doubt it.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath

from gradline.lab.tools.imports import import_extra

DIRECTORY_VARIABLE = "GRADLINE_DATA"


class DataError(RuntimeError):
    """A data set is not available: its files are missing, damaged, or cannot be written."""


class DownloadError(DataError):
    """Files are missing and no mirror delivered them; the message says which files to put where."""


def data_directory(directory: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder with the files: the argument, else the variable `GRADLINE_DATA`, else the user's cache folder.

    An empty variable counts as not set. The folder need not exist.
    """
    if directory is not None:
        return Path(directory).expanduser()
    if named := os.environ.get(DIRECTORY_VARIABLE):
        return Path(named).expanduser()
    cache: Path = import_extra("platformdirs", "finding the cache folder").user_cache_path("gradline", appauthor=False)
    return cache / "data"


@dataclass(frozen=True)
class File:
    """A published file: its path under the data directory, its size in bytes and its SHA-256."""

    path: str
    size: int
    sha256: str

    def under(self, directory: Path) -> Path:
        """Return the file's path in a directory."""
        return directory / PurePosixPath(self.path)


@dataclass(frozen=True)
class Download:
    """A file that can be downloaded from any of its mirrors, which are tried in order, and the files packed in it.

    With `unpack` it is a tar archive whose members `unpacked` are wanted. Without, it is read as it is, or the one file
    in `unpacked` (the same without compression) instead.
    """

    file: File
    urls: tuple[str, ...]
    unpacked: tuple[File, ...] = ()
    unpack: bool = False

    @property
    def choices(self) -> tuple[tuple[File, ...], ...]:
        """For each file that is wanted, the forms any of which will do."""
        if self.unpack:
            return tuple((file,) for file in self.unpacked)
        return ((*self.unpacked, self.file),)


class FileState(Enum):
    """State of a file in the data directory; the values are shown to users."""

    VERIFIED = "verified"
    DAMAGED = "damaged"
    MISSING = "missing"


@dataclass(frozen=True)
class FileStatus:
    """One line of `status`: a file that a data set needs, its state, and its published size."""

    data_set: str
    path: Path
    state: FileState
    expected: int


def read_verified(choice: tuple[File, ...], directory: Path) -> tuple[File, bytes]:
    """Return the first form of a wanted file whose content is the published one, and its content."""
    reasons = []
    for file in choice:
        path = file.under(directory)
        if path.is_file():
            content = path.read_bytes()
            found = hashlib.sha256(content).hexdigest()
            if found == file.sha256:
                return file, content
            reasons.append(f"{path} is damaged: its sha256 is {found} instead of {file.sha256}")
    raise DataError("; ".join(reasons) or f"{choice[-1].under(directory)} is missing")


def state_of(choice: tuple[File, ...], directory: Path, data_set: str) -> FileStatus:
    """Return the state of a wanted file: of its best form, if there are several."""
    file, state = choice[-1], FileState.MISSING
    for file in [one for one in choice if one.under(directory).is_file()][:1]:
        state = FileState.DAMAGED
        with suppress(DataError):
            file, state = read_verified(choice, directory)[0], FileState.VERIFIED
    return FileStatus(data_set, file.under(directory), state, file.size)
