"""`gradline list`: the names of studies, problems, methods and data sets."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gradline.lab.cli.terminal import console, print_table
from gradline.lab.tools.formatting import count, size

KINDS = ("studies", "problems", "methods", "data")


@click.command(
    short_help="List studies, problems, methods and data sets.",
    epilog="\b\nExamples:\n  gradline list\n  gradline list problems",
)
@click.argument("kinds", nargs=-1, type=click.Choice(KINDS), metavar="[studies] [problems] [methods] [data]")
def verb(kinds: tuple[str, ...]) -> None:
    """List the studies, problems, methods and data sets.

    Any of them can be named where a study is run, or in a study of your own.
    """
    out = console()
    tables = {"studies": _studies, "problems": _problems, "methods": _methods, "data": _data}
    for position, kind in enumerate(dict.fromkeys(kinds or KINDS)):
        if position:
            out.print()
        header, *rows = tables[kind]()
        title = "Data sets" if kind == "data" else kind.capitalize()
        print_table(out, header, [(f"[bold]{row[0]}[/]", *row[1:]) for row in rows], title=title)


def _studies() -> Iterator[tuple[str, ...]]:
    from gradline.lab import studies

    yield "!name", ">runs", "what it is about"
    for name in studies.available():
        study = studies.load(name)
        yield name, count(len(studies.plan(study))), study.title


def _problems() -> Iterator[tuple[str, ...]]:
    from gradline.lab.problems import PROBLEMS

    yield "!name", "!data", "what is trained", ">budget"
    for problem in PROBLEMS.values():
        yield problem.name, problem.data or "", problem.described, count(problem.budget)


def _methods() -> Iterator[tuple[str, ...]]:
    from gradline.lab.methods import GROUPS, METHODS

    yield "!name", "group", "package", "what it is"
    for name, method in METHODS.items():
        groups = ", ".join(group for group, names in GROUPS.items() if name in names)
        absent = method.unavailable()
        package = f"{method.package} {method.version()}" if absent is None else "[yellow]not installed[/]"
        yield name, groups, package, absent or method.described


def _data() -> Iterator[tuple[str, ...]]:
    from gradline.lab.problems.data import SOURCES

    yield "!name", "comes"
    for name, source in SOURCES.items():
        bytes_ = sum(download.file.size for download in source.downloads)
        yield name, f"by download, {size(bytes_)}" if bytes_ else "with scikit-learn"
