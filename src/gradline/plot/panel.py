"""One panel: its axis of steps, marks, probe numbers, and marks for numbers beyond its edges."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.transforms import Transform

from gradline.plot.data import Point, SearchData
from gradline.plot.inks import DARK, LIGHT, Inks
from gradline.plot.scales import apart, decades, drawable, tick

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
        ticks = decades(smallest, largest)
        if zero:
            linear = 0.1 * width
            axis.set_xscale("symlog", linthresh=smallest, linscale=0.9 * linear)
            axis.set_xlim(-0.35 * smallest, beyond)
            ticks = [0.0, *ticks]
            axis.set_xlabel(f"step α (logarithmic above {smallest:.2g})")
        else:
            axis.set_xscale("log")
            axis.set_xlim(smallest * 10.0 ** (-0.05 * width), beyond)
        axis.set_xticks(ticks, [tick(number) for number in ticks])
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
        texts, shifts = [], []
        for point, height, (x, y) in places:
            texts.append((str(point.number), (point.step, height)))
            if point.number == ringed:  # off the ring, and off the line at its step
                shifts.append((7 * (x or outward), 7 * y))
            else:
                shifts.append((4 * x, (4 if x else 6) * y))
        self._write(texts, shifts, self.axis.transData, width=11.0, height=9.0)

    def _write(
        self,
        texts: Sequence[tuple[str, tuple[float, float]]],
        shifts: Sequence[tuple[int, int]],
        transform: Transform,
        *,
        width: float,
        height: float,
    ) -> None:
        """Write texts shifted from their places by some points, except those that overlap earlier ones."""
        scale = 72.0 / self.axis.figure.dpi
        spots = []
        for (_, place), (a, b) in zip(texts, shifts, strict=True):
            x, y = transform.transform(place)
            spots.append((x * scale + a + math.copysign(3.0, a) * (a != 0), y * scale + b + math.copysign(4.0, b)))
        free = apart(spots, width=width, height=height)
        for (text, place), (a, b), show in zip(texts, shifts, free, strict=True):
            if show:
                sides = {"ha": "center" if a == 0 else "left" if a > 0 else "right", "va": "bottom" if b > 0 else "top"}
                style: dict[str, Any] = {
                    "fontsize": SMALL,
                    "linespacing": 0.95,
                    "color": self.inks.text,
                    "zorder": 5,
                    **sides,
                }
                self.axis.annotate(text, place, xycoords=transform, xytext=(a, b), textcoords="offset points", **style)

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
        texts = [(f"{point.number or 'origin'}\n{read(seen)}", (point.step, height)) for point, seen, height in off]
        shifts = [(0, 6 if height < 0.5 else -6) for _, _, height in off]
        self._write(texts, shifts, edge, width=28.0, height=20.0)

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


def read(number: float) -> str:
    """Format an off-scale number."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "-∞" if number < 0.0 else "+∞"
    return f"{number:.2g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
