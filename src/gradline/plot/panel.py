"""One panel: its axis of steps, marks, probe numbers, and marks for numbers beyond its edges."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.ticker import LogLocator
from matplotlib.transforms import Transform

from gradline.plot.data import Point, SearchData
from gradline.plot.inks import DARK, LIGHT, Inks
from gradline.plot.scales import drawable

SMALL = 8.0
"""Font size of probe numbers and legends, in points."""


def inks_of(axis: Axes) -> Inks:
    """Return the colours that match the text colour of an axes."""
    text = axis.xaxis.label.get_color()
    red, green, blue = to_rgb(text)
    inks = DARK if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else LIGHT
    return inks._replace(text=to_hex(text))


class Panel:
    """An axes with its colours and data."""

    def __init__(self, axis: Axes, data: SearchData) -> None:
        self.axis, self.data, self.inks = axis, data, inks_of(axis)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        self._steps()

    def _steps(self) -> None:
        """Set the scale of the axis of steps: linear, or logarithmic above the smallest step and linear below it."""
        axis, (smallest, largest) = self.axis, self.data.span
        zero = self.data.origin is not None or any(probe.step == 0.0 for probe in self.data.probes)
        axis.set_xlabel("step α")
        if not self.data.logarithmic:
            left = 0.0 if zero else smallest
            pad = 0.06 * (largest - left) or 0.5 * largest
            axis.set_xlim(left - pad, largest + pad)
            axis.locator_params(axis="x", nbins=6)
            axis.ticklabel_format(axis="x", scilimits=(-3, 4), useMathText=True)
            return
        width = math.log10(largest / smallest)
        beyond = largest * 10.0 ** (0.05 * width)
        if zero:
            axis.set_xscale("symlog", linthresh=smallest, linscale=0.09 * width)
            axis.set_xlim(-0.35 * smallest, beyond)
            axis.set_xlabel(f"step α (logarithmic above {smallest:.2g})")
        else:
            axis.set_xscale("log")
            axis.set_xlim(smallest * 10.0 ** (-0.05 * width), beyond)
        round_numbers = LogLocator(subs=(1.0, 2.0, 5.0) if width < 2.0 else (1.0,), numticks=9)
        found = round_numbers.tick_values(smallest, largest)
        ticks = [0.0] * zero + [number for number in found if 0.999 * smallest <= number <= 1.001 * largest]
        axis.set_xticks(ticks, [f"{number:g}" for number in ticks])
        axis.set_xticks([], minor=True)

    def decided(self, height: float | None) -> None:
        """Draw a vertical line at the accepted step and a ring around its probe, or a line at the next probe."""
        if self.data.asked is not None:
            style: dict[str, Any] = {"linestyle": "-.", "linewidth": 1.4, "label": "next probe"}
            self.axis.axvline(self.data.asked, color=self.inks.green, zorder=1, **style)
        if self.data.accepted is not None:
            step = self.data.accepted.step
            self.axis.axvline(step, color=self.inks.green, linewidth=1.0, linestyle=(0, (6, 3)), zorder=1)
            if height is not None and drawable(height):
                ring = {"markersize": 14, "markeredgewidth": 2}
                self.marks([(step, height)], "o", self.inks.green, "accepted", hollow=True, **ring)

    def curve(self, steps: Any, heights: Any, colour: str, width: float, label: str = "", **style: Any) -> None:
        """Draw a line that does not change the limits of the axes."""
        style = {"color": colour, "linewidth": width, "label": label or None, **style}
        self.axis.plot(steps, heights, scalex=False, scaley=False, **style)

    def marks(
        self,
        places: Sequence[tuple[float, float]],
        marker: str,
        colour: str,
        label: str,
        *,
        hollow: bool = False,
        **style: Any,
    ) -> None:
        """Draw unconnected marks."""
        if places:
            steps, heights = zip(*places, strict=True)
            style = {"markersize": 6, "zorder": 4, **style}
            face = "none" if hollow else colour
            self.axis.plot(steps, heights, marker, markerfacecolor=face, markeredgecolor=colour, label=label, **style)

    def number(self, places: Sequence[tuple[Point, float, tuple[int, int]]]) -> None:
        """Write the numbers of probes beside (step, height); omit those that would overlap others.

        The accepted probe has priority, then the first and the last one.
        """
        accepted = self.data.accepted or Point(0, 0.0, 0.0, None)
        ringed = accepted.number
        first = {1, len(self.data.probes)}
        places = [one for one in places if one[0].number]
        places.sort(key=lambda one: (one[0].number != ringed, one[0].number not in first))
        outward = 1 if all(one[0].number == ringed or one[0].step < accepted.step for one in places) else -1
        texts = []
        for point, height, (x, y) in places:
            shift = (4 * x, (4 if x else 6) * y)
            if point.number == ringed:  # off the ring, and off the line at its step
                shift = (7 * (x or outward), 7 * y)
            texts.append((str(point.number), (point.step, height), shift))
        self._write(texts, self.axis.transData, (11.0, 9.0))

    def _write(
        self,
        texts: Sequence[tuple[str, tuple[float, float], tuple[int, int]]],
        transform: Transform,
        size: tuple[float, float],
    ) -> None:
        """Write texts of a size, each shifted from its place by some points, except those that overlap earlier ones."""
        written: list[Any] = []
        for text, place, shift in texts:
            spot = transform.transform(place) * 72.0 / self.axis.figure.dpi + shift
            if all((np.abs(spot - other) >= size).any() for other in written):
                written.append(spot)
                across, up = shift
                style: dict[str, Any] = {"fontsize": SMALL, "linespacing": 0.95, "color": self.inks.text, "zorder": 5}
                style["ha"] = "center" if across == 0 else "left" if across > 0 else "right"
                style["va"] = "bottom" if up > 0 else "top"
                self.axis.annotate(text, place, xycoords=transform, xytext=shift, textcoords="offset points", **style)

    def beyond(self, points: Sequence[tuple[Point, float]]) -> None:
        """Mark non-finite and off-scale numbers at the upper or lower edge and write their values."""
        low, high = self.axis.get_ylim()
        off = [(point, seen, 0.04 if seen < low else 0.96) for point, seen in points if not low <= seen <= high]
        if not off:
            return
        edge = self.axis.get_xaxis_transform()
        for finite, marker, says in ((False, "X", "not finite"), (True, "D", "off the scale")):
            places = [(point.step, height) for point, seen, height in off if math.isfinite(seen) is finite]
            self.marks(places, marker, self.inks.purple, says, transform=edge)
        texts = [
            (f"{point.number or 'origin'}\n{seen:.2g}", (point.step, height), (0, 6 if height < 0.5 else -6))
            for point, seen, height in off
        ]
        self._write(texts, edge, (28.0, 20.0))

    def tangents(self, points: Sequence[tuple[float, float, float]]) -> None:
        """Draw a short piece of the tangent at each (step, value, slope), of about equal length on every scale."""
        axis = self.axis
        for step, value, slope in points:
            if not (drawable(value) and drawable(slope)):
                continue
            x, y = axis.transData.transform((step, value))
            tiny = 1e-4 * (step or self.data.span[0])
            a, b = axis.transData.transform((step + tiny, value + slope * tiny))
            length = math.hypot(a - x, b - y)
            if not 0.0 < length < math.inf:
                continue
            reach = tiny * 15.0 * axis.figure.dpi / 72.0 / length
            steps = np.linspace(max(step - reach, 0.0 if step else -reach), step + reach, 9)
            self.curve(steps, value + slope * (steps - step), self.inks.text, 1.4, zorder=3)

    def legend(self, known: Collection[str]) -> list[str]:
        """Draw a legend of the labels not in `known`; return these labels.

        It is placed beside the axes if the figure has a layout engine, else inside.
        """
        handles, labels = self.axis.get_legend_handles_labels()
        unique = {label: one for label, one in zip(labels, handles, strict=True) if label not in known}
        if not unique:
            return []
        style: dict[str, Any] = {"labelcolor": self.inks.text, "fontsize": SMALL, "labelspacing": 0.7, "loc": "best"}
        if self.axis.figure.get_layout_engine() is not None:
            style |= {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0, "frameon": False}
        self.axis.legend(list(unique.values()), list(unique), **style)
        return list(unique)
