"""The displacement of the parameters: the current accepted point minus the mean of all earlier ones.

With x_n the point after n steps, w_n = x_n - (x_0 + … + x_(n-1))/n. A search without a step adds no point. A step α d
gives

    w_(n+1) = n/(n+1) · w_n + α d,

so that only one vector is stored: a sum of all steps, with larger weights on later ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gradline.torch.distributed.sharded import local
from gradline.torch.line import Gradients, Line
from gradline.torch.measuring import LocalReduce
from gradline.torch.private import foreach_add_, foreach_mul_


class Displacement:
    """The displacement as one tensor per parameter (of sharded parameters, the local shard)."""

    def __init__(self, parameters: Sequence[Tensor] = (), parts: Sequence[Tensor] = ()) -> None:
        self.parameters = list(parameters)
        self.parts = list(parts)

    def of(self, parameters: list[Tensor]) -> list[Tensor]:
        """Return the tensors of some parameters; zeros for those that have not moved yet."""
        if list(map(id, parameters)) == list(map(id, self.parameters)):
            return self.parts
        known = dict(zip(map(id, self.parameters), self.parts, strict=True))
        for parameter in parameters:
            if id(parameter) not in known:
                known[id(parameter)] = torch.zeros_like(local(parameter).detach())
                self.parameters.append(parameter)
                self.parts.append(known[id(parameter)])
        return [known[id(parameter)] for parameter in parameters]

    def measure(self, gradients: Gradients, norm: float, ranks: LocalReduce) -> tuple[float, float]:
        """Return g·w and ‖g‖‖w‖ for a gradient g of length `norm`."""
        parts = self.of(gradients.parameters)
        length, along, _ = ranks.measure(gradients.parameters, parts, gradients.tensors)
        return along, norm * length

    def add(self, line: Line, step: float, before: int) -> None:
        """Add a step along a line, after `before` earlier steps."""
        if self.parts:  # also of parameters that do not move in this step: their mean changes too
            foreach_mul_(self.parts, before / (before + 1))
        parts = self.of(line.parameters)
        if all(torch.finfo(dtype).tiny <= step <= torch.finfo(dtype).max for dtype in {part.dtype for part in parts}):
            foreach_add_(parts, line.directions, alpha=step)
        else:  # the step is out of range of the dtype
            for part, direction in zip(parts, line.directions, strict=True):
                part.copy_(part.double().add_(direction.double(), alpha=step))

    def conform(self) -> None:
        """Convert to the parameters' current dtype and device."""
        self.parts = [part.to(local(parameter)) for parameter, part in zip(self.parameters, self.parts, strict=True)]
