"""The line x0 + α d through parameter space.

Parameters are always set to x0 + α d from the saved x0, never by increments: nothing drifts and the way back is exact.
All numbers that a decision needs cross from the device to the host in one transfer.

On an accelerator launching kernels is what costs, so the work is done in torch's foreach kernels. On a CPU memory
traffic costs, so there one pass over each tensor does what takes foreach two (`single_pass`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

_HALF = (torch.bfloat16, torch.float16)
_SMALL = 2**12


def single_pass(tensors: Sequence[Tensor]) -> bool:
    """Whether to go through tensors one by one, each once, rather than through all of them with each foreach kernel."""
    return tensors[0].is_cpu


class Gradients(NamedTuple):
    """The parameters that have a gradient now, and their gradients."""

    parameters: list[Tensor]
    tensors: list[Tensor]

    def cloned(self) -> Gradients:
        """A copy that later evaluations do not overwrite."""
        return Gradients(self.parameters, [gradient.clone() for gradient in self.tensors])

    def release(self) -> None:
        """Leave no parameter with one of these as its `.grad`, so that nobody writes to them."""
        for parameter in self.parameters:
            parameter.grad = None


class Line:
    """Some parameters, the direction they move along, and a copy of where they started (valid while `away`).

    `aimed` tells whether the direction has been set.
    """

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters = parameters
        self.origins = [parameter.detach().clone() for parameter in parameters]
        self._pair = _Pair(parameters) if _Pair.suits(parameters) else None
        self.directions = self._pair.directions if self._pair else [torch.zeros_like(p) for p in parameters]
        self.away = False
        self.aimed = False

    @classmethod
    def restored(
        cls,
        parameters: list[Tensor],
        origins: list[Tensor],
        directions: list[Tensor],
        *,
        away: bool,
        aimed: bool = True,
    ) -> Line:
        """A line as it was saved, in buffers of its own: what was saved may still be in use elsewhere."""
        line = cls(parameters)
        with torch.no_grad():
            torch._foreach_copy_(line.origins, origins)
            torch._foreach_copy_(line.directions, directions)
        line.away, line.aimed = away, aimed
        return line

    def __reduce__(self) -> tuple[Any, ...]:
        build = partial(Line.restored, away=self.away, aimed=self.aimed)
        return build, (self.parameters, self.origins, self.directions)

    def leave(self) -> None:
        """Save where the parameters are, before they are moved."""
        torch._foreach_copy_(self.origins, self.parameters)
        self.away = True

    def go(self, step: float) -> None:
        """Put the parameters at x0 + step · d."""
        torch.clear_autocast_cache()  # it may hold the weights as they were
        if not self.away:
            self.leave()
        elif single_pass(self.parameters):
            for parameter, origin, direction in zip(self.parameters, self.origins, self.directions, strict=True):
                torch.add(origin, direction, alpha=step, out=parameter)
            return
        else:
            torch._foreach_copy_(self.parameters, self.origins)
        torch._foreach_add_(self.parameters, self.directions, alpha=step)

    def home(self) -> None:
        """Put the parameters back, exactly."""
        if self.away:
            torch.clear_autocast_cache()
            torch._foreach_copy_(self.parameters, self.origins)
            self.away = False

    def moves(self, parameters: list[Tensor]) -> bool:
        """Whether it is these parameters that move (by identity: tensors have no plain equality)."""
        return list(map(id, parameters)) == list(map(id, self.parameters))

    def directions_of(self, parameters: list[Tensor]) -> list[Tensor]:
        """The parts of the direction that belong to some parameters; zeros for those that do not move."""
        if self.moves(parameters):
            return self.directions
        parts = dict(zip(map(id, self.parameters), self.directions, strict=True))
        return [parts[id(p)] if id(p) in parts else torch.zeros_like(p) for p in parameters]

    def others(self, parameters: Iterable[Tensor]) -> list[Tensor]:
        """Those of some parameters that do not move."""
        moving = set(map(id, self.parameters))
        return [parameter for parameter in parameters if id(parameter) not in moving]

    def measure(self, gradients: Gradients, *more: Tensor) -> tuple[float, float, list[float]]:
        """The gradient's length, its slope along the line, and `more` scalars, in one transfer.

        A parameter that does not move adds nothing to the slope.
        """
        along = self.directions_of(gradients.parameters)
        if self._pair and along is self.directions:
            norm, slope, *values = self._pair.measure(gradients.tensors, more)
            if 0.0 < norm < math.inf:
                return norm, slope, values
        return measure(gradients.tensors, along, *more)


class _Pair:
    """Direction and gradient of few numbers side by side, so that two calls give all there is to know.

    For a small model on a CPU the calls cost more than the arithmetic, and one more copy of it costs nothing.
    """

    def __init__(self, parameters: list[Tensor]) -> None:
        sizes = [parameter.numel() for parameter in parameters]
        self.rows = torch.zeros(2, sum(sizes), dtype=parameters[0].dtype, device=parameters[0].device)
        parts = [row.split(sizes) for row in self.rows]
        self.directions, self.gradients = [
            [part.view(parameter.shape) for part, parameter in zip(row, parameters, strict=True)] for row in parts
        ]

    @staticmethod
    def suits(parameters: list[Tensor]) -> bool:
        """Whether the parameters are few numbers, of one sort, on a CPU."""
        sort = parameters[0].dtype
        return (
            sort in (torch.float32, torch.float64)
            and all(p.is_cpu and p.dtype == sort for p in parameters)
            and sum(p.numel() for p in parameters) <= _SMALL
        )

    def measure(self, gradients: list[Tensor], more: tuple[Tensor, ...]) -> list[float]:
        torch._foreach_copy_(self.gradients, gradients)
        numbers = torch.mv(self.rows, self.rows[1])
        slope, square, *values = (torch.cat((numbers, torch.stack(more))) if more else numbers).tolist()
        return [math.sqrt(square), slope, *values]


def measure(vectors: Sequence[Tensor], others: Sequence[Tensor], *more: Tensor) -> tuple[float, float, list[float]]:
    """The length of a vector, its inner product with another, and `more` scalars, in one transfer.

    Both vectors come as their parts, one for each parameter; without `others` the product is 0.
    """
    measured = _measure(vectors, others, more)
    if not 0.0 < measured[0] < math.inf and vectors[0].dtype != torch.float64 and vectors[0].device.type != "mps":
        # Squares overflow and underflow long before lengths do; only then is it worth the time to look closer.
        measured = _measure([part.double() for part in vectors], [other.double() for other in others], more)
    return measured


def _measure(
    vectors: Sequence[Tensor], others: Sequence[Tensor], more: Sequence[Tensor]
) -> tuple[float, float, list[float]]:
    count = len(vectors)
    products = [_dot(part, other) for part, other in zip(vectors, others, strict=False)]
    if single_pass(vectors):
        numbers = _to_host([*(_dot(part, part) for part in vectors), *products, *more])
        norm = math.sqrt(sum(numbers[:count]))
    else:
        precise = torch.float32 if any(part.dtype in _HALF for part in vectors) else None
        numbers = _to_host([*torch._foreach_norm(list(vectors), 2, precise), *products, *more])
        norm = math.hypot(*numbers[:count])
    end = count + len(products)
    return norm, sum(numbers[count:end]), numbers[end:]


def _dot(left: Tensor, right: Tensor) -> Tensor:
    """An inner product, in float32 at least: half precision would lose the digits of the sum."""
    if left.dtype in _HALF:
        left, right = left.float(), right.float()
    return torch.dot(left.reshape(-1), right.reshape(-1))


def _to_host(scalars: Sequence[Tensor]) -> list[float]:
    """All scalars in one transfer."""
    device = scalars[0].device
    numbers: list[float] = torch.stack([scalar.to(device) for scalar in scalars]).tolist()
    return numbers
