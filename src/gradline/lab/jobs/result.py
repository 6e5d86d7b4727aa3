"""What one run leaves behind: a table with a row for each iteration.

| column | |
|---|---|
| iteration | 0 is the start |
| evaluations | so far, the first gradient included; a forward pass alone is a third of one |
| probes | of this iteration's search; NaN where the method is no search of ours, as in the next four |
| step | the accepted one; 0 where none was |
| stop | why the search ended, the name of a `gradline.Stop` |
| slope, norm | at the search's origin: d·g and ‖d‖ |
| train_loss, train_error, test_loss, test_error | at the accepted point; NaN where they were not measured |
| angle | between direction and full-batch direction, in radians; NaN where it was not measured |
| seconds, cpu_seconds | of training so far, on the clock and of this thread's processor, without what measuring took;
    NaN where nothing was measured, and in lock-step |
| validation_loss, validation_error | on samples that choices are made by; NaN where a problem has none. Its test loss
    and error are then measured at the end only |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

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


class Status(Enum):
    """How a run ended."""

    DONE = "done"
    DIVERGED = "diverged"
    """Its parameters are not finite any more."""
    FAILED = "failed"
    """The method raised an error: see the reason. Only of runs of a comparison."""


@dataclass(frozen=True)
class Result:
    """A run and its table. `seconds` is the time it took, its share of it where many ran at once."""

    run: Run
    columns: dict[str, NDArray[Any]]
    seconds: float
    engine: str
    """"lockstep" or "ordinary"."""
    versions: dict[str, str] = field(default_factory=dict)
    status: Status = Status.DONE
    reason: str = ""
    """Why it failed, else empty."""

    def __len__(self) -> int:
        return len(self.columns["iteration"])
