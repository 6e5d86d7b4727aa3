"""Check conditions on a finished search; failures report all numbers."""

from __future__ import annotations

from typing import Any

from gradline.protocol import Record, Value


def check_sign_change(record: Record[Any, Any]) -> None:
    """Check that the slope changes from - to + between the accepted probe and the one before it.

    Of the two, the slope at the smaller step must be negative; at the larger step it must not be negative, or be
    non-finite.
    """
    probe = record.outcome.probe
    if not probe:
        raise AssertionError(f"a sign change needs two probes, but probe {probe} was accepted of {_described(record)}")
    (low, below), (high, above) = sorted(record.transcript[probe - 1 : probe + 1], key=lambda pair: pair[0])
    if not (below.slope < 0.0 and (above.slope >= 0.0 or not above.finite)):
        raise AssertionError(
            f"the slope must change from - to + between steps {low!r} and {high!r}, "
            f"but it is {below.slope!r} and {above.slope!r} in {_described(record)}"
        )


def check_decrease(record: Record[Any, Any], decrease: float) -> None:
    """Check Armijo's condition, F(α) ≤ F(0) + c1·α·F'(0), at the accepted step."""
    zero, seen = record.origin.at_zero, _accepted(record)
    bound = zero.value + decrease * record.step * zero.slope
    if not seen.value <= bound:
        raise AssertionError(
            f"the value must decrease to {bound!r} = {zero.value!r} + {decrease!r}·{record.step!r}·{zero.slope!r}, "
            f"but it is {seen.value!r} in {_described(record)}"
        )


def check_strong_wolfe(record: Record[Any, Any], decrease: float, curvature: float) -> None:
    """Check the strong Wolfe conditions at the accepted step: Armijo's condition and |F'(α)| ≤ c2·|F'(0)|.

    ```python
    from gradline import solve
    from gradline.protocol import Value
    from gradline.searches import StrongWolfe
    from gradline.testing import check_strong_wolfe

    record = solve(StrongWolfe(curvature=0.1), lambda step: Value(step - 3.0, (step - 3.0) ** 2 / 2))
    check_strong_wolfe(record, decrease=1e-4, curvature=0.1)
    ```
    """
    check_decrease(record, decrease)
    slope, bound = _accepted(record).slope, curvature * abs(record.origin.at_zero.slope)
    if not abs(slope) <= bound:
        raise AssertionError(
            f"the slope must be within ±{bound!r}, {curvature!r} of the first one, "
            f"but it is {slope!r} at step {record.step!r} in {_described(record)}"
        )


def _accepted(record: Record[Any, Any]) -> Value:
    probe = record.outcome.probe
    if probe is None:
        raise AssertionError(f"a probe must have been accepted, but none was in {_described(record)}")
    seen: Value = record.transcript[probe][1]
    return seen


def _described(record: Record[Any, Any]) -> str:
    return f"a search from {record.origin} that ended as {record.outcome} after {record.transcript}"
