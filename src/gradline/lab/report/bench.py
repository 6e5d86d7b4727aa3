"""What a page says of `gradline bench`: two pictures and a table of how gradline compares with other optimizers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradline.lab.bench.store import Store
from gradline.lab.figures.bench_heat import draw_heat, heat_data
from gradline.lab.figures.bench_lines import draw_profile, profile_data
from gradline.lab.figures.bench_looks import own
from gradline.lab.findings.comparison import LIMIT, Comparison, compare
from gradline.lab.findings.packed import unpack
from gradline.lab.tools.files import Report
from gradline.lab.tools.words import percent, plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.bench.runs import Record

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
    source: str | os.PathLike[str], picture: Callable[[Figure], str], report: Report | None = None
) -> dict[str, Any] | None:
    """What the page's template shows; `None` if there are no runs of the benchmark's own budgets.

    Args:
        source: a directory that `gradline bench` wrote to, or a file that it packed.
        picture: makes a figure an address for the page.
        report: where to say which files were passed over and why.
    """
    from gradline.lab.bench.planning import plan

    records, check = _records(Path(source), report)
    chosen = plan([], [], 1 + max((record.run.seed for record in records), default=0), installed=False)
    check(chosen.targets)
    known = compare(records, chosen)
    if not known.records:
        return None
    return {
        "runs": plural(len(known.records), "run"),
        "settings": plural(len(known.shared()), "setting"),
        "limit": f"{10**LIMIT:g}×",
        "header": HEADER,
        "rows": _rows(known),
        "pictures": [
            {
                "id": "bench-heat",
                "title": "The whole comparison",
                "caption": HEAT,
                "source": picture(draw_heat(heat_data(known))),
            },
            {
                "id": "bench-profile",
                "title": "How often near the best",
                "caption": PROFILE,
                "source": picture(draw_profile(profile_data(known.table, known.targets, known.drawn(own())))),
            },
        ],
    }


def _records(source: Path, report: Report | None) -> tuple[Sequence[Record], Callable[[dict[str, float]], None]]:
    """The records, and what checks the targets they were packed for."""
    if source.is_dir():
        return list(Store(source, report=report or (lambda text: None)).records()), lambda targets: None
    packed = unpack(source)
    return packed.records, packed.check


def _rows(known: Comparison) -> list[list[str]]:
    rows = []
    for score in known.scores():
        shares = (score.best, score.near, score.far, score.reached, score.always)
        rows.append([score.method, f"{score.behind:.2g}×", *(f"{percent(share)}%" for share in shares)])
    return rows
