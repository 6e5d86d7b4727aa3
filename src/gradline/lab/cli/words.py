"""Where the command line prints, and its tables. How numbers are written: `gradline.lab.tools.formatting`."""

from __future__ import annotations

import shutil
import sys

from rich.console import Console
from rich.table import Table

from gradline.lab.tools.formatting import clock, count, duration, number, percent, plural, ranges, size

__all__ = ["clock", "console", "count", "duration", "number", "percent", "plural", "ranges", "size", "table"]

WIDE = 160
"""Columns of output that goes into a file or a pipe."""


def console(*, stderr: bool = False) -> Console:
    """Where to print: as wide as the terminal, or wide enough for everything."""
    stream = sys.stderr if stderr else sys.stdout
    width = shutil.get_terminal_size((80, 24)).columns if stream.isatty() else WIDE
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


def table(*columns: str, title: str | None = None) -> Table:
    """A table without frames. A column whose name begins with > is aligned to the right."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        right = name.startswith(">")
        made.add_column(name.removeprefix(">"), justify="right" if right else "left", header_style="dim", no_wrap=right)
    return made
