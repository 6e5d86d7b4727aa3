"""Performance profiles (Dolan and Moré, 2002): how often a method is within a factor of the best one.

The cost of a method on a setting is the evaluations that it needs to reach the setting's target. Its ratio is this cost
over the lowest of all methods. The profile of a method at τ is the share of settings whose ratio is at most τ: at 1 how
often it is the best, and far out how often it gets there at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradline.lab.findings.measures import Table, evaluations_to, seconds_to, spread

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Profile:
    """The profiles of several methods over the same settings."""

    methods: tuple[str, ...]
    settings: tuple[str, ...]
    costs: Array
    """Methods × settings; infinite where the target was not reached."""

    @property
    def ratios(self) -> Array:
        """Costs over the lowest cost of the setting; infinite where nobody reached the target."""
        best = self.costs.min(axis=0, initial=math.inf)
        reached = np.isfinite(best)
        ratios = np.full(self.costs.shape, math.inf)
        # A target that is reached before the first step costs nothing: then all who did so are the best.
        with np.errstate(invalid="ignore", divide="ignore"):
            divided = np.where(self.costs[:, reached] == best[reached], 1.0, self.costs[:, reached] / best[reached])
        ratios[:, reached] = divided
        return ratios

    def share(self, factor: float) -> dict[str, float]:
        """Of each method the share of settings where it is within a factor of the best."""
        within = (self.ratios <= factor).mean(axis=1) if self.settings else np.full(len(self.methods), math.nan)
        return dict(zip(self.methods, map(float, within), strict=True))

    def solved(self) -> dict[str, float]:
        """Of each method the share of settings whose target it reached."""
        found = np.isfinite(self.costs).mean(axis=1) if self.settings else np.full(len(self.methods), math.nan)
        return dict(zip(self.methods, map(float, found), strict=True))

    def steps(self, method: str) -> tuple[Array, Array]:
        """The corners of a method's profile: ratios, and the share from each of them on."""
        ratios = np.sort(self.ratios[self.methods.index(method)])
        finite = ratios[np.isfinite(ratios)]
        return finite, np.arange(1, len(finite) + 1) / max(len(self.settings), 1)


def leading(found: Profile, always: Sequence[str], count: int) -> list[str]:
    """The methods to show where not all can be told apart: some always, then those most often near the best.

    Args:
        found: the profiles of all.
        always: those that are shown whatever they do; names that are not in the profiles are passed over.
        count: how many are shown, if there are so many.
    """
    chosen = [name for name in always if name in found.methods]
    near, far = found.share(2.0), found.share(10.0)
    rest = sorted(set(found.methods) - set(chosen), key=lambda name: (-near[name] - far[name], name))
    return chosen + rest[: max(count - len(chosen), 0)]


def profile(
    table: Table,
    targets: Mapping[str, float],
    *,
    methods: Sequence[str] | None = None,
    worst: bool = False,
    seconds: bool = False,
) -> Profile:
    """The profiles of methods, over the settings on which all of them were run.

    Args:
        table: the records.
        targets: the training loss to be reached, of each setting.
        methods: which; `None`: all that were run on any setting.
        worst: take a method's worst seed on each setting, not its median one.
        seconds: count seconds in place of evaluations.
    """
    if methods is None:
        methods = list(dict.fromkeys(name for of_setting in table.values() for name in of_setting))
    settings = [setting for setting, known in table.items() if all(name in known for name in methods)]
    count = seconds_to if seconds else evaluations_to
    costs = np.full((len(methods), len(settings)), math.inf)
    for place, setting in enumerate(settings):
        for line, name in enumerate(methods):
            found = spread(count(record, targets[setting]) for record in table[setting][name])
            costs[line, place] = found.worst if worst else found.median
    return Profile(tuple(methods), tuple(settings), costs)
