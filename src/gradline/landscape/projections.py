"""The paper's definitions in many dimensions: is a point a (stochastic) non-negative gradient projection point?

A point x is a non-negative gradient projection point (NN-GPP) if the slope of the loss at x + λu along u
is not negative for every unit vector u and every λ in (0, r]. It is a stochastic one (SNN-GPP) if a
mini-batch's slope there is not negative with a probability above 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gradline.landscape.directions import random_unit
from gradline.landscape.evaluate import Losses
from gradline.landscape.optima import Array
from gradline.landscape.scan import Options, Scan, steps_of


@dataclass(frozen=True, eq=False)
class Projections:
    """Slopes along random unit vectors u, at x + λu: directions are rows, distances columns."""

    distances: Array
    """The distances λ from the point."""
    full: Array
    """Slopes of the loss of all data, shape (directions, distances)."""
    slopes: Array
    """Slopes of mini-batches, shape (mini-batches, directions, distances)."""

    @property
    def probabilities(self) -> Array:
        """The fraction of mini-batches whose slope is not negative, shape (directions, distances)."""
        return np.asarray((self.slopes >= 0.0).mean(axis=0), dtype=np.float64)

    @property
    def is_nn_gpp(self) -> bool:
        """Whether no slope of all data is negative, in any direction at any distance."""
        return bool((self.full >= 0.0).all())

    @property
    def is_snn_gpp(self) -> bool:
        """Whether in each direction and at each distance some mini-batch has a slope that is not negative."""
        return bool((self.probabilities > 0.0).all())


def projections(
    model: nn.Module | Iterable[Tensor],
    loss: Losses,
    data: Any,
    *,
    distances: ArrayLike | Tensor,
    directions: int = 50,
    batch_size: int | None = None,
    batches: int = 20,
    repetition: bool = False,
    seed: int | None = None,
    chunk: int | None = None,
    progress: bool = False,
) -> Projections:
    """Evaluate slopes around a point, along random unit vectors away from it.

    A negative slope disproves that the point is one of the paper's optima; that none was found is evidence that it is
    one, the stronger the more directions and mini-batches were drawn.

    ```python
    import torch
    from gradline import landscape

    weights = torch.zeros(20, requires_grad=True)
    targets = torch.randn(200, 20, generator=torch.Generator().manual_seed(0))

    def loss(target):
        return (weights - target).square().sum(dim=1) / 2

    def around(distances):
        return landscape.projections([weights], loss, targets, distances=distances, batch_size=20, seed=0)

    assert around([0.2]).is_snn_gpp  # inside the ball: some mini-batches have their optimum behind the point
    with torch.no_grad():
        weights += 3.0
    far = around([0.2])
    assert not far.is_nn_gpp and not far.is_snn_gpp  # every mini-batch leads back
    ```

    Args:
        model: the module, or its parameters; the point is where they are.
        loss: as for [`line`][gradline.landscape.line].
        data: as for [`line`][gradline.landscape.line].
        distances: distances λ above 0 in ascending order, the last one r.
        directions: number of random unit vectors; the opposite of each is used too.
        batch_size: samples per mini-batch.
        batches: number of mini-batches for each direction and distance.
        repetition: whether a sample may be drawn twice for one mini-batch.
        seed: as for [`line`][gradline.landscape.line].
        chunk: largest number of samples to evaluate at once.
        progress: show a progress bar.
    """
    at = steps_of(distances, "distances")
    if at[0] <= 0.0:
        raise ValueError(f"distances must be above 0 (a point has no slope away from itself), got {at[0]:g}")
    for name, count in (("directions", directions), ("batches", batches)):
        if type(count) is not int or count < 1:
            raise ValueError(f"{name} must be a whole number above 0 (it counts), got {count!r}")
    scan = Scan(model, loss, data, Options(seed, chunk, progress), batch_size)
    generator = torch.Generator().manual_seed(scan.seed)
    slopes = []
    with scan.begun():
        draws = scan.draws(scan.batch_size, repetition=repetition)
        for _ in scan.bar(range(directions)):
            unit = random_unit(scan.place, generator)
            for direction in (unit, [-part for part in unit]):
                for distance in at.tolist():
                    scan.place.go([(distance, direction)])
                    slopes.append(scan.evaluator.at(draws.draw(batches), direction, full=True)[:, 1])
    found = np.stack(slopes).T.reshape(1 + batches, 2 * directions, len(at))
    return Projections(at, found[0], found[1:])
