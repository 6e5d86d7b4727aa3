"""Figures of curves of our own studies.

They show two kinds of sampling, the methods of today on the paper's problems, and variants of these problems with one
thing changed: the loss, or the scale of the initial weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradline.lab.figures import labels
from gradline.lab.figures.catalogue import BATCH, METHOD, PROBLEM, Entry, Key
from gradline.lab.figures.curves import STEP, TEST_ERROR, TRAIN_ERROR, TRAIN_LOSS, FigureRuns, missing
from gradline.lab.figures.panels import ZERO, Look, grid
from gradline.lab.methods import GROUPS

SAMPLING = "static-vs-dynamic"
TODAY = "today"
WORDS = {"static": "static: one mini-batch a search", "dynamic": "dynamic: one an evaluation"}
BEST_ADAM = "Adam, best learning rate"


def _check(found: FigureRuns) -> FigureRuns:
    if "static" not in found.values_of("sampling"):
        raise missing(SAMPLING)
    return found


def _line(run: Any) -> str:
    return BEST_ADAM if run.method in GROUPS["adam"] else METHOD.of(run)


def _with_best_adam(found: FigureRuns) -> FigureRuns:
    """Return the runs with batches of 100, of Adam's grid those with the lowest median training loss at the end."""
    runs = [run for run in found.runs if run.batch_size == 100]
    if not runs:
        raise missing(TODAY)
    for problem in found.values_of("problem"):
        grid = [run for run in runs if run.problem == problem and run.method in GROUPS["adam"]]
        ends: dict[str, list[float]] = {}
        for run in grid:
            ends.setdefault(run.method, []).append(float(np.nan_to_num(run.on_grid("train_loss")[-1], nan=np.inf)))
        best = min(ends, key=lambda method: np.nanmedian(ends[method]), default="")
        runs = [run for run in runs if run not in grid or run.method == best]
    shown = {(run.problem, run.method) for run in runs}
    planned = {key: plan for key, plan in found.planned.items() if key[1] not in GROUPS["adam"] or key[:2] in shown}
    return FigureRuns(tuple(runs), planned)


def _variants(study: str, suffix: str, plain: str, changed: str, title: str, about: str, **options: Any) -> Entry:
    """Return a figure of the networks that were trained both ways, with a line for each method and variant.

    The names of changed problems end with `suffix`; lines are called by their method, and `plain` or `changed`.
    """

    def pairs(found: FigureRuns) -> FigureRuns:
        problems = found.values_of("problem")
        networks = [name for name in problems if name + suffix in problems]
        if not networks:
            raise missing(study)
        return found.part(*(name for network in networks for name in (network, network + suffix)))

    def line(run: Any) -> str:
        return f"{METHOD.of(run)}, {changed if run.problem.endswith(suffix) else plain}"

    network = Key("Problem", lambda run: labels.problem(run.problem.removesuffix(suffix)))
    return grid(
        f"study_{study.replace('-', '_')}",
        study,
        title,
        about,
        measures=(TRAIN_ERROR, STEP),
        width=6.6,
        keys=(network, BATCH, Key("Methods and variants", line)),
        prepare=pairs,
        **options,
    )


ENTRIES = (
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
        prepare=_check,
        sampling=("static", "dynamic"),
    ),
    grid(
        "study_today",
        TODAY,
        "The paper's problems today",
        "Training loss and test error with mini-batches of 100",
        measures=(TRAIN_LOSS, TEST_ERROR),
        look=Look.CLOUD,
        remark=" Means and deviations are of logarithms. Of Adam's learning rates the one with the lowest median "
        "training loss at the end is shown, chosen for each problem with the results in hand; all others are as they "
        "come.",
        height=2.2,
        keys=(Key("Batch size", lambda run: ""), PROBLEM, Key("Method", _line)),
        prepare=_with_best_adam,
        any_of=("angle",),
    ),
    _variants(
        "prls-losses",
        "-published-loss",
        "consistent loss",
        "published loss",
        "A loss whose value and slope agree, and one where they do not",
        "Training error and step with the cross-entropy and with the one of the paper's programs, whose slope is 4.6 "
        "times (two classes: BCWD) or 23 times (ten classes: MNIST, CIFAR10) that of its value",
        look=Look.CLOUD,
        remark=f" Means and deviations are of logarithms. GOLS-I never looks at values.{ZERO}",
    ),
    _variants(
        "net2-scales",
        "-as-published",
        "σ of Table 2",
        "σ = 0.01",
        "NetII from initial weights of two scales",
        "Training error and step of NetII from initial weights with the scale of Table 2, read as a variance (standard "
        "deviation σ = 0.32 for MNIST, 0.1 for CIFAR10), and as in the paper's programs (σ = 0.01, and inputs "
        "standardised by all rows)",
    ),
)
