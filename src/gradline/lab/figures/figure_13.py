"""Figure 13: CIFAR10 with NetII, GOLS-I against PrLS, every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradline.lab.figures.curves import STEP, TEST_ERROR, TEST_LOSS, TRAIN_ERROR, Curves, curves_of
from gradline.lab.figures.panels import Look, Row, draw_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.figures.traces import Source

TITLE = "CIFAR10, NetII: GOLS-I against PrLS over batch sizes"
ABOUT = (
    "Training error, test error (both on linear scales), test loss and step of a network with three hidden "
    "layers on CIFAR10"
)
CAPTION = f"{ABOUT}: every run thin, their median thick."
NEEDS = ("cifar-net2",)
MEASURES = (TRAIN_ERROR.linear(), TEST_ERROR.linear(), TEST_LOSS, STEP)


def data(source: Source) -> Curves:
    """The curves of a directory, or of `gradline.lab.results`."""
    return curves_of(
        source,
        MEASURES,
        what="figure 13",
        study="cifar-net2",
        problems=("cifar-net2",),
        methods=("gols-i", "prls"),
    )


def draw(data: Curves) -> Figure:
    """A row for each measure, a column for each batch size."""
    return draw_panels(data, [Row(measure.words, measure) for measure in MEASURES], look=Look.RUNS)
