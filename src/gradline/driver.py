"""Training by line searches as one explicit state machine, without tensors.

A driver knows the purpose of the next evaluation and its consequence. Its caller (the torch optimizer, a row of the
lock-step engine, `gradline.solve`) owns parameters, gradients and evaluations. Between two calls a driver is in one of
three phases:

    phase    call               what happens                                     next phase   the caller then
    -------  -----------------  -----------------------------------------------  -----------  --------------------------
    ORIGIN   begin(origin)      a search begins and asks for a step              PROBE        moves to `step`, evaluates
    ORIGIN   begin(origin)      nothing to search: the iteration ends            ORIGIN       evaluates the origin anew
    PROBE    observe(seen)      the search asks for another step                 PROBE        moves to `step`, evaluates
    PROBE    observe(seen)      the search ends                                  ENDED        moves to `pending.outcome`
    ENDED    accept()           the outcome counts: memory, record, iteration    ORIGIN       calls begin from the new
                                                                                              origin, or evaluates it
    any      abandon()          the search in progress is discarded              ORIGIN       evaluates the origin anew
    any      rewind(mark)       the search returns to its state at `mark()`      as then      moves back to its step

Rules:

1. A call changes one attribute, `state`, by one assignment: an interrupt leaves the old value or the new one.
   (`Pending` is mutable; `rewind` replays it up to the mark.)
2. A search begins only if everything observed is finite and the direction is not zero. Otherwise the iteration ends at
   its origin, with a `Stop` that says why.
3. An outcome without a probe changes only the memory; the next search evaluates the origin anew.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, NamedTuple

from gradline.protocol import Origin, Outcome, Pending, Record, Search, Slope, Stop

__all__ = ["START", "Driver", "Mark", "Phase", "State"]

START: Any = object()
"""Stands for the memory of the first search, `search.start()`."""


class Phase(Enum):
    """The call that a driver expects next."""

    ORIGIN = "an evaluation at the accepted point, to begin a search from"
    PROBE = "an evaluation at the step that the search asks for"
    ENDED = "the acceptance of its outcome"


class State(NamedTuple):
    """State of a driver between two calls."""

    memory: Any
    """Memory returned by the last search."""
    pending: Pending[Any, Any] | None = None
    """The search in progress, or ended and not yet accepted."""
    last: Record[Any, Any] | None = None
    """Record of the last accepted search."""
    iterations: int = 0
    """Number of searches that have ended, including those without a step."""
    taken: int = 0
    """Number of searches that ended with a step above 0."""


class Mark(NamedTuple):
    """A state to rewind to, and the number of observations its search had received."""

    state: State
    observed: int


class Driver:
    """Run one search after another, each with the memory of the one before.

    ```python
    from gradline.driver import Driver, Phase
    from gradline.protocol import Origin, Slope
    from gradline.searches import GolsI

    driver, x = Driver(GolsI()), 5.0
    while driver.evaluations < 60:  # minimise x²/2 along -x
        driver.evaluations += 1
        if driver.phase is Phase.ORIGIN:
            driver.begin(Origin(Slope(-x * x), abs(x)))
        elif driver.observe(Slope(-x * (x - driver.pending.step * x))):
            x -= driver.accept().step * x
    assert abs(x) < 1e-3 and driver.iterations == 16
    ```

    Args:
        search: the search.
        memory: memory of an earlier search. Default: `search.start()`.
    """

    __slots__ = ("evaluations", "search", "state")

    def __init__(self, search: Search[Any, Any], *, memory: Any = START) -> None:
        self.search = search
        self.state = State(search.start() if memory is START else memory)
        self.evaluations = 0  # counted by the caller

    @property
    def phase(self) -> Phase:
        """The call that is expected next."""
        pending = self.state.pending
        if pending is None:
            return Phase.ORIGIN
        return Phase.PROBE if pending.outcome is None else Phase.ENDED

    @property
    def memory(self) -> Any:
        """Memory for the next search."""
        return self.state.memory

    @property
    def pending(self) -> Pending[Any, Any] | None:
        """The search in progress, or ended and not yet accepted."""
        return self.state.pending

    @property
    def last(self) -> Record[Any, Any] | None:
        """Record of the last accepted search."""
        return self.state.last

    @property
    def record(self) -> Record[Any, Any]:
        """Record of the last accepted search; before the first, a record with step 0 and `Stop.NOT_YET`."""
        if self.state.last is not None:
            return self.state.last
        nothing = Origin(Slope(math.nan), math.nan)
        return Record(self.search, nothing, self.memory, Outcome(0.0, None, Stop.NOT_YET, self.memory), [])

    @property
    def iterations(self) -> int:
        """Number of searches that have ended."""
        return self.state.iterations

    @property
    def taken(self) -> int:
        """Number of searches that ended with a step above 0."""
        return self.state.taken

    def begin(self, origin: Origin[Any], *, zero_direction: bool = False, early: bool = False) -> bool:
        """Begin a search, and return whether it asks for a step.

        Args:
            origin: the observation at the accepted point and the length of the direction.
            zero_direction: whether the direction is zero, so that there is nothing to search.
            early: whether the origin is the probe just accepted. If there is nothing to search, no iteration is counted
                then, and the next one evaluates the origin anew.
        """
        state = self.state
        if state.pending is not None:
            raise self._error(Phase.ORIGIN, "begin")
        if not (origin.at_zero.usable and math.isfinite(origin.norm)):
            outcome = Outcome(0.0, None, Stop.NON_FINITE_ORIGIN, state.memory)
        elif zero_direction:
            outcome = Outcome(0.0, None, Stop.ZERO_DIRECTION, state.memory)
        else:
            pending = Pending(self.search, origin, state.memory)
            if pending.outcome is None:
                self.state = state._replace(pending=pending)
                return True
            outcome = pending.outcome
        if not early:
            self._end(Record(self.search, origin, state.memory, outcome, []))
        return False

    def observe(self, seen: Slope) -> Outcome[Any] | None:
        """Pass the observation at the step to the search, and return its outcome if it ends."""
        pending = self.state.pending
        if pending is None or pending.outcome is not None:
            raise self._error(Phase.PROBE, "observe")
        pending.tell(seen)
        return pending.outcome

    def accept(self) -> Record[Any, Any]:
        """End the iteration with the outcome of its search, and return its record."""
        pending = self.state.pending
        if pending is None or pending.outcome is None:
            raise self._error(Phase.ENDED, "accept")
        record = pending.record
        self._end(record)
        return record

    def abandon(self) -> None:
        """Discard the search in progress, because the parameters were changed from outside."""
        self.state = self.state._replace(pending=None)

    def mark(self) -> Mark:
        """Return a mark for `rewind`."""
        pending = self.state.pending
        return Mark(self.state, 0 if pending is None else len(pending.transcript))

    def rewind(self, mark: Mark) -> None:
        """Return the search in progress to its state at a mark, after a failure.

        A search that was accepted since stays accepted; one that began since returns to its beginning.
        """
        pending = self.state.pending
        if pending is not None:
            observed = mark.observed if pending is mark.state.pending else 0
            again = Pending.replay(self.search, pending.origin, pending.memory, pending.transcript[:observed])
            self.state = self.state._replace(pending=again)

    def _end(self, record: Record[Any, Any]) -> None:
        state = self.state
        self.state = State(
            record.outcome.memory, None, record, state.iterations + 1, state.taken + (record.outcome.step > 0.0)
        )

    def _error(self, phase: Phase, call: str) -> RuntimeError:
        return RuntimeError(
            f"{call}() must be called when the driver waits for {phase.value}; it waits for {self.phase.value}"
        )
