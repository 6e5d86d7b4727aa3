"""Table 3: how many evaluations searches made in an iteration, with ten hidden layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradline.lab.figures import labels, style
from gradline.lab.figures.curves import missing, select
from gradline.lab.findings.reading import Source, traces
from gradline.plot.inks import LIGHT, Inks

TITLE = "Evaluations in an iteration"
CAPTION = (
    "The fewest, the most, the most after the first iteration, and the mean number of evaluations in an iteration, of "
    "NetPI with ten hidden layers, over all runs; the mean is that of the runs' means. In italics: the paper's."
)
PAPER = "GOLS-I: 1 to 28 evaluations in an iteration (at most 11 after the first), 1.3 on average. PrLS: 1 to 7, 2.7."
NEEDS = ("netpi-10",)

PUBLISHED = {"gols-i": (1, 28, 11, 1.3), "prls": (1, 7, 7, 2.7)}
"""What the paper has; it does not tell PrLS's first iteration from the others."""


@dataclass(frozen=True, eq=False)
class Data:
    """A row for each method."""

    methods: tuple[str, ...]
    runs: NDArray[np.int64]
    fewest: NDArray[np.int64]
    most: NDArray[np.int64]
    most_later: NDArray[np.int64]
    """After the first iteration."""
    mean: NDArray[np.float64]

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Columns of equal length."""
        return {
            "method": np.array(self.methods),
            "runs": self.runs,
            "min": self.fewest,
            "max": self.most,
            "max_after_first": self.most_later,
            "mean": self.mean,
        }


def data(source: Source) -> Data:
    """Count the probes of each iteration of a directory, or of `gradline.lab.results`."""
    runs = select(traces(source), problems=("bcwd-netpi-10",), methods=("gols-i", "prls"))
    counted: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        if run.summary["probes_max"]:
            counted.setdefault(run.method, []).append(run.summary)
    if not counted:
        raise missing("table 3", "netpi-10")

    def over_runs(column: str, combine: Callable[[list[Any]], Any]) -> NDArray[Any]:
        return np.array([combine([summary[column] for summary in some]) for some in counted.values()])

    return Data(
        methods=tuple(counted),
        runs=over_runs("probes_min", len),
        fewest=over_runs("probes_min", min),
        most=over_runs("probes_max", max),
        most_later=over_runs("probes_max_later", max),
        mean=over_runs("probes_mean", np.mean),
    )


def draw(data: Data, inks: Inks = LIGHT) -> style.Figure:
    """The table, with the paper's row below each of ours."""
    header = ["", "runs", "fewest", "most", "most after the first", "mean"]
    cells, slanted = [], []
    for place, method in enumerate(data.methods):
        ours = [str(column[place]) for column in (data.runs, data.fewest, data.most, data.most_later)]
        cells.append([labels.method(method), *ours, f"{data.mean[place]:.2f}"])
        cells.append(["in the paper", "10", *(str(value) for value in PUBLISHED[method])])
        slanted.append(len(cells))
    with style.settings(inks):
        figure, axes = style.panels(1, 1, height=0.4 + 0.28 * (len(cells) + 1), width=6.0)
        axis = axes[0, 0]
        axis.axis("off")
        table = axis.table(
            cells,
            colLabels=header,
            colWidths=[0.2, 0.12, 0.14, 0.12, 0.28, 0.14],
            loc="center",
            cellLoc="right",
            colLoc="right",
            edges="horizontal",
            bbox=(0.0, 0.0, 1.0, 1.0),
        )
        table.auto_set_font_size(False)
        table.set_fontsize(9.0)
        for (row, column), cell in table.get_celld().items():
            cell.set_edgecolor(inks.faint)
            if column == 0:
                cell.get_text().set_horizontalalignment("left")
            if row in slanted:
                cell.get_text().set_style("italic")
                cell.get_text().set_color(inks.text)
                cell.get_text().set_alpha(0.7)
            elif row == 0 or column == 0:
                cell.get_text().set_weight("bold")
    return figure
