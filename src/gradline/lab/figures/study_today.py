"""The paper's problems with Angle, GOLS-I along Adam, Schedule-Free, Prodigy and Adam's grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradline.lab.figures.catalogue import METHOD, PROBLEM, Key
from gradline.lab.figures.curves import TEST_ERROR, TRAIN_LOSS, Curves
from gradline.lab.figures.panels import Look, grid

BEST_ADAM = "adam, best learning rate"


def _with_best_adam(found: Curves) -> Curves:
    """Return the curves with batches of 100, of Adam's grid those with the lowest median training loss at the end."""
    from gradline.lab.methods import GROUPS

    found = Curves(tuple(found.of(batch_size=100)))
    curves = [curve for curve in found.curves if curve.method not in GROUPS["adam"]]
    for problem in found.values_of("problem"):
        some = found.of(problem=problem, method=tuple(GROUPS["adam"]))
        ends = {
            curve.method: float(np.nanmedian(np.nan_to_num(curve.runs[:, -1], nan=np.inf)))
            for curve in some
            if curve.measure == TRAIN_LOSS.name
        }
        if ends:
            best = min(ends, key=ends.__getitem__)
            curves += [replace(curve, method=BEST_ADAM) for curve in some if curve.method == best]
    return Curves(tuple(curves))


ENTRIES = (
    grid(
        "study_today",
        "today",
        "The paper's problems today",
        "Training loss and test error with mini-batches of 100",
        measures=(TRAIN_LOSS, TEST_ERROR),
        look=Look.CLOUD,
        remark=" Means and deviations are of logarithms. Of Adam's learning rates the one with the lowest median "
        "training loss at the end is shown, chosen for each problem with the results in hand; all others are as they "
        "come.",
        height=2.2,
        keys=(Key("Batch size", lambda run: ""), PROBLEM, METHOD),
        split=False,
        prepare=_with_best_adam,
        any_of=("angle",),
    ),
)
