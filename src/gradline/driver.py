"""Train by one line search after another: a state machine without tensors.

A driver decides what each evaluation is for and what follows from it. Its caller (`LineSearchOptimizer`, a row of the
lock-step engine, `gradline.solve`) moves the parameters and evaluates loss and gradient. Between two calls a driver is
in one of three phases:

    phase    call               what happens                                    next phase  what the caller does next
    -------  -----------------  ----------------------------------------------  ----------  ----------------------------
    ORIGIN   begin(origin)      a search begins and asks for a step             PROBE       move to `step` and evaluate
    ORIGIN   begin(origin)      no search is possible: the iteration ends       ORIGIN      evaluate the origin again
    PROBE    observe(seen)      the search asks for another step                PROBE       move to `step` and evaluate
    PROBE    observe(seen)      the search ends with an outcome                 ENDED       move to `step`, the outcome
    ENDED    accept()           memory, record and counters are updated         ORIGIN      begin from the new origin,
                                                                                            or evaluate it first
    any      abandon()          the search in progress is discarded             ORIGIN      evaluate the origin again
    any      rewind(mark)       the search returns to its state at `mark()`     as at mark  move back to the step then

Rules:

1. Each call replaces the attribute `state` by one assignment, so that an interrupt (Ctrl-C) leaves either the old state
   or the new one. The exception is the search itself (`Pending`), which is mutable: `rewind` makes it anew from its
   observations up to the mark.
2. A search begins only if all observed numbers are finite and the direction is not zero. Otherwise the iteration ends
   at the origin, with the reason as its `Stop`.
3. If a search accepts no probe, only the memory changes, and the next search evaluates the origin again.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, NamedTuple

from gradline.protocol import Origin, Outcome, Pending, Record, Search, Slope, Stop

__all__ = ["START", "Driver", "Mark", "Phase", "State"]

START: Any = object()
"""Default of the argument `memory`: use `search.start()`. (`None` is a valid memory.)"""


class Phase(Enum):
    """What a driver waits for, as its error messages put it."""

    ORIGIN = "begin() with an evaluation at the accepted point"
    PROBE = "observe() with an evaluation at the step that the search asks for"
    ENDED = "accept() of the outcome of its search"


class State(NamedTuple):
    """Everything that a driver knows between two calls, except the number of evaluations."""

    memory: Any
    """Memory returned by the last search."""
    pending: Pending[Any, Any] | None = None
    """The search in progress, or one that has ended and is not yet accepted; `None` in the phase ORIGIN."""
    last: Record[Any, Any] | None = None
    """Record of the last search that has ended; `None` before the first."""
    iterations: int = 0
    """Number of searches that have ended, including those without a step."""
    taken: int = 0
    """Number of searches that ended with a step above 0."""


class Mark(NamedTuple):
    """A state to rewind to, and the number of observations that its search had received by then."""

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
        elif driver.observe(Slope(-x * (x - driver.step * x))):
            x -= driver.accept().step * x
    assert abs(x) < 1e-3 and driver.iterations == 16
    ```

    Args:
        search: the search to run, as often as needed.
        memory: memory returned by an earlier search. Default: `search.start()`.
    """

    __slots__ = ("evaluations", "search", "state")

    def __init__(self, search: Search[Any, Any], *, memory: Any = START) -> None:
        if isinstance(search, type):
            raise TypeError(f"search must be a search, not its class: write {search.__name__}()")
        if not (callable(getattr(search, "search", None)) and callable(getattr(search, "start", None))):
            raise TypeError(f"search must be a search such as gradline.searches.GolsI(), got {search!r}")
        self.search = search
        self.state = State(search.start() if memory is START else memory)
        self.evaluations = 0  # the caller counts them

    @property
    def phase(self) -> Phase:
        """Which of `begin`, `observe` and `accept` must be called next."""
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
        """The search in progress, or one that has ended and is not yet accepted."""
        return self.state.pending

    @property
    def step(self) -> float:
        """Where the caller moves: to the step that the search asks for, to that of its outcome, or to 0, the origin."""
        pending = self.state.pending
        if pending is None:
            return 0.0
        return pending.step if pending.outcome is None else pending.outcome.step

    @property
    def last(self) -> Record[Any, Any] | None:
        """Record of the last search that has ended; `None` before the first."""
        return self.state.last

    @property
    def record(self) -> Record[Any, Any]:
        """Record of the last search that has ended; before the first, a record with step 0 and `Stop.NOT_YET`."""
        if self.state.last is not None:
            return self.state.last
        nothing = Origin(Slope(math.nan), math.nan)
        return Record(self.search, nothing, self.memory, Outcome(0.0, None, Stop.NOT_YET, self.memory), [])

    @property
    def iterations(self) -> int:
        """Number of searches that have ended, including those without a step."""
        return self.state.iterations

    @property
    def taken(self) -> int:
        """Number of searches that ended with a step above 0."""
        return self.state.taken

    def begin(self, origin: Origin[Any], *, zero_direction: bool = False, early: bool = False) -> bool:
        """Begin a search at the accepted point; return whether it asks for a step.

        If no search is possible, the iteration ends there with step 0, and its `record` says why.

        Args:
            origin: the observation at the accepted point, and the length of the direction.
            zero_direction: whether there is nothing to search along, because the direction or the gradient is zero.
            early: whether `origin` is the observation at the probe just accepted, reused to save an evaluation. If no
                search is possible from it, no iteration is counted, and the caller evaluates the origin again.
        """
        state = self.state
        if state.pending is not None:
            raise self._error("begin")
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
        """Pass the observation at `step` to the search; return its outcome, or `None` if it continues."""
        pending = self.state.pending
        if pending is None or pending.outcome is not None:
            raise self._error("observe")
        pending.tell(seen)
        return pending.outcome

    def accept(self) -> Record[Any, Any]:
        """Count the search that has ended as an iteration; return its record."""
        pending = self.state.pending
        if pending is None or pending.outcome is None:
            raise self._error("accept")
        record = pending.record
        self._end(record)
        return record

    def abandon(self) -> None:
        """Discard the search in progress, for example because someone else has changed the parameters."""
        self.state = self.state._replace(pending=None)

    def mark(self) -> Mark:
        """Return a mark of the present state, for `rewind`."""
        pending = self.state.pending
        return Mark(self.state, 0 if pending is None else len(pending.transcript))

    def rewind(self, mark: Mark) -> None:
        """Return the search in progress to its state at a mark, after a step that failed.

        A search that was accepted since the mark stays accepted. One that began since then returns to its first step.
        """
        pending = self.state.pending
        if pending is not None:
            observed = mark.observed if pending is mark.state.pending else 0
            again = Pending.replay(self.search, pending.origin, pending.memory, pending.transcript[:observed])
            self.state = self.state._replace(pending=again)

    def _end(self, record: Record[Any, Any]) -> None:
        state, outcome = self.state, record.outcome
        self.state = state._replace(
            memory=outcome.memory,
            pending=None,
            last=record,
            iterations=state.iterations + 1,
            taken=state.taken + (outcome.step > 0.0),
        )

    def _error(self, call: str) -> RuntimeError:
        return RuntimeError(f"{call}() was called out of order: the driver waits for {self.phase.value}")
