"""`gradline data`: which files of data sets are there, and fetching them."""

from __future__ import annotations

import click

from gradline.lab.cli.options import data_option
from gradline.lab.cli.terminal import console, escape, print_table
from gradline.lab.tools.formatting import size


@click.group(
    short_help="Show which data files are there, or fetch them.",
    invoke_without_command=True,
    epilog="\b\nExamples:\n  gradline data\n  gradline data fetch mnist\n  gradline data --data ~/data fetch cifar10",
)
@data_option
@click.pass_context
def verb(context: click.Context) -> None:
    """Show which files of the data sets are there and intact; `fetch` downloads them.

    Iris and BCWD come with scikit-learn and need no files.
    """
    if context.invoked_subcommand is None:
        _status()


@verb.command()
@click.argument("name", nargs=-1, required=True)
@click.option("--quiet", is_flag=True, help="No progress bar.")
def fetch(name: tuple[str, ...], quiet: bool) -> None:
    """Download and check the files of data sets NAME."""
    from gradline.lab.problems import data as sets
    from gradline.lab.studies.toml import StudyError, unknown

    for wanted in name:
        if wanted not in sets.SOURCES:
            raise StudyError(unknown("data set", wanted, sets.SOURCES))
    for wanted in name:
        if sets.SOURCES[wanted].downloads:
            folder = sets.fetch(wanted, progress=not quiet)
            click.echo(f"{wanted} is whole, in {folder}")
        else:
            click.echo(f"{wanted} comes with scikit-learn: there is nothing to fetch")


def _status() -> None:
    from gradline.lab.problems import data as sets

    out = console()
    out.print(f"Files in {escape(str(sets.data_directory()))}")
    out.print()
    rows = [
        (f"[bold]{name}[/]", "", "", "[green]comes with scikit-learn[/]")
        for name, source in sets.SOURCES.items()
        if not source.downloads
    ]
    colours = {"verified": "green", "missing": "dim", "damaged": "red"}
    for line in sets.status():
        state = line.state.value
        file = escape(str(line.path.relative_to(sets.data_directory())))
        rows.append((f"[bold]{line.data_set}[/]", file, size(line.expected), f"[{colours[state]}]{state}[/]"))
    print_table(out, ("!data set", "file", ">size", "state"), rows)
