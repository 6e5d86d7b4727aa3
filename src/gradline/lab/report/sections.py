"""The sections of a page about comparisons: pictures and a table for the study `train`, and for the study `compare`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gradline.lab.figures import compare_lines, style, train_questions
from gradline.lab.figures.style import Picture, picture
from gradline.lab.findings.comparison import LIMIT, compare
from gradline.lab.findings.reading import read
from gradline.lab.findings.training import trained
from gradline.lab.report.tables import Table, scores_table, versus_table
from gradline.lab.studies import load
from gradline.lab.tools.files import Report
from gradline.lab.tools.formatting import plural

QUESTIONS = {
    "quality": (
        "How good is it without tuning?",
        "A row for each problem, batch size and budget: validation losses over that of the tuned method named at the "
        "right. Left of 1 a method without tuning ends lower.",
    ),
    "compute": (
        "How much compute does that save?",
        "Processor seconds until the validation loss is as good as the tuned method's at its end, of one run, and with "
        "all candidates of tuning.",
    ),
    "limits": (
        "Where should it not be used?",
        "Validation loss of Angle over that of the best other method without tuning, which is named at the right; the "
        "worst case comes first.",
    ),
}
"""Titles and captions of the pictures of the study `train`."""
SCORES = {
    "heat": (
        "The whole comparison",
        "Every method (a row) in every setting of problem and batch size (a column): how far its final training loss, "
        "of the median seed, is above the lowest that any method reached there. A dot marks the lowest one, a cross a "
        "failure. Rows are sorted by the mean at their right end.",
    ),
    "profile": (
        "How often near the best",
        "In how many settings a method reaches the target loss with at most so many times the gradient evaluations of "
        "the fastest method. At the left is how often it is the fastest, at the right how often it gets there at all.",
    ),
}
"""Titles and captions of the pictures of the study `compare`."""


class Section(NamedTuple):
    """A section of the page: its id, its words in the menu, its title, what was run, pictures, and a table."""

    id: str
    menu: str
    title: str
    about: str
    pictures: list[Picture]
    caption: str
    table: Table


def sections(source: str | os.PathLike[str], report: Report | None = None) -> list[Section]:
    """Return the sections for the comparisons of which a directory or a packed file has runs."""
    made = []
    packed = read(source, load("compare"), report=report)
    training, known = trained(packed.runs, load("train")), compare(packed.runs, load("compare"))
    if training.cases:
        made.append(
            Section(
                "training",
                "Without tuning",
                "Training to the end, with and without tuning",
                f"{plural(len(packed.runs), 'run')} of the study train. AdamW and SGD with momentum are tuned on "
                "one seed by the validation loss, and trained on others; the other methods have the settings of their "
                "documentation.",
                _pictures("train", QUESTIONS, train_questions.drawings(training)),
                "Losses over those of the best tuned method, geometric means over "
                f"{plural(len(training.cases), 'case')} of problem, batch size and budget, with bootstrap intervals "
                "over problems.",
                versus_table(training),
            )
        )
    if known.runs:
        made.append(
            Section(
                "peers",
                "Other optimizers",
                "How it compares with other optimizers",
                f"{plural(len(known.runs), 'run')} of a comparison (gradline run compare): the same weights and "
                "mini-batches for all, documented defaults, and every evaluation of a gradient counted. “Best” and "
                "“median” are learning rates of a grid, chosen for each setting with the results in hand.",
                _pictures("compare", SCORES, compare_lines.drawings(known)),
                f"All methods on the {plural(len(known.shared()), 'setting')} that each of them ran on. The loss is a "
                f"geometric mean over settings, each at most {10**LIMIT:g}×, which is also what a failure counts; the "
                "others are shares of settings, by evaluations to the target of the median seed.",
                scores_table(known),
            )
        )
    return made


def _pictures(
    study: str, words: Mapping[str, tuple[str, str]], draw: Mapping[str, Callable[..., style.Figure]]
) -> list[Picture]:
    return [picture(f"{study}-{name}", *words[name], draw[name]) for name in draw]
