"""Which mini-batch matters more: the one that gives the direction, or those that give the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
MEASURES = {"train_loss": "training loss", "test_error": "test error"}


@dataclass(frozen=True, eq=False)
class Data:
    """Medians over the runs, at the end of the budget: methods × direction batch sizes × batch sizes."""

    methods: tuple[str, ...]
    direction_batch_sizes: NDArray[np.int64]
    batch_sizes: NDArray[np.int64]
    runs: NDArray[np.int64]
    """Number of runs."""
    train_loss: Array
    test_error: Array


def data(source: Source) -> Data:
    """Return the medians of the runs of a source; NaN where there are no runs."""
    runs = select(traces(source), problems=("bcwd-netpi",), methods=("gols-i", "prls"), directions=True)
    if not runs:
        raise missing("the figure of direction-vs-step", NEEDS[0])
    methods = tuple(dict.fromkeys(run.method for run in runs))
    directions = sorted({run.direction_batch_size or 0 for run in runs})
    sizes = sorted({run.batch_size for run in runs})
    shape = (len(methods), len(directions), len(sizes))
    counts = np.zeros(shape, dtype=np.int64)
    medians = {name: np.full(shape, np.nan) for name in MEASURES}
    for place in np.ndindex(shape):
        setting = (methods[place[0]], directions[place[1]], sizes[place[2]])
        there = [run for run in runs if (run.method, run.direction_batch_size, run.batch_size) == setting]
        counts[place] = len(there)
        for name in MEASURES:
            if there:
                medians[name][place] = np.median([run.on_grid(name)[-1] for run in there])
    return Data(methods, np.array(directions), np.array(sizes), counts, medians["train_loss"], medians["test_error"])


def draw(data: Data, inks: Inks = LIGHT) -> style.Figure:
    """Draw a row for each method: training loss left, test error right, with the numbers in the fields."""
    with style.settings(inks):
        height = 0.4 + 0.45 * len(data.direction_batch_sizes)
        figure, axes = style.panels(len(data.methods), 2, height=0.5 + len(data.methods) * (height + 0.7))
        letters = iter("abcdefgh")
        for row, method in enumerate(data.methods):
            for axis, (name, title) in zip(axes[row], MEASURES.items(), strict=True):
                shown = getattr(data, name)
                _heat(axis, shown[row], shown, logarithmic=name == "train_loss")
                for which, sizes in ((axis.xaxis, data.batch_sizes), (axis.yaxis, data.direction_batch_sizes)):
                    which.set_ticks(np.arange(len(sizes)) + 0.5, [str(size) for size in sizes])
                    which.set_tick_params(length=0)
                style.letter(axis, next(letters), f"{labels.method(method)}, {title}")
                if row + 1 == len(data.methods):
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
