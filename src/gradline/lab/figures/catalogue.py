"""`Entry`, the description of a figure, and the keys that sort runs into its panels and lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from gradline.lab.figures import labels, style
from gradline.lab.figures.curves import Measure


class Key(NamedTuple):
    """A property by which a figure of curves sorts runs into panels or lines: its title, and a run's label."""

    title: str
    of: Callable[[Any], str]


PROBLEM = Key("Problem", lambda run: labels.problem(run.problem))
BATCH = Key("Batch size", lambda run: labels.batch(run.batch_size))
METHOD = Key("Method", lambda run: labels.method(run.method))


def labels_by(key: Key, runs: Any) -> list[str]:
    """Return the different labels of runs by a key; batch sizes in their order."""
    ordered = sorted(runs, key=lambda run: run.batch_size) if key is BATCH else runs
    return list(dict.fromkeys(key.of(run) for run in ordered))


@dataclass(frozen=True)
class Entry:
    """A figure.

    Args:
        name: `figure_8`, `table_3`, `study_direction_quality`.
        title: one line.
        caption: what to see, in a sentence or two.
        data: returns the runs that are shown, given a source of runs; of an illustration the numbers, given nothing.
        draw: draws the data, given also the inks of the page (`gradline.plot.inks`). The figure belongs to no window.
        needs: names of the studies whose runs it shows; none for an illustration (Figures 1 to 7), which computes
            its own data.
        about: the caption without how it is drawn, for a chart that can be changed.
        paper: what the paper says of it.
        measures: the measures of curves, in order.
        keys: the keys of curves: for facets (rows, or drawings of their own), panels (columns) and lines.
        means: whether means of runs are drawn, and not every run.
        parts: splits data into those of several drawings, by the ending of their names.
    """

    name: str
    title: str
    caption: str
    data: Callable[..., Any]
    draw: Callable[..., style.Figure]
    needs: tuple[str, ...] = ()
    about: str = ""
    paper: str = ""
    measures: tuple[Measure, ...] = ()
    keys: tuple[Key, Key, Key] = (PROBLEM, BATCH, METHOD)
    means: bool = True
    parts: Callable[[Any], Mapping[str, Any]] = lambda data: {"": data}

    @classmethod
    def of_module(cls, module: ModuleType) -> Entry:
        """Return the figure of a module with `data`, `draw`, TITLE, CAPTION, and perhaps other fields in capitals."""
        given = ("needs", "about", "paper", "keys", "measures")
        optional = {name: getattr(module, name.upper()) for name in given if hasattr(module, name.upper())}
        name = module.__name__.rpartition(".")[2]
        return cls(name, module.TITLE, module.CAPTION, module.data, module.draw, **optional)

    @property
    def label(self) -> str:
        """The name as people say it: figure 8, table 3, static-vs-dynamic, compare-heat."""
        if self.name.startswith(("figure_", "table_")):
            return self.name.replace("_", " ")
        return self.name.removeprefix("study_").replace("_", "-")

    @property
    def heading(self) -> str:
        """The title, with the number in the paper if it has one."""
        return f"{self.label.capitalize()}. {self.title}" if " " in self.label else self.title

    @property
    def compares(self) -> bool:
        """Whether it shows runs of a comparison with other optimizers."""
        return bool({"compare", "train"}.intersection(self.needs))

    def drawings(self, data: Any, **options: Any) -> dict[str, style.Figure]:
        """Return all drawings of what `data` returned, by names for files; the options are those of `draw`."""
        return {
            f"{self.name}_{part}" if part else self.name: self.draw(some, **options)
            for part, some in self.parts(data).items()
        }

    def picture(self, data: Any) -> style.Picture:
        """Return a picture of what `data` returned, for a page."""
        return style.picture(self.name, self.heading, self.caption, partial(self.draw, data))
