"""The colours of gradline's plots.

They are mostly those of Okabe and Ito, which colour-blind readers can distinguish; no plot distinguishes two things by
colour alone.
"""

from __future__ import annotations

from typing import NamedTuple


class Inks(NamedTuple):
    """The colours of one drawing: text and axes, faint lines, and four for data."""

    text: str
    faint: str
    blue: str
    orange: str
    green: str
    purple: str

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


LIGHT = Inks(text="#222222", faint="#b0b0b0", blue="#0072b2", orange="#d55e00", green="#009e73", purple="#a3487f")
"""For dark text on a light page."""
DARK = Inks(text="#e6e6e6", faint="#6b6f7a", blue="#56b4e9", orange="#e69f00", green="#2fd3a3", purple="#e39ac0")
"""For light text on a dark page."""
