"""The paper's problems with Angle, GOLS-I along Adam, Schedule-Free, Prodigy and Adam's grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradline.lab.figures.catalogue import METHOD, PROBLEM, Key
from gradline.lab.figures.curves import TEST_ERROR, TRAIN_LOSS, Curves
from gradline.lab.figures.panels import Look, grid

BEST_ADAM = "Adam, best learning rate"


def _line(run: Any) -> str:
    from gradline.lab.methods import GROUPS

    return BEST_ADAM if run.method in GROUPS["adam"] else METHOD.of(run)


def _with_best_adam(found: Curves) -> Curves:
    """Return the curves with batches of 100, of Adam's grid those with the lowest median training loss at the end."""
    from gradline.lab.methods import GROUPS

    adam = tuple(GROUPS["adam"])
    curves = [curve for curve in found.of(batch_size=100) if curve.method not in adam]
    planned = [one for one in found.planned if one.method not in adam]
    for problem in found.values_of("problem"):
        some = found.of(problem=problem, method=adam, batch_size=100)
        ends = {
            curve.method: float(np.nanmedian(np.nan_to_num(curve.runs[:, -1], nan=np.inf)))
            for curve in some
            if curve.measure == TRAIN_LOSS.name
        }
        if ends:
            best = min(ends, key=ends.__getitem__)
            curves += [curve for curve in some if curve.method == best]
            planned += [one for one in found.planned if (one.problem, one.method) == (problem, best)]
    return Curves(tuple(curves), tuple(planned))


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
        keys=(Key("Batch size", lambda run: ""), PROBLEM, Key("Method", _line)),
        split=False,
        prepare=_with_best_adam,
        any_of=("angle",),
    ),
)
