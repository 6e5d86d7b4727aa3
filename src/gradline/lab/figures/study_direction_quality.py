"""How far mini-batch directions are from the full-batch direction, against the batch size and along training."""

from __future__ import annotations

import numpy as np

from gradline.lab.figures import labels, style
from gradline.lab.figures.catalogue import BATCH, METHOD, PROBLEM
from gradline.lab.figures.curves import ANGLE, FigureRuns, figure_runs, quantiles, rows_of
from gradline.lab.figures.panels import smooth
from gradline.lab.findings.reading import Source
from gradline.plot.inks import LIGHT, Inks, stroke

TITLE = "Angle between mini-batch and full-batch direction, along training"
ABOUT = (
    "The angle between the direction of GOLS-I's mini-batch and that of all samples, for mini-batches of several sizes"
)
CAPTION = (
    f"{ABOUT}: the median over the runs along training (smoothed over a thirtieth of it), and over training and runs."
    " At 90° a direction tells nothing."
)
NEEDS = ("direction-quality",)
KEYS = (METHOD, PROBLEM, BATCH)
MEASURES = (ANGLE,)


def data(source: Source) -> FigureRuns:
    """Return the runs of a source whose angles were measured."""
    return figure_runs(source, NEEDS[0], angled=True)


def draw(data: FigureRuns, inks: Inks = LIGHT) -> style.Figure:
    """Draw for each problem the angle along training, above, and against the batch size, below."""
    problems = data.values_of("problem")
    sizes = sorted(data.values_of("batch_size"))
    with style.settings(inks):
        figure, axes = style.panels(2, len(problems), height=4.6, sharey=True)
        for (above, below), problem in zip(axes.T, problems, strict=True):
            middles = []
            for size in sizes:
                runs = [run for run in data.runs if (run.problem, run.batch_size) == (problem, size)]
                if runs:
                    x, rows = rows_of(runs, ANGLE)
                    band = quantiles(x, rows, ANGLE)
                    every, place = max(1, len(band.x) // 4), sizes.index(size)
                    above.plot(
                        *(band.x, smooth(np.degrees(band.middle))),
                        label=labels.batch(size), linewidth=1.1,
                        **stroke(place, inks).options(every=(every * place // len(sizes), every)),
                    )  # fmt: skip
                    angles = np.degrees(rows[np.isfinite(rows)])
                    middles.append((size, *(np.quantile(angles, [0.5, 0.25, 0.75]) if angles.size else [np.nan] * 3)))
            x, middle, low, high = np.array(middles).T
            below.errorbar(
                *(x, middle), yerr=[middle - low, high - middle], color=inks.text, marker="o", capsize=3, linewidth=1.0
            )
            below.set_xscale("log")
            below.set_xticks(x, [f"{size:.0f}" for size in x])
            below.set_xticks([], minor=True)
            below.set_xlabel("batch size\n(median and middle half)")
            above.set_xlabel("evaluations")
            above.set_title(labels.problem(problem))
            for axis in (above, below):
                axis.set_ylim(0.0, 120.0)
                axis.set_yticks([0, 30, 60, 90, 120], ["0°", "30°", "60°", "90°", "120°"])
                axis.axhline(90.0, color=inks.faint, linewidth=0.8, zorder=0.5)
        for row in axes:
            row[0].set_ylabel("angle to the full batch's")
        style.legend(figure, axes[0], columns=6)
    return figure
