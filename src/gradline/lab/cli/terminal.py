"""Where the command line prints, and its tables."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from typing import Literal

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

WIDE = 160
"""Columns of output that goes into a file or a pipe."""


def console(*, stderr: bool = False) -> Console:
    """Return where to print: as wide as the terminal, or wide enough for everything."""
    stream = sys.stderr if stderr else sys.stdout
    width = shutil.get_terminal_size((80, 24)).columns if stream.isatty() else WIDE
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


def table(*columns: str, title: str | None = None) -> Table:
    """Return a table without frames.

    A column whose name begins with > is aligned to the right. Such a column, and one whose name begins with !, is
    never wrapped or cut: give it names that a reader types.
    """
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        plain = name.lstrip(">!")
        justify: Literal["left", "right"] = "right" if name.startswith(">") else "left"
        made.add_column(plain, justify=justify, header_style="dim", no_wrap=name != plain, overflow="fold")
    return made


def print_table(out: Console, made: Table, optional: Iterable[str] = ()) -> None:
    """Print a table, on a narrow terminal without some of its columns.

    Args:
        out: where.
        made: the table.
        optional: headers of columns that are left out if the table is too wide, the first one first.
    """
    left_out = []
    for header in optional:
        if Measurement.get(out, out.options.update(width=10_000), made).minimum <= out.width:
            break
        place = next((place for place, column in enumerate(made.columns) if column.header == header), None)
        if place is not None:
            del made.columns[place]
            left_out.append(header.strip())
    out.print(made)
    if left_out:
        out.print(f"[dim]A wider terminal also shows: {', '.join(dict.fromkeys(left_out))}[/]")
