"""The figures of the page on the paper's study, from packed runs, and what the paper says beside each.

`python docs/study.py` writes the section into `study.md`, between its marks. mkdocs draws the pictures before a build.
Every packed file in `results/` is read, so runs can be added file by file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from marks import fill

from gradline.lab.figures import FIGURES, labels, save
from gradline.lab.figures.curves import MissingRuns
from gradline.lab.findings.reading import traces
from gradline.lab.findings.traces import Trace
from gradline.plot.inks import DARK, LIGHT

HERE = Path(__file__).parent
RUNS = HERE.parent / "results"
PAGE = HERE / "study.md"
SHOWN = (
    *(f"figure_{number}" for number in range(8, 15)),
    "table_3",
    "study_prls_losses",
    "study_net2_scales",
    "study_today",
)


@cache
def runs() -> tuple[Trace, ...]:
    """The runs of all packed files."""
    return tuple(trace for path in sorted(RUNS.glob("*.json.gz")) for trace in traces(path))


@cache
def found() -> dict[str, Any]:
    """The data of each figure that has runs."""
    data = {}
    for name in SHOWN:
        try:
            data[name] = FIGURES[name].data(runs())
        except MissingRuns:
            continue
    return data


def names() -> Iterator[str]:
    """The files that `make` writes."""
    for name, data in found().items():
        for part in FIGURES[name].parts(data):
            for ending in ("", "-dark"):
                yield f"{name}_{part}{ending}.png" if part else f"{name}{ending}.png"


def make(folder: Path) -> None:
    """Write all pictures."""
    for name, data in found().items():
        for ending, inks in (("", LIGHT), ("-dark", DARK)):
            for part, figure in FIGURES[name].drawings(data, inks=inks).items():
                save(figure, folder / f"{part}{ending}", files=(".png",), transparent=True)


def section() -> str:
    """The section of the page: each figure with what the paper says, or how to make its runs."""
    parts = []
    for name in SHOWN:
        figure = FIGURES[name]
        parts.append(f"### {figure.heading}")
        if figure.paper:
            parts.append(f"**The paper:** {figure.paper}")
        if name not in found():
            parts.append(f"No runs of it are kept here yet; `gradline run {figure.needs[0]}` makes them.")
            continue
        data = found()[name]
        notes = data.notes() if hasattr(data, "notes") else []
        if notes:
            parts.append(f"Not the whole study: {'; '.join(notes)}.")
        for part, some in figure.parts(data).items():
            file = f"{name}_{part}" if part else name
            text = f"{labels.problem(some.values_of('problem')[0])}: {figure.caption}" if part else figure.caption
            parts.append(f"![{text}](pictures/{file}.png#only-light)\n![{text}](pictures/{file}-dark.png#only-dark)")
    return "\n\n".join(parts)


def filled(page: str) -> str:
    """The page with the section between its marks."""
    return fill(page, "study.py", {"figures": section()})


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
