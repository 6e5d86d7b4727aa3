"""`gradline list`: what there is."""

from __future__ import annotations

import dataclasses
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
    from gradline.lab.cli.words import console

    out = console()
    makers = {"studies": _studies, "problems": _problems, "methods": _methods, "data": _data}
    for position, kind in enumerate(dict.fromkeys(kinds or KINDS)):
        if position:
            out.print()
        out.print(makers[kind]())


def _studies() -> Any:
    from gradline.lab import studies
    from gradline.lab.cli.words import count, table

    made = table("name", ">runs", "what it is about", title="Studies")
    for name in studies.available():
        study = studies.load(name)
        made.add_row(f"[bold]{name}[/]", count(len(studies.plan(study))), study.title)
    return made


def _problems() -> Any:
    from gradline.lab.cli.words import count, table
    from gradline.lab.problems.network import PROBLEMS

    made = table("name", "data", "hidden units", "activation", "loss", ">scale", ">budget", title="Problems")
    for problem in PROBLEMS.values():
        made.add_row(
            f"[bold]{problem.name}[/]",
            problem.data,
            _units(problem.hidden),
            problem.activation.value,
            problem.loss.value,
            f"{problem.scale:.3g}",
            count(problem.budget),
        )
    return made


def _units(hidden: tuple[int, ...]) -> str:
    if len(hidden) > 3 and len(set(hidden)) == 1:
        return f"{len(hidden)} × {hidden[0]}"
    return ", ".join(map(str, hidden)) or "none"


def _methods() -> Any:
    from gradline.lab.cli.words import table
    from gradline.lab.methods.method import METHODS

    made = table("name", "search", "what it does", title="Methods")
    for method in METHODS.values():
        kind = type(method.search)
        options = {
            field.name: getattr(method.search, field.name)
            for field in dataclasses.fields(kind)  # type: ignore[arg-type]
            if getattr(method.search, field.name) != field.default
        }
        text = ", ".join(f"{name}={value}" for name, value in options.items())
        about = (kind.__doc__ or "").strip().splitlines()[0].rstrip(".")
        made.add_row(f"[bold]{method.name}[/]", f"{kind.__name__}({text})" if text else kind.__name__, about)
    return made


def _data() -> Any:
    from gradline.lab.cli.words import size, table
    from gradline.lab.problems.data import SOURCES

    made = table("name", "comes", title="Data sets")
    for name, source in SOURCES.items():
        bytes_ = sum(download.file.size for download in source.downloads)
        made.add_row(f"[bold]{name}[/]", f"by download, {size(bytes_)}" if bytes_ else "with scikit-learn")
    return made
