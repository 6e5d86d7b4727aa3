"""Performance profiles: in how many settings each method of a comparison is within a factor of the fastest one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradline.lab.figures import style
from gradline.lab.figures.curves import compared
from gradline.lab.figures.labels import plain
from gradline.lab.figures.line_styles import styles
from gradline.lab.findings.cases import Case
from gradline.lab.findings.comparison import OWN, Comparison, costs, ratios
from gradline.lab.jobs.result import Array
from gradline.plot.inks import LIGHT, Inks

TITLE = "How often near the best"
CAPTION = (
    "In how many settings a method reaches the target loss with at most so many times the gradient evaluations of the "
    "fastest method. At the left is how often it is the fastest, at the right how often it gets there at all."
)
NEEDS = ("compare",)
FARTHEST = 64.0
"""The largest ratio that is shown."""


data = compared


def corners(cases: Iterable[Case], shown: Sequence[str]) -> dict[str, tuple[Array, Array]]:
    """Return the corners of methods' profiles: ratios from 1 to `FARTHEST`, and shares of the settings that all ran on.

    The best one of a setting is the best of all methods, drawn or not.
    """
    found = ratios(costs(cases))
    made = {}
    for method in shown:
        own = found.loc[method].to_numpy()
        seen = np.sort(own[own <= FARTHEST])
        shares = np.arange(len(seen) + 1) / max(len(own), 1)
        made[method] = np.array([1.0, *seen, FARTHEST]), np.array([*shares, shares[-1]])
    return made


def draw(data: Comparison, inks: Inks = LIGHT) -> style.Figure:
    """Draw one panel: a step line for each method, with its name at the right end."""
    known, lines = styles(data.drawn, inks), corners(data.cases, data.drawn)
    with style.settings(inks):
        figure, axes = style.panels(1, 1, height=4.4)
        axis = axes[0, 0]
        for method, (x, shares) in lines.items():
            options = known[method].options(every=slice(1, -1, max(len(x) // 3, 1)))
            axis.step(x, shares, where="post", label=plain(method), **options)
        ends = {method: float(shares[-1]) for method, (_, shares) in lines.items()}
        ordered = sorted(ends, key=lambda method: (ends[method], lines[method][1].mean()))
        for method, height in zip(ordered, apart([ends[method] for method in ordered], 0.052, 1.02), strict=True):
            look = known[method]
            # From the end of the line to its name, and there the line once more, as in a legend.
            reach, sample = FARTHEST * np.array([1.0, 1.1]), FARTHEST * np.array([1.1, 1.22, 1.35])
            axis.plot(reach, [ends[method], height], color=look.color, linewidth=0.6, clip_on=False)
            axis.plot(sample, [height] * 3, clip_on=False, **look.options(every=[1]))
            text: dict[str, Any] = {"fontsize": 8, "va": "center", "annotation_clip": False, "color": look.color}
            weight = "bold" if method in OWN else "normal"
            axis.annotate(plain(method), (FARTHEST * 1.43, height), fontweight=weight, **text)
        axis.set_xscale("log", base=2)
        axis.set_xlim(1.0, FARTHEST)
        axis.set_ylim(0.0, 1.02)
        axis.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1 (best)", "2", "4", "8", "16", "32", "64"])
        axis.set_yticks(np.linspace(0.0, 1.0, 6), [f"{share} %" for share in range(0, 101, 20)])
        axis.grid(axis="y", color=inks.faint, linewidth=0.4, alpha=0.6)
        axis.set_xlabel("evaluations to the target, over those of the best method")
        axis.set_ylabel(f"share of {len(data.shared())} settings")
    return figure


def apart(values: Sequence[float], gap: float, top: float) -> list[float]:
    """Return values in rising order, moved as little as it takes to be a gap apart, between 0 and the top."""
    from scipy.optimize import isotonic_regression

    if not values:
        return []
    # Without the gaps the values need only not fall.
    gaps = gap * np.arange(len(values))
    level = isotonic_regression(np.asarray(values) - gaps).x
    moved: list[float] = (np.clip(level, 0.0, top - gaps[-1]) + gaps).tolist()
    return moved
