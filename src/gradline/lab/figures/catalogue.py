"""What every figure has, whether it is a module of its own or one of many alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradline.lab.figures.curves import Measure


def whole(data: Any) -> dict[str, Any]:
    """Return data as a single part."""
    return {"": data}


@dataclass(frozen=True)
class Entry:
    """A figure.

    Args:
        name: `figure_8`, `table_3`, `study_direction_quality`.
        title: one line.
        caption: what to see, in a sentence or two.
        needs: the names of the studies whose runs its data are; none for an illustration (Figures 1 to 7), which
            computes its own.
        data: returns a frozen dataclass of arrays, given a source of runs, or nothing for an illustration.
        draw: draws the data, given also the inks of the page (`gradline.plot.inks`). It computes nothing, and the
            figure belongs to no window.
        about: the caption without how it is drawn, for a chart that can be changed.
        paper: what the paper says of it.
        measures: those of curves, in order.
        means: whether means of runs are drawn, and not every run.
        parts: splits data into those of several drawings, by what is added to the figure's name.
    """

    name: str
    title: str
    caption: str
    needs: tuple[str, ...]
    data: Callable[..., Any]
    draw: Callable[..., Figure]
    about: str = ""
    paper: str = ""
    measures: tuple[Measure, ...] = ()
    means: bool = True
    parts: Callable[[Any], Mapping[str, Any]] = whole

    @classmethod
    def of_module(cls, module: ModuleType) -> Entry:
        """Return the figure of a module with TITLE, CAPTION, NEEDS, `data` and `draw`; others by their upper case."""
        optional = ("about", "paper", "measures", "parts")
        given = {name: getattr(module, name.upper()) for name in optional if hasattr(module, name.upper())}
        return cls(
            name=module.__name__.rpartition(".")[2],
            title=module.TITLE,
            caption=module.CAPTION,
            needs=module.NEEDS,
            data=module.data,
            draw=module.draw,
            **{**given, "measures": tuple(given["measures"]) if isinstance(given.get("measures"), tuple) else ()},
        )

    @property
    def label(self) -> str:
        """The name as people say it: figure 8, table 3, static-vs-dynamic."""
        if self.name.startswith("study_"):
            return self.name.removeprefix("study_").replace("_", "-")
        return self.name.replace("_", " ")

    @property
    def heading(self) -> str:
        """The title, with the number in the paper if it has one."""
        return self.title if self.name.startswith("study_") else f"{self.label.capitalize()}. {self.title}"

    def drawings(self, data: Any, **options: Any) -> dict[str, Figure]:
        """Return all drawings of some data by names for files.

        Args:
            data: what `data` returned.
            **options: of `draw`.
        """
        return {
            f"{self.name}_{part}" if part else self.name: self.draw(some, **options)
            for part, some in self.parts(data).items()
        }
