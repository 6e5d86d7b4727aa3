"""The numbers to plot of one search, without drawing.

Where a sign of the slope is needed, non-finite probes count as a slope of +∞, as in the searches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradline.protocol import Moments, Origin, Outcome, Pending, Record, Search, Slope, Transcript, Value, observes
from gradline.searches import Armijo, GolsBack, GolsI, GolsMax, Prls, PrlsMemory, StrongWolfe
from gradline.searches.arguments import require
from gradline.searches.surrogate import Belief, Surrogate, wolfe

Array = NDArray[np.float64]

DECADE = 10.0
"""Ratio of steps above which their axis is logarithmic."""


class Point(NamedTuple):
    """The observation at one step."""

    number: int
    """1 for the first probe; 0 is the origin."""
    step: float
    slope: float
    value: float | None
    """`None` if the search does not use values."""


class Rule(NamedTuple):
    """The range of slopes that a search accepts, with its label."""

    low: float
    high: float
    says: str


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Posterior of PrLS's surrogate at some steps, after all probes."""

    steps: Array
    mean: Array
    """The expected value F(α)."""
    deviation: Array
    """The standard deviation of the value."""
    slope: Array
    """The expected slope F'(α)."""
    slope_deviation: Array
    """The standard deviation of the slope."""
    probability: Array
    """The probability of the Wolfe conditions."""

    def __getitem__(self, step: float) -> tuple[float, float, float]:
        """Return expected value, expected slope and Wolfe probability at one of the steps."""
        where = int(np.argmin(np.abs(self.steps - step)))
        return float(self.mean[where]), float(self.slope[where]), float(self.probability[where])


@dataclass(frozen=True, eq=False)
class SearchData:
    """The numbers to plot of one search."""

    headline: str
    reason: str
    """The stop reason as a sentence, or the next probe of a search in progress."""
    origin: Point | None
    probes: tuple[Point, ...]
    accepted: Point | None
    asked: float | None
    """The next probe of a search in progress."""
    bracket: tuple[float, float] | None
    """For gradient-only searches: the two steps between which the slope rises through `level`."""
    level: float
    """The slope that the search brackets, usually 0."""
    rule: Rule | None
    decrease: float | None
    """c1·F'(0), if the search requires F(α) ≤ F(0) + c1·F'(0)·α."""
    values: bool
    """Whether the search uses values."""
    considered: tuple[float, ...]
    """PrLS: the options of the last probe (of the next one, if in progress)."""
    beliefs: Beliefs | None
    """PrLS: the posterior along the line."""
    noise: tuple[float, float] | None
    """PrLS: the standard deviations of observed values and slopes."""
    acceptance: float | None
    """PrLS: the Wolfe probability above which a step is accepted."""
    logarithmic: bool
    """Whether the axis of steps is logarithmic: they span more than a decade."""
    span: tuple[float, float]
    """The smallest step above 0, and the largest."""

    @property
    def panels(self) -> int:
        """Number of panels: 1 for slopes, 2 with values, 3 with Wolfe probabilities."""
        return 1 + self.values + (self.beliefs is not None)

    @property
    def points(self) -> tuple[Point, ...]:
        """The origin, if known, and the probes."""
        return self.probes if self.origin is None else (self.origin, *self.probes)


class _Given(NamedTuple):
    search: Search[Any, Any] | None
    origin: Origin[Any] | None
    memory: Any
    outcome: Outcome[Any] | None
    transcript: Transcript[Any]
    asked: float | None


def search_data(
    transcript: Record[Any, Any] | Pending[Any, Any] | Transcript[Any],
    *,
    search: Search[Any, Any] | None = None,
    origin: Origin[Any] | None = None,
) -> SearchData:
    """Compute the numbers that [`gradline.plot.search`][gradline.plot.search] draws; arguments as there.

    ```python
    import gradline
    from gradline.searches import GolsI

    record = gradline.solve(GolsI(), lambda step: step - 0.3, memory=0.1)
    data = gradline.plot.search_data(record)
    assert data.bracket == (0.2, 0.4)
    assert data.accepted.number == 3
    ```
    """
    given = _given(transcript, search, origin)
    search, start, outcome = given.search, given.origin, given.outcome
    kind = _kind(given)
    values = issubclass(kind, Value)
    probes = tuple(_point(n, step, seen, values) for n, (step, seen) in enumerate(given.transcript, start=1))
    zero = None if start is None else _point(0, 0.0, start.at_zero, values)
    rule, level = _rule(search, start)
    failed = outcome is not None and outcome.probe is None
    accepted = None if outcome is None or outcome.probe is None else probes[outcome.probe]
    return SearchData(
        headline=_headline(given, accepted),
        reason=_reason(given),
        origin=zero,
        probes=probes,
        accepted=accepted,
        asked=given.asked,
        bracket=None if values or failed else _bracket(zero, probes, given.transcript, level),
        level=level,
        rule=rule,
        decrease=_decrease(search, start),
        values=values,
        **_along(given),
    )


