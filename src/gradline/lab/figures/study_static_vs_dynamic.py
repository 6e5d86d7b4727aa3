"""One mini-batch for a whole search, or a new one for every evaluation: four searches, both ways."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gradline.lab.figures import labels
from gradline.lab.figures.curves import TRAIN_LOSS, Curve, Curves, curves_of
from gradline.lab.figures.panels import Line, Look, Row, draw_panels
from gradline.lab.figures.traces import missing
from gradline.plot.inks import LIGHT, Inks, stroke

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.figures.traces import Source

TITLE = "One mini-batch for a whole search, or a new one for every evaluation"
ABOUT = "Training loss of NetPI on the breast-cancer data, each search with static and with dynamic mini-batches"
CAPTION = (
    f"{ABOUT}: the mean of logarithms over the runs and one standard deviation around it. A static search spends one "
    "more evaluation on each start; with all 400 samples the two differ in nothing else."
)
NEEDS = ("static-vs-dynamic",)
NAME = "the figure of static-vs-dynamic"
METHODS = ("gols-i", "prls", "armijo", "golden-section")


def data(source: Source) -> Curves:
    """The curves of a directory, or of `gradline.lab.results`."""
    found = curves_of(
        source,
        (TRAIN_LOSS,),
        what=NAME,
        study=NEEDS[0],
        problems=("bcwd-netpi",),
        methods=METHODS,
        sampling=("static", "dynamic"),
    )
    if "static" not in found.values_of("sampling"):
        raise missing(NAME, NEEDS[0])
    return found


def draw(data: Curves, inks: Inks = LIGHT) -> Figure:
    """A row for each search, a column for each batch size."""
    rows = [
        Row(f"{labels.method(name)}\n{TRAIN_LOSS.words}", TRAIN_LOSS, {"method": name})
        for name in data.values_of("method")
    ]
    return draw_panels(data, rows, look=Look.CLOUD, inks=inks, line=partial(_line, inks))


def _line(inks: Inks, curve: Curve) -> Line:
    if curve.sampling == "static":
        return Line("static: one mini-batch a search", stroke(1, inks))
    return Line("dynamic: one an evaluation", stroke(0, inks))
