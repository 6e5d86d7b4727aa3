"""What a page says of the study `train`: three pictures, and how methods compare with what one gets by tuning."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradline.lab.figures.train_questions import drawings
from gradline.lab.findings.reading import read_training
from gradline.lab.tools.files import Report
from gradline.lab.tools.formatting import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.plot.inks import Inks

HEADER = (
    "Method",
    "Validation loss",
    "95% interval",
    "Median",
    "As good in",
    "Test loss",
    "Lower in",
    "Higher in all seeds",
)
CAPTIONS = {
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


def section(
    source: str | os.PathLike[str], picture: Callable[[Callable[[Inks], Figure]], Any], report: Report | None = None
) -> dict[str, Any] | None:
    """Return what the page's template shows; `None` if there are no runs of the study.

    Args:
        source: a directory that `gradline run train` wrote to, or a file that `gradline results --pack` wrote.
        picture: makes the addresses for the page of what draws a figure in given inks.
        report: where to say which files were passed over and why.
    """
    packed, training = read_training(source, report=report)
    if not training.cases:
        return None
    found = {name: one for name in training.methods if (one := training.versus(name)) is not None}
    rows = [
        [
            name,
            f"{one.ratio:.3f}×",
            f"{one.low:.2f} to {one.high:.2f}",
            f"{one.middle:.3f}×",
            f"{one.close} of {plural(one.cases, 'case')}",
            f"{one.test:.3f}×",
            f"{one.better} of {plural(one.pairs, 'run')}",
            f"{one.always_worse} of {plural(one.cases, 'case')}",
        ]
        for name, one in sorted(found.items(), key=lambda pair: pair[1].ratio)
    ]
    pictures = [
        {"id": f"train-{name}", "title": CAPTIONS[name][0], "caption": CAPTIONS[name][1], "source": picture(draw)}
        for name, draw in drawings(training).items()
    ]
    return {
        "runs": plural(len(packed.records), "run"),
        "cases": plural(len(training.cases), "case"),
        "header": HEADER,
        "rows": rows,
        "pictures": pictures,
    }
