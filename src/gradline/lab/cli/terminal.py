"""Where the command line prints: results on stdout, messages on stderr, both as wide as the terminal.

Rich is imported when something is printed, so that `gradline --help` does not need it.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 160
"""Columns of output that goes into a file or a pipe."""
HEADER = 9
"""Characters of a line of a column's header, if its words allow it."""


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return where to print: as wide as the terminal, or wide enough for everything; a quiet one prints nothing."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = shutil.get_terminal_size((80, 24)).columns if stream.isatty() else WIDE
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False, quiet=quiet)


def warn(text: str) -> None:
    """Print a warning on stderr."""
    console(stderr=True).print(text, style="yellow", markup=False)


def escape(text: str) -> str:
    """Return text that is printed as it is: brackets are no markup."""
    from rich.markup import escape

    return escape(text)


def print_facts(out: Console, facts: Mapping[str, str]) -> None:
    """Print names and what is known of them, a line each."""
    from rich.table import Table

    made = Table.grid(padding=(0, 3, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column()
    for name, text in facts.items():
        made.add_row(name, text)
    out.print(made)


def print_table(
    out: Console, header: Sequence[str], rows: Sequence[Sequence[str]], optional: Iterable[str] = (), title: str = ""
) -> None:
    """Print a table without frames, on a narrow terminal without some of its columns.

    Args:
        out: the console.
        header: names of columns. A name that begins with > is of a column that is aligned to the right. Such a column,
            and one whose name begins with !, is never wrapped or cut, and its header has several short lines.
        rows: cells, with markup.
        optional: names of columns that are left out if the table is too wide, the first one first.
        title: printed above.
    """
    from rich.cells import cell_len
    from rich.measure import Measurement
    from rich.table import Table

    names, left_out = [name.lstrip(">!") for name in header], []
    cells = [
        [out.render_str(cell) for cell in row] for row in rows
    ]  # once: rich reads a string each time it measures it
    shown = list(range(len(header)))
    for dropped in (*optional, None):
        made = Table(title=title or None, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
        made.pad_edge = False
        for place in shown:
            fixed, right = header[place] != names[place], header[place].startswith(">")
            head = out.render_str(
                textwrap.fill(names[place], HEADER, break_long_words=False) if fixed else names[place]
            )
            lines = [line for text in (head.plain, *(row[place].plain for row in cells)) for line in text.splitlines()]
            made.add_column(
                head,
                justify="right" if right else "left",
                header_style="dim",
                no_wrap=fixed,
                overflow="fold",
                min_width=max(map(cell_len, lines)) if fixed else None,
            )
        for row in cells:
            made.add_row(*(row[place] for place in shown))
        needed = Measurement.get(out, out.options.update(width=10_000), made).minimum
        if needed <= out.width or dropped is None:
            break
        if dropped in names:
            shown.remove(names.index(dropped))
            left_out.append(dropped)
    out.print(made, width=max(needed, out.width), crop=False)  # the terminal wraps lines that are still too long
    if left_out:
        out.print(f"[dim]A wider terminal also shows: {', '.join(left_out)}[/]")
