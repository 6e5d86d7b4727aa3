"""`gradline figures`: draw the paper's figures, and those of the other studies, into files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradline.lab.cli.terminal import console, warn

if TYPE_CHECKING:
    from gradline.lab.figures import Entry
    from gradline.lab.findings.traces import Trace


@click.command(
    short_help="Draw the paper's figures from results.",
    epilog="\b\nExamples:\n"
    "  gradline figures results/bcwd --out figures\n"
    "  gradline figures results/bcwd --out figures --figure 8 --figure table-3\n"
    "  gradline figures results/paper.json.gz --out figures\n"
    "  gradline figures --out figures        the illustrations, 1 to 7\n\n"
    "In Python: FIGURES of gradline.lab.figures has each figure's data(...) and draw(...).",
)
@click.argument("directory", metavar="[DIR]", type=click.Path(), required=False)
@click.option(
    "--out",
    "folder",
    required=True,
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="Folder for PDF and PNG files.",
)
@click.option(
    "--figure",
    "wanted",
    multiple=True,
    metavar="N",
    help="Only this one: a number, table-3, compare-heat, or a study such as direction-quality. Repeatable.",
)
def verb(directory: str | None, folder: str, wanted: tuple[str, ...]) -> int:
    """Draw the figures of the results in DIR into FOLDER, as PDF and PNG.

    DIR is a directory of results, or a file that `gradline results --pack` wrote. Figures 1 to 7 are illustrations and
    need no results. A figure without runs in DIR is left out; one with some of its runs says what is missing.
    """
    from gradline.lab.figures import FIGURES, save
    from gradline.lab.figures.curves import MissingRuns
    from gradline.lab.findings.reading import traces

    notes = console(stderr=True)
    names = [find(text, FIGURES) for text in wanted] or list(FIGURES)
    runs: list[Trace] = []
    written: list[Path] = []
    if directory is not None:
        with notes.status("reading runs"):
            runs = traces(directory, report=warn)
        if not runs:
            raise click.ClickException(f"{directory} has no results; `gradline run STUDY --out {directory}` makes some")
    for name in dict.fromkeys(names):
        figure = FIGURES[name]
        try:
            with notes.status(f"drawing {figure.label}"):
                data = figure.data(runs) if figure.needs else figure.data()
                for part, drawn in figure.drawings(data).items():
                    written += save(drawn, Path(folder) / part)
        except MissingRuns as reason:
            if wanted or directory is not None:
                notes.print(f"{figure.label} is left out: {reason}", style="dim", markup=False)
    for path in written:
        click.echo(path)
    return 0 if written else 1


def find(text: str, known: Mapping[str, Entry]) -> str:
    """Return the name of the figure that is meant by 8, figure-8, table_3 or static-vs-dynamic."""
    plain = re.sub(r"[\s-]+", "_", text.strip().lower())
    for name in (plain, f"figure_{plain}", f"study_{plain}"):
        if name in known:
            return name
    choices = ", ".join(one.label.removeprefix("figure ").replace(" ", "-") for one in known.values())
    raise click.UsageError(f"--figure must be one of {choices}; got {text}")
