"""The line x0 + α d through parameter space.

Parameters are always set to x0 + α d from the saved x0, never by increments, so that they do not drift and are restored
exactly.

On accelerators, where kernel launches dominate, torch's foreach kernels are used. On CPUs, where memory traffic
dominates, each tensor is processed in one pass (`single_pass`); foreach kernels would need two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from operator import attrgetter, is_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradline.torch.distributed.sharded import is_sharded, local
from gradline.torch.measuring import LocalReduce, is_small, single_pass, views_of
from gradline.torch.private import foreach_add_, foreach_copy_, foreach_neg_, version


class Gradients(NamedTuple):
    """Parameters that have a gradient, and their gradients (of sharded parameters, the local shards)."""

    parameters: list[Tensor]
    tensors: list[Tensor]

    def cloned(self) -> Gradients:
        """Return a copy that later evaluations do not overwrite."""
        return Gradients(self.parameters, [gradient.clone() for gradient in self.tensors])

    def release(self) -> None:
        """Set `.grad` of the parameters to `None`, so that nothing writes to these gradients."""
        for parameter in self.parameters:
            parameter.grad = None


class Line:
    """Parameters, the direction they move along, and a copy of their origin (valid while `away`).

    `aimed` is true once the direction has been set. Of sharded parameters the tensors are the local shards.
    """

    def __init__(self, parameters: list[Tensor], ranks: LocalReduce | None = None) -> None:
        self.parameters = parameters
        self.sharded = any(map(is_sharded, parameters))
        self.ranks = ranks or LocalReduce()
        parts = self.parts
        self.origins = [part.detach().clone() for part in parts]
        self._pair = _Pair(parts) if not self.sharded and is_small(parts) else None
        self.directions = self._pair.directions if self._pair else [torch.zeros_like(part) for part in parts]
        self.away = False
        self.aimed = False
        self._kinds = list(map(_kind, parts))
        self._single = single_pass(parts) and not self._pair
        self._shortest = max(torch.finfo(parameter.dtype).tiny for parameter in parameters)
        self._longest = min(torch.finfo(parameter.dtype).max for parameter in parameters)
        # A quarter of the gap between the two largest numbers: a finite number plus less than half of it stays finite.
        self._harmless = min(info.max * info.eps / 8.0 for info in (torch.finfo(p.dtype) for p in parameters))

    @property
    def parts(self) -> list[Tensor]:
        """The tensors that are moved: the parameters, or the local shards of sharded ones."""
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
        """Return a saved line with its own copies of the saved tensors."""
        line = cls(parameters, ranks)
        with torch.no_grad():
            foreach_copy_(line.origins, origins)
            foreach_copy_(line.directions, directions)
        line.away, line.aimed = away, aimed
        return line

    def conforms(self) -> bool:
        """Return whether the parameters have kept shape, dtype and device."""
        return list(map(_kind, self.parts)) == self._kinds

    def converted(self) -> Line:
        """Return the line converted to the parameters' current dtype and device."""
        for parameter, part, origin in zip(self.parameters, self.parts, self.origins, strict=True):
            if part.shape != origin.shape:
                raise RuntimeError(
                    f"parameters must keep their shapes (the search moves them along its line), but one of shape "
                    f"{tuple(origin.shape)} has {tuple(parameter.shape)} now; build a new optimizer for it"
                )
        return Line.restored(
            self.parameters, self.origins, self.directions, away=self.away, aimed=self.aimed, ranks=self.ranks
        )

    def __reduce__(self) -> tuple[Any, ...]:
        build = partial(Line.restored, away=self.away, aimed=self.aimed)
        return build, (self.parameters, self.origins, self.directions)

    def leave(self) -> None:
        """Save the current parameters as the origin, before they are moved."""
        foreach_copy_(self.origins, self.parts)
        self.away = True

    def go(self, step: float) -> None:
        """Set the parameters to x0 + step · d."""
        torch.clear_autocast_cache()  # it may hold old weights
        fresh = not self.away
        if fresh:
            self.leave()
        if self._pair:
            self._pair.release()
        parts = self.parts
        if not self._representable(step):
            for part, origin, direction in zip(parts, self.origins, self.directions, strict=True):
                part.copy_(origin.double().add(direction.double(), alpha=step))
        elif fresh or not self._single:
            if not fresh:
                foreach_copy_(parts, self.origins)
            foreach_add_(parts, self.directions, alpha=step)
        else:
            for part, origin, direction in zip(parts, self.origins, self.directions, strict=True):
                torch.add(origin, direction, alpha=step, out=part)
        self.ranks.moved()

    def home(self) -> None:
        """Set the parameters to the origin, exactly."""
        if self.away:
            torch.clear_autocast_cache()
            foreach_copy_(self.parts, self.origins)
            self.away = False
            self.ranks.moved()

    def versions(self) -> list[int] | None:
        """Return version counters and addresses that show writes to the parameters; `None` if they are sharded.

        They show in-place operations and new storages (`p.data = …`), but not in-place operations on `p.data`.
        """
        return None if self.sharded else [*map(version, self.parameters), *map(Tensor.data_ptr, self.parameters)]

    def is_at(self, step: float | None) -> bool:
        """Return whether the parameters equal x0 + step · d, or x0 if step is `None`, bit for bit.

        Compares every value. With sharded parameters all processes must call it and get the same answer.
        """
        places = zip(self.parts, self.origins, self.directions, strict=True)
        here = all(_same(part, self._place(origin, direction, step).to(part)) for part, origin, direction in places)
        return not self.ranks.any(not here) if self.sharded else here

    def is_finite(self, step: float, length: float) -> bool:
        """Return whether the current parameters, x0 + step · d with ‖d‖ = `length`, are finite.

        Checks the values only if the step is large enough for an overflow. All processes must call it.
        """
        if step * length < self._harmless:
            return True
        return not self.ranks.any(not all(bool(part.isfinite().all()) for part in self.parts))

    def _representable(self, step: float) -> bool:
        """Return whether a step is in range of the parameters' dtype."""
        return self._shortest <= step <= self._longest

    def _place(self, origin: Tensor, direction: Tensor, step: float | None) -> Tensor:
        """Return the values that `go` sets; the origin if step is `None`."""
        if step is None:
            return origin
        if not self._representable(step):
            return origin.double().add(direction.double(), alpha=step).to(origin.dtype)
        return torch.add(origin, direction, alpha=step)

    def moves(self, parameters: list[Tensor]) -> bool:
        """Return whether these are the parameters of the line (by identity)."""
        return len(parameters) == len(self.parameters) and all(map(is_, parameters, self.parameters))

    def directions_of(self, parameters: list[Tensor]) -> list[Tensor]:
        """Return the direction of some parameters; zeros for those that do not move."""
        if self.moves(parameters):
            return self.directions
        parts = dict(zip(map(id, self.parameters), self.directions, strict=True))
        return [parts[id(p)] if id(p) in parts else torch.zeros_like(local(p)) for p in parameters]

    def others(self, parameters: Iterable[Tensor]) -> list[Tensor]:
        """Return those of some parameters that do not move."""
        moving = set(map(id, self.parameters))
        return [parameter for parameter in parameters if id(parameter) not in moving]

    def aim_downhill(self, gradients: Gradients) -> None:
        """Set the direction to the negative gradient."""
        if self._pair:
            self._pair.aim_downhill(gradients.tensors)
        elif single_pass(self.directions):
            for direction, gradient in zip(self.directions, gradients.tensors, strict=True):
                torch.neg(gradient, out=direction)
        else:
            foreach_copy_(self.directions, gradients.tensors)
            foreach_neg_(self.directions)

    def measure(self, gradients: Gradients, *more: Tensor) -> tuple[float, float, list[float]]:
        """Return the length of the gradient, the slope along the line, and `more` scalars, in one transfer.

        Parameters that do not move do not contribute to the slope.
        """
        if self._pair and self.ranks.size == 1 and self.moves(gradients.parameters):
            slope, square, *values = self._pair.measure(gradients.tensors, more)
            if 0.0 < square < math.inf and math.isfinite(slope):
                return math.sqrt(square), slope, values
        along = self.directions_of(gradients.parameters)
        return self.ranks.measure(gradients.parameters, gradients.tensors, along, *more)

    def measure_direction(self, gradients: Gradients) -> tuple[float, float]:
        """Return the length of the direction and the slope along it for a gradient."""
        if self._pair and self.ranks.size == 1 and self.moves(gradients.parameters):
            square, slope = self._pair.measure_direction(gradients.tensors)
            if 0.0 < square < math.inf and math.isfinite(slope):
                return math.sqrt(square), slope
        length, slope, _ = self.ranks.measure(self.parameters, self.directions, gradients.tensors)
        return length, slope


