"""What one run leaves behind: a table with a row for each iteration.

| column | |
|---|---|
| iteration | 0 is the start |
| evaluations | so far, the first gradient included |
| probes | of this iteration's search |
| step | the accepted one; 0 where none was |
| stop | why the search ended, the name of a `gradline.Stop` |
| slope, norm | at the search's origin: d·g and ‖d‖ |
| train_loss, train_error, test_loss, test_error | at the accepted point; NaN where they were not measured |
| angle | between direction and full-batch direction, in radians; NaN where it was not measured |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradline.lab.jobs.runs import Run

COLUMNS: dict[str, Any] = {
    "iteration": np.int64,
    "evaluations": np.int64,
    "probes": np.int32,
    "step": np.float64,
    "stop": np.str_,
    "slope": np.float64,
    "norm": np.float64,
    "train_loss": np.float64,
    "train_error": np.float64,
    "test_loss": np.float64,
    "test_error": np.float64,
    "angle": np.float64,
}
"""The columns of a result and their types."""


@dataclass(frozen=True)
class Result:
    """A run and its table. `seconds` is the time it took, its share of it where many ran at once."""

    run: Run
    columns: dict[str, NDArray[Any]]
    seconds: float
    engine: str
    """"lockstep" or "ordinary"."""
    versions: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.columns["iteration"])
