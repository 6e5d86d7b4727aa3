"""How methods are drawn in comparisons: gradline's stand out, tuned ones are black, all others stay behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gradline.lab.figures import style
from gradline.lab.findings.comparison import TUNED, own
from gradline.plot.inks import DARK, LIGHT, Inks

DEEP = ("#c79400", "#6b3f12")
BRIGHT = ("#f2e85c", "#c08a5a")
"""Two colours beyond the four inks, for light and for dark pages."""
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
MARKS = "oDs^vPX"
OTHER_MARKS = "x+1234<>dh*"


@dataclass(frozen=True)
class Look:
    """How a method is drawn."""

    stroke: style.Stroke
    width: float
    above: float
    """Which lines it covers."""
    own: bool

    def options(self, *, every: Any = None) -> dict[str, Any]:
        """For `Axes.plot`; with a mark at every so many points."""
        return {**self.stroke.options(every=every), "linewidth": self.width, "zorder": self.above}


def looks(methods: Sequence[str], inks: Inks = LIGHT) -> dict[str, Look]:
    """A look for each method, no two of them alike, in colour or in grey.

    Args:
        methods: those of a figure.
        inks: of the page.
    """
    strong = (inks.blue, inks.orange, inks.green, inks.purple, *(BRIGHT if inks == DARK else DEEP))
    # Greys and muted colours: there are more of these methods, and they are not what a reader looks for first.
    muted = ("#8c8c8c", "#7f93a8", "#a8917f", "#8fa384")
    ours, tuned, others = own(), 0, 0
    found = {}
    for name in methods:
        if name in ours:
            place = ours.index(name)
            stroke = style.Stroke(
                strong[place % len(strong)], DASHES[place // len(strong) % len(DASHES)], MARKS[place % len(MARKS)]
            )
            found[name] = Look(stroke, 1.9, 4.0, own=True)
        elif name in TUNED:
            stroke = style.Stroke(inks.text, DASHES[1 + tuned % 2], "")
            tuned += 1
            found[name] = Look(stroke, 1.3, 3.0, own=False)
        else:
            stroke = style.Stroke(
                muted[others % len(muted)],
                DASHES[others % len(DASHES)],
                OTHER_MARKS[others % len(OTHER_MARKS)],
            )
            others += 1
            found[name] = Look(stroke, 1.0, 2.0, own=False)
    return found


@contextmanager
def page(inks: Inks) -> Iterator[None]:
    """The settings of all figures, in the inks of a page."""
    with style.settings(), style.matplotlib("").rc_context({**inks.rc, "axes.edgecolor": inks.faint}):
        yield
