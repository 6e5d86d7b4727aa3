"""The paper's problems with Angle, GOLS-I along Adam, Schedule-Free, Prodigy and Adam's grid."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gradline.lab.figures.curves import TEST_ERROR, TRAIN_LOSS, Curves, curves_of
from gradline.lab.figures.panels import Look, Row, draw_panels
from gradline.plot.inks import LIGHT, Inks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.figures.traces import Source

TITLE = "The paper's problems today"
CAPTION = (
    "Training loss and test error with mini-batches of 100: the mean of logarithms over the runs and one standard "
    "deviation around it. Of Adam's learning rates the one with the lowest median training loss at the end is shown, "
    "chosen for each problem with the results in hand; all others are as they come."
)
NEEDS = ("today",)
MEASURES = (TRAIN_LOSS, TEST_ERROR)
PROBLEMS = ("bcwd-logr", "bcwd-netpi", "bcwd-netpii", "bcwd-netpi-10", "mnist-net1", "cifar-net1")
METHODS = ("angle", "gols-i", "gols-i-adam", "schedule-free", "prodigy")
BEST_ADAM = "adam, best learning rate"


def data(source: Source) -> Curves:
    """Return the curves of a directory, of a packed file, or of `gradline.lab.results`."""
    from gradline.lab.methods import GROUPS

    grid = GROUPS["adam"]
    found = curves_of(
        source,
        MEASURES,
        what="the figure of the paper's problems today",
        study=NEEDS[0],
        problems=PROBLEMS,
        methods=(*METHODS, *grid),
        any_of=("angle",),
    )
    found = Curves(tuple(found.of(batch_size=100)))
    curves = [curve for curve in found.curves if curve.method not in grid]
    for problem in found.values_of("problem"):
        some = found.of(problem=problem, method=tuple(grid))
        ends = {
            curve.method: float(np.nanmedian(np.nan_to_num(curve.runs[:, -1], nan=np.inf)))
            for curve in some
            if curve.measure == TRAIN_LOSS.name
        }
        if ends:
            best = min(ends, key=ends.__getitem__)
            curves += [replace(curve, method=BEST_ADAM) for curve in some if curve.method == best]
    return Curves(tuple(curves))


def draw(data: Curves, inks: Inks = LIGHT) -> Figure:
    """A row for each measure, a column for each problem."""
    rows = [Row(measure.words, measure) for measure in MEASURES]
    return draw_panels(data, rows, look=Look.CLOUD, inks=inks, height=2.2, column="problem")
