"""The result of one run: a table with a row for each iteration.

| column | |
|---|---|
| iteration | 0 is the start |
| evaluations | so far, including the first gradient; a forward pass alone counts a third |
| probes | number of probes of the search; NaN for other methods, as in the next four |
| step | the accepted step; 0 if none was accepted |
| stop | why the search ended, the name of a `gradline.Stop` |
| slope, norm | at the origin of the search: d·g and ‖d‖ |
| train_loss, train_error, test_loss, test_error | at the accepted point; NaN if not measured |
| angle | between direction and full-batch direction, in radians; NaN if not measured |
| seconds, cpu_seconds | of training so far, by the clock and of this thread's processor, without measurements;
    NaN if not measured, and in lock-step |
| validation_loss, validation_error | on the samples that choices are made by; NaN if a problem has none. With them,
    test loss and error are measured at the end of a run only |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradline.lab.jobs.runs import Run

COLUMNS: dict[str, Any] = {
    "iteration": np.int64,
    "evaluations": np.float64,
    "probes": np.float64,
    "step": np.float64,
    "stop": np.str_,
    "slope": np.float64,
    "norm": np.float64,
    "train_loss": np.float64,
    "train_error": np.float64,
    "test_loss": np.float64,
    "test_error": np.float64,
    "angle": np.float64,
    "seconds": np.float64,
    "cpu_seconds": np.float64,
    "validation_loss": np.float64,
    "validation_error": np.float64,
}
"""The columns of a result and their types."""
LATER = ("validation_loss", "validation_error")
"""Columns that results of earlier versions do not have: they are read as NaN."""

Measurements: TypeAlias = dict[str, NDArray[np.float64]]
"""The columns evaluations, step, and losses and errors of training and test, with one row per measurement."""


class Status(Enum):
    """How a run ended."""

    DONE = "done"
    DIVERGED = "diverged"
    """Its parameters became non-finite."""
    FAILED = "failed"
    """The method raised an error, which is the reason; only in runs of a comparison."""


@dataclass(frozen=True)
class Result:
    """A run and its table. `seconds` is the time it took; in lock-step its share of the common time."""

    run: Run
    columns: dict[str, NDArray[Any]]
    seconds: float
    engine: str
    """"lockstep" or "ordinary"."""
    versions: dict[str, str] = field(default_factory=dict)
    status: Status = Status.DONE
    reason: str = ""
    """Why it failed, or empty."""

    def __len__(self) -> int:
        return len(self.columns["iteration"])
