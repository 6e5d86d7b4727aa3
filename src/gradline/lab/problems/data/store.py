"""Fetching the files of data sets and saying which are there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradline.lab.problems.data import registry
from gradline.lab.problems.data._extra import study_extra
from gradline.lab.problems.data.archive import unpack
from gradline.lab.problems.data.errors import DataError, DownloadError
from gradline.lab.problems.data.files import (
    DIRECTORY_VARIABLE,
    Download,
    File,
    FileState,
    FileStatus,
    data_directory,
    present,
    state_of,
)
from gradline.lab.problems.data.http import Patience, download


def status(directory: str | os.PathLike[str] | None = None) -> tuple[FileStatus, ...]:
    """Which files of the registered data sets are there; each that is there is read and checked.

    Data sets that need no files (Iris, BCWD) have no lines.
    """
    folder = data_directory(directory)
    return tuple(
        line
        for name, source in registry.SOURCES.items()
        for wanted in source.downloads
        for line in _lines(name, wanted, folder)
    )


def _lines(name: str, wanted: Download, folder: Path) -> list[FileStatus]:
    lines = [state_of(choice, folder, name) for choice in wanted.choices]
    if wanted.unpack and any(line.state is not FileState.VERIFIED for line in lines):
        # An archive is worth a line only while something is to come out of it.
        archive = state_of((wanted.file,), folder, name)
        lines += [archive] if archive.state is not FileState.MISSING else []
    return lines


def fetch(
    name: str,
    directory: str | os.PathLike[str] | None = None,
    *,
    progress: bool = True,
    patience: Patience | None = None,
) -> Path:
    """Make sure that all files of a data set are there and as published, and return their folder.

    Files that are missing or damaged are downloaded (damaged ones are replaced once the new one is whole and checked);
    files that are as published are left alone. Several processes may fetch at once: one downloads, the others wait.
    """
    source = registry.find(name)
    folder = data_directory(directory)
    _bring(name, source.downloads, folder, progress, patience or Patience(), check=True)
    return folder


def ensure(name: str, downloads: tuple[Download, ...], folder: Path, *, progress: bool, may_download: bool) -> None:
    """Download what is missing; what is there with its size is taken to be right until it is read."""
    lacking = _lacking(downloads, folder, check=False)
    if not lacking:
        return
    for choice in (choice for wanted in lacking for choice in wanted.choices if not present(choice, folder)):
        for file in choice:
            place = file.under(folder)
            if place.is_file():
                raise DataError(f"{name}: {place} is damaged: {file.difference_at(place)}. {replace_advice(name)}")
    if not may_download:
        raise DownloadError(_advice(name, lacking, folder, "were not to be downloaded"))
    _bring(name, downloads, folder, progress, Patience(), check=False)


def replace_advice(name: str) -> str:
    """What to do about a damaged file."""
    return f"gradline.lab.problems.data.fetch({name!r}) replaces it."


def _bring(
    name: str, downloads: tuple[Download, ...], folder: Path, progress: bool, patience: Patience, *, check: bool
) -> None:
    if not _lacking(downloads, folder, check=check):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / f".{name}.lock", name, progress):
            # Asked again: another process may have brought them while we waited.
            for wanted in _lacking(downloads, folder, check=check):
                try:
                    _bring_one(wanted, folder, progress, patience)
                except DownloadError as error:
                    lacking = _lacking(downloads, folder, check=check)
                    why = f"could not be downloaded:\n{error}\nThe missing ones"
                    raise DownloadError(_advice(name, lacking, folder, why)) from error
    except OSError as error:  # no permission, no space, not a folder ...
        raise DataError(
            f"{name} needs files that are not in {folder} and cannot be written there ({error}): "
            f"name another folder by the argument directory or the variable {DIRECTORY_VARIABLE}"
        ) from error


def _bring_one(wanted: Download, folder: Path, progress: bool, patience: Patience) -> None:
    target = wanted.file.under(folder)
    # An archive that someone else left here is used, and stays.
    ours = not (wanted.unpack and target.is_file() and wanted.file.difference_at(target) is None)
    if ours:
        download(wanted, folder, progress=progress, patience=patience)
    if wanted.unpack:
        unpack(target, wanted.unpacked, folder)
        if ours:
            target.unlink()


@contextmanager
def _locked(place: Path, name: str, progress: bool) -> Iterator[None]:
    filelock = study_extra("filelock", "downloading")
    lock = filelock.FileLock(str(place))
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        if progress:
            print(f"another process is fetching {name}: waiting for it", file=sys.stderr)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _lacking(downloads: tuple[Download, ...], folder: Path, *, check: bool) -> list[Download]:
    def have(choice: tuple[File, ...]) -> bool:
        return state_of(choice, folder, "").state is FileState.VERIFIED if check else present(choice, folder)

    return [wanted for wanted in downloads if not all(have(choice) for choice in wanted.choices)]


def _advice(name: str, lacking: list[Download], folder: Path, why: str) -> str:
    lines = [f"{name} needs files that are not in {folder} and {why}:"]
    lines += [
        f"  {wanted.file.path} ({wanted.file.size / 1e6:.1f} MB) from {' or '.join(wanted.urls)}" for wanted in lacking
    ]
    unpacked = " (archives unpacked there will do as well)" if any(wanted.unpack for wanted in lacking) else ""
    lines.append(
        f"Put them into {folder} under these names{unpacked}, for example from a machine with a connection, "
        f"or set the variable {DIRECTORY_VARIABLE} (or the argument directory) to a folder that has them; "
        "a folder made by torchvision will do."
    )
    return "\n".join(lines)
