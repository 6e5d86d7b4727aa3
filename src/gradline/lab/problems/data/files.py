"""Files of data sets: where they are, what is in them, and whether they are what was published.

A `File` is a place in the data directory (torchvision's layout) together with the size and checksums of what belongs
there. Reading and checking are one act: `read_verified` returns only bytes that match.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from gradline.lab.problems.data._extra import study_extra
from gradline.lab.problems.data.errors import DataError

DIRECTORY_VARIABLE = "GRADLINE_DATA"


def data_directory(directory: str | os.PathLike[str] | None = None) -> Path:
    """The folder with the files: the argument, else the variable `GRADLINE_DATA`, else the user's cache folder.

    An empty variable counts as not set. The folder need not exist.
    """
    if directory is not None:
        return Path(directory).expanduser()
    if named := os.environ.get(DIRECTORY_VARIABLE):
        return Path(named).expanduser()
    cache: Path = study_extra("platformdirs", "finding the cache folder").user_cache_path("gradline", appauthor=False)
    return cache / "data"


@dataclass(frozen=True)
class File:
    """A published file: its place under the data directory, its size in bytes and its checksums (at least one)."""

    path: str
    size: int
    sha256: str | None = None
    md5: str | None = None

    def __post_init__(self) -> None:
        parts = PurePosixPath(self.path).parts
        if not parts or self.path.startswith("/") or ".." in parts or "\\" in self.path or ":" in self.path:
            raise ValueError(f"path must lead into the data directory (files are written there), got {self.path!r}")
        if self.size < 1:
            raise ValueError(f"size must be at least 1 byte (it tells a whole file from a part), got {self.size!r}")
        for name, digits in (("sha256", 64), ("md5", 32)):
            value = getattr(self, name)
            if value is not None and (len(value) != digits or not set(value) <= set("0123456789abcdef")):
                raise ValueError(f"{name} must be {digits} small hexadecimal digits (of the whole file), got {value!r}")
        if self.sha256 is None and self.md5 is None:
            raise ValueError(f"{self.path} must have a sha256 or an md5 (it is what makes a download trustworthy)")

    def under(self, directory: Path) -> Path:
        """The place of the file in a directory."""
        return directory / PurePosixPath(self.path)

    def difference(self, *chunks: bytes) -> str | None:
        """How these bytes differ from the published ones, or None if they do not."""
        check = Check(self)
        for chunk in chunks:
            check.update(chunk)
        return check.difference()

    def difference_at(self, place: Path) -> str | None:
        """How the file at a place differs from the published one, or None; the size is looked at before the bytes."""
        size = place.stat().st_size
        if size != self.size:
            return f"it has {size:,} bytes instead of {self.size:,}"
        check = Check(self)
        with place.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                check.update(chunk)
        return check.difference()


class Check:
    """Size and checksums of bytes that come piece by piece."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._size = 0
        self._sha256 = hashlib.sha256() if file.sha256 else None
        self._md5 = hashlib.md5(usedforsecurity=False) if file.md5 else None

    def update(self, chunk: bytes) -> None:
        """Take the next piece."""
        self._size += len(chunk)
        for digest in (self._sha256, self._md5):
            if digest is not None:
                digest.update(chunk)

    def difference(self) -> str | None:
        """How the bytes so far differ from the published file, or None if they do not."""
        if self._size != self._file.size:
            return f"it has {self._size:,} bytes instead of {self._file.size:,}"
        for name, digest in (("sha256", self._sha256), ("md5", self._md5)):
            expected = getattr(self._file, name)
            if digest is not None and digest.hexdigest() != expected:
                return f"its {name} is {digest.hexdigest()} instead of {expected}"
        return None


@dataclass(frozen=True)
class Download:
    """A file that can be downloaded, from any of its mirrors in order, and the files packed in it.

    With `unpack` it is a tar archive whose members are wanted (the archive is removed after them); without, it is read
    as it is, or the one file in `unpacked` (the same without compression) in its place.
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
    """What is known of a file in the data directory; the values are the words a user reads."""

    VERIFIED = "verified"
    MISSING = "missing"
    PARTIAL = "partly downloaded"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class FileStatus:
    """One line of `status`: a file a data set needs, and what is there (`size` is None where nothing is)."""

    data_set: str
    path: Path
    state: FileState
    size: int | None
    expected: int


def part_of(place: Path) -> Path:
    """Where an unfinished file is kept until it is whole and checked."""
    return place.with_name(place.name + ".part")


def present(choice: tuple[File, ...], directory: Path) -> bool:
    """Whether some form of a wanted file is there with its size (its bytes are checked when they are read)."""
    return any(place.is_file() and place.stat().st_size == file.size for file, place in _places(choice, directory))


def read_verified(choice: tuple[File, ...], directory: Path) -> tuple[File, bytes]:
    """The bytes of a wanted file in the first of its forms that is there and as published."""
    reasons = []
    for file, place in _places(choice, directory):
        if not place.is_file():
            continue
        content = place.read_bytes()
        difference = file.difference(content)
        if difference is None:
            return file, content
        reasons.append(f"{place} is damaged: {difference}")
    raise DataError("; ".join(reasons) or f"{choice[-1].under(directory)} is not there")


def state_of(choice: tuple[File, ...], directory: Path, data_set: str) -> FileStatus:
    """The state of a wanted file: of its best form, if there are several."""
    found = []
    for file, place in _places(choice, directory):
        if place.is_file():
            size = place.stat().st_size
            state = FileState.DAMAGED if file.difference_at(place) else FileState.VERIFIED
            found.append(FileStatus(data_set, place, state, size, file.size))
        elif part_of(place).is_file():
            size = part_of(place).stat().st_size
            found.append(FileStatus(data_set, place, FileState.PARTIAL, size, file.size))
    missing = FileStatus(data_set, choice[-1].under(directory), FileState.MISSING, None, choice[-1].size)
    order = (FileState.VERIFIED, FileState.DAMAGED, FileState.PARTIAL)
    return min(found, key=lambda status: order.index(status.state), default=missing)


def _places(choice: tuple[File, ...], directory: Path) -> list[tuple[File, Path]]:
    return [(file, file.under(directory)) for file in choice]
