"""Options that several verbs have, and their checks."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from gradline.lab.cli.terminal import warn

F = TypeVar("F", bound=Callable[..., Any])


whole = click.IntRange(min=1)
positive = click.FloatRange(min=0.0, min_open=True)
SAMPLING = click.Choice(["dynamic", "static", "full"])

workers_option = click.option("--workers", type=whole, metavar="N", help="Processes (default: one for each core).")
threads_option = click.option("--threads", type=whole, default=1, metavar="N", help="Threads of each process.")
known_option = click.option(
    "--known",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Skip the runs in this file of `gradline results --pack`: those with the same settings and seed.",
)


def _set_data(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        os.environ["GRADLINE_DATA"] = str(Path(value).resolve())  # worker processes inherit it


data_option = click.option(
    "--data",
    type=click.Path(file_okay=False),
    metavar="DIR",
    expose_value=False,
    callback=_set_data,
    help="Folder with the files of data sets (default: $GRADLINE_DATA, else the user's cache).",
)


def study_options(verb: F) -> F:
    """Add the argument STUDY and the options that replace its settings; `verb` is given the study itself.

    Methods whose packages are not installed are removed from the study, with a warning.
    """

    @click.argument("study")
    @click.option("--seeds", type=click.IntRange(1, 100_000), metavar="N", help="Run seeds 0 to N-1 of each setting.")
    @click.option("--budget", type=whole, metavar="EVALUATIONS", help="Evaluations of each run.")
    @click.option(
        "--batch-size", "batch_sizes", type=whole, multiple=True, metavar="B", help="Samples in a batch. Repeatable."
    )
    @click.option("--method", "methods", multiple=True, metavar="NAME", help="Method to run. Repeatable.")
    @click.option("--problem", "problems", multiple=True, metavar="NAME", help="Problem to train. Repeatable.")
    @click.option(
        "--sampling",
        type=SAMPLING,
        multiple=True,
        help="A new batch for each evaluation, one for each search, or all samples. Repeatable.",
    )
    @click.option("--repetition", is_flag=True, help="Draw the samples of a batch with replacement.")
    @workers_option
    @functools.wraps(verb)
    def with_study(study: str, sampling: tuple[str, ...], *, repetition: bool, **others: Any) -> Any:
        from gradline.lab import studies
        from gradline.lab.jobs.runs import Sampling

        names = ("problems", "methods", "batch_sizes", "seeds", "budget")
        chosen = studies.load(study, **{name: others.pop(name) for name in names})
        if sampling:
            chosen = replace(chosen, sampling=tuple(dict.fromkeys(Sampling(mode) for mode in sampling)))
        if repetition:
            chosen = replace(chosen, repetition=True)
        return verb(study=_without_absent(chosen), **others)

    return with_study  # type: ignore[return-value]


def _without_absent(study: Any) -> Any:
    """Return the study without the methods whose packages are not installed. Raises if none is left."""
    methods = [*study.methods, *(method for tuned in study.tuned for method in tuned.candidates)]
    absent = {method.name: reason for method in methods if (reason := method.unavailable()) is not None}
    for name, reason in absent.items():
        warn(f"{name} is left out: {reason}")
    if len(absent) == len(methods):
        raise click.ClickException("; ".join(dict.fromkeys(absent.values())))
    tuned = tuple(one for one in study.tuned if not any(method.name in absent for method in one.candidates))
    return replace(study, methods=tuple(one for one in study.methods if one.name not in absent), tuned=tuned)
