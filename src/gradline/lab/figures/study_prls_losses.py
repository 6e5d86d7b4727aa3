"""PrLS and GOLS-I with a consistent loss, and with one whose value and slope contradict each other."""

from __future__ import annotations

from typing import Any

from gradline.lab.figures import labels
from gradline.lab.figures.catalogue import BATCH, METHOD, Key
from gradline.lab.figures.curves import STEP, TRAIN_ERROR, Curves
from gradline.lab.figures.panels import ZERO, Look, grid
from gradline.lab.figures.traces import missing

STUDY = "prls-losses"
PLAIN = ("bcwd-logr", "bcwd-netpi")
PUBLISHED = "-published-loss"


def _check(found: Curves) -> Curves:
    if not any(name.endswith(PUBLISHED) for name in found.values_of("problem")):
        raise missing(f"the figure of {STUDY}", STUDY)
    return found


def _line(run: Any) -> str:
    return f"{METHOD.of(run)}, {'published' if run.problem.endswith(PUBLISHED) else 'consistent'} loss"


ENTRIES = (
    grid(
        "study_prls_losses",
        STUDY,
        "A loss whose value and slope agree, and one where they do not",
        "Training error and step on the breast-cancer data, with the cross-entropy and with the one of the "
        "paper's programs, whose slope is 4.6 times that of its value",
        measures=(TRAIN_ERROR, STEP),
        look=Look.CLOUD,
        remark=f" Means and deviations are of logarithms. GOLS-I never looks at values.{ZERO}",
        keys=(
            Key("Problem", lambda run: labels.problem(run.problem.removesuffix(PUBLISHED))),
            BATCH,
            Key("Methods and losses", _line),
        ),
        split=False,
        prepare=_check,
        problems=(*PLAIN, *(f"{name}{PUBLISHED}" for name in PLAIN)),
    ),
)
