"""Download the files of data sets, and say which are there.

pooch downloads to a temporary file, compares the SHA-256 and renames: a file that has its name is right. Bytes of an
interrupted download stay in a `.part` file, and the next attempt, perhaps at another mirror, asks for the rest only.
One process at a time downloads a data set; others wait for it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
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
    part_of,
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
    folder = data_directory(directory)
    lines = []
    for name, source in registry.SOURCES.items():
        for wanted in source.downloads:
            states = [state_of(choice, folder, name) for choice in wanted.choices]
            if wanted.unpack and any(line.state is not FileState.VERIFIED for line in states):
                archive = state_of((wanted.file,), folder, name)  # of interest only while something is to be unpacked
                states += [archive] if archive.state is not FileState.MISSING else []
            lines += states
    return tuple(lines)


def fetch(name: str, directory: str | os.PathLike[str] | None = None, *, progress: bool = True) -> Path:
    """Download those files of a data set that are missing or damaged, and return their folder.

    A damaged file is replaced when the new one is complete and verified. Several processes may fetch at once: one
    downloads, the others wait.
    """
    folder = data_directory(directory)
    _bring(name, registry.find(name).downloads, folder, progress)
    return folder


def ensure(name: str, downloads: tuple[Download, ...], folder: Path, *, progress: bool, may_download: bool) -> None:
    """Download files that are missing. A file with its published size is compared when it is read."""
    lacking = []
    for wanted in downloads:
        for choice in wanted.choices:
            there = [file for file in choice if file.under(folder).is_file()]
            if any(file.under(folder).stat().st_size == file.size for file in there):
                continue
            for file in there:
                path = file.under(folder)
                raise DataError(f"{name}: {path} is damaged: {file.difference(path)}. {replace_advice(name)}")
            lacking.append(wanted)
    if lacking and not may_download:
        raise DownloadError(_advice(name, list(dict.fromkeys(lacking)), folder, "were not to be downloaded"))
    if lacking:
        _bring(name, downloads, folder, progress)


def replace_advice(name: str) -> str:
    """Say how to replace a damaged file."""
    return f"gradline.lab.problems.data.fetch({name!r}) replaces it."


def _lacking(downloads: tuple[Download, ...], folder: Path) -> list[Download]:
    def verified(wanted: Download) -> bool:
        return all(state_of(choice, folder, "").state is FileState.VERIFIED for choice in wanted.choices)

    return [wanted for wanted in downloads if not verified(wanted)]


def _bring(name: str, downloads: tuple[Download, ...], folder: Path, progress: bool) -> None:
    if not _lacking(downloads, folder):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / f".{name}.lock", name, progress):
            for wanted in _lacking(downloads, folder):  # again: another process may have downloaded them meanwhile
                try:
                    _bring_one(wanted, folder, progress)
                except DownloadError as error:
                    why = f"could not be downloaded:\n{error}\nThe missing ones"
                    raise DownloadError(_advice(name, _lacking(downloads, folder), folder, why)) from error
    except OSError as error:  # no permission, no space, not a folder ...
        raise DataError(
            f"{name} needs files that are not in {folder} and cannot be written there ({error}): "
            f"name another folder by the argument directory or the variable {DIRECTORY_VARIABLE}"
        ) from error


def _bring_one(wanted: Download, folder: Path, progress: bool) -> None:
    target = wanted.file.under(folder)
    # An archive that someone else left here is used, and stays.
    ours = not (wanted.unpack and target.is_file() and wanted.file.difference(target) is None)
    if ours:
        _download(wanted, folder, progress)
    if wanted.unpack:
        try:
            with tarfile.open(target) as archive:
                for file in wanted.unpacked:
                    content: Any = archive.extractfile(file.path)
                    with atomic_write(file.under(folder)) as stream:
                        shutil.copyfileobj(content, stream)
        except (tarfile.TarError, EOFError, KeyError) as error:
            raise DataError(f"{target} cannot be unpacked: {error}") from error
        if ours:
            target.unlink()


def _download(wanted: Download, folder: Path, progress: bool) -> None:
    """Download a file, or raise a `DownloadError` with each mirror's last error."""
    pooch = import_extra("pooch", "downloading")
    requests, tqdm = import_extra("requests", "downloading"), import_extra("tqdm", "downloading").tqdm
    pooch.get_logger().setLevel("WARNING")  # the progress bar is enough
    file = wanted.file
    part = part_of(file.under(folder))
    part.parent.mkdir(parents=True, exist_ok=True)

    def resume(url: str, output: str, _: Any) -> None:
        """Continue the partial file, then hand it to pooch, which deletes it if its SHA-256 differs."""
        have = part.stat().st_size if part.exists() else 0
        if have < file.size:
            headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
            # disable=None: a bar on a terminal, nothing in a log file.
            bar = tqdm(total=file.size, desc=part.stem, unit="B", unit_scale=True, disable=None if progress else True)
            with part.open("ab") as stream, bar:
                # If the server ignores the range, all of it is appended, the SHA-256 differs, and the next attempt
                # begins from nothing.
                pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, headers=headers)(url, stream, None)
        shutil.move(part, output)

    errors = []
    known = {file.path: f"sha256:{file.sha256}"}
    for url in wanted.urls:
        mirror = pooch.create(folder, "", registry=known, urls={file.path: url}, retry_if_failed=RETRIES)
        try:
            mirror.fetch(file.path, downloader=resume)
        except (requests.RequestException, ValueError) as error:
            errors.append(f"    {url}: {error}")
        else:
            return
    raise DownloadError("\n".join(errors))


@contextmanager
def _locked(path: Path, name: str, progress: bool) -> Iterator[None]:
    filelock = import_extra("filelock", "downloading")
    lock = filelock.FileLock(path)
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


def _advice(name: str, lacking: list[Download], folder: Path, why: str) -> str:
    lines = [f"{name} needs files that are not in {folder} and {why}:"]
    lines += [f"  {wanted.file.path} ({size(wanted.file.size)}) from {' or '.join(wanted.urls)}" for wanted in lacking]
    unpacked = " (archives unpacked there will do as well)" if any(wanted.unpack for wanted in lacking) else ""
    lines.append(
        f"Put them into {folder} under these names{unpacked}, for example from a machine with a connection, "
        f"or set the variable {DIRECTORY_VARIABLE} (or the argument directory) to a folder that has them; "
        "a folder made by torchvision will do."
    )
    return "\n".join(lines)
