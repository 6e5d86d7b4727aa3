"""Figure 14: a network with ten hidden layers, where searches have more to do, every run and their mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradline.lab.figures import style
from gradline.lab.figures.curves import STEP, TEST_ERROR, TRAIN_ERROR, TRAIN_LOSS, Curves, curves_of
from gradline.lab.figures.panels import Look, by_method, draw_curve, set_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.figures.traces import Source

TITLE = "BCWD, ten hidden layers: GOLS-I against PrLS"
ABOUT = "Training loss, step, training error and test error of NetPI with ten hidden layers"
CAPTION = (
    f"{ABOUT}: every run thin and dotted, the mean of their logarithms thick, of steps over the lowest common number "
    "of iterations. Errors of zero are shown at 1e-4."
)
NEEDS = ("netpi-10",)
MEASURES = (TRAIN_LOSS, STEP, TRAIN_ERROR, TEST_ERROR)


def data(source: Source) -> Curves:
    """The curves of a directory, or of `gradline.lab.results`."""
    return curves_of(
        source,
        MEASURES,
        what="figure 14",
        study="netpi-10",
        problems=("bcwd-netpi-10",),
        methods=("gols-i", "prls"),
    )


def draw(data: Curves) -> Figure:
    """Four panels: loss, step, training error, test error."""
    with style.settings():
        figure, axes = style.panels(2, 2, height=5.4)
        for axis, name, measure in zip(axes.flat, "abcd", MEASURES, strict=True):
            curves = data.of(measure=measure.name)
            shown = [draw_curve(axis, curve, measure, by_method(curve), Look.DOTTED) for curve in curves]
            set_scale(axis, measure, shown)
            axis.set_xlabel(measure.against)
            style.letter(axis, name, measure.words)
        style.legend_below(figure, axes.flat, columns=2)
    return figure
