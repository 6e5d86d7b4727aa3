"""Settings and layout of all figures; writing them to files and into pages. Colours: `gradline.plot.inks`.

Surfaces have a colour map whose lightness rises steadily, so that they are legible in grey too.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gradline.lab.tools.files import atomic_write
from gradline.lab.tools.imports import import_extra
from gradline.plot.inks import DARK, LIGHT, Inks

if TYPE_CHECKING:  # other modules have these types from here, as `style.Figure`
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

SURFACE = "cividis"
"""The colour map of surfaces: the same to most eyes, and steadily lighter in grey."""
WIDTH = 7.2
"""The width of a page's text, in inches."""
PIXELS = 200
"""Pixels of an inch, in PNG."""
PICTURE_PIXELS = 130
"""Pixels of an inch, in a page."""
FILES = (".pdf", ".png")


SETTINGS: dict[str, Any] = {
    "font.size": 8.5,
    "axes.titlesize": 9.0,
    "axes.labelsize": 8.5,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.3,
    "grid.linewidth": 0.5,
    "pdf.fonttype": 42,  # text stays text
    "svg.hashsalt": "gradline",
}


def settings(inks: Inks = LIGHT) -> Any:
    """Return the matplotlib settings of all figures as a context manager."""
    page = {"figure.facecolor": inks.page, "savefig.facecolor": inks.page, "axes3d.xaxis.panecolor": "none"}
    page |= {"axes3d.yaxis.panecolor": "none", "axes3d.zaxis.panecolor": "none", "grid.color": inks.faint}
    return matplotlib("").rc_context({**inks.rc, **SETTINGS, **page})


def matplotlib(part: str) -> Any:
    """Return a module of matplotlib, or raise how to install it."""
    return import_extra(f"matplotlib.{part}" if part else "matplotlib", "gradline.lab.figures", "plot")


def panels(
    rows: int, columns: int, *, height: float, width: float = WIDTH, layout: str = "constrained", **options: Any
) -> tuple[Figure, Any]:
    """Return a figure with a grid of axes (an array of two dimensions), which belongs to no window."""
    figure: Figure = matplotlib("figure").Figure(figsize=(width, height), layout=layout)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        if axis.name == "rectilinear":
            for side in ("top", "right"):
                axis.spines[side].set_visible(False)
    return figure, axes


def surface(axis: Any, x: Any, y: Any, heights: Any, **options: Any) -> None:
    """Draw a surface of all its points in three dimensions."""
    look: dict[str, Any] = {"cmap": SURFACE, "rstride": 1, "cstride": 1, "linewidth": 0.0, "antialiased": False}
    axis.plot_surface(x, y, heights, rasterized=True, **look, **options)


def letter(axis: Axes, name: str, title: str = "") -> None:
    """Set the title of a panel: its letter, and what it shows."""
    axis.set_title(f"({name}) {title}".strip(), loc="left")


def legend(figure: Figure, axes: Iterable[Axes], *, columns: int, where: str = "outside lower center") -> None:
    """Add one legend for several axes, outside them all, where it hides nothing."""
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    options: dict[str, Any] = {"loc": where, "ncols": columns, "frameon": False}
    figure.legend(list(entries.values()), list(entries), **options, handlelength=2.4, columnspacing=1.4)


def save(
    figure: Figure, path: str | os.PathLike[str], *, files: Sequence[str] = FILES, transparent: bool = False
) -> list[Path]:
    """Write a figure as PDF and as PNG; return the paths.

    Each file is written whole and then renamed, and holds no date, so that the same figure gives the same bytes.

    Args:
        figure: what `draw` returned.
        path: without an ending (one of `files` at its end is dropped). Its folder is made if it is not there.
        files: the endings.
        transparent: leave out the background.
    """
    base = Path(path)
    if base.suffix in files:
        base = base.with_suffix("")
    background = "none" if transparent else figure.get_facecolor()
    written = []
    for ending in files:
        written.append(base.with_name(base.name + ending))
        dateless: Any = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(ending)
        options = {"format": ending[1:], "dpi": PIXELS, "metadata": dateless, "facecolor": background}
        with settings(), atomic_write(written[-1], sync=False) as file:
            figure.savefig(file, **options)
    return written


class Picture(NamedTuple):
    """A picture: its id, title and caption, its addresses for light and dark pages, and its size in pixels."""

    id: str
    title: str
    caption: str
    light: str
    dark: str
    width: int
    height: int


def picture(name: str, title: str, caption: str, draw: Callable[[Inks], Figure]) -> Picture:
    """Return a picture of what a function draws in given inks."""
    light = draw(LIGHT)
    width, height = (round(PICTURE_PIXELS * inches) for inches in light.get_size_inches())
    return Picture(name, title, caption, _address(light, LIGHT), _address(draw(DARK), DARK), width, height)


def _address(drawn: Figure, inks: Inks) -> str:
    """Return a `data:` address: a PNG in 256 colours, a third of the size. Pillow comes with matplotlib."""
    from PIL import Image

    buffer, small = io.BytesIO(), io.BytesIO()
    with settings(inks):
        drawn.savefig(buffer, dpi=PICTURE_PIXELS, format="png")
    image = Image.open(buffer).convert("RGB")
    image.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(small.getvalue()).decode("ascii")
