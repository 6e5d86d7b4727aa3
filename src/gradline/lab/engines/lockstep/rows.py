"""One run among many: its searches, its place in its random streams and its table. No tensors.

ORIGIN ──gradient──▶ begin ──▶ PROBE ──tell──▶ PROBE … ──outcome──▶ PROBE of the next search, from the gradient of
the accepted probe; ORIGIN again where gradients are not used again, no probe was accepted, or no search could begin
(AGAIN: an earlier probe was accepted, whose gradient is gone; it is evaluated once more, and that does not count)
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any

from gradline.lab.engines.sampling import check_variances, direction_batches, probe_batches, reuses
from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.jobs.tables import Table
from gradline.lab.problems.sampling import Batches, Indices
from gradline.protocol import (
    Course,
    Moments,
    Origin,
    Outcome,
    Pending,
    Slope,
    Stop,
    Value,
    observes,
    observes_at_probes,
)
from gradline.torch.saving import pack_memory, pack_pending, unpack_memory, unpack_pending


class Phase(IntEnum):
    """What a row's next evaluation is for."""

    ORIGIN = 0
    PROBE = 1
    AGAIN = 2


ORIGIN, PROBE, AGAIN = Phase  # a module's names are found faster than an enum's, and every row asks in every round


class Row:
    """One run: what it is told and what it asks for."""

    __slots__ = (
        "budget",
        "directions",
        "drawn",
        "evaluations",
        "memory",
        "noisy",
        "over",
        "pending",
        "phase",
        "probes",
        "reuse",
        "run",
        "search",
        "static",
        "table",
        "valued",
    )

    def __init__(self, run: Run, samples: int) -> None:
        check_variances(run, samples)
        if observes(run.method.search) is Course:
            raise TypeError(
                f"method must be a search of slopes or values (the study keeps no way that the parameters have come), "
                f"got {run.method.search!r}"
            )
        self.run = run
        self.search = run.method.search
        self.budget = run.budget
        self.reuse = reuses(run)
        self.static = run.sampling is Sampling.STATIC
        self.noisy = observes(self.search) is Moments
        self.valued = observes(self.search) is not Slope
        self.probes = probe_batches(run, samples)
        self.directions = direction_batches(run, samples)
        if self.noisy and observes_at_probes(self.search) is Moments:
            raise TypeError(
                f"method must be a search that needs no variances of its probes (engines find them at origins only), "
                f"got {self.search!r}"
            )
        self.memory: Any = self.search.start()
        self.pending: Pending[Any, Any] | None = None
        self.phase = ORIGIN
        self.evaluations = 0
        self.drawn = 0
        self.over = False
        self.table = Table(run.record_every)

    @property
    def spent(self) -> bool:
        """Whether the budget is spent. The search under way is ended all the same."""
        return self.evaluations >= self.budget

    @property
    def source(self) -> Batches:
        """Where the next batch comes from."""
        return self.directions if self.directions is not None and self.phase is ORIGIN else self.probes

    def batch(self) -> Indices:
        """The batch of the next evaluation."""
        if self.directions is not None and self.phase is ORIGIN:
            return self.directions.at(self.table.iterations)
        if self.static:
            return self.probes.at(self.table.iterations)
        if self.phase is AGAIN:
            return self.probes.at(self.drawn - len(self.pending.transcript) + self.pending.outcome.probe)  # type: ignore[union-attr, operator]
        return self.probes.at(self.drawn)

    def step(self) -> float:
        """Where the next evaluation is."""
        pending = self.pending
        if pending is None:
            return 0.0
        return pending.step if pending.outcome is None else pending.outcome.step

    def count(self) -> None:
        """Count an evaluation, and its batch."""
        self.evaluations += 1
        if self.phase is PROBE or self.directions is None:
            self.drawn += 1

    def tell(self, slope: float, value: float | None) -> Outcome[Any] | None:
        """Tell the search of its probe."""
        pending: Pending[Any, Any] = self.pending  # type: ignore[assignment]
        self.evaluations += 1
        self.drawn += 1
        pending.tell(Slope(slope) if value is None else Value(slope, value))
        return pending.outcome

    def begin(
        self, square: float, value: float | None, value_var: float = 0.0, slope_var: float = 0.0
    ) -> tuple[Origin[Any], Outcome[Any]] | None:
        """Begin a search from an evaluation at the present point; if there is nothing to search, what came of it."""
        norm = math.sqrt(square) if square >= 0.0 else math.nan
        slope = -norm * norm
        seen: Slope
        if value is None:
            seen = Slope(slope)
        elif self.noisy:
            seen = Moments(slope, value, value_var, slope_var)
        else:
            seen = Value(slope, value)
        origin = Origin(seen, norm)
        if not (seen.finite and math.isfinite(norm) and math.isfinite(value_var) and math.isfinite(slope_var)):
            outcome = Outcome(0.0, None, Stop.NON_FINITE_ORIGIN, self.memory)
        elif norm == 0.0:
            outcome = Outcome(0.0, None, Stop.ZERO_DIRECTION, self.memory)
        else:
            pending = Pending(self.search, origin, self.memory)
            if pending.outcome is None:
                self.pending, self.phase = pending, PROBE
                return None
            outcome = pending.outcome
        self.pending, self.phase = None, ORIGIN
        return origin, outcome

    def end(self, origin: Origin[Any], outcome: Outcome[Any], probes: int) -> bool:
        """Note a search that has ended; says whether this is a point to measure at."""
        self.memory = outcome.memory
        self.table.add(self.evaluations, probes, origin, outcome)
        self.pending, self.phase = None, ORIGIN
        self.over = self.spent
        return self.table.due(self.evaluations) or self.over

    def state_dict(self) -> dict[str, Any]:
        """The row as plain values."""
        return {
            "run": self.run.key,
            "memory": pack_memory(self.memory),
            "pending": None if self.pending is None else pack_pending(self.pending),
            "phase": int(self.phase),
            "evaluations": self.evaluations,
            "drawn": self.drawn,
            "table": self.table.state_dict(),
        }

    @classmethod
    def restored(cls, run: Run, samples: int, state: dict[str, Any]) -> Row:
        """The inverse of `state_dict`."""
        row = cls(run, samples)
        row.memory = unpack_memory(row.search, state["memory"])
        row.pending = None if state["pending"] is None else unpack_pending(row.search, state["pending"])
        row.phase = Phase(state["phase"])
        row.evaluations, row.drawn = state["evaluations"], state["drawn"]
        row.table = Table.restored(state["table"])
        return row
