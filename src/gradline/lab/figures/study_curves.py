"""Figures of curves of our own studies: two losses, two kinds of sampling, and the methods of today."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradline.lab.figures import labels
from gradline.lab.figures.catalogue import BATCH, METHOD, PROBLEM, Key
from gradline.lab.figures.curves import STEP, TEST_ERROR, TRAIN_ERROR, TRAIN_LOSS, Curves, missing
from gradline.lab.figures.panels import ZERO, Look, grid
from gradline.lab.methods import GROUPS

LOSSES, SAMPLING = "prls-losses", "static-vs-dynamic"
PUBLISHED = "-published-loss"
WORDS = {"static": "static: one mini-batch a search", "dynamic": "dynamic: one an evaluation"}
BEST_ADAM = "adam, best learning rate"


def _pairs(found: Curves) -> Curves:
    """Return the curves of the networks that were trained with both losses."""
    problems = found.values_of("problem")
    networks = [name for name in problems if name + PUBLISHED in problems]
    if not networks:
        raise missing(f"the figure of {LOSSES}", LOSSES)
    return found.part(*(name for network in networks for name in (network, network + PUBLISHED)))


def _line(run: Any) -> str:
    return f"{METHOD.of(run)}, {'published' if run.problem.endswith(PUBLISHED) else 'consistent'} loss"


def _check(found: Curves) -> Curves:
    if "static" not in found.values_of("sampling"):
        raise missing(f"the figure of {SAMPLING}", SAMPLING)
    return found


def _with_best_adam(found: Curves) -> Curves:
    """Return the curves with batches of 100, of Adam's grid those with the lowest median training loss at the end."""
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
        "study_prls_losses",
        LOSSES,
        "A loss whose value and slope agree, and one where they do not",
        "Training error and step with the cross-entropy and with the one of the paper's programs, whose slope is 4.6 "
        "times (two classes: BCWD) or 23 times (ten classes: MNIST, CIFAR10) that of its value",
        measures=(TRAIN_ERROR, STEP),
        look=Look.CLOUD,
        remark=f" Means and deviations are of logarithms. GOLS-I never looks at values.{ZERO}",
        width=6.6,
        keys=(
            Key("Problem", lambda run: labels.problem(run.problem.removesuffix(PUBLISHED))),
            BATCH,
            Key("Methods and losses", _line),
        ),
        prepare=_pairs,
    ),
    grid(
        "study_static_vs_dynamic",
        SAMPLING,
        "One mini-batch for a whole search, or a new one for every evaluation",
        "Training loss of NetPI on the breast-cancer data, each search with static and with dynamic mini-batches",
        measures=(TRAIN_LOSS,),
        look=Look.CLOUD,
        remark=" Means and deviations are of logarithms. A static search spends one more evaluation on each start; "
        "with all 400 samples the two differ in nothing else.",
        keys=(METHOD, BATCH, Key("Mini-batches", lambda run: WORDS.get(run.sampling, run.sampling))),
        split=False,
        prepare=_check,
        sampling=("static", "dynamic"),
    ),
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
