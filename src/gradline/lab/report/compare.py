"""What a page says of a comparison: two pictures and a table of how gradline compares with other optimizers."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from gradline.lab.figures.compare_heat import draw_heat, heat_data
from gradline.lab.figures.compare_lines import draw_profile, profile_data
from gradline.lab.findings.comparison import LIMIT, Comparison, own
from gradline.lab.findings.reading import read
from gradline.lab.tools.files import Report
from gradline.lab.tools.formatting import percent, plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.plot.inks import Inks

HEADER = ("Method", "Loss over the best’s", "First at the target", "Within 2×", "Within 10×", "Reached", "By all seeds")
HEAT = (
    "Every method (a row) in every setting of problem and batch size (a column): how far its final training loss, of "
    "the median seed, is above the lowest that any method reached there. A dot marks the lowest one, a cross a "
    "failure. Rows are sorted by the mean at their right end."
)
PROFILE = (
    "In how many settings a method reaches the target loss with at most so many times the gradient evaluations of the "
    "fastest method. At the left is how often it is the fastest, at the right how often it gets there at all."
)


def section(
    source: str | os.PathLike[str], picture: Callable[[Callable[[Inks], Figure]], Any], report: Report | None = None
) -> dict[str, Any] | None:
    """What the page's template shows; `None` if there are no runs of a comparison.

    Args:
        source: a directory that `gradline run compare` wrote to, or a file that `gradline results --pack` wrote.
        picture: makes the addresses for the page of what draws a figure in given inks.
        report: where to say which files were passed over and why.
    """
    _, known = read(source, report=report)
    if not known.records:
        return None
    heat, profile = heat_data(known), profile_data(known.table, known.targets, known.drawn(own()))
    return {
        "runs": plural(len(known.records), "run"),
        "settings": plural(len(known.shared()), "setting"),
        "limit": f"{10**LIMIT:g}×",
        "header": HEADER,
        "rows": _rows(known),
        "pictures": [
            {
                "id": "compare-heat",
                "title": "The whole comparison",
                "caption": HEAT,
                "source": picture(partial(draw_heat, heat)),
            },
            {
                "id": "compare-profile",
                "title": "How often near the best",
                "caption": PROFILE,
                "source": picture(partial(draw_profile, profile)),
            },
        ],
    }


def _rows(known: Comparison) -> list[list[str]]:
    rows = []
    for score in known.scores():
        shares = (score.best, score.near, score.far, score.reached, score.always)
        rows.append([score.method, f"{score.behind:.2g}×", *(f"{percent(share)}%" for share in shares)])
    return rows
