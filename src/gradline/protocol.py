"""The protocol between a line search and the code that evaluates the function.

A search yields a step α, receives the observation at x + α d, and returns an outcome. It does not depend on the
mini-batch, the device or the number of runs evaluated together.

Rules:

1. A search is *written* as a generator (`seen = yield step`), like the paper's pseudo-code, and *driven* through
   [`Pending`][gradline.protocol.Pending], which records the transcript.
2. A search is pure: no randomness, clock, printing or tensors. Equal observations give equal steps.
3. A search declares the type of its observations: `Slope`, `Value` or `Moments`, each a subclass of the one before, so
   that an evaluator of `Moments` can drive searches on all three; or `Heading`, a `Slope` with the angle between the
   gradient and the displacement of the parameters. Probes may need a simpler type than the origin.
4. Memory is passed into a search and returned in its outcome. It is a number, `None`, or a tuple of these, so that it
   can be saved in any checkpoint.
5. Steps are finite and never negative. A search never accepts a non-finite point; it ends at the origin instead.
6. The caller supplies the observation at the origin, which is not a probe. One probe is one evaluation, and
   `len(transcript)` counts them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

__all__ = [
    "Heading",
    "Moments",
    "Origin",
    "Outcome",
    "Pending",
    "Record",
    "Search",
    "Slope",
    "Stop",
    "Transcript",
    "Value",
    "candidates",
    "observes",
    "observes_at_probes",
]


@dataclass(frozen=True, slots=True)
class Slope:
    """Observation for gradient-only searches: the directional derivative F'(α) = d·g of one evaluation."""

    slope: float

    @property
    def finite(self) -> bool:
        """Whether the slope is finite."""
        return math.isfinite(self.slope)

    @property
    def usable(self) -> bool:
        """Whether a search can start from this observation: all its numbers are finite."""
        return self.finite


@dataclass(frozen=True, slots=True)
class Value(Slope):
    """Slope F'(α) and value F(α) of one evaluation, both from the same mini-batch."""

    value: float

    @property
    def finite(self) -> bool:
        """Whether slope and value are finite; variances are not checked."""
        return math.isfinite(self.slope) and math.isfinite(self.value)


@dataclass(frozen=True, slots=True)
class Moments(Value):
    """Slope and value of one evaluation, and the variances of these two means over the mini-batch."""

    value_var: float
    slope_var: float

    @property
    def usable(self) -> bool:
        """Whether all four numbers are finite."""
        return self.finite and math.isfinite(self.value_var) and math.isfinite(self.slope_var)


@dataclass(frozen=True, slots=True)
class Heading(Slope):
    """Slope of one evaluation, and the angle between its gradient g and the displacement w of the parameters.

    The displacement is the current accepted point minus the mean of all earlier ones. `along` is g·w and `scale` is
    ‖g‖·‖w‖; both are 0 before the first step.
    """

    along: float
    scale: float

    @property
    def cosine(self) -> float:
        """Cosine of the angle between gradient and displacement: -1 if the displacement is straight downhill."""
        return max(-1.0, min(1.0, self.along / self.scale)) if self.scale > 0.0 else 0.0

    @property
    def finite(self) -> bool:
        """Whether all three numbers are finite."""
        return math.isfinite(self.slope) and math.isfinite(self.along) and math.isfinite(self.scale)


O = TypeVar("O", bound=Slope)
O_co = TypeVar("O_co", bound=Slope, covariant=True)
O_contra = TypeVar("O_contra", bound=Slope, contravariant=True)
M = TypeVar("M")

Transcript: TypeAlias = list[tuple[float, O]]
"""The probes of one search in order: (step, observation)."""


@dataclass(frozen=True, slots=True)
class Origin(Generic[O_co]):
    """The observation at α = 0 and the length ‖d‖ of the direction."""

    at_zero: O_co
    norm: float


