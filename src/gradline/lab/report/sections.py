"""The sections of a page about comparisons: pictures and a table for the study `train`, and for the study `compare`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gradline.lab.figures import FIGURES
from gradline.lab.figures.curves import MissingRuns, cases_of_training, compared
from gradline.lab.figures.style import Picture
from gradline.lab.findings.comparison import LIMIT
from gradline.lab.findings.traces import Trace
from gradline.lab.report.tables import Table, scores_table, versus_table
from gradline.lab.tools.formatting import plural


class Section(NamedTuple):
    """A section of the page: its id, its words in the menu, its title, what was run, pictures, and a table."""

    id: str
    menu: str
    title: str
    about: str
    pictures: list[Picture]
    caption: str
    table: Table


def sections(runs: Sequence[Trace]) -> list[Section]:
    """Return the sections for the comparisons of which there are runs."""
    found = []
    for section in (_training, _peers):
        try:
            found.append(section(runs))
        except MissingRuns:
            continue
    return found


def _training(runs: Sequence[Trace]) -> Section:
    training = cases_of_training(runs)
    return Section(
        "training",
        "Without tuning",
        "Training to the end, with and without tuning",
        f"{plural(sum(run.run.benchmark for run in runs), 'run')} of the study train. AdamW and SGD with momentum are "
        "tuned on one seed by the validation loss, and trained on others; the other methods have the settings of their "
        "documentation.",
        _pictures(runs, ("train_quality", "train_compute", "train_limits")),
        f"Losses over those of the best tuned method, geometric means over {plural(len(training.cases), 'case')} of "
        "problem, batch size and budget, with bootstrap intervals over problems.",
        versus_table(training),
    )


def _peers(runs: Sequence[Trace]) -> Section:
    known = compared(runs)
    return Section(
        "peers",
        "Other optimizers",
        "How it compares with other optimizers",
        f"{plural(len(known.runs), 'run')} of a comparison (gradline run compare): the same weights and mini-batches "
        "for all, documented defaults, and every evaluation of a gradient counted. “Best” and “median” are learning "
        "rates of a grid, chosen for each setting with the results in hand.",
        _pictures(runs, ("compare_heat", "compare_profile")),
        f"All methods on the {plural(len(known.shared()), 'setting')} that each of them ran on. The loss is a "
        f"geometric mean over settings, each at most {10**LIMIT:g}×, which is also what a failure counts; the others "
        "are shares of settings, by evaluations to the target of the median seed.",
        scores_table(known),
    )


def _pictures(runs: Sequence[Trace], names: Iterable[str]) -> list[Picture]:
    found = []
    for figure in map(FIGURES.__getitem__, names):
        try:
            found.append(figure.picture(figure.data(runs)))
        except MissingRuns:
            continue
    return found
