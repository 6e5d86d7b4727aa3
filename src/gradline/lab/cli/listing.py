"""`gradline list`: what there is."""

from __future__ import annotations

from typing import Any

import click

KINDS = ("studies", "problems", "methods", "data")


@click.command(
    "list",
    short_help="List studies, problems, methods and data sets.",
    epilog="\b\nExamples:\n  gradline list\n  gradline list problems",
)
@click.argument("kinds", nargs=-1, type=click.Choice(KINDS), metavar="[studies] [problems] [methods] [data]")
def list_verb(kinds: tuple[str, ...]) -> None:
    """List the studies, problems, methods and data sets.

    Any of them can be named where a study is run, or in a study of your own.
    """
    from gradline.lab.cli.terminal import console

    out = console()
    makers = {"studies": _studies, "problems": _problems, "methods": _methods, "data": _data}
    for position, kind in enumerate(dict.fromkeys(kinds or KINDS)):
        if position:
            out.print()
        out.print(makers[kind]())


def _studies() -> Any:
    from gradline.lab import studies
    from gradline.lab.cli.terminal import table
    from gradline.lab.tools.formatting import count

    made = table("!name", ">runs", "what it is about", title="Studies")
    for name in studies.available():
        study = studies.load(name)
        made.add_row(f"[bold]{name}[/]", count(len(studies.plan(study))), study.title)
    return made


def _problems() -> Any:
    from gradline.lab.cli.terminal import table
    from gradline.lab.problems import PROBLEMS
    from gradline.lab.tools.formatting import count

    made = table("!name", "!data", "what is trained", ">budget", title="Problems")
    for problem in PROBLEMS.values():
        made.add_row(f"[bold]{problem.name}[/]", problem.data or "", problem.described, count(problem.budget))
    return made


def _methods() -> Any:
    from gradline.lab.cli.terminal import table
    from gradline.lab.methods import GROUPS, METHODS

    made = table("!name", "group", "package", "what it is", title="Methods")
    for name, method in METHODS.items():
        groups = ", ".join(group for group, names in GROUPS.items() if name in names)
        absent = method.unavailable()
        package = f"{method.package} {method.version()}" if absent is None else "[yellow]not installed[/]"
        made.add_row(f"[bold]{name}[/]", groups, package, absent or method.described)
    return made


def _data() -> Any:
    from gradline.lab.cli.terminal import table
    from gradline.lab.problems.data import SOURCES
    from gradline.lab.tools.formatting import size

    made = table("!name", "comes", title="Data sets")
    for name, source in SOURCES.items():
        bytes_ = sum(download.file.size for download in source.downloads)
        made.add_row(f"[bold]{name}[/]", f"by download, {size(bytes_)}" if bytes_ else "with scikit-learn")
    return made
