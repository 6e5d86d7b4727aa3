"""The command line: `gradline`, one verb a file. Nothing here imports torch before a verb needs it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from gradline.installing import not_installed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 something failed, 2 not understood, 130 interrupted."""
    _prepare_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given in (["--version"], ["-V"]):  # answered without click: in every install
        sys.stdout.write(f"gradline {version('gradline')}\n")
        return 0
    try:
        from gradline.lab.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.stderr.write(f"gradline: {not_installed('the command line', error.name, 'study')}\n")
        return 2
    return run(given)


def _prepare_streams() -> None:
    """Open standard streams that are closed, and have all of them escape characters that their encoding lacks.

    A closed stream (`gradline ... >&-`) is opened to print nowhere: else the next file opened would get its number, and
    what libraries print there would go into it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8")
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(2, "w", closefd=False), encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
