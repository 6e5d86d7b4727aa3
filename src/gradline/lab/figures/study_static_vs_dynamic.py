"""One mini-batch for a whole search, or a new one for every evaluation: four searches, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradline.lab.figures import style, words
from gradline.lab.figures.curves import TRAIN_LOSS, Curve, Curves, curves_of
from gradline.lab.figures.panels import Line, Look, Row, draw_panels
from gradline.lab.figures.traces import missing
from gradline.plot.inks import LIGHT as INKS

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
_STROKES = {
    "static": style.Stroke(INKS.orange, (0, (4, 1.2)), "s"),
    "dynamic": style.Stroke(INKS.blue, "-", "o"),
}


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


def draw(data: Curves) -> Figure:
    """A row for each search, a column for each batch size."""
    rows = [
        Row(f"{words.method(name)}\n{TRAIN_LOSS.words}", TRAIN_LOSS, {"method": name})
        for name in data.values_of("method")
    ]
    return draw_panels(data, rows, look=Look.CLOUD, line=_line)


def _line(curve: Curve) -> Line:
    kept = {"static": "static: one mini-batch a search", "dynamic": "dynamic: one an evaluation"}
    return Line(kept[curve.sampling], _STROKES[curve.sampling])
