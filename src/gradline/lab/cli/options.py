"""Options that several verbs have."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Count(click.types.IntParamType):
    """A whole number from `least` on."""

    name = "whole number"

    def __init__(self, least: int) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or refuse it."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"must be a whole number, got {value!r}", param, ctx)
        if number < self.least:
            self.fail(f"must be at least {self.least}, got {number}", param, ctx)
        return number


class Positive(click.types.FloatParamType):
    """A number above 0."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or refuse it."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"must be a number, got {value!r}", param, ctx)
        if not 0.0 < number < float("inf"):
            self.fail(f"must be above 0 and finite, got {number:g}", param, ctx)
        return number


def study_options(verb: F) -> F:
    """Add the argument STUDY and the options that take the place of its settings; `verb` is given the study itself.

    Methods whose packages are not installed are left out of it, with a note.
    """

    @functools.wraps(verb)
    def with_study(
        *,
        study: str,
        seeds: int | None,
        budget: int | None,
        batch_size: tuple[int, ...],
        method: tuple[str, ...],
        problem: tuple[str, ...],
        sampling: tuple[str, ...],
        repetition: bool,
        **others: Any,
    ) -> Any:
        from dataclasses import replace

        from gradline.lab import studies
        from gradline.lab.jobs.runs import Sampling

        chosen = studies.load(
            study, problems=problem, methods=method, batch_sizes=batch_size, seeds=seeds, budget=budget
        )
        if sampling:
            chosen = replace(chosen, sampling=tuple(dict.fromkeys(Sampling(mode) for mode in sampling)))
        if repetition:
            chosen = replace(chosen, repetition=True)
        return verb(study=_without_absent(chosen), **others)

    made: Any = with_study
    for option in reversed(
        (
            click.argument("study"),
            click.option("--seeds", type=Count(1), metavar="N", help="Run seeds 0 to N-1 of each setting."),
            click.option("--budget", type=Count(1), metavar="EVALUATIONS", help="Evaluations of each run."),
            click.option(
                "--batch-size", type=Count(1), multiple=True, metavar="B", help="Samples in a batch. Repeatable."
            ),
            click.option("--method", multiple=True, metavar="NAME", help="Method to run. Repeatable."),
            click.option("--problem", multiple=True, metavar="NAME", help="Problem to train. Repeatable."),
            click.option(
                "--sampling",
                type=click.Choice(["dynamic", "static", "full"]),
                multiple=True,
                help="A new batch for each evaluation, one for each search, or all samples. Repeatable.",
            ),
            click.option("--repetition", is_flag=True, help="Draw the samples of a batch with replacement."),
            workers_option,
        )
    ):
        made = option(made)
    return made  # type: ignore[no-any-return]


def workers_option(verb: F) -> F:
    """Add the number of processes."""
    return click.option("--workers", type=Count(1), metavar="N", help="Processes (default: one for each core).")(verb)


def threads_option(verb: F) -> F:
    """Add the number of threads of each process."""
    return click.option(
        "--threads", type=Count(1), default=1, show_default=True, metavar="N", help="Threads of each process."
    )(verb)


def data_option(verb: F) -> F:
    """Add the folder with the files of data sets."""
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


def _without_absent(study: Any) -> Any:
    """Return the study without the methods whose packages are not installed, with a note. Raises if none is left."""
    from dataclasses import replace

    from gradline.lab.cli.terminal import console

    methods = [*study.methods, *(method for tuned in study.tuned for method in tuned.candidates)]
    absent = {method.name: reason for method in methods if (reason := method.unavailable()) is not None}
    for name, reason in absent.items():
        console(stderr=True).print(f"{name} is left out: {reason}", style="yellow", markup=False)
    if len(absent) == len(methods):
        raise click.ClickException("; ".join(dict.fromkeys(absent.values())))
    tuned = tuple(one for one in study.tuned if not any(method.name in absent for method in one.candidates))
    return replace(study, methods=tuple(one for one in study.methods if one.name not in absent), tuned=tuned)
