"""Figure 2: one loss with all samples, with static and with dynamic mini-batches, as surfaces and from above."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gradline
from gradline.lab.figures import style
from gradline.lab.figures.iris import iris
from gradline.lab.jobs.result import Array
from gradline.lab.tools.threads import threads
from gradline.plot.inks import LIGHT, Inks

TITLE = "Full, static and dynamic sampling of one loss"
CAPTION = (
    "All samples and each static mini-batch (surface and net in (b)) give a smooth loss with one minimum, but not the "
    "same one; dynamic mini-batches give one full of minima that mean nothing (each panel has a scale of its own). The "
    "sign changes of the slope along x (from - to +) stay near those of the full batch under all three."
)
Mask = NDArray[np.bool_]
BATCH_SIZE = 10


class Surface(NamedTuple):
    """Values over the plane (rows are y), where they are lower than all eight neighbours, and sign changes along x."""

    values: Array
    minima: Mask
    sign_changes: Mask


@dataclass(frozen=True, eq=False)
class Data:
    """One loss over two random perpendicular directions."""

    x: Array
    """Steps along either direction."""
    surfaces: tuple[tuple[Surface, ...], ...]
    """With all samples, with two static mini-batches, and with dynamic ones."""


@threads()
def data(*, training: int = 200, points: int = 41) -> Data:
    """Evaluate the loss of a trained Iris network on a plane."""
    model, loss, samples = iris(training=training)
    first, second = gradline.landscape.random_directions(model, seed=4)
    grid = np.linspace(-10.0, 10.0, points)
    options: dict[str, Any] = {"directions": (first, second), "x": grid, "y": grid, "along": first, "seed": 0}
    seen = gradline.landscape.plane(model, loss, samples, **options, batch_size=BATCH_SIZE, static=2, dynamic=1)
    found = []
    for part in (seen.full, seen.static, seen.dynamic):
        assert part is not None
        values, slopes = (heights.reshape(-1, points, points) for heights in (part.values, part.slopes))
        found.append(tuple(map(_surface, values, slopes)))
    return Data(grid, tuple(found))


def _surface(values: Array, slopes: Array) -> Surface:
    from scipy.ndimage import minimum_filter

    lowest = values == minimum_filter(values, size=3)
    lowest[[0, -1]] = lowest[:, [0, -1]] = False
    found = gradline.landscape.Found.of(np.arange(slopes.shape[1], dtype=np.float64), values, slopes)
    return Surface(values, lowest, found.sign_changes)


def draw(data: Data, inks: Inks = LIGHT) -> style.Figure:
    """Draw surfaces in the upper row; in the lower row maps of them, with minima and sign changes marked."""
    with style.settings(inks):
        figure: style.Figure = style.matplotlib("figure").Figure(figsize=(style.WIDTH, 6.0), layout="constrained")
        solid: dict[Any, Any] = {"abc": {"projection": "3d"}}
        axes: Any = figure.subplot_mosaic("abc;def", height_ratios=[1.15, 1.0], per_subplot_kw=solid)
        titles = ("full batch", *(f"{sampling}, B = {BATCH_SIZE}" for sampling in ("static", "dynamic")))
        for top, below, title, surfaces in zip("abc", "def", titles, data.surfaces, strict=True):
            _tower(axes[top], data, surfaces, inks)
            style.letter(axes[top], top, title)
            axes[top].set_box_aspect(None, zoom=1.2)
            flat = axes[below]
            look: dict[str, Any] = {"cmap": style.SURFACE, "shading": "nearest", "alpha": 0.75, "rasterized": True}
            mesh = flat.pcolormesh(data.x, data.x, surfaces[0].values, **look)
            figure.colorbar(mesh, ax=flat, label="loss F", location="bottom", pad=0.03, shrink=0.85)
            _marks(flat, data, surfaces)
            flat.set_aspect("equal")
            flat.set_xlabel("x, along random direction 1")
            counts = " and ".join(str(int(surface.minima.sum())) for surface in surfaces)
            style.letter(flat, below, f"{counts} {'minimum' if counts == '1' else 'minima'}")
        axes["d"].set_ylabel("y, along random direction 2")
        style.legend(figure, [axes[name] for name in "def"], columns=4)
    return figure


def _tower(axis: Any, data: Data, surfaces: tuple[Surface, ...], inks: Inks) -> None:
    x, y = np.meshgrid(data.x, data.x)
    for number, surface in enumerate(surfaces):
        if number:  # a second one is a net, so that both can be seen
            axis.plot_wireframe(x, y, surface.values, color=inks.orange, linewidth=0.5, rcount=14, ccount=14)
        else:
            style.surface(axis, x, y, surface.values)
    heights = np.concatenate([surface.values for surface in surfaces])
    axis.set_zlim(heights.min(), heights.max())
    axis.view_init(elev=28, azim=-60)
    axis.set_xlabel("x", labelpad=-8)
    axis.set_ylabel("y", labelpad=-8)
    axis.set_zlabel("loss F", labelpad=-6)
    axis.tick_params(pad=-3)
    for name in "xyz":
        axis.locator_params(axis=name, nbins=4)


def _marks(axis: style.Axes, data: Data, surfaces: tuple[Surface, ...]) -> None:
    """Mark minima and sign changes, which a search would take for optima."""
    ink, net = LIGHT.text, LIGHT.orange  # on the colours of the surface, whatever the page
    for number, surface in enumerate(surfaces):
        rows, columns = np.nonzero(surface.sign_changes)
        bars: dict[str, Any] = {"color": net, "ms": 3} if number else {"color": ink, "ms": 4}
        names = ("sign change of (b)'s net", "minimum of (b)'s net") if number else ("sign change (SNN-GPP)", "minimum")
        axis.plot(data.x[columns], data.x[rows], "|", **bars, label=names[0])
        rows, columns = np.nonzero(surface.minima)
        dots: dict[str, Any] = {"marker": "D", "mfc": net} if number else {"marker": "o", "mfc": "white"}
        axis.plot(data.x[columns], data.x[rows], **dots, linestyle="", ms=4, mec=ink, mew=0.8, label=names[1])
