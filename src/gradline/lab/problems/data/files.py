"""Published files of data sets: where they are stored, and whether their bytes are the published ones.

A `File` is a path in the data directory (torchvision's layout) with the size and SHA-256 of its content.
`read_verified` returns only content that matches, so readers of a format need not doubt it.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from gradline.lab.tools.imports import import_extra
from gradline.searches.arguments import require

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

    def __post_init__(self) -> None:
        parts = PurePosixPath(self.path).parts
        if not parts or self.path.startswith("/") or ".." in parts or "\\" in self.path or ":" in self.path:
            raise ValueError(f"path must lead into the data directory (files are written there), got {self.path!r}")
        good = len(self.sha256) == 64 and set(self.sha256) <= set("0123456789abcdef")
        require(good, "sha256", "64 small hexadecimal digits", "of the whole file", self.sha256)

    def under(self, directory: Path) -> Path:
        """Return the file's path in a directory."""
        return directory / PurePosixPath(self.path)

    def difference(self, path: Path) -> str | None:
        """Say how the file at `path` differs from the published one, or return `None`. Sizes are compared first."""
        size = path.stat().st_size
        if size != self.size:
            return f"it has {size:,} bytes instead of {self.size:,}"
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        return None if found == self.sha256 else f"its sha256 is {found} instead of {self.sha256}"


@dataclass(frozen=True)
class Download:
    """A file that can be downloaded from any of its mirrors, which are tried in order, and the files packed in it.

    With `unpack` it is a tar archive whose members `unpacked` are wanted; the archive is removed after unpacking.
    Without, it is read as it is, or the one file in `unpacked` (the same without compression) instead.
    """

    file: File
    urls: tuple[str, ...]
    unpacked: tuple[File, ...] = ()
    unpack: bool = False

    def __post_init__(self) -> None:
        if not self.urls or any(urlsplit(url).scheme not in ("http", "https") for url in self.urls):
            raise ValueError(f"urls must be one or more http or https addresses, got {self.urls!r}")
        if self.unpack and not self.unpacked:
            raise ValueError(f"unpacked must name the wanted members of {self.file.path} (it is to be unpacked)")

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
    PARTIAL = "partly downloaded"
    MISSING = "missing"


@dataclass(frozen=True)
class FileStatus:
    """One line of `status`: a file that a data set needs, its state, and its published size."""

    data_set: str
    path: Path
    state: FileState
    expected: int


def part_of(path: Path) -> Path:
    """Return the path of an unfinished download."""
    return path.with_name(path.name + ".part")


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
    found = []
    for file in choice:
        path = file.under(directory)
        if path.is_file():
            state = FileState.DAMAGED if file.difference(path) else FileState.VERIFIED
            found.append(FileStatus(data_set, path, state, file.size))
        elif part_of(path).is_file():
            found.append(FileStatus(data_set, path, FileState.PARTIAL, file.size))
    missing = FileStatus(data_set, choice[-1].under(directory), FileState.MISSING, choice[-1].size)
    return min(found, key=lambda status: list(FileState).index(status.state), default=missing)
