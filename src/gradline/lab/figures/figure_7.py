"""Figure 7: how GOLS-I works, shown by three real searches of one training run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import gradline
from gradline.lab.figures import style
from gradline.lab.figures.iris import iris
from gradline.lab.jobs.result import Array
from gradline.lab.tools.formatting import plural
from gradline.lab.tools.threads import threads
from gradline.plot import search
from gradline.plot.inks import LIGHT, Inks
from gradline.protocol import Record, Stop

TITLE = "GOLS-I: accept at once, grow, or shrink"
CAPTION = (
    "Each probe sees the slope of a new mini-batch, so it is off the full-batch slope (grey). GOLS-I accepts its first "
    "step if the slope there is in the shaded band; else it doubles the step until the slope is positive, or halves it "
    "until the slope is negative."
)
LONGEST = 400
"""Searches after which the run ends, whatever was found."""
PROBES = 3
"""The fewest probes of a search that grows or shrinks."""
KINDS = ("accepted at once", "too short: grow", "too long: shrink")


class Searched(NamedTuple):
    """One search, and the full-batch slope along its line."""

    kind: str
    number: int
    """Which search of the run it is, counted from 1."""
    record: Record[Any, Any]
    steps: Array
    slopes: Array


@threads()
def data(*, batch_size: int = 50) -> tuple[Searched, ...]:
    """Train the Iris network by GOLS-I with dynamic mini-batches, and keep the first search of each kind.

    The first search of all, which begins at 1e-8, does not count.
    """
    from gradline.torch.snapshot import Snapshot

    model, loss, samples = iris()
    optimizer = gradline.GOLSI(model.parameters())
    draws = gradline.batches.dynamic(*samples, batch_size=batch_size, seed=0)
    closure = draws.closure(optimizer, lambda x, y: loss(x, y).mean())
    found: dict[str, Searched] = {}
    for number in range(1, LONGEST + 1):
        before = Snapshot(list(model.parameters()))
        optimizer.step(closure)
        record = optimizer.last
        assert record is not None
        kind = _kind(record)
        if number == 1 or kind is None or kind in found or not record.step:
            continue
        after = Snapshot(before.parameters)
        direction = [(b - a) / record.step for a, b in zip(before.values, after.values, strict=True)]
        steps = np.linspace(0.0, 1.2 * max(step for step, _ in record.transcript), 120)
        before.restore()
        seen = gradline.landscape.line(model, lambda x, y: loss(x, y).mean(), samples, steps=steps, direction=direction)
        after.restore()
        assert seen.full is not None
        found[kind] = Searched(kind, number, record, steps, seen.full.slopes)
        if len(found) == len(KINDS):
            break
    return tuple(found[kind] for kind in KINDS if kind in found)


def _kind(record: Record[Any, Any]) -> str | None:
    if record.stop is Stop.ACCEPTED_AT_ONCE:
        return KINDS[0]
    if record.stop is not Stop.SIGN_CHANGE or record.evaluations < PROBES:
        return None
    steps = [step for step, _ in record.transcript]
    return KINDS[1] if steps[1] > steps[0] else KINDS[2]


def draw(data: tuple[Searched, ...], inks: Inks = LIGHT) -> style.Figure:
    """Draw the slopes that each search observed, by `gradline.plot`, and the full-batch slope."""
    with style.settings(inks):
        figure, axes = style.panels(1, len(data), height=3.7)
        for axis, name, one in zip(axes[0], "abc", data, strict=False):
            search(one.record, axes=axis)
            legend = axis.get_legend()
            if legend is not None:
                legend.remove()
            left, right = axis.get_xlim()
            axis.set_xlim(left, right + 0.08 * (right - left))  # room for rings and numbers
            look: dict[str, Any] = {"color": "#8c8c8c", "linewidth": 1.2, "zorder": 1.5}
            axis.plot(one.steps, one.slopes, label="full-batch slope", scalex=False, scaley=False, **look)
            style.letter(axis, name, f"{one.kind}\nsearch {one.number}, {plural(one.record.evaluations, 'probe')}")
        for axis in axes[0, 1:]:
            axis.set_ylabel("")
        style.legend(figure, axes[0], columns=4)
    return figure