class Stop(Enum):
    """Reason why a search ended. The values are sentences to show to users."""

    ACCEPTED_AT_ONCE = "the guess was accepted at once: just past a sign change of the slope"
    SIGN_CHANGE = "the slope changed sign between the last two steps"
    SLOPE_BOUND = "the slope is within its bound"
    DECREASE = "the value decreased enough"
    STRONG_WOLFE = "value and slope satisfy the strong Wolfe conditions"
    TOLERANCE = "the bracket around the optimum is smaller than the tolerance"
    FIXED = "the step is fixed"
    FIRST_STEP = "the first step is a small part of the longest one that was tried"
    ANGLE = "the step was set by the angle between the gradient and the displacement so far"
    STEP_MAX = "still downhill at the largest step allowed"
    STEP_MIN = "still uphill at the smallest step allowed"
    BUDGET = "the probe budget is spent"
    NO_PROGRESS = "rounding or jumps of the value left no better step to find"
    PROBABLY_WOLFE = "the step probably satisfies the Wolfe conditions"
    PROBABLY_WOLFE_EARLIER = "an earlier step probably satisfies the Wolfe conditions, now that more is known"
    PROBABLY_WOLFE_AT_LAST = "the last step of the probe budget probably satisfies the Wolfe conditions"
    LOWEST_MEAN = "the probe budget is spent: the step of lowest expected value was taken"
    ALMOST_FLAT = "the expected slope at the step of lowest expected value is almost zero"
    BELIEVED_UPHILL = "the slope at the start is believed to be uphill after all: a small step was taken"
    NON_FINITE = "the search ended at a point that is not finite: nothing was changed"
    UPHILL = "the direction does not point downhill: nothing was changed"
    NON_FINITE_ORIGIN = "the observation at the start is not finite: nothing was changed"
    SLOPE_VANISHED = "the slope at the origin vanished, altogether or beside its noise: nothing was changed"
    SURROGATE_LOST = "rounding left nothing of the surrogate: nothing was changed"
    NOT_YET = "no search has ended yet"
    ZERO_DIRECTION = "the direction has length zero: nothing was changed"

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[M]):
    """Result of a search: the accepted step, its probe, the stop reason and the memory for the next search.

    `probe` is the index of the accepted probe in the transcript, not necessarily the last one. `None` means that no
    probe was accepted: the step is 0 and the parameters are unchanged.
    """

    step: float
    probe: int | None
    stop: Stop
    memory: M


class Search(Protocol[O_contra, M]):
    """Interface of a line search.

    Three members are optional: the class attributes `observes` (`Slope`, the default, `Value`, `Moments` or `Heading`)
    and `observes_at_probes` (default: `observes`), and the method `candidates(transcript)` (see
    [`candidates`][gradline.protocol.candidates]).
    """

    def start(self) -> M:
        """Return the memory for the first search."""

    def search(self, origin: Origin[O_contra], memory: M) -> Generator[float, O_contra, Outcome[M]]:
        """Yield steps, receive the observation at each, return the outcome."""


def observes(search: Search[Any, Any]) -> type[Slope]:
    """Return the observation type a search needs: its `observes` attribute, or `Slope` if it has none."""
    kind: type[Slope] = getattr(search, "observes", Slope)
    return kind


def observes_at_probes(search: Search[Any, Any]) -> type[Slope]:
    """Return the observation type a search needs at its probes, if that is simpler than at the origin.

    This saves expensive evaluations: `Prls` reads variances at the origin only.
    """
    kind: type[Slope] | None = getattr(search, "observes_at_probes", None)
    return kind or observes(search)


def candidates(search: Search[Any, Any], transcript: Transcript[Any]) -> Collection[int]:
    """Return the indices of the probes that the search may still accept.

    Drivers keep the gradients of these probes and discard the others. A search without a `candidates` method accepts
    only its last probe.
    """
    ask = getattr(search, "candidates", None)
    return cast("Collection[int]", ask(transcript)) if ask else (len(transcript) - 1,)