class _Pair:
    """Direction and gradient in one matrix, so that two calls measure both.

    For small models on a CPU, calls take more time than arithmetic, and the additional copy is cheap.
    """

    def __init__(self, parameters: list[Tensor]) -> None:
        self._rows = parameters[0].new_zeros(2, sum(map(Tensor.numel, parameters)))
        self._products = parameters[0].new_zeros(2)
        self._direction, self._gradient = self._rows
        self.directions, self.gradients = (views_of(row, parameters) for row in self._rows)
        self._held: list[Tensor] | None = None  # the gradients that were copied last

    def take(self, gradients: list[Tensor]) -> None:
        """Copy the gradients, unless they were copied already."""
        if gradients is not self._held:
            self._held = None
            foreach_copy_(self.gradients, gradients)
            self._held = gradients

    def release(self) -> None:
        """Do not keep gradients alive."""
        self._held = None

    def aim_downhill(self, gradients: list[Tensor]) -> None:
        """Set the direction to the negative gradient."""
        self.take(gradients)
        torch.neg(self._gradient, out=self._direction)

    def measure_direction(self, gradients: list[Tensor]) -> tuple[float, float]:
        """Return d·d and d·g."""
        self.take(gradients)
        square, slope = torch.mv(self._rows, self._direction, out=self._products).tolist()
        return square, slope

    def measure(self, gradients: list[Tensor], more: tuple[Tensor, ...]) -> list[float]:
        """Return d·g, g·g and `more` scalars."""
        self.take(gradients)
        numbers = torch.mv(self._rows, self._gradient, out=self._products)
        values: list[float] = (torch.cat((numbers, torch.stack(more))) if more else numbers).tolist()
        return values


_kind = attrgetter("shape", "dtype", "device")


def _same(left: Tensor, right: Tensor) -> bool:
    """Return whether two tensors are equal, with NaN equal to NaN."""
    return torch.equal(left, right) or torch.allclose(left, right, rtol=0.0, atol=0.0, equal_nan=True)
