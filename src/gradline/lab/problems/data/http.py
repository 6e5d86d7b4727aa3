"""Downloads that can be trusted and continued.

The bytes go into a `.part` file beside the target. Whatever interrupts (a cut connection, a killed process) leaves it,
and the next attempt asks for the rest by HTTP Range. A whole part is checked against its size and checksums, deleted if
it differs, and only then renamed to its place: what has the target's name is right.

Mirrors are tried in order, in rounds with a growing pause between them. A mirror that answers with something else (not
found, another length, other content) is not asked again. Bytes that have arrived are kept from mirror to mirror. One
process at a time may download to a target: callers hold a lock (see `store`).
"""

from __future__ import annotations

import http.client
import os
import re
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradline.lab.problems.data._extra import study_extra
from gradline.lab.problems.data.errors import DownloadError
from gradline.lab.problems.data.files import Download, File, part_of

CHUNK = 1 << 16
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Patience:
    """How long to try: rounds over the mirrors, seconds before the second round (doubled each time) and of silence."""

    rounds: int = 4
    pause: float = 1.0
    timeout: float = 30.0

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1 (each mirror is asked once a round), got {self.rounds!r}")
        if not self.pause >= 0.0:
            raise ValueError(f"pause must be at least 0 (it is a time to wait), got {self.pause!r}")
        if not self.timeout > 0.0:
            raise ValueError(f"timeout must be above 0 (a silent server is left after it), got {self.timeout!r}")


class _MirrorError(Exception):
    """A mirror failed; `final` if asking it again is pointless."""

    def __init__(self, reason: str, *, final: bool) -> None:
        super().__init__(reason)
        self.final = final


def download(wanted: Download, directory: Path, *, progress: bool, patience: Patience) -> None:
    """Bring a file into the directory, or raise a `DownloadError` with each mirror's last reason."""
    target = wanted.file.under(directory)
    target.parent.mkdir(parents=True, exist_ok=True)
    reasons: dict[str, str] = {}
    mirrors = list(wanted.urls)
    with _bar(wanted.file, progress) as bar:
        for turn in range(patience.rounds):
            if turn:
                time.sleep(patience.pause * 2 ** (turn - 1))
            for url in tuple(mirrors):
                try:
                    _ask(url, wanted.file, target, patience.timeout, bar)
                except _MirrorError as error:
                    reasons[url] = str(error)
                    if error.final:
                        mirrors.remove(url)
                else:
                    return
            if not mirrors:
                break
    raise DownloadError("\n".join(f"    {url}: {reasons[url]}" for url in wanted.urls))


def _ask(url: str, file: File, target: Path, timeout: float, bar: Any) -> None:
    """Get the file from one mirror, beginning again as long as each attempt brings a good piece of it."""
    part = part_of(target)
    while True:
        before = _size(part, file)
        try:
            if before < file.size:
                _receive(url, file, part, before, timeout, bar)
        except _MirrorError as error:
            # A long file over a bad line comes in pieces: what counts is that it comes.
            if error.final or _size(part, file) - before < min(file.size, 1 << 20):
                raise
            continue
        difference = file.difference_at(part)
        if difference is None:
            part.replace(target)
            return
        part.unlink()
        if before == 0:
            raise _MirrorError(f"what came is not the published file: {difference}", final=True)
        # The first piece may have been wrong, not this mirror: once more from the beginning.


def _receive(url: str, file: File, part: Path, have: int, timeout: float, bar: Any) -> None:
    """Add to the part what one answer of the server brings; return only if the part has its full size."""
    headers = {"User-Agent": "gradline", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # it has no such rest: what we have is not a part of what it has
            part.unlink(missing_ok=True)
        raise _MirrorError(f"HTTP {error.code} {error.reason}", final=error.code not in _TRY_AGAIN | {416}) from error
    except (OSError, http.client.HTTPException) as error:
        raise _MirrorError(_words(error), final=False) from error
    with answer:
        have = _start(answer, file, have)
        bar.n = have
        bar.refresh()
        with part.open("r+b" if have else "wb") as stream:
            stream.seek(have)
            stream.truncate()
            while have < file.size:
                try:
                    # read1 waits for no more than has come, so that silence loses nothing.
                    chunk = answer.read1(min(CHUNK, file.size - have))
                except (OSError, http.client.HTTPException) as error:
                    raise _MirrorError(f"{_words(error)} after {have:,} of {file.size:,} bytes", final=False) from error
                if not chunk:
                    raise _MirrorError(f"the answer ended after {have:,} of {file.size:,} bytes", final=False)
                stream.write(chunk)
                have += len(chunk)
                bar.update(len(chunk))
            stream.flush()
            os.fsync(stream.fileno())


def _start(answer: Any, file: File, have: int) -> int:
    """The offset at which the body of an answer begins; an answer that cannot be of this file is refused."""
    if answer.status == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != have or found[2] not in ("*", str(file.size)):
            said = answer.headers.get("Content-Range")
            raise _MirrorError(f"it answered with another part of the file (Content-Range: {said})", final=True)
        return have
    if answer.status != 200:
        raise _MirrorError(f"HTTP {answer.status} {answer.reason}", final=True)
    length = answer.headers.get("Content-Length")
    if length is not None and length != str(file.size):
        raise _MirrorError(f"it offers {length} bytes instead of {file.size}", final=True)
    return 0  # the server does not know Range, or was not asked: all of it comes


def _size(part: Path, file: File) -> int:
    """How much of the file has arrived; a part that is too long is of something else and is deleted."""
    if not part.exists():
        return 0
    size = part.stat().st_size
    if size > file.size:
        part.unlink()
        return 0
    return size


def _bar(file: File, progress: bool) -> Any:
    tqdm = study_extra("tqdm", "downloading").tqdm
    # None: a bar on a terminal, nothing in a log file.
    return tqdm(
        total=file.size, desc=Path(file.path).name, unit="B", unit_scale=True, disable=None if progress else True
    )


def _words(error: BaseException) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(reason) or type(reason).__name__
