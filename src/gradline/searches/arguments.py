"""Checks of constructor arguments that raise errors of one common wording."""

from __future__ import annotations

import math
from typing import Any


def require(condition: bool, name: str, rule: str, reason: str, value: object) -> None:
    """Raise a `ValueError` that names the argument, the rule, the reason and the value."""
    if not condition:
        raise ValueError(f"{name} must be {rule} ({reason}), got {value!r}")


def require_factor(name: str, value: float, reason: str) -> None:
    """Require a growth factor, above 1."""
    require(1.0 < value <= 1e6, name, "above 1 and at most 1e6", reason, value)


def require_fraction(name: str, value: float, reason: str) -> None:
    """Require a number strictly between 0 and 1."""
    require(0.0 < value < 1.0, name, "between 0 and 1", reason, value)


def require_shrink(value: float) -> None:
    """Require a shrink factor, below 1."""
    require(1e-6 <= value < 1.0, "shrink", "at least 1e-6 and below 1", "a rejected step is multiplied by it", value)


def require_range(step_min: float, step_max: float) -> None:
    """Require finite, positive bounds of the steps in order."""
    require(0.0 < step_min < math.inf, "step_min", "positive and finite", "it is the smallest step", step_min)
    require(
        step_min <= step_max < math.inf,
        "step_max",
        f"finite and at least step_min = {step_min!r}",
        "it is the largest step",
        step_max,
    )


def require_limits(search: Any) -> None:
    """Require valid `step_min`, `step_max`, `step_first` (if the search has one) and `max_probes`."""
    require_range(search.step_min, search.step_max)
    if getattr(search, "step_first", None) is not None:
        require_first(search.step_first, search.step_min, search.step_max)
    probes = search.max_probes
    good = probes is None or (type(probes) is int and probes >= 1)
    require(good, "max_probes", "a whole number of at least 1, or None", "a search needs at least one probe", probes)


def require_wolfe(decrease: float, curvature: float) -> None:
    """Require 0 < c1 < c2 < 1, the constants of the Wolfe conditions."""
    require_fraction("decrease", decrease, "it is a part of the decrease promised by the slope")
    rule, reason = f"between decrease = {decrease!r} and 1", "otherwise no step may satisfy both conditions"
    require(decrease < curvature < 1.0, "curvature", rule, reason, curvature)


def require_guess(memory: float) -> float:
    """Require a number as the memory of a search that starts at the previous step, and return it."""
    if type(memory) is not float or math.isnan(memory):
        is_number = isinstance(memory, float | int) and not math.isnan(memory)
        require(is_number, "memory", "a number", "it is the previous step", memory)
    return memory


def require_tolerance(tolerance: float) -> None:
    """Require a relative width of a bracket, between 1e-14 and 1."""
    require(
        1e-14 <= tolerance < 1.0,
        "tolerance",
        "between 1e-14 and 1",
        "it is a part of the step, and floating-point numbers are hardly closer to each other",
        tolerance,
    )


def require_first(step_first: float, step_min: float, step_max: float) -> None:
    """Require the first step of the first search to be within its bounds."""
    require(
        step_min <= step_first <= step_max,
        "step_first",
        f"between step_min = {step_min!r} and step_max = {step_max!r}",
        "it is the first step probed",
        step_first,
    )
