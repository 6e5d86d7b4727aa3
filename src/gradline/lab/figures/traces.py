"""Which runs of a source a figure shows, and what is said where there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from gradline.lab.findings.traces import MEASURED, POINTS, Array, Source, Trace, grid_of, held, traces

__all__ = [
    "MEASURED",
    "POINTS",
    "Array",
    "MissingRuns",
    "Source",
    "Trace",
    "grid_of",
    "held",
    "missing",
    "select",
    "traces",
]


class MissingRuns(LookupError):  # noqa: N818 - it is no mistake: a directory need not have everything
    """A figure has no runs to show."""


def select(
    runs: Iterable[Trace],
    *,
    problems: Sequence[str],
    methods: Sequence[str],
    sampling: Sequence[str] = ("dynamic",),
    directions: bool = False,
    angled: bool = False,
    any_of: Sequence[str] = (),
) -> list[Trace]:
    """The runs of a figure: of each problem those of one budget and variant, which most runs have; each seed once.

    A directory may hold more than one study. Where two budgets have as many runs, the larger one is taken.

    Args:
        runs: to choose from.
        problems: the names of problems.
        methods: the names of methods.
        sampling: which kinds.
        directions: runs whose directions had batches of their own; else those where they had not.
        angled: runs whose angles were measured; else those whose were not.
        any_of: methods without any of which there is nothing to show; their budget counts.
    """
    wanted = [
        run
        for run in runs
        if run.problem in problems
        and run.method in methods
        and run.sampling in sampling
        and (run.direction_batch_size is not None) == directions
        and run.angled == angled
    ]
    chosen: dict[tuple[Any, ...], Trace] = {}
    for problem in problems:
        of_problem = [run for run in wanted if run.problem == problem]
        counted = Counter((run.budget, run.variant) for run in of_problem if run.method in (any_of or methods))
        if not counted:
            continue
        usual = max(counted, key=lambda key: (counted[key], key[0]))
        for run in of_problem:
            if (run.budget, run.variant) == usual:
                known = (problem, methods.index(run.method), run.batch_size, run.sampling)
                chosen.setdefault((*known, run.direction_batch_size or 0, run.seed), run)
    order = {problem: place for place, problem in enumerate(problems)}
    return [chosen[key] for key in sorted(chosen, key=lambda key: (order[key[0]], *key[1:]))]


def missing(what: str, study: str) -> MissingRuns:
    """What to say where a figure has no runs."""
    return MissingRuns(f"{what} is left out: it needs runs of the study {study} (gradline run {study})")
