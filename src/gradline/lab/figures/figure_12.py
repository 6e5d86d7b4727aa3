"""Figure 12: CIFAR10 with NetI, GOLS-I against PrLS, every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradline.lab.figures.curves import STEP, TEST_ERROR, TRAIN_ERROR, Curves, curves_of
from gradline.lab.figures.panels import Look, Row, draw_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.figures.traces import Source

TITLE = "CIFAR10, NetI: GOLS-I against PrLS over batch sizes"
ABOUT = (
    "Training error, test error (both on linear scales) and step of a network with one hidden layer of 800 "
    "units on CIFAR10"
)
CAPTION = f"{ABOUT}: every run thin, their median thick."
NEEDS = ("cifar-net1",)
MEASURES = (TRAIN_ERROR.linear(), TEST_ERROR.linear(), STEP)


def data(source: Source) -> Curves:
    """The curves of a directory, or of `gradline.lab.results`."""
    return curves_of(
        source,
        MEASURES,
        what="figure 12",
        study="cifar-net1",
        problems=("cifar-net1",),
        methods=("gols-i", "prls"),
    )


def draw(data: Curves) -> Figure:
    """A row for each measure, a column for each batch size."""
    return draw_panels(data, [Row(measure.words, measure) for measure in MEASURES], look=Look.RUNS)
