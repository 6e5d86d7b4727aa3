"""Which mini-batch matters more: the one that gives the direction, or those that give the step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gradline.lab.figures import labels, style
from gradline.lab.figures.curves import missing, select
from gradline.lab.findings.reading import Source, traces
from gradline.lab.jobs.result import Array
from gradline.plot.inks import LIGHT, Inks

TITLE = "Which mini-batch matters more: that of the direction, or those of the step"
CAPTION = (
    "NetPI on the breast-cancer data at the end of the budget, over the samples that gave the direction and those of "
    "each evaluation that resolved the step: the median over the runs of training loss and test error."
)
NEEDS = ("direction-vs-step",)
SETTING = ["method", "direction_batch_size", "batch_size"]
MEASURES = {"train_loss": "training loss", "test_error": "test error"}


def data(source: Source) -> pd.DataFrame:
    """Return medians over the runs of a source at the end of the budget.

    There is a row for each method, batch size of directions and batch size, with a column for each measure.
    """
    runs = select(traces(source), problems=("bcwd-netpi",), methods=("gols-i", "prls"), directions=True)
    if not runs:
        raise missing(NEEDS[0])
    ends = [
        {name: getattr(run, name) for name in SETTING} | {name: run.on_grid(name)[-1] for name in MEASURES}
        for run in runs
    ]
    return pd.DataFrame(ends).groupby(SETTING).agg(_median)


def _median(values: pd.Series[Any]) -> float:
    return float(np.median(values))  # NaN, not the median of the others, if a run has none


def draw(data: pd.DataFrame, inks: Inks = LIGHT) -> style.Figure:
    """Draw a row for each method: training loss left, test error right, with the numbers in the fields."""
    methods, directions, sizes = (sorted(data.index.unique(name)) for name in SETTING)
    with style.settings(inks):
        height = 0.4 + 0.45 * len(directions)
        figure, axes = style.panels(len(methods), 2, height=0.5 + len(methods) * (height + 0.7))
        letters = iter("abcdefgh")
        for row, method in enumerate(methods):
            for axis, (name, title) in zip(axes[row], MEASURES.items(), strict=True):
                fields = data.loc[method, name].unstack().reindex(index=directions, columns=sizes)
                _heat(axis, fields.to_numpy(), data[name].to_numpy(), logarithmic=name == "train_loss")
                for which, ticks in ((axis.xaxis, sizes), (axis.yaxis, directions)):
                    which.set_ticks(np.arange(len(ticks)) + 0.5, [str(size) for size in ticks])
                    which.set_tick_params(length=0)
                style.letter(axis, next(letters), f"{labels.method(method)}, {title}")
                if row + 1 == len(methods):
                    axis.set_xlabel("samples of an evaluation that resolves the step")
            axes[row, 0].set_ylabel("samples of the direction")
    return figure


def _heat(axis: Any, values: Array, scale: Array, *, logarithmic: bool) -> None:
    """Draw fields whose lightness is the value, with the value written into each."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shade, all_shades = (np.log10(array) if logarithmic else array for array in (values, scale))
    finite = all_shades[np.isfinite(all_shades)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    high = high if high > low else low + 1.0
    axis.pcolormesh(
        np.ma.masked_invalid(shade), cmap=style.SURFACE, vmin=low, vmax=high, edgecolors=axis.figure.get_facecolor()
    )
    for row, column in np.ndindex(values.shape):
        if np.isnan(values[row, column]):
            continue
        dark = (shade[row, column] - low) / (high - low) < 0.55
        text = f"{values[row, column]:.1e}" if logarithmic else f"{100 * values[row, column]:.1f}%"
        ink = "white" if dark else "black"
        axis.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=ink, fontsize=7.5)
