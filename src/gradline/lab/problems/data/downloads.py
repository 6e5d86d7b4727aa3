"""Download the files of data sets, and say which are there.

pooch downloads to a temporary file, compares the SHA-256 and renames: a file that has its name is right.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradline.lab.problems.data import registry
from gradline.lab.problems.data.files import (
    DIRECTORY_VARIABLE,
    DataError,
    Download,
    DownloadError,
    FileState,
    FileStatus,
    data_directory,
    state_of,
)
from gradline.lab.tools.files import atomic_write
from gradline.lab.tools.formatting import size
from gradline.lab.tools.imports import import_extra

RETRIES = 2
"""Further attempts at each mirror, after 1 and 2 seconds."""


def status(directory: str | os.PathLike[str] | None = None) -> tuple[FileStatus, ...]:
    """Return the state of each file of the registered data sets; existing files are read and compared.

    Data sets that need no files (Iris, BCWD) have no lines.
    """
    folder, sources = data_directory(directory), registry.SOURCES.items()
    return tuple(line for name, source in sources for one in source.downloads for line in _states(one, folder, name))


def _states(wanted: Download, folder: Path, name: str) -> list[FileStatus]:
    return [state_of(choice, folder, name) for choice in wanted.choices]


def fetch(name: str, directory: str | os.PathLike[str] | None = None, *, progress: bool = True) -> Path:
    """Download those files of a data set that are missing or damaged, and return their folder.

    A damaged file is replaced when the new one is complete and verified.
    """
    folder = data_directory(directory)
    lacking = [
        wanted
        for wanted in registry.find(name).downloads
        if any(line.state is not FileState.VERIFIED for line in _states(wanted, folder, name))
    ]
    for place, wanted in enumerate(lacking):
        try:
            _download(wanted, folder, progress)
            if wanted.unpack:
                _unpack(wanted, folder)
        except DownloadError as error:
            why = f"could not be downloaded:\n{error}\nThe missing ones"
            raise DownloadError(advice(name, lacking[place:], folder, why)) from error
        except OSError as error:  # no permission, no space, not a folder ...
            raise DataError(
                f"{name} needs files that are not in {folder} and cannot be written there ({error}): "
                f"name another folder by the argument directory or the variable {DIRECTORY_VARIABLE}"
            ) from error
    return folder


def _download(wanted: Download, folder: Path, progress: bool) -> None:
    """Download a file unless it is there, or raise a `DownloadError` with each mirror's last error."""
    pooch, requests = import_extra("pooch", "downloading"), import_extra("requests", "downloading")
    file, errors, bar = wanted.file, [], progress and sys.stderr.isatty()
    pooch.get_logger().setLevel("INFO" if bar else "WARNING")
    known = {file.path: f"sha256:{file.sha256}"}
    for url in wanted.urls:
        mirror = pooch.create(folder, "", registry=known, urls={file.path: url}, retry_if_failed=RETRIES)
        try:
            mirror.fetch(file.path, downloader=pooch.HTTPDownloader(progressbar=bar))
        except (requests.RequestException, ValueError) as error:
            errors.append(f"    {url}: {error}")
        else:
            return
    raise DownloadError("\n".join(errors))


def _unpack(wanted: Download, folder: Path) -> None:
    """Unpack the wanted members of an archive, which stays."""
    try:
        with tarfile.open(wanted.file.under(folder)) as archive:
            for file in wanted.unpacked:
                content: Any = archive.extractfile(file.path)
                with atomic_write(file.under(folder)) as stream:
                    shutil.copyfileobj(content, stream)
    except (tarfile.TarError, EOFError, KeyError) as error:
        raise DataError(f"{wanted.file.under(folder)} cannot be unpacked: {error}") from error


def advice(name: str, lacking: Sequence[Download], folder: Path, why: str) -> str:
    """Return what to do about missing files: put them into the folder, or name another one."""
    lines = [f"{name} needs files that are not in {folder} and {why}:"]
    lines += [f"  {wanted.file.path} ({size(wanted.file.size)}) from {' or '.join(wanted.urls)}" for wanted in lacking]
    unpacked = " (archives unpacked there will do as well)" if any(wanted.unpack for wanted in lacking) else ""
    lines.append(
        f"Put them into {folder} under these names{unpacked}, for example from a machine with a connection, "
        f"or set the variable {DIRECTORY_VARIABLE} (or the argument directory) to a folder that has them; "
        "a folder made by torchvision will do."
    )
    return "\n".join(lines)
