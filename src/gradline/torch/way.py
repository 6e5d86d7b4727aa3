"""The way that the parameters have come: from the mean of all earlier points to where they are now.

With x_n the point after n steps, w_n = x_n - (x_0 + … + x_(n-1))/n. A search that takes no step adds no point. A step
α d takes it to

    w_(n+1) = n/(n+1) · w_n + α d,

so one vector is all that is kept: a sum of all steps in which the later ones weigh more.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gradline.torch.line import Gradients, Line
from gradline.torch.measuring import Alone
from gradline.torch.sharded import local

__all__ = ["Way"]


class Way:
    """One vector, in parts that belong to parameters; of sharded ones the parts that are here."""

    def __init__(self, parameters: Sequence[Tensor] = (), parts: Sequence[Tensor] = ()) -> None:
        self.parameters = list(parameters)
        self.parts = list(parts)
        self.begun = bool(self.parts)

    def of(self, parameters: list[Tensor]) -> list[Tensor]:
        """The parts of some parameters; those that were not there before have come no way."""
        if list(map(id, parameters)) == list(map(id, self.parameters)):
            return self.parts
        known = dict(zip(map(id, self.parameters), self.parts, strict=True))
        for parameter in parameters:
            if id(parameter) not in known:
                known[id(parameter)] = torch.zeros_like(local(parameter).detach())
                self.parameters.append(parameter)
                self.parts.append(known[id(parameter)])
        return [known[id(parameter)] for parameter in parameters]

    def look(self, gradients: Gradients, norm: float, ranks: Alone) -> tuple[float, float]:
        """The derivative along the way, and the product of both lengths; `norm` is the gradient's."""
        parts = self.of(gradients.parameters)
        if not self.begun:
            return 0.0, 0.0
        length, along, _ = ranks.measure(gradients.parameters, parts, gradients.tensors)
        return along, norm * length

    def go(self, line: Line, step: float, before: int) -> None:
        """Add a step along a line to the way, after so many steps before."""
        if self.parts:  # those of parameters that rest now too: the mean of their points comes nearer
            torch._foreach_mul_(self.parts, before / (before + 1))
        parts = self.of(line.parameters)
        self.begun = True
        if all(torch.finfo(dtype).tiny <= step <= torch.finfo(dtype).max for dtype in {part.dtype for part in parts}):
            torch._foreach_add_(parts, line.directions, alpha=step)
        else:  # the parameters' type cannot hold it
            for part, direction in zip(parts, line.directions, strict=True):
                part.copy_(part.double().add_(direction.double(), alpha=step))
