"""The one palette of gradline's pictures: colours for light and dark pages, and strokes of lines.

Colours are mostly those of Okabe and Ito, which colour-blind readers can distinguish. No picture distinguishes two
things by colour alone: a stroke also has dashes and a marker.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Inks(NamedTuple):
    """The colours of one drawing: text and axes, faint lines, the page, and six for data."""

    text: str
    faint: str
    page: str
    blue: str
    orange: str
    green: str
    purple: str
    amber: str
    brown: str

    @property
    def data(self) -> tuple[str, ...]:
        """The colours for data, in order of use."""
        return self[3:]

    @property
    def rc(self) -> dict[str, str]:
        """Matplotlib settings for these colours, with a transparent background."""
        return {
            "text.color": self.text,
            "axes.labelcolor": self.text,
            "axes.edgecolor": self.faint,
            "axes.facecolor": "none",
            "figure.facecolor": "none",
            "xtick.color": self.text,
            "ytick.color": self.text,
        }


LIGHT = Inks(
    text="#222222",
    faint="#b0b0b0",
    page="#ffffff",
    blue="#0072b2",
    orange="#d55e00",
    green="#009e73",
    purple="#a3487f",
    amber="#b58900",
    brown="#6b3f12",
)
"""For dark text on a light page."""
DARK = Inks(
    text="#e6e6e6",
    faint="#6b6f7a",
    page="#14171c",
    blue="#56b4e9",
    orange="#e69f00",
    green="#2fd3a3",
    purple="#e39ac0",
    amber="#f2e85c",
    brown="#c08a5a",
)
"""For light text on a dark page."""


class Stroke(NamedTuple):
    """A line, recognisable without its colour."""

    color: str
    linestyle: Any
    """Dashes, as matplotlib has them."""
    marker: str
    width: float | None = None
    """Width in points; `None`: matplotlib's."""
    above: float | None = None
    """The z-order: which lines it covers; `None`: matplotlib's."""

    def options(self, *, every: Any = None) -> dict[str, Any]:
        """Return keyword arguments for `Axes.plot`. `every` is its `markevery`; `None`: no markers."""
        marks = {} if every is None else {"marker": self.marker, "markevery": every, "markersize": 4}
        given = {"linewidth": self.width, "zorder": self.above}
        given = {name: value for name, value in given.items() if value is not None}
        return {"color": self.color, "linestyle": self.linestyle, **given, **marks}


DASHES: tuple[tuple[Any, str], ...] = (
    ("-", "solid"),
    ((0, (4, 1.2)), "dash"),
    ((0, (1, 0.8)), "dot"),
    ((0, (4, 1, 1, 1)), "dashdot"),
    ((0, (6, 1.5, 1, 1.5, 1, 1.5)), "longdashdot"),
    ((0, (8, 2)), "longdash"),
)
"""Dashes for matplotlib, and their names in Plotly."""
MARKERS = (
    ("o", "circle"),
    ("s", "square"),
    ("^", "triangle-up"),
    ("D", "diamond"),
    ("v", "triangle-down"),
    ("P", "cross"),
    ("X", "x"),
    ("*", "star"),
)
"""Markers for matplotlib, and their names in Plotly."""


def stroke(number: int, inks: Inks = LIGHT) -> Stroke:
    """Return one of many strokes; the first six differ in colour, dashes and marker.

    Colours, dashes and markers repeat after different numbers, so that 24 strokes are all different.

    Args:
        number: index of the stroke, from 0.
        inks: the colours of the page.
    """
    turn = number // len(inks.data)
    dashes = DASHES[(number + turn) % len(DASHES)][0]
    return Stroke(inks.data[number % len(inks.data)], dashes, MARKERS[number % len(MARKERS)][0])
