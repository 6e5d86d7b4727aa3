"""Figures as pictures in a page, for light and for dark colours."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import NamedTuple

from gradline.lab.figures import style
from gradline.plot.inks import DARK, LIGHT, Inks

PIXELS = 130
"""Pixels of an inch."""


class Picture(NamedTuple):
    """A picture: its id, title and caption, its addresses for light and dark pages, and its size in pixels."""

    id: str
    title: str
    caption: str
    light: str
    dark: str
    width: int
    height: int


def picture(name: str, title: str, caption: str, draw: Callable[[Inks], style.Figure]) -> Picture:
    """Return a picture of what a function draws in given inks."""
    light = draw(LIGHT)
    width, height = (round(PIXELS * inches) for inches in light.get_size_inches())
    return Picture(name, title, caption, _address(light, LIGHT), _address(draw(DARK), DARK), width, height)


def _address(drawn: style.Figure, inks: Inks) -> str:
    """Return a `data:` address: a PNG in 256 colours, a third of the size. Pillow comes with matplotlib."""
    from PIL import Image

    buffer, small = io.BytesIO(), io.BytesIO()
    with style.settings(inks):
        drawn.savefig(buffer, dpi=PIXELS, format="png")
    image = Image.open(buffer).convert("RGB")
    image.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(small.getvalue()).decode("ascii")
