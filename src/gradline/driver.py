"""Training by line searches as one explicit state machine, without tensors.

A driver knows what the next evaluation is for and what follows from it. Whoever runs it owns parameters, gradients and
evaluations: the torch optimizer, a row of the lock-step engine, `gradline.solve`. Between two calls a driver is in one
of three phases:

    phase    call               what happens                                     next phase   the caller then
    -------  -----------------  -----------------------------------------------  -----------  --------------------------
    ORIGIN   begin(origin)      a search begins and asks for a step              PROBE        moves to `step`, evaluates
    ORIGIN   begin(origin)      nothing to search: the iteration ends here       ORIGIN       evaluates the origin anew
    PROBE    observe(seen)      the search asks for another step                 PROBE        moves to `step`, evaluates
    PROBE    observe(seen)      the search ends                                  ENDED        moves to `pending.outcome`
    ENDED    accept()           the outcome counts: memory, record, iteration    ORIGIN       calls begin from the new
                                                                                              origin, or evaluates it
    any      abandon()          the search under way is dropped                  ORIGIN       evaluates the origin anew
    any      rewind(mark)       back to where the search stood at `mark()`       as then      moves to where it stood

The rules it obeys:

1. All that a step changes here is one value, `state`, replaced by one assignment: an interrupt leaves the old value or
   the new one. (`Pending` grows by being told, and is replayed up to the mark by `rewind`.)
2. A search begins only where everything observed is finite and the direction has a length. Otherwise the iteration ends
   at its origin, with a `Stop` that says why.
3. An outcome without a probe changes nothing but the memory; the next search evaluates the origin anew.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, NamedTuple

from gradline.protocol import Origin, Outcome, Pending, Record, Search, Slope, Stop

__all__ = ["Driver", "Mark", "Phase", "State"]


class Phase(Enum):
    """What a driver waits for."""

    ORIGIN = "an evaluation at the accepted point, to begin a search from"
    PROBE = "an evaluation at the step that the search asks for"
    ENDED = "its outcome to be accepted"


class State(NamedTuple):
    """Everything that a driver knows between two calls."""

    memory: Any
    """What the last search handed on."""
    pending: Pending[Any, Any] | None = None
    """The search under way, or ended and not accepted yet."""
    last: Record[Any, Any] | None = None
    """The search before."""
    iterations: int = 0
    """Searches that have ended, those that took no step included."""
    taken: int = 0
    """Steps taken: searches that ended with a step above 0."""


class Mark(NamedTuple):
    """Where a driver stood: its state, and how many probes its search had been told of."""

    state: State
    told: int


class Driver:
    """Training by one kind of search.

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
        search: the search that finds the steps.
        memory: what an earlier search handed on; by default `search.start()`.
    """

    __slots__ = ("evaluations", "search", "state")

    def __init__(self, search: Search[Any, Any], **memory: Any) -> None:
        self.search = search
        self.state = State(memory["memory"] if memory else search.start())
        self.evaluations = 0  # counted by the caller, who makes them

    @property
    def phase(self) -> Phase:
        """What the next call must be."""
        pending = self.state.pending
        if pending is None:
            return Phase.ORIGIN
        return Phase.PROBE if pending.outcome is None else Phase.ENDED

    @property
    def memory(self) -> Any:
        """What the next search begins with."""
        return self.state.memory

    @property
    def pending(self) -> Pending[Any, Any] | None:
        """The search under way, or ended and not accepted yet."""
        return self.state.pending

    @property
    def last(self) -> Record[Any, Any] | None:
        """The search accepted last."""
        return self.state.last

    @property
    def record(self) -> Record[Any, Any]:
        """The search accepted last; before the first one has ended, a record of a step of 0 that says so."""
        if self.state.last is not None:
            return self.state.last
        nothing = Origin(Slope(math.nan), math.nan)
        return Record(self.search, nothing, self.memory, Outcome(0.0, None, Stop.NOT_YET, self.memory), [])

    @property
    def iterations(self) -> int:
        """How many searches have ended."""
        return self.state.iterations

    @property
    def taken(self) -> int:
        """How many of them took a step."""
        return self.state.taken

    def begin(self, origin: Origin[Any], *, zero_direction: bool = False, early: bool = False) -> bool:
        """Begin a search, and return whether one is under way.

        Args:
            origin: what was observed at the accepted point.
            zero_direction: the direction has length zero, so that there is nothing to search.
            early: from the gradient of the probe just accepted. If there is nothing to search, no iteration is counted,
                and the next one evaluates the origin anew.
        """
        self._require(Phase.ORIGIN, "begin")
        state = self.state
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
        """Tell the search what was observed at its step, and return its outcome if that ends it."""
        pending = self.state.pending
        if pending is None or pending.outcome is not None:
            self._require(Phase.PROBE, "observe")
        pending.tell(seen)  # type: ignore[union-attr]
        return pending.outcome  # type: ignore[union-attr]

    def accept(self) -> Record[Any, Any]:
        """End the iteration with the outcome of its search, and return the record of it."""
        self._require(Phase.ENDED, "accept")
        record: Record[Any, Any] = self.state.pending.record  # type: ignore[union-attr]
        self._end(record)
        return record

    def abandon(self) -> None:
        """Drop the search under way: somebody has put the parameters elsewhere."""
        self.state = self.state._replace(pending=None)

    def mark(self) -> Mark:
        """Return where the driver stands."""
        pending = self.state.pending
        return Mark(self.state, 0 if pending is None else len(pending.transcript))

    def rewind(self, mark: Mark) -> None:
        """After a failure: go back to where the search stood at a mark.

        A search that has been accepted since stays accepted, and one that has begun since is put back to its beginning.
        """
        pending = self.state.pending
        if pending is not None:
            told = mark.told if pending is mark.state.pending else 0
            again = Pending.replay(self.search, pending.origin, pending.memory, pending.transcript[:told])
            self.state = self.state._replace(pending=again)

    def _end(self, record: Record[Any, Any]) -> None:
        state = self.state
        self.state = State(
            record.outcome.memory, None, record, state.iterations + 1, state.taken + (record.outcome.step > 0.0)
        )

    def _require(self, phase: Phase, call: str) -> None:
        if self.phase is not phase:
            raise RuntimeError(
                f"{call}() must be called when the driver waits for {phase.value}; it waits for {self.phase.value}"
            )
