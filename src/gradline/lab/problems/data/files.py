"""Published files of data sets: where they are stored, whether their bytes are the published ones, and downloading.

A `File` is a path in the data directory (torchvision's layout) with the size and SHA-256 of its content.
`read_verified` returns only content that matches, so readers of a format need not doubt it. pooch downloads to a
temporary file, compares the SHA-256 and renames: a file that has its name is right.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any

from gradline.lab.tools.files import atomic_write
from gradline.lab.tools.formatting import size
from gradline.lab.tools.imports import import_extra

DIRECTORY_VARIABLE = "GRADLINE_DATA"
RETRIES = 2
"""Further attempts at each mirror, after 1 and 2 seconds."""


class DataError(RuntimeError):
    """A data set is not available: its files are missing, damaged, or cannot be written."""


class DownloadError(DataError):
    """Files are missing and no mirror delivered them; the message says which files to put where."""


def data_directory(directory: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder with the files: the argument, else the variable `GRADLINE_DATA`, else the user's cache folder.

    An empty variable counts as not set. The folder need not exist.
    """
    if named := directory or os.environ.get(DIRECTORY_VARIABLE):
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
    """A file that a data set needs, its state, and its published size."""

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


def states(wanted: Download, directory: Path, data_set: str) -> list[FileStatus]:
    """Return the states of the files of a download, each of its best form; existing files are read and compared."""
    found = []
    for choice in wanted.choices:
        there = [file for file in choice if file.under(directory).is_file()]
        file, state = (there or [choice[-1]])[0], FileState.DAMAGED if there else FileState.MISSING
        with suppress(DataError):
            file, state = read_verified(choice, directory)[0], FileState.VERIFIED
        found.append(FileStatus(data_set, file.under(directory), state, file.size))
    return found


def download(wanted: Download, directory: Path, *, progress: bool) -> None:
    """Download a file and unpack it. Raises a `DownloadError` with each mirror's last error, or a `DataError`."""
    pooch, requests = import_extra("pooch", "downloading"), import_extra("requests", "downloading")
    file, errors, bar = wanted.file, [], progress and sys.stderr.isatty()
    pooch.get_logger().setLevel("INFO" if bar else "WARNING")
    known = {file.path: f"sha256:{file.sha256}"}
    for url in wanted.urls:
        mirror = pooch.create(directory, "", registry=known, urls={file.path: url}, retry_if_failed=RETRIES)
        try:
            mirror.fetch(file.path, downloader=pooch.HTTPDownloader(progressbar=bar))
        except (requests.RequestException, ValueError) as error:
            errors.append(f"    {url}: {error}")
        else:
            if wanted.unpack:
                _unpack(wanted, directory)
            return
    raise DownloadError("\n".join(errors))


def _unpack(wanted: Download, directory: Path) -> None:
    """Unpack the wanted members of an archive, which stays."""
    try:
        with tarfile.open(wanted.file.under(directory)) as archive:
            for file in wanted.unpacked:
                content: Any = archive.extractfile(file.path)
                with atomic_write(file.under(directory)) as stream:
                    shutil.copyfileobj(content, stream)
    except (tarfile.TarError, EOFError, KeyError) as error:
        raise DataError(f"{wanted.file.under(directory)} cannot be unpacked: {error}") from error


def advice(name: str, lacking: Sequence[Download], directory: Path, why: str) -> str:
    """Return what to do about missing files: put them into the folder, or name another one."""
    lines = [f"{name} needs files that are not in {directory} and {why}:"]
    lines += [f"  {wanted.file.path} ({size(wanted.file.size)}) from {' or '.join(wanted.urls)}" for wanted in lacking]
    unpacked = " (archives unpacked there will do as well)" if any(wanted.unpack for wanted in lacking) else ""
    lines.append(
        f"Put them into {directory} under these names{unpacked}, for example from a machine with a connection, "
        f"or set the variable {DIRECTORY_VARIABLE} (or the argument directory) to a folder that has them; "
        "a folder made by torchvision will do."
    )
    return "\n".join(lines)
