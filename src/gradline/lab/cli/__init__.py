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
    """Have all three streams open, and able to print every name.

    A stream that is closed (`gradline ... >&-`) prints nowhere: else the next file opened would get its number, and
    what libraries print there would go into it. A character that the terminal's encoding does not have is escaped.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8")
    sys.stderr = sys.stderr or io.TextIOWrapper(io.FileIO(2, "w", closefd=False), encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
