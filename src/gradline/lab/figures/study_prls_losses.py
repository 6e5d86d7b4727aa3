"""PrLS and GOLS-I with a consistent loss, and with one whose value and slope contradict each other."""

from __future__ import annotations

from typing import Any

from gradline.lab.figures import labels
from gradline.lab.figures.catalogue import BATCH, METHOD, Key
from gradline.lab.figures.curves import STEP, TRAIN_ERROR, Curves, missing
from gradline.lab.figures.panels import ZERO, Look, grid

STUDY = "prls-losses"
PUBLISHED = "-published-loss"


def _pairs(found: Curves) -> Curves:
    """Return the curves of the networks that were trained with both losses."""
    problems = found.values_of("problem")
    networks = [name for name in problems if name + PUBLISHED in problems]
    if not networks:
        raise missing(f"the figure of {STUDY}", STUDY)
    return found.part(*(name for network in networks for name in (network, network + PUBLISHED)))


def _line(run: Any) -> str:
    return f"{METHOD.of(run)}, {'published' if run.problem.endswith(PUBLISHED) else 'consistent'} loss"


ENTRIES = (
    grid(
        "study_prls_losses",
        STUDY,
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
)
