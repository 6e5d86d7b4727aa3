"""The look of all figures, and how they are written to files.

Colours are those of Okabe and Ito. No two things are told apart by colour alone: lines differ in their dashes or marks,
surfaces have a colour map whose lightness rises steadily, so all is legible in grey too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gradline.installing import not_installed
from gradline.plot.inks import LIGHT as INKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["INKS", "LINES", "SURFACE", "Stroke", "legend_below", "letter", "panels", "save", "settings"]

SURFACE = "cividis"
"""The colour map of surfaces: the same to most eyes, and steadily lighter in grey."""
WIDTH = 7.2
"""The width of a page's text, in inches."""
PIXELS = 200
"""Of an inch, in PNG."""
FILES = (".pdf", ".png")


class Stroke(NamedTuple):
    """How a line is drawn, so that it is known by more than its colour."""

    color: str
    linestyle: Any
    marker: str

    def options(self, *, every: Any = None) -> dict[str, Any]:
        """For `Axes.plot`; with a mark at every so many points."""
        marks = {} if every is None else {"marker": self.marker, "markevery": every, "markersize": 4}
        return {"color": self.color, "linestyle": self.linestyle, **marks}


LINES = (
    Stroke(INKS.blue, "--", "o"),
    Stroke(INKS.orange, "-.", "s"),
    Stroke(INKS.green, (0, (1, 1)), "^"),
    Stroke(INKS.purple, (0, (5, 1, 1, 1, 1, 1)), "D"),
    Stroke("#e69f00", (0, (3, 1)), "v"),
    Stroke("#56b4e9", (0, (6, 2)), "P"),
)
"""Six lines that can be told apart, in colour and in grey."""

SETTINGS: dict[str, Any] = {
    **INKS.rc,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "font.size": 8.5,
    "axes.titlesize": 9.0,
    "axes.labelsize": 8.5,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.edgecolor": "#808080",
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.3,
    "pdf.fonttype": 42,  # text stays text
}


def settings() -> Any:
    """The matplotlib settings of all figures, for a `with` statement."""
    return matplotlib("").rc_context(SETTINGS)


def matplotlib(part: str) -> Any:
    """A module of matplotlib, or how to install it."""
    try:
        return import_module(f"matplotlib.{part}" if part else "matplotlib")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        raise not_installed("gradline.lab.figures", "matplotlib", "plot") from error


def panels(
    rows: int, columns: int, *, height: float, width: float = WIDTH, layout: str = "constrained", **options: Any
) -> tuple[Figure, Any]:
    """A figure with a grid of axes (an array of two dimensions), which belongs to no window and needs no closing."""
    figure: Figure = matplotlib("figure").Figure(figsize=(width, height), layout=layout)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        if axis.name == "rectilinear":
            for side in ("top", "right"):
                axis.spines[side].set_visible(False)
    return figure, axes


def letter(axis: Axes, name: str, title: str = "") -> None:
    """The letter of a panel, and what it shows."""
    axis.set_title(f"({name}) {title}".strip(), loc="left")


def legend_below(figure: Figure, axes: Iterable[Axes], *, columns: int, **options: Any) -> None:
    """One legend for several axes, below them all, where it hides nothing."""
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(
        list(entries.values()),
        list(entries),
        **{
            "loc": "outside lower center",
            "ncols": columns,
            "frameon": False,
            "handlelength": 2.4,
            "columnspacing": 1.4,
            **options,
        },
    )


def save(figure: Figure, path: str | os.PathLike[str], *, files: Sequence[str] = FILES) -> list[Path]:
    """Write a figure as PDF and as PNG; return the paths.

    Each file is written whole and then renamed, and holds no date, so that the same figure gives the same bytes.

    Args:
        figure: what `draw` returned.
        path: without an ending (one of `files` at its end is dropped). Its folder is made if it is not there.
        files: the endings.
    """
    base = Path(path)
    if base.suffix in files:
        base = base.with_suffix("")
    base.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for ending in files:
        target = base.with_name(base.name + ending)
        draft = base.with_name(f".{os.getpid()}-{base.name}{ending}")
        dateless = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(ending)
        try:
            with settings():
                figure.savefig(draft, dpi=PIXELS, metadata=dateless)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
        written.append(target)
    return written
