"""The picture and the page of a comparison on a model of your own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gradline.lab.comparing.outcome import Outcome
from gradline.lab.figures import style
from gradline.lab.report.page import template
from gradline.lab.report.pictures import picture
from gradline.lab.report.tables import text_table
from gradline.lab.tools.files import atomic_write
from gradline.lab.tools.formatting import number, plural
from gradline.plot.inks import LIGHT, Inks, stroke

PICTURE = "compare"
PAGE = "report.html"
CAPTION = "Validation loss against evaluations, a line for each method; of a grid of learning rates the best one."


def draw(found: Outcome, inks: Inks = LIGHT) -> style.Figure:
    """Draw validation loss, and error if there is one, against evaluations: the median over seeds."""
    measures = ["validation_loss", "validation_error"] if found.has_error else ["validation_loss"]
    with style.settings(inks):
        figure, axes = style.panels(1, len(measures), height=3.6, width=4.2 * len(measures) + 1.0)
        for axis, measure in zip(axes.flat, measures, strict=True):
            shown: list[float] = []
            for place, (method, label) in enumerate(found.labels().items()):
                curves = [curve for curve in found.curves(method, measure) if curve[0].size]
                if not curves:
                    continue
                grid = np.unique(np.concatenate([at for at, _ in curves]))
                values = np.median([np.interp(grid, at, value) for at, value in curves], axis=0)
                ours = method.startswith("angle")
                options = stroke(0 if ours else 1 + place, inks).options()
                axis.plot(grid, values, label=label, **options | ({"linewidth": 2.4, "zorder": 4} if ours else {}))
                shown += [value for value in values[len(values) // 10 :] if 0.0 < value < np.inf]
            if shown and measure == "validation_loss":
                axis.set_yscale("log")
                for which in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
                    which(style.matplotlib("ticker").FuncFormatter(lambda value, _: number(value, 2)))
            if shown:
                low, high = min(shown), float(np.quantile(shown, 0.98))
                axis.set_ylim(low * 0.9 if measure == "validation_loss" else 0.0, max(high * 1.1, low * 1.2))
            axis.set_xlabel("evaluations (forward and backward passes)")
            axis.set_ylabel(measure.replace("_", " "))
        style.legend(figure, axes.flat, columns=3)
    return figure


def summary(found: Outcome) -> str:
    """Return the table, the conclusions and the code as HTML."""
    macros: Any = template("macros.html.jinja").module
    return str(macros.summary(found, text_table(*found.cells())))


def write(found: Outcome, directory: Path) -> Path:
    """Write the picture (PNG and PDF) and the page, which needs no other file, and return the page's path."""
    style.save(draw(found), directory / PICTURE)
    text = template("compare.html.jinja").render(
        title=f"{found.study.name}: optimizers compared",
        setting=found.study.settings[0],
        runs=plural(len(found.study.seeds), "run"),
        found=found,
        cells=text_table(*found.cells()),
        curves=picture("curves", "Along training", CAPTION, partial(draw, found)),
    )
    with atomic_write(directory / PAGE) as file:
        file.write(text.encode())
    return directory / PAGE
