"""The line x0 + α d through parameter space.

Parameters are always set to x0 + α d from the saved x0, never by increments: nothing drifts and the way back is exact.

On an accelerator launching kernels is what costs, so the work is done in torch's foreach kernels. On a CPU memory
traffic costs, so there one pass over each tensor does what takes foreach two (`single_pass`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradline.torch.distributed.sharded import is_sharded, local
from gradline.torch.measuring import LocalReduce, single_pass
from gradline.torch.private import foreach_add_, foreach_copy_, version

_SMALL = 2**12
_EACH = 2**10


class Gradients(NamedTuple):
    """The parameters that have a gradient now, and their gradients; of sharded ones the parts that are here."""

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

    `aimed` tells whether the direction has been set. Of sharded parameters all this is about the parts that are here.
    """

    def __init__(self, parameters: list[Tensor], ranks: LocalReduce | None = None) -> None:
        self.parameters = parameters
        self.sharded = any(map(is_sharded, parameters))
        self.ranks = ranks or LocalReduce()
        parts = self.parts
        self.origins = [part.detach().clone() for part in parts]
        self._pair = _Pair(parts) if self.ranks.size == 1 and _Pair.suits(parts) else None
        self.directions = self._pair.directions if self._pair else [torch.zeros_like(part) for part in parts]
        self.away = False
        self.aimed = False
        self._shortest = max(torch.finfo(parameter.dtype).tiny for parameter in parameters)
        self._longest = min(torch.finfo(parameter.dtype).max for parameter in parameters)
        # A quarter of the distance between the two largest numbers: a finite number plus less than half stays finite.
        self._harmless = min(info.max * info.eps / 8.0 for info in (torch.finfo(p.dtype) for p in parameters))

    @property
    def parts(self) -> list[Tensor]:
        """The tensors that are moved: the parameters, or the parts of sharded ones that are here, as they are now."""
        return [local(parameter) for parameter in self.parameters] if self.sharded else self.parameters

    @classmethod
    def restored(
        cls,
        parameters: list[Tensor],
        origins: list[Tensor],
        directions: list[Tensor],
        *,
        away: bool,
        aimed: bool = True,
        ranks: LocalReduce | None = None,
    ) -> Line:
        """A line as it was saved, in buffers of its own: what was saved may still be in use elsewhere."""
        line = cls(parameters, ranks)
        with torch.no_grad():
            foreach_copy_(line.origins, origins)
            foreach_copy_(line.directions, directions)
        line.away, line.aimed = away, aimed
        return line

    def among(self, ranks: LocalReduce) -> Line:
        """The same line, measured together with other processes."""
        if ranks is self.ranks:
            return self
        return self._again(ranks)

    def conforming(self) -> Line:
        """The same line for parameters that have another type or device now; itself where they have not."""
        same = True
        for parameter, part, origin in zip(self.parameters, self.parts, self.origins, strict=True):
            if part.shape != origin.shape:
                raise RuntimeError(
                    f"parameters must keep their shapes (the search moves them along its line), but one of shape "
                    f"{tuple(origin.shape)} has {tuple(parameter.shape)} now; build a new optimizer for it"
                )
            same = same and part.dtype == origin.dtype and part.device == origin.device
        return self if same else self._again(self.ranks)

    def _again(self, ranks: LocalReduce) -> Line:
        return Line.restored(
            self.parameters, self.origins, self.directions, away=self.away, aimed=self.aimed, ranks=ranks
        )

    def __reduce__(self) -> tuple[Any, ...]:
        build = partial(Line.restored, away=self.away, aimed=self.aimed)
        return build, (self.parameters, self.origins, self.directions)

    def leave(self) -> None:
        """Save where the parameters are, before they are moved."""
        foreach_copy_(self.origins, self.parts)
        self.away = True

    def go(self, step: float) -> None:
        """Put the parameters at x0 + step · d."""
        torch.clear_autocast_cache()  # it may hold the weights as they were
        fresh = not self.away
        if fresh:
            self.leave()
        parts = self.parts
        if not self._representable(step):
            for part, origin, direction in zip(parts, self.origins, self.directions, strict=True):
                part.copy_(origin.double().add_(direction.double(), alpha=step))
        elif fresh or not single_pass(parts):
            if not fresh:
                foreach_copy_(parts, self.origins)
            foreach_add_(parts, self.directions, alpha=step)
        else:
            for part, origin, direction in zip(parts, self.origins, self.directions, strict=True):
                torch.add(origin, direction, alpha=step, out=part)
        self.ranks.moved()

    def home(self) -> None:
        """Put the parameters back, exactly."""
        if self.away:
            torch.clear_autocast_cache()
            foreach_copy_(self.parts, self.origins)
            self.away = False
            self.ranks.moved()

    def versions(self) -> list[tuple[int, int]] | None:
        """What tells whether somebody may have written to the parameters since; `None` where nothing does.

        It shows in-place operations and other storages (`p.data = …`), but not in-place operations on `p.data`.
        """
        return None if self.sharded else [(version(part), part.data_ptr()) for part in self.parameters]

    def is_at(self, step: float | None) -> bool:
        """Whether the parameters are x0 + step · d, to the last digit; x0 itself, without a step.

        Looks at every number. Of sharded parameters all processes must ask, and get the same answer.
        """
        places = zip(self.parts, self.origins, self.directions, strict=True)
        here = all(_same(part, self._place(origin, direction, step).to(part)) for part, origin, direction in places)
        return not self.ranks.any(not here) if self.sharded else here

    def is_finite(self, step: float, length: float) -> bool:
        """Whether x0 + step · d, where the parameters are now, is finite in their type, with ‖d‖ = `length`.

        Looks at them only where the step is so long that they may not be. All processes must ask.
        """
        if step * length < self._harmless:
            return True
        return not self.ranks.any(not all(bool(part.isfinite().all()) for part in self.parts))

    def _representable(self, step: float) -> bool:
        """Whether the parameters' type can hold a step."""
        return self._shortest <= step <= self._longest

    def _place(self, origin: Tensor, direction: Tensor, step: float | None) -> Tensor:
        """Where `go` puts a part; the origin without a step."""
        if step is None:
            return origin
        if not self._representable(step):
            return origin.double().add_(direction.double(), alpha=step).to(origin.dtype)
        return torch.add(origin, direction, alpha=step)

    def moves(self, parameters: list[Tensor]) -> bool:
        """Whether it is these parameters that move (by identity: tensors have no plain equality)."""
        return list(map(id, parameters)) == list(map(id, self.parameters))

    def directions_of(self, parameters: list[Tensor]) -> list[Tensor]:
        """The parts of the direction that belong to some parameters; zeros for those that do not move."""
        if self.moves(parameters):
            return self.directions
        parts = dict(zip(map(id, self.parameters), self.directions, strict=True))
        return [parts[id(p)] if id(p) in parts else torch.zeros_like(local(p)) for p in parameters]

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
            if 0.0 < norm < math.inf and math.isfinite(slope):
                return norm, slope, values
        return self.ranks.measure(gradients.parameters, gradients.tensors, along, *more)

    def measure_direction(self, gradients: Gradients) -> tuple[float, float]:
        """The direction's length, and the slope along it at a gradient of the parameters that move."""
        length, slope, _ = self.ranks.measure(self.parameters, self.directions, gradients.tensors)
        return length, slope


class _Pair:
    """Direction and gradient of few numbers side by side, so that two calls give all there is to know.

    For a small model on a CPU, or one in small pieces, the calls cost more than the arithmetic, and one more copy of it
    costs little.
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
        """Whether the parameters are few numbers, or few numbers each, of one sort, on a CPU."""
        sort = parameters[0].dtype
        return (
            sort in (torch.float32, torch.float64)
            and all(p.is_cpu and p.dtype == sort for p in parameters)
            and sum(p.numel() for p in parameters) <= max(_SMALL, _EACH * len(parameters))
        )

    def measure(self, gradients: list[Tensor], more: tuple[Tensor, ...]) -> list[float]:
        foreach_copy_(self.gradients, gradients)
        numbers = torch.mv(self.rows, self.rows[1])
        slope, square, *values = (torch.cat((numbers, torch.stack(more))) if more else numbers).tolist()
        return [math.sqrt(square), slope, *values]


def _same(left: Tensor, right: Tensor) -> bool:
    """Whether all numbers are the same; NaN is NaN."""
    return torch.equal(left, right) or torch.allclose(left, right, rtol=0.0, atol=0.0, equal_nan=True)
