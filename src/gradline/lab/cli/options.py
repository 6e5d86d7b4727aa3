"""Options that several verbs have."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Count(click.IntRange):
    """A whole number from `min` on. Help texts say nothing of it: that a count is above 0 goes without saying."""

    def _describe_range(self) -> str:
        return ""


def study_options(verb: F) -> F:
    """The study, and what takes the place of its own settings."""
    for option in reversed(
        (
            click.argument("study"),
            click.option("--seeds", type=Count(1), metavar="N", help="Seeds 0 to N-1 of each."),
            click.option("--budget", type=Count(1), metavar="EVALUATIONS", help="Evaluations of each run."),
            click.option("--batch-size", type=Count(1), multiple=True, metavar="B", help="Batch size. Repeatable."),
            click.option("--method", multiple=True, metavar="NAME", help="Method. Repeatable."),
            click.option("--problem", multiple=True, metavar="NAME", help="Problem. Repeatable."),
        )
    ):
        verb = option(verb)
    return verb


def data_option(verb: F) -> F:
    """Where the data sets' files are."""
    return click.option(
        "--data",
        type=click.Path(file_okay=False),
        metavar="DIR",
        expose_value=False,
        callback=_set_data,
        help="Folder with the files of data sets (default: $GRADLINE_DATA, else the user's cache).",
    )(verb)


def _set_data(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        os.environ["GRADLINE_DATA"] = str(Path(value).resolve())  # worker processes inherit it


def load_study(
    study: str,
    seeds: int | None,
    budget: int | None,
    batch_size: tuple[int, ...],
    method: tuple[str, ...],
    problem: tuple[str, ...],
) -> Any:
    """The study of the command line."""
    from gradline.lab import studies

    return studies.load(study, problems=problem, methods=method, batch_sizes=batch_size, seeds=seeds, budget=budget)


def without_absent(study: Any, notes: Any) -> Any:
    """The study without the methods whose packages are not installed, which is told. Raises if none is left."""
    from dataclasses import replace

    methods = [*study.methods, *(method for tuned in study.tuned for method in tuned.candidates)]
    absent = {method.name: reason for method in methods if (reason := method.unavailable()) is not None}
    for name, reason in absent.items():
        notes.print(f"{name} is left out: {reason}", style="yellow", markup=False)
    if len(absent) == len(methods):
        raise click.ClickException("; ".join(dict.fromkeys(absent.values())))
    tuned = tuple(one for one in study.tuned if not any(method.name in absent for method in one.candidates))
    return replace(study, methods=tuple(one for one in study.methods if one.name not in absent), tuned=tuned)
