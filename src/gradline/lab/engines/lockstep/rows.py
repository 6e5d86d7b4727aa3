"""One run among many: its searches, its place in its random streams and its table. No tensors.

What follows from an observation is the driver's business (`gradline.driver`). If an earlier probe is accepted, its
gradient is gone: it is evaluated once more before the outcome is accepted, and that does not count.
"""

from __future__ import annotations

import math
from typing import Any

from gradline.codec import pack_driver, unpack_driver
from gradline.driver import Driver, Phase
from gradline.lab.engines import ends_in_stall, stuck
from gradline.lab.jobs.result import Table
from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.problems.sampling import Batches, Indices
from gradline.protocol import Moments, Origin, Outcome, Record, Slope, Value, observes

ORIGIN, PROBE, _ = Phase  # a module's names are found faster than an enum's, and every row asks in every round


class Row:
    """One run: its driver, its batches and its table."""

    __slots__ = ("budget", "directions", "drawn", "driver", "ends_in_stall", "noisy", "over", "probes", "reuse", "run",
                 "static", "table", "valued")  # fmt: skip

    def __init__(self, run: Run, samples: int) -> None:
        run.check_variances(samples)
        search = run.method.search
        self.run = run
        self.driver = Driver(search)
        self.budget = run.budget
        self.reuse = run.reuses_gradient
        self.static = run.sampling is Sampling.STATIC
        self.noisy, self.valued = observes(search) is Moments, observes(search) is not Slope
        self.probes, self.directions = run.batches(samples)
        self.ends_in_stall = ends_in_stall(run, samples)
        self.drawn = 0
        self.over = False
        self.table = Table(run.record_every)

    @property
    def probes_made(self) -> int:
        pending = self.driver.pending
        return 0 if pending is None else len(pending.transcript)

    @property
    def spent(self) -> bool:
        """Whether the budget is spent; a search in progress is finished nevertheless."""
        return self.driver.evaluations >= self.budget

    @property
    def source(self) -> Batches:
        return self.directions if self.directions is not None and self.driver.phase is ORIGIN else self.probes

    def batch(self) -> Indices:
        pending = self.driver.pending
        if self.directions is not None and pending is None:
            return self.directions.at(self.table.iterations)
        if self.static:
            return self.probes.at(self.table.iterations)
        if pending is not None and pending.outcome is not None:
            return self.probes.at(self.drawn - len(pending.transcript) + pending.outcome.probe)  # type: ignore[operator]
        return self.probes.at(self.drawn)

    def count(self) -> None:
        """Count an evaluation at an origin, and its batch."""
        self.driver.evaluations += 1
        if self.directions is None:
            self.drawn += 1

    def tell(self, slope: float, value: float | None) -> Outcome[Any] | None:
        self.driver.evaluations += 1
        self.drawn += 1
        return self.driver.observe(Slope(slope) if value is None else Value(slope, value))

    def begin(
        self, square: float, value: float | None, value_var: float = 0.0, slope_var: float = 0.0, *, early: bool
    ) -> bool:
        """Begin a search from an evaluation at the present point, and return whether one is under way.

        If there is nothing to search and it was not begun early, the iteration has ended: `driver.last` says how.
        """
        norm = math.sqrt(square) if square >= 0.0 else math.nan
        slope = -norm * norm
        seen: Slope
        if value is None:
            seen = Slope(slope)
        elif self.noisy:
            seen = Moments(slope, value, value_var, slope_var)
        else:
            seen = Value(slope, value)
        return self.driver.begin(Origin(seen, norm), zero_direction=norm == 0.0, early=early)

    def end(self, record: Record[Any, Any]) -> bool:
        """Record a search that has ended; return whether to measure at this point."""
        self.table.add(self.driver.evaluations, len(record.transcript), record.origin, record.outcome)
        self.over = self.spent or (self.ends_in_stall and stuck(record))
        return self.table.due(self.driver.evaluations) or self.over

    def state_dict(self) -> dict[str, Any]:
        return {
            "run": self.run.key,
            "driver": pack_driver(self.driver),
            "drawn": self.drawn,
            "table": self.table.state_dict(),
        }

    @classmethod
    def restored(cls, run: Run, samples: int, state: dict[str, Any]) -> Row:
        row = cls(run, samples)
        row.driver = unpack_driver(run.method.search, state["driver"])
        row.drawn = state["drawn"]
        row.table = Table.restored(state["table"])
        return row