def _along(given: _Given) -> dict[str, Any]:
    """Return the range of steps to show and the posterior of PrLS there."""
    search, start, transcript = given.search, given.origin, given.transcript
    steps = [step for step, _ in transcript] + ([] if given.asked is None else [given.asked])
    considered: list[float] = []
    if start is not None and not start.at_zero.usable:
        search = None  # it could not start there
    if isinstance(search, Prls) and start is not None:
        # The last choice there was: the one that led to the last probe, unless another one is to come.
        told = transcript[:-1] if given.asked is None else transcript
        considered = search.considered(start, given.memory, told)
    shown = [step for step in (*steps, *considered) if step > 0.0]
    span = (min(shown), max(shown)) if shown else (1.0, 1.0)
    logarithmic = span[1] > DECADE * span[0]
    along: dict[str, Any] = {"considered": (), "beliefs": None, "noise": None, "acceptance": None}
    if isinstance(search, Prls) and start is not None:
        grid = np.union1d(_grid(span, logarithmic), [0.0, *shown])
        beliefs = _beliefs_at(grid.tolist(), search, start, given.memory, transcript)
        if beliefs is not None:
            noise = (math.sqrt(start.at_zero.value_var), math.sqrt(start.at_zero.slope_var))
            along = {"beliefs": beliefs, "noise": noise, "acceptance": search.acceptance}
            along["considered"] = tuple(considered)
    return {**along, "logarithmic": logarithmic, "span": span}


def _beliefs_at(
    steps: Sequence[float], search: Prls, origin: Origin[Moments], memory: PrlsMemory, transcript: Transcript[Value]
) -> Beliefs | None:
    """Return the posterior of a search after the probes of a transcript; `None` if it has no surrogate."""
    try:
        surrogate = search.surrogate(origin, memory, transcript)
        if surrogate is None:
            return None
        zero = surrogate.at_seen(0)
        there = [_at(surrogate, step / memory[0]) for step in steps]
        chances = [wolfe(zero, one, search.decrease, search.curvature).probability for one in there]
    except (ZeroDivisionError, OverflowError):  # the surrogate is lost to rounding
        return None
    slope_unit = abs(origin.at_zero.slope)
    value_unit = slope_unit * memory[0]
    columns = np.array(
        [
            (
                step,
                origin.at_zero.value + value_unit * one.mean,
                value_unit * math.sqrt(max(one.value_var, 0.0)),
                slope_unit * one.slope,
                slope_unit * math.sqrt(max(one.slope_var, 0.0)),
                chance,
            )
            for step, one, chance in zip(steps, there, chances, strict=True)
        ]
    )
    return Beliefs(*columns.T) if np.isfinite(columns).all() else None


def _at(surrogate: Surrogate, point: float) -> Belief:
    """Return the posterior at a point, which is snapped to an observed point within rounding."""
    near = min(surrogate.points, key=lambda seen: abs(seen - point))
    return surrogate.at(near if abs(near - point) <= 1e-12 * point else point)


def _grid(span: tuple[float, float], logarithmic: bool) -> Array:
    """Return steps about evenly spaced on the axis."""
    smallest, largest = span
    if not logarithmic:
        return np.linspace(0.0, 1.1 * largest, 301)
    beyond = largest * (largest / smallest) ** 0.06
    return np.concatenate([np.linspace(0.0, smallest, 60), np.geomspace(smallest, beyond, 300)])