@dataclass(frozen=True, slots=True, repr=False)
class Record(Generic[O, M]):
    """A finished search: the search object, its origin and initial memory, its outcome and transcript.

    Unpacks as `outcome, transcript`.
    """

    search: Search[O, M]
    origin: Origin[O]
    memory: M
    outcome: Outcome[M]
    transcript: Transcript[O]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.outcome, self.transcript))

    def __repr__(self) -> str:
        count = len(self.transcript)
        probes = f"{count} probe{'' if count == 1 else 's'}"
        return f"<{type(self.search).__name__}: step {self.step:.3g}, {probes}: {self.stop}>"

    def _repr_html_(self) -> str:
        """Return the record as notebooks show it: in a sentence, and with a row for each probe."""
        rows = "".join(
            f"<tr><td>{place}</td><td>{step:.4g}</td><td>{seen.slope:.4g}</td></tr>"
            for place, (step, seen) in enumerate(self.transcript)
        )
        table = f"<table><tr><th>probe</th><th>step</th><th>slope</th></tr>{rows}</table>" if rows else ""
        cosine = "" if math.isnan(self.cosine) else f", cosine {self.cosine:.3f}"
        return f"<p><b>{type(self.search).__name__}</b>: step {self.step:.4g}{cosine}. {self.stop}.</p>{table}"

    @property
    def step(self) -> float:
        """The accepted step, 0 if no probe was accepted."""
        return self.outcome.step

    @property
    def stop(self) -> Stop:
        """Why the search ended."""
        return self.outcome.stop

    @property
    def evaluations(self) -> int:
        """Number of probes."""
        return len(self.transcript)

    @property
    def cosine(self) -> float:
        """Cosine between gradient and displacement at the start, for searches on `Heading`; NaN for others."""
        return self.origin.at_zero.cosine if isinstance(self.origin.at_zero, Heading) else math.nan

    def scalars(self) -> dict[str, float]:
        """Return the finite numbers of the search by the names under which they are logged.

        `step`, `slope/start` and `slope/accepted` (slopes of the loss along the direction, at the start and at the
        accepted probe), `cosine` (see above) and `evaluations` (the number of probes).
        """
        numbers = {"step": self.step, "slope/start": self.origin.at_zero.slope, "cosine": self.cosine}
        if self.outcome.probe is not None:
            numbers["slope/accepted"] = self.transcript[self.outcome.probe][1].slope
        numbers["evaluations"] = self.evaluations
        return {name: float(number) for name, number in numbers.items() if math.isfinite(number)}


