"""The paper's problems, and variants of them with one thing changed: the loss, or the scale of the initial weights."""

from __future__ import annotations

from typing import Any

from gradline.lab.figures import labels
from gradline.lab.figures.catalogue import BATCH, METHOD, Entry, Key
from gradline.lab.figures.curves import STEP, TRAIN_ERROR, FigureRuns, missing
from gradline.lab.figures.panels import ZERO, Look, grid


def _variants(study: str, suffix: str, plain: str, changed: str, title: str, about: str, **options: Any) -> Entry:
    """Return a figure of the networks that were trained both ways, with a line for each method and variant.

    The names of changed problems end with `suffix`; lines are called by their method, and `plain` or `changed`.
    """

    def pairs(found: FigureRuns) -> FigureRuns:
        problems = found.values_of("problem")
        networks = [name for name in problems if name + suffix in problems]
        if not networks:
            raise missing(f"the figure of {study}", study)
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
