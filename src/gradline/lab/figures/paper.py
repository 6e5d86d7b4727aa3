"""Figures 8 to 14 of the paper as values: whose runs, what is measured, how runs are drawn, and what the paper says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradline.lab.figures import labels
from gradline.lab.figures.catalogue import Entry
from gradline.lab.figures.curves import STEP, TEST_ERROR, TEST_LOSS, TRAIN_ERROR, TRAIN_LOSS, Curves, Measure, curves_of
from gradline.lab.figures.panels import Look, Row, draw_measures, draw_panels
from gradline.plot.inks import LIGHT, Inks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.figures.traces import Source

FIXED = ("fixed-1", "fixed-10", "fixed-100")
FOUR = (TRAIN_ERROR, TRAIN_LOSS, TEST_ERROR, STEP)
ZERO = " Errors of zero are shown at 1e-4."


@dataclass(frozen=True)
class Grid:
    """A figure of curves over batch sizes.

    Args:
        number: in the paper.
        study: whose runs.
        title: in a line.
        about: what is shown, in a sentence without its end.
        paper: what the paper says of it.
        measures: a row each.
        look: what is drawn of the seeds of a setting.
        remark: added to the caption.
        height: of a row, in inches.
        any_of: methods without any of which there is nothing to show; see `gradline.lab.figures.traces.select`.
        by_measure: one batch size, and a panel for each measure.
    """

    number: int
    study: str
    title: str
    about: str
    paper: str
    measures: tuple[Measure, ...] = FOUR
    look: Look = Look.RUNS
    remark: str = ZERO
    height: float = 1.45
    any_of: Sequence[str] = field(default=())
    by_measure: bool = False

    def data(self, source: Source) -> Curves:
        """Return the curves of a directory, a packed file, or of `gradline.lab.results`."""
        return curves_of(source, self.measures, what=f"figure {self.number}", study=self.study, any_of=self.any_of)

    def draw(self, data: Curves, inks: Inks = LIGHT) -> Figure:
        """Draw a row for each measure and a column for each batch size."""
        if self.by_measure:
            return draw_measures(data, self.measures, look=self.look, inks=inks)
        rows = [Row(measure.words, measure) for measure in self.measures]
        return draw_panels(data, rows, look=self.look, inks=inks, height=self.height)

    def entry(self) -> Entry:
        """Return what the catalogue of figures has of it."""
        return Entry(
            name=f"figure_{self.number}",
            title=self.title,
            caption=f"{self.about}: {self.look.value}.{self.remark}",
            needs=(self.study,),
            data=self.data,
            draw=self.draw,
            about=self.about,
            paper=self.paper,
            measures=self.measures,
            means=self.look is not Look.RUNS,
            parts=by_problem,
        )


def by_problem(data: Curves) -> dict[str, Curves]:
    """Split curves by problem, by what the problem is called in names of files; one problem is not split."""
    problems = data.values_of("problem")
    if len(problems) == 1:
        return {"": data}
    return {labels.problem(name).lower().replace(", ", "_"): data.part(name) for name in problems}


_FOUR = "Training error, training loss, test error and step"
_LINEAR = "Training error, test error (both on linear scales)"

GRIDS = (
    Grid(
        8,
        "bcwd",
        "BCWD: GOLS-I against PrLS over batch sizes",
        f"{_FOUR} of three networks on the breast-cancer data (BCWD)",
        "GOLS-I completes all runs at every batch size; PrLS breaks down at B = 10 and diverges late with all 400 "
        "samples. On NetPI and NetPII GOLS-I reaches zero training error near 1,000 evaluations at B = 50 and within "
        "500 to 800 at B = 100, PrLS not at B = 50 and near 1,200 at B = 100.",
        look=Look.CLOUD,
        remark=" Means and deviations are of logarithms." + ZERO,
        height=1.3,
    ),
    Grid(
        9,
        "bcwd-fixed",
        "BCWD, logistic regression for long: GOLS-I against fixed steps",
        "Training loss and step of logistic regression on the breast-cancer data with GOLS-I and three fixed steps",
        "From B = 50 on GOLS-I fits the training data to numerical accuracy and is better than the fixed steps 1, 10 "
        "and 100; at B = 10 it is not. A fixed step of 100 often diverges.",
        measures=(TRAIN_LOSS, STEP),
        remark="",
        height=1.9,
        any_of=FIXED,
    ),
    Grid(
        10,
        "mnist-net1",
        "MNIST, NetI: GOLS-I against PrLS over batch sizes",
        f"{_FOUR} of a network with one hidden layer of 800 units on MNIST",
        "GOLS-I is better than PrLS at every batch size; its first training errors of zero come near 800 evaluations "
        "at B = 100 and near 500 at B = 200, while PrLS stays near 1e-2.",
    ),
    Grid(
        11,
        "mnist-net2",
        "MNIST, NetII: GOLS-I against PrLS over batch sizes",
        f"{_FOUR} of a network with three hidden layers on MNIST",
        "PrLS is better than GOLS-I at B = 10; GOLS-I is better at B = 100 and B = 200.",
    ),
    Grid(
        12,
        "cifar-net1",
        "CIFAR10, NetI: GOLS-I against PrLS over batch sizes",
        f"{_LINEAR} and step of a network with one hidden layer of 800 units on CIFAR10",
        "At B = 100 GOLS-I is below 10% training error within 5,000 evaluations; PrLS is at best at 50% after 10,000.",
        measures=(TRAIN_ERROR.linear(), TEST_ERROR.linear(), STEP),
        remark="",
    ),
    Grid(
        13,
        "cifar-net2",
        "CIFAR10, NetII: GOLS-I against PrLS over batch sizes",
        f"{_LINEAR}, test loss and step of a network with three hidden layers on CIFAR10",
        "PrLS is better than GOLS-I at B = 10. The test loss has its minimum within the first 1,000 evaluations at "
        "B = 100 and B = 200.",
        measures=(TRAIN_ERROR.linear(), TEST_ERROR.linear(), TEST_LOSS, STEP),
        remark="",
    ),
    Grid(
        14,
        "netpi-10",
        "BCWD, ten hidden layers: GOLS-I against PrLS",
        "Training loss, step, training error and test error of NetPI with ten hidden layers",
        "Isolated runs of GOLS-I reach a training loss of 1e-10; PrLS diverges after about 1,500 evaluations.",
        measures=(TRAIN_LOSS, STEP, TRAIN_ERROR, TEST_ERROR),
        look=Look.DOTTED,
        remark=" Means are of logarithms, of steps over the lowest common number of iterations." + ZERO,
        by_measure=True,
    ),
)
"""In the order of the paper."""

ENTRIES = tuple(grid.entry() for grid in GRIDS)
