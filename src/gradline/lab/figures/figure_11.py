"""Figure 11: MNIST with NetII, GOLS-I against PrLS, every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradline.lab.figures.curves import STEP, TEST_ERROR, TRAIN_ERROR, TRAIN_LOSS, Curves, curves_of
from gradline.lab.figures.panels import Look, Row, draw_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.figures.traces import Source

TITLE = "MNIST, NetII: GOLS-I against PrLS over batch sizes"
ABOUT = "Training error, training loss, test error and step of a network with three hidden layers on MNIST"
CAPTION = f"{ABOUT}: every run thin, their median thick. Errors of zero are shown at 1e-4."
NEEDS = ("mnist-net2",)
MEASURES = (TRAIN_ERROR, TRAIN_LOSS, TEST_ERROR, STEP)


def data(source: Source) -> Curves:
    """The curves of a directory, or of `gradline.lab.results`."""
    return curves_of(
        source,
        MEASURES,
        what="figure 11",
        study="mnist-net2",
        problems=("mnist-net2",),
        methods=("gols-i", "prls"),
    )


def draw(data: Curves) -> Figure:
    """A row for each measure, a column for each batch size."""
    return draw_panels(data, [Row(measure.words, measure) for measure in MEASURES], look=Look.RUNS)
