"""Table 3: how many evaluations searches made in an iteration, with ten hidden layers."""

from __future__ import annotations

import pandas as pd

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
"""The paper's numbers; it does not distinguish PrLS's first iteration from the others."""


HEADER = ("method", "runs", "fewest", "most", "most after the first", "mean")


def data(source: Source) -> pd.DataFrame:
    """Return the number of runs and the numbers of probes per iteration of each method, from the runs of a source."""
    found = select(traces(source), problems=("bcwd-netpi-10",), methods=("gols-i", "prls"))
    counted = [{"method": run.method, **run.summary} for run in found if run.summary["probes_max"]]
    if not counted:
        raise missing("netpi-10")
    return (
        pd.DataFrame(counted)
        .groupby("method", sort=False)
        .agg(
            runs=("method", "size"),
            fewest=("probes_min", "min"),
            most=("probes_max", "max"),
            most_later=("probes_max_later", "max"),
            mean=("probes_mean", "mean"),
        )
    )


def cells(data: pd.DataFrame) -> list[list[str]]:
    """Return the table as text, with the paper's row below each of ours."""
    lines = []
    for method, *counts, mean in data.itertuples(name=None):
        lines.append([labels.method(method), *map(str, counts), f"{mean:.2f}"])
        lines.append(["in the paper", "10", *map(str, PUBLISHED[method])])
    return lines


def draw(data: pd.DataFrame, inks: Inks = LIGHT) -> style.Figure:
    """Draw the table; the paper's rows are in italics."""
    lines = cells(data)
    with style.settings(inks):
        figure, axes = style.panels(1, 1, height=0.4 + 0.28 * (len(lines) + 1), width=6.0)
        axis = axes[0, 0]
        axis.axis("off")
        table = axis.table(
            lines,
            colLabels=["", *HEADER[1:]],
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
            if row and row % 2 == 0:
                cell.get_text().set_style("italic")
                cell.get_text().set_color(inks.text)
                cell.get_text().set_alpha(0.7)
            elif row == 0 or column == 0:
                cell.get_text().set_weight("bold")
    return figure