def _given(transcript: Any, search: Search[Any, Any] | None, origin: Origin[Any] | None) -> _Given:
    if isinstance(transcript, Record | Pending):
        for name, value in (("search", search), ("origin", origin)):
            require(value is None, name, "left out", f"a {type(transcript).__name__} carries its own", value)
        asked = transcript.step if isinstance(transcript, Pending) and transcript.outcome is None else None
        return _Given(
            *(transcript.search, transcript.origin, transcript.memory, transcript.outcome),
            list(transcript.transcript),
            asked,
        )
    if not isinstance(transcript, list | tuple):
        raise TypeError(f"transcript must be a Record, a Pending or a list of (step, seen), got {transcript!r}")
    for probe, pair in enumerate(transcript):
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], Slope)):
            raise TypeError(
                "transcript must be a Record, a Pending or a list of (step, seen), seen being a Slope, a Value "
                f"or Moments; got {pair!r} as probe {probe}"
            )
        if not (isinstance(pair[0], float | int) and 0.0 <= pair[0] < math.inf):
            raise ValueError(
                f"transcript must have finite steps of 0 or more (that is what searches probe), "
                f"got {pair[0]!r} at probe {probe}"
            )
    if origin is not None and not isinstance(origin, Origin):
        raise TypeError(f"origin must be an Origin(at_zero, norm), got {origin!r}")
    if not transcript and origin is None:
        raise ValueError("transcript must have a probe, or origin be given (there is nothing to draw), got []")
    pairs = [(float(step), seen) for step, seen in transcript]
    if isinstance(search, Prls) and origin is not None:
        # Its first probe is the guess, all of the memory that it needs: the whole search can be replayed.
        memory = PrlsMemory(pairs[0][0], pairs[0][0]) if pairs else search.start()
        return _given(Pending.replay(search, origin, memory, pairs), None, None)
    return _Given(search, origin, None, None, pairs, None)


def _kind(given: _Given) -> type[Slope]:
    """Return the observation type of the search; without a search, that common to all observations."""
    if given.search is not None:
        return observes(given.search)
    seen = [one for _, one in given.transcript] + ([] if given.origin is None else [given.origin.at_zero])
    return Value if all(isinstance(one, Value) for one in seen) else Slope


def _point(number: int, step: float, seen: Slope, values: bool) -> Point:
    return Point(number, step, seen.slope, seen.value if values and isinstance(seen, Value) else None)


def _rule(search: Search[Any, Any] | None, origin: Origin[Any] | None) -> tuple[Rule | None, float]:
    """Return the range of slopes that a search accepts, and the slope that it brackets."""
    if origin is None:
        return None, 0.0
    steep = abs(origin.at_zero.slope)
    match search:
        case GolsI():
            return Rule(0.0, search.overshoot * steep, "accepted at once\nif probed first"), 0.0
        case GolsMax() | GolsBack():
            bound = search.overshoot * steep
            return Rule(-math.inf, bound, "at most c2·|F'(0)|"), bound
        case StrongWolfe():
            bound = search.curvature * steep
            return Rule(-bound, bound, "within c2·|F'(0)|"), 0.0
        case _:
            return None, 0.0


def _decrease(search: Search[Any, Any] | None, origin: Origin[Any] | None) -> float | None:
    if origin is None or not isinstance(search, Armijo | StrongWolfe):
        return None
    slope: float = origin.at_zero.slope
    return search.decrease * (min(slope, 0.0) if isinstance(search, Armijo) else slope)


def _bracket(
    origin: Point | None, probes: tuple[Point, ...], transcript: Transcript[Any], level: float
) -> tuple[float, float] | None:
    """Return the latest steps with slopes below and not below the level, if in ascending order."""
    low = high = None
    if origin is not None and origin.slope < level:
        low = 0.0
    for probe, (_, seen) in zip(probes, transcript, strict=True):
        if seen.finite and seen.slope < level:
            low = probe.step
        else:
            high = probe.step
    return (low, high) if low is not None and high is not None and low < high else None


def _headline(given: _Given, accepted: Point | None) -> str:
    name = "" if given.search is None else f"{type(given.search).__name__}: "
    count = len(given.transcript)
    probes = "1 probe" if count == 1 else f"{count} probes"
    if accepted is not None:
        which = "" if accepted.number == count else f", the one numbered {accepted.number}"
        return f"{name}step {accepted.step:.3g} accepted after {probes}{which}"
    if given.outcome is not None:
        return f"{name}no step accepted after {probes}" if count else f"{name}no step probed"
    return f"{name}{probes}" + ("" if given.asked is None else " so far")


def _reason(given: _Given) -> str:
    if given.outcome is not None:
        return str(given.outcome.stop)
    return "" if given.asked is None else f"under way: the next probe is at step {given.asked:.3g}"
