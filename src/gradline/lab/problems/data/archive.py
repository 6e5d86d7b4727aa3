"""Members of a tar archive, taken out one by one.

Only the named members are looked at, each must be an ordinary file of the published size, and each is written to the
place we name (never to the one the archive names), checked, and only then renamed.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import zlib
from pathlib import Path
from typing import IO, Any, BinaryIO

from gradline.lab.problems.data.errors import DataError
from gradline.lab.problems.data.files import Check, File, part_of
from gradline.lab.tools.files import Limited

MOST_TIMES = 20
"""What is in an archive may be so many times as large as the archive: data compress by a factor of two to ten."""
LEAST = 2**26
"""And at least so many bytes more than its wanted members, for the others."""
_PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


def unpack(archive: Path, members: tuple[File, ...], directory: Path) -> None:
    """Write the wanted members of an archive to their places in the directory; their names are their paths."""
    wanted = {file.path: file for file in members}
    most = max(MOST_TIMES * archive.stat().st_size, sum(file.size for file in members) + LEAST)
    try:
        # Unpacked here, not by tarfile, which takes headers of any length into memory.
        with (
            _unpacked(archive) as stream,
            tarfile.open(fileobj=Limited(stream, most, "what is in it"), mode="r|") as tar,  # type: ignore[call-overload]
        ):
            for member in tar:
                file = wanted.get(member.name.removeprefix("./"))
                if file is None:
                    continue
                content = tar.extractfile(member) if member.isreg() else None
                if content is None or member.size != file.size:
                    raise DataError(f"{archive} is not as published: {member.name} is no file of {file.size:,} bytes")
                _write(content, file, file.under(directory), archive)
                del wanted[file.path]
                if not wanted:
                    return
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, ValueError) as error:
        raise DataError(f"{archive} cannot be read as a tar archive: {error}") from error
    raise DataError(f"{archive} is not as published: it lacks {', '.join(wanted)}")


def _unpacked(archive: Path) -> BinaryIO:
    """The bytes of the tar file itself, whatever it is compressed by."""
    with archive.open("rb") as stream:
        begin = stream.read(6)
    opened: BinaryIO = next((way for sign, way in _PACKED.items() if begin.startswith(sign)), open)(archive, "rb")
    return opened


def _write(content: IO[bytes], file: File, target: Path, archive: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(target)
    check = Check(file)
    try:
        with part.open("wb") as stream:
            while chunk := content.read(1 << 20):
                check.update(chunk)
                stream.write(chunk)
            stream.flush()
            os.fsync(stream.fileno())
        if difference := check.difference():
            raise DataError(f"{archive} is not as published: {file.path}: {difference}")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
