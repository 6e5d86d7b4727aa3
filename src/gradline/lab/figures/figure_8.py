"""Figure 8: BCWD with three networks and four batch sizes, the mean of the runs and a cloud of their deviation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradline.lab.figures import words
from gradline.lab.figures.curves import STEP, TEST_ERROR, TRAIN_ERROR, TRAIN_LOSS, Curves, curves_of
from gradline.lab.figures.panels import Look, Row, draw_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.figures.traces import Source

TITLE = "BCWD: GOLS-I against PrLS over batch sizes"
ABOUT = "Training error, training loss, test error and step of three networks on the breast-cancer data (BCWD)"
CAPTION = (
    f"{ABOUT}: the mean over the runs and one standard deviation around it, both of logarithms. Errors of zero are "
    "shown at 1e-4."
)
NEEDS = ("bcwd",)
MEASURES = (TRAIN_ERROR, TRAIN_LOSS, TEST_ERROR, STEP)


def data(source: Source) -> Curves:
    """The curves of a directory, or of `gradline.lab.results`."""
    return curves_of(
        source,
        MEASURES,
        what="figure 8",
        study="bcwd",
        problems=("bcwd-logr", "bcwd-netpi", "bcwd-netpii"),
        methods=("gols-i", "prls"),
    )


def draw(data: Curves) -> Figure:
    """Four rows for each network, a column for each batch size."""
    rows = [
        Row(f"{words.problem(problem)}\n{measure.words}", measure, {"problem": problem})
        for problem in data.values_of("problem")
        for measure in MEASURES
    ]
    return draw_panels(data, rows, look=Look.CLOUD, height=1.25)
