"""Figure 9: logistic regression for 100,000 evaluations, GOLS-I against fixed steps, every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradline.lab.figures.curves import STEP, TRAIN_LOSS, Curves, curves_of
from gradline.lab.figures.panels import Look, Row, draw_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.figures.traces import Source

TITLE = "BCWD, logistic regression for long: GOLS-I against fixed steps"
ABOUT = "Training loss and step of logistic regression on the breast-cancer data with GOLS-I and with three fixed steps"
CAPTION = f"{ABOUT}: every run thin, their median thick."
NEEDS = ("bcwd-fixed",)
MEASURES = (TRAIN_LOSS, STEP)
FIXED = ("fixed-1", "fixed-10", "fixed-100")


def data(source: Source) -> Curves:
    """The curves of a directory, or of `gradline.lab.results`."""
    return curves_of(
        source,
        MEASURES,
        what="figure 9",
        study="bcwd-fixed",
        problems=("bcwd-logr",),
        methods=("gols-i", *FIXED),
        any_of=FIXED,
    )


def draw(data: Curves) -> Figure:
    """Loss above, step below, a column for each batch size."""
    return draw_panels(data, [Row(measure.words, measure) for measure in MEASURES], look=Look.RUNS, height=1.9)
