"""Run a search on a Python function of the step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar, cast

from gradline.driver import START, Driver
from gradline.protocol import Heading, Origin, Pending, Record, Search, Slope, observes

O = TypeVar("O", bound=Slope)
M = TypeVar("M")


def solve(
    search: Search[O, M], phi: Callable[[float], O | float], *, norm: float = 1.0, memory: M = START
) -> Record[O, M]:
    """Run one search on the function `phi` of the step and return its record.

    ```python
    import gradline
    from gradline.protocol import Value
    from gradline.searches import Armijo, GolsI

    # A plain number is a slope: here F'(α) of F(α) = (α - 3)²/2.
    outcome, transcript = gradline.solve(GolsI(), lambda step: step - 3.0, norm=0.1)
    assert outcome.step == 5.36870912
    assert str(outcome.stop) == "the slope changed sign between the last two steps"

    # Searches that compare values need both.
    record = gradline.solve(Armijo(), lambda step: Value(slope=step - 3.0, value=(step - 3.0) ** 2 / 2))
    assert record.step == 1.0
    ```

    Args:
        search: the search.
        phi: maps a step to the observation the search needs: `Slope`, `Value`, `Moments` or `Heading`. A number counts
            as a `Slope`, or as a `Heading` without displacement. Called once at 0, for the origin, and once per probe.
        norm: ‖d‖, the length of the direction. Gradient-only searches take steps of at most 1/‖d‖.
        memory: memory of an earlier search (`outcome.memory`). Default: `search.start()`.

    Returns:
        The record of the search, which unpacks as `outcome, transcript`.
    """

    def see(step: float) -> O:
        seen = phi(step)
        if isinstance(seen, Slope):
            return seen
        return cast(O, Heading(float(seen), 0.0, 0.0) if observes(search) is Heading else Slope(float(seen)))

    driver = Driver(search, memory=memory)
    origin = Origin(see(0.0), norm)
    if not (origin.at_zero.finite and 0.0 <= norm < math.inf):
        Pending(search, origin, driver.memory)  # raises: a function has no next mini-batch to wait for
    if driver.begin(origin):
        while driver.observe(see(driver.step)) is None:
            pass
        driver.accept()
    return cast("Record[O, M]", driver.last)
