"""PrLS and GOLS-I with a consistent loss, and with one whose value and slope contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradline.lab.figures import style, words
from gradline.lab.figures.curves import STEP, TRAIN_ERROR, Curve, Curves, curves_of
from gradline.lab.figures.panels import Line, Look, Row, draw_panels
from gradline.lab.figures.traces import missing
from gradline.plot.inks import LIGHT as INKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.figures.traces import Source

TITLE = "A loss whose value and slope agree, and one where they do not"
ABOUT = (
    "Training error and step on the breast-cancer data, with the cross-entropy and with the one of the "
    "paper's programs, whose slope is 4.6 times that of its value"
)
CAPTION = (
    f"{ABOUT}: the mean of logarithms over the runs and one standard deviation around it. GOLS-I never looks at "
    "values. Errors of zero are shown at 1e-4."
)
NEEDS = ("prls-losses",)
MEASURES = (TRAIN_ERROR, STEP)
PUBLISHED = "-published-loss"
_STROKES = {
    ("gols-i", False): style.Stroke(INKS.blue, "-", "o"),
    ("gols-i", True): style.Stroke("#56b4e9", (0, (1, 0.8)), "^"),
    ("prls", False): style.Stroke(INKS.orange, (0, (4, 1.2)), "s"),
    ("prls", True): style.Stroke(INKS.purple, (0, (4, 1, 1, 1)), "D"),
}


def data(source: Source) -> Curves:
    """The curves of a directory, or of `gradline.lab.results`."""
    what = "the figure of prls-losses"
    plain = ("bcwd-logr", "bcwd-netpi")
    found = curves_of(
        source,
        MEASURES,
        what=what,
        study=NEEDS[0],
        problems=(*plain, *(f"{name}{PUBLISHED}" for name in plain)),
        methods=("gols-i", "prls"),
    )
    if not any(name.endswith(PUBLISHED) for name in found.values_of("problem")):
        raise missing(what, NEEDS[0])
    return found


def draw(data: Curves) -> Figure:
    """Two rows for each network, a column for each batch size."""
    networks = list(dict.fromkeys(name.removesuffix(PUBLISHED) for name in data.values_of("problem")))
    rows = [
        Row(f"{words.problem(network)}\n{measure.words}", measure, {"problem": (network, network + PUBLISHED)})
        for network in networks
        for measure in MEASURES
    ]
    return draw_panels(data, rows, look=Look.CLOUD, line=_line)


def _line(curve: Curve) -> Line:
    published = curve.problem.endswith(PUBLISHED)
    label = f"{words.method(curve.method)}, {'published' if published else 'consistent'} loss"
    return Line(label, _STROKES[curve.method, published])
