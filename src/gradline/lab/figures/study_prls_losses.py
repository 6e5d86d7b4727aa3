"""PrLS and GOLS-I with a consistent loss, and with one whose value and slope contradict each other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gradline.lab.figures import labels
from gradline.lab.figures.curves import STEP, TRAIN_ERROR, Curve, Curves, curves_of
from gradline.lab.figures.line_styles import NUMBERS
from gradline.lab.figures.panels import Line, Look, Row, draw_panels
from gradline.lab.figures.traces import missing
from gradline.plot.inks import LIGHT, Inks, stroke

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.figures.traces import Source

TITLE = "A loss whose value and slope agree, and one where they do not"
ABOUT = (
    "Training error and step with the cross-entropy and with the one of the paper's programs, whose slope is 4.6 times "
    "(two classes: BCWD) or 23 times (ten classes: MNIST, CIFAR10) that of its value"
)
CAPTION = (
    f"{ABOUT}: the mean of logarithms over the runs and one standard deviation around it. GOLS-I never looks at "
    "values. Errors of zero are shown at 1e-4."
)
NEEDS = ("prls-losses",)
MEASURES = (TRAIN_ERROR, STEP)
PUBLISHED = "-published-loss"


def data(source: Source) -> Curves:
    """The curves of a directory, or of `gradline.lab.results`."""
    what = "the figure of prls-losses"
    found = curves_of(source, MEASURES, what=what, study=NEEDS[0])
    pairs = [pair for name in found.values_of("problem") if (pair := name + PUBLISHED) in found.values_of("problem")]
    if not pairs:
        raise missing(what, NEEDS[0])
    return found.part(*(name for pair in pairs for name in (pair.removesuffix(PUBLISHED), pair)))


def by_network(data: Curves) -> dict[str, Curves]:
    """Split curves by network, the two losses of each together."""
    networks = [name for name in data.values_of("problem") if not name.endswith(PUBLISHED)]
    return {name.replace("-", "_"): data.part(name, name + PUBLISHED) for name in networks}


PARTS = by_network


def draw(data: Curves, inks: Inks = LIGHT) -> Figure:
    """Two rows for each network, a column for each batch size."""
    networks = [name for name in data.values_of("problem") if not name.endswith(PUBLISHED)]
    rows = [
        Row(f"{labels.problem(network)}\n{measure.words}", measure, {"problem": (network, network + PUBLISHED)})
        for network in networks
        for measure in MEASURES
    ]
    return draw_panels(data, rows, look=Look.CLOUD, inks=inks, line=partial(_line, inks), width=6.6)


def _line(inks: Inks, curve: Curve) -> Line:
    """A colour for each method, dashes and a marker for each loss."""
    published = curve.problem.endswith(PUBLISHED)
    label = f"{labels.method(curve.method)}, {'published' if published else 'consistent'} loss"
    number = NUMBERS[curve.method]
    return Line(label, stroke(number + 2 * published, inks)._replace(color=inks.data[number]))
