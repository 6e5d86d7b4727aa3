"""One mini-batch for a whole search, or a new one for every evaluation: four searches, both ways."""

from __future__ import annotations

from gradline.lab.figures.catalogue import BATCH, METHOD, Key
from gradline.lab.figures.curves import TRAIN_LOSS, Curves, missing
from gradline.lab.figures.panels import Look, grid

STUDY = "static-vs-dynamic"
WORDS = {"static": "static: one mini-batch a search", "dynamic": "dynamic: one an evaluation"}


def _check(found: Curves) -> Curves:
    if "static" not in found.values_of("sampling"):
        raise missing(f"the figure of {STUDY}", STUDY)
    return found


ENTRIES = (
    grid(
        "study_static_vs_dynamic",
        STUDY,
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
)