class Pending(Generic[O, M]):
    """A search in progress: evaluate at `.step`, pass the observation to `.tell`, until `.outcome` is not `None`.

    It can be pickled and copied at any time; the copy replays the observations so far.

    ```python
    from gradline.protocol import Origin, Pending, Slope
    from gradline.searches import GolsI

    search = GolsI()
    pending = Pending(search, Origin(Slope(-1.0), norm=1.0), search.start())
    while pending.outcome is None:
        pending.tell(Slope(pending.step - 0.1))
    assert pending.outcome.step == 0.16777216
    ```
    """

    __slots__ = ("_ask", "_kind", "_step", "memory", "origin", "outcome", "search", "transcript")

    def __init__(self, search: Search[O, M], origin: Origin[O], memory: M) -> None:
        self.search = search
        self.origin = origin
        self.memory = memory
        self.outcome: Outcome[M] | None = None
        self.transcript: Transcript[O] = []
        self._step = 0.0
        if not isinstance(origin, Origin):
            raise TypeError(f"origin must be an Origin(at_zero, norm), got {origin!r}")
        kind = observes(search)
        if not isinstance(origin.at_zero, kind):
            raise self._mistaken(origin.at_zero, "origin.at_zero", kind)
        self._kind = observes_at_probes(search)
        if not origin.at_zero.finite:
            raise ValueError(
                f"origin.at_zero must be finite (a search starts from a known slope), got {origin.at_zero}"
            )
        if not 0.0 <= origin.norm < math.inf:
            raise ValueError(f"origin.norm must be finite and not negative (it is a length), got {origin.norm!r}")
        try:
            conversation = search.search(origin, memory)
            self._ask = conversation.send
        except AttributeError as error:
            raise TypeError(
                f"search must have start() and a generator search(origin, memory), got {search!r}"
            ) from error
        self._advance(cast(O, None))

    @property
    def step(self) -> float:
        """The step to evaluate next."""
        if self.outcome is not None:
            raise RuntimeError(f"the search has ended ({self.outcome.stop}): it has no further step; read .outcome")
        return self._step

    def tell(self, seen: O) -> None:
        """Pass the observation at `.step` to the search."""
        if self.outcome is not None:
            raise RuntimeError(
                f"the search has ended ({self.outcome.stop}): it takes no more observations; start a new one"
            )
        if not isinstance(seen, self._kind):
            raise self._mistaken(seen, "seen", self._kind)
        self.transcript.append((self._step, seen))
        self._advance(seen)

    @property
    def record(self) -> Record[O, M]:
        """The finished search as a `Record`."""
        if self.outcome is None:
            raise RuntimeError(f"the search has not ended: it waits for the observation at step {self._step!r}")
        return Record(self.search, self.origin, self.memory, self.outcome, self.transcript)

    @classmethod
    def replay(
        cls, search: Search[O, M], origin: Origin[O], memory: M, transcript: Sequence[tuple[float, O]]
    ) -> Pending[O, M]:
        """Rebuild a search in progress from its transcript; raise `ValueError` if its steps are not of this search."""
        pending = cls(search, origin, memory)
        for probe, (step, seen) in enumerate(transcript):
            if pending.outcome is not None or pending.step != step:
                asked = "nothing more" if pending.outcome is not None else f"step {pending.step!r}"
                raise ValueError(
                    f"transcript must be one of {search!r}: at probe {probe} it has step {step!r} "
                    f"where the search asks for {asked}; was it recorded with other settings or another version?"
                )
            pending.tell(seen)
        return pending

    def __reduce__(self) -> tuple[Any, ...]:
        return Pending.replay, (self.search, self.origin, self.memory, self.transcript)

    def __repr__(self) -> str:
        where = f"asks for step {self._step!r}" if self.outcome is None else f"ended: {self.outcome.stop}"
        return f"<Pending {self.search!r}: {len(self.transcript)} probes, {where}>"

    def _mistaken(self, seen: O, name: str, kind: type[Slope]) -> TypeError:
        return TypeError(f"{name} must be a {kind.__name__} ({type(self.search).__name__} observes it), got {seen!r}")

    def _advance(self, seen: O) -> None:
        try:
            step = self._ask(seen)
        except StopIteration as end:
            self.outcome = self._checked(end.value)
        else:
            if not ((type(step) is float or isinstance(step, float | int)) and 0.0 <= step < math.inf):
                raise ValueError(
                    f"a search must ask for finite steps of 0 or more, but {self.search!r} asked for {step!r}"
                )
            self._step = float(step)

    def _checked(self, outcome: Any) -> Outcome[M]:
        if not isinstance(outcome, Outcome):
            raise TypeError(f"a search must return an Outcome, but {self.search!r} returned {outcome!r}")
        if outcome.probe is None:
            expected = 0.0
        elif isinstance(outcome.probe, int) and 0 <= outcome.probe < len(self.transcript):
            expected, seen = self.transcript[outcome.probe]
            if not seen.finite:
                raise ValueError(f"a search must not accept a non-finite point, but {self.search!r} accepted {seen}")
        else:
            raise ValueError(
                f"a search must accept one of its {len(self.transcript)} probes or None, got {outcome.probe!r}"
            )
        if outcome.step != expected:
            raise ValueError(f"outcome.step must be the step of the accepted probe, {expected!r}, got {outcome.step!r}")
        return outcome
