"""Buckets: parameters that one kernel updates together, and the tensors of `Angle` that belong to them.

All tensors are in the optimizer's `state`, from which torch makes checkpoints; a bucket holds lists of them. On a CPU,
where calls cost more than arithmetic for small tensors, small parameters are *packed*: each kind of tensor is one flat
tensor, of which `state` has views, and parameters and gradients are copied from and to flat tensors in each step.
Other buckets make no copies: temporary tensors are of the size of a piece of a parameter at most.

The parameters are at y = (1 - β) z + β x, where z is the iterate, which Adam's updates move, and x the average of all
iterates. x is not stored: it is computed from y and z where it is needed, except in half precision and for β < 0.5,
where that would lose digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradline.torch.distributed.sharded import is_sharded, local, local_gradient, whole
from gradline.torch.measuring import (
    HALF,
    LocalReduce,
    dot,
    in_memory_order,
    is_small,
    pieces,
    to_host,
    views_of,
)
from gradline.torch.private import foreach_add_, foreach_copy_, foreach_lerp_, foreach_mul_, foreach_zero_, fused_adamw_

SQUARE, AGE = "exp_avg_sq", "step"
ORIGIN, DISPLACEMENT, ITERATE, AVERAGE = "origin", "displacement", "iterate", "average"
EXACT = "exact_average"
"""The average (or origin) in a checkpoint made in `eval()`, where the tensor of that name is the point of training."""


class Bucket:
    """Parameters of one group, dtype, device and number of updates, and their tensors.

    Between `collect` and `release` it has the current points and gradients (of sharded parameters, the local shards).
    """

    def __init__(self, group: dict[str, Any], parameters: list[Tensor], state: Mapping[Tensor, Any]) -> None:
        self.group, self.parameters = group, parameters
        self.sharded = any(map(is_sharded, parameters))
        self.sort = (parameters[0].dtype, parameters[0].device)
        self.largest = torch.finfo(self.sort[0]).max / 4.0
        self.points: list[Tensor] = []
        self.gradients: list[Tensor] = []
        self._hold(state)
        self._age = state[parameters[0]][AGE].to(parameters[0].device, torch.float32, copy=True)
        for parameter in parameters:  # one tensor for all of them
            state[parameter][AGE] = self._age
        self._ages = [self._age] * len(self.squares)

    def _hold(self, state: Mapping[Tensor, Any]) -> None:
        """Set the lists of tensors from the state, in the memory layout of the parameters, which kernels rely on."""
        points = [local(parameter).detach() for parameter in self.parameters]
        self._strides = [point.stride() for point in points]
        # A parameter with gaps in memory, such as every other column, has no tensors of its layout, nor a gradient.
        self._layouts = [torch.empty_like(point, device="meta").stride() for point in points]
        self._fused = self._layouts == self._strides
        self._contiguous = all(map(Tensor.is_contiguous, points))

        def held(name: str) -> list[Tensor]:
            if name not in state[self.parameters[0]]:
                return []
            for parameter, point, layout in zip(self.parameters, points, self._layouts, strict=True):
                tensor = local(state[parameter][name])
                if tensor.stride() != layout:
                    copied = torch.empty_like(point, dtype=tensor.dtype).copy_(tensor)
                    state[parameter][name] = whole(copied, parameter)
            return [local(state[parameter][name]) for parameter in self.parameters]

        self.squares, self.origins, self.displacements, self.iterates, self.averages = map(
            held, (SQUARE, ORIGIN, DISPLACEMENT, ITERATE, AVERAGE)
        )

    def collect(self) -> bool:
        """Get the current points and gradients; return False if one is missing, or dtype, device or layout changed."""
        dtype, device = self.sort
        if self.parameters[0].device != device:
            return False
        gradients: list[Any] = []
        for parameter in self.parameters:
            gradient = parameter.grad
            if gradient is None or gradient.is_sparse or parameter.dtype != dtype:
                return False
            gradients.append(gradient)
        return self._take(gradients)

    def _take(self, gradients: list[Tensor]) -> bool:
        """Set points and gradients; return False if the memory layout of a parameter has changed."""
        points = self.parameters
        if self.sharded:
            points = [local(parameter) for parameter in self.parameters]
            gradients = [local_gradient(p, g) for p, g in zip(self.parameters, gradients, strict=True)]
        for place, (point, gradient, stride) in enumerate(zip(points, gradients, self._strides, strict=True)):
            if point.stride() != stride:
                return False
            if gradient.stride() != self._layouts[place]:
                gradients[place] = torch.empty_like(point).copy_(gradient)
        self.points, self.gradients = points, gradients
        return True

    def release(self) -> None:
        """End the use of points and gradients: the parameters have the new values, and no gradient is kept alive."""
        self.gradients = []

    def measure(self) -> tuple[float, float, float] | None:
        """Return g·g, g·u and u·u if there is a quicker way than the general one."""
        return None

    def aim(self, factor: float = 1.0) -> None:
        """Save the points as origins, and compute Adam's direction in place of the displacement.

        It is the direction of the gradients times a factor.
        """
        self.save()
        self.forget()
        self._update(self.displacements, 1.0, decay=0.0, factor=factor)
        decay = self.group["weight_decay"] * self.group["lr_scale"]
        if decay:
            _add(self.displacements, self.points, -decay)

    def to_probe(self, step: float) -> None:
        """Move to a step along the direction."""
        self.go_back()
        _add(self.points, self.displacements, step)

    def go_back(self) -> None:
        """Move to the origins."""
        foreach_copy_(self.points, self.origins)

    def forget(self) -> None:
        """Set the displacement to zero, and begin the average anew at the points."""
        foreach_zero_(self.displacements)
        self._begin_average()

    def accept_probe(self, step: float) -> None:
        """Make the displacement of the direction, and begin the average at the points."""
        foreach_mul_(self.displacements, step)
        self._begin_average()

    def _begin_average(self) -> None:
        for tensors in filter(None, (self.iterates, self.averages)):
            foreach_copy_(tensors, self.points)

    def save(self) -> None:
        """Save the points as origins."""
        foreach_copy_(self.origins, self.points)

    def move(self, step: float, number: int, factor: float = 1.0) -> None:
        """Take a step of some number: Adam's update, by the gradients times a factor, of the iterates.

        Points and displacement follow the iterates.
        """
        # A step so long that decay would turn the signs of the weights sets them to Adam's update alone.
        decay, length = self.group["weight_decay"], step * self.group["lr_scale"]
        decay = decay if decay * length <= 1.0 else 1.0 / length
        beta, weight = self.group["betas"][0], weight_of(number)
        if self.averages:
            self._update(self.iterates, step, decay=decay, factor=factor)
            for point, iterate, average in _pieces(self.points, self.iterates, self.averages):
                average.lerp_(iterate, weight)
                point.copy_(average.lerp(iterate, 1.0 - beta))
        else:
            foreach_lerp_(self.points, self.iterates, 1.0 - 1.0 / beta)  # to the averages
            self._update(self.iterates, step, decay=decay, factor=factor)
            foreach_lerp_(self.points, self.iterates, 1.0 - beta * (1.0 - weight))
        self._displace(number)

    def halve(self, number: int, part: float) -> None:
        """Go back half of the step of some number, of which a part is left: points, iterates and averages.

        With x₁ and z₁ before the step and c the weight of its iterate: x = (1 - part c) x₁ - (1 - part) c z₁ + c z.
        """
        _add(self.displacements, self.points, -number)
        beta, weight = self.group["betas"][0], weight_of(number)
        rest = (1.0 - part) * weight / (1.0 - beta)
        scale = 1.0 - part * weight + rest * beta
        lists = [self.points, self.origins, self.iterates, *filter(None, [self.averages])]
        for point, origin, iterate, *stored in _pieces(*lists):
            average = stored[0] if stored else point.lerp(iterate, 1.0 - 1.0 / beta)
            average_before = average.sub(iterate, alpha=weight).add_(origin, alpha=rest).div_(scale)
            iterate_before = origin.sub(average_before, alpha=beta).div_(1.0 - beta)
            half = (point != origin).to(iterate.dtype).mul_(0.5)  # 0 where there was no gradient, and nothing moved
            iterate.lerp_(iterate_before, half)
            if stored:
                average.lerp_(average_before, half)
            point.lerp_(origin, 0.5)
        _add(self.displacements, self.points, number)

    def _displace(self, number: int) -> None:
        """Add the step of some number, multiplied by it, to the displacement."""
        if self.displacements[0].dtype == self.sort[0]:
            foreach_add_(self.displacements, self.points, alpha=number)
            foreach_add_(self.displacements, self.origins, alpha=-number)
        else:
            for displacement, point, origin in _pieces(self.displacements, self.points, self.origins):
                displacement.add_(point, alpha=number).sub_(origin, alpha=number)

    def _update(self, targets: list[Tensor], step: float, *, decay: float, factor: float) -> None:
        """Add AdamW's update to some tensors: to the iterates, or to zeros, which gives the direction."""
        self._age.add_(1.0)
        gradients, squares = self.gradients, self.squares
        if factor == 1.0 and self._fused and targets[0].dtype == self.sort[0]:
            if not self._contiguous:  # the kernel of CPUs copies such tensors
                rows = zip(targets, gradients, squares, strict=True)
                flat = zip(*(in_memory_order(*row) or row for row in rows), strict=True)
                targets, gradients, squares = map(list, flat)
            self._adamw(targets, gradients, squares, step, decay)
            return
        for target, gradient, square in _pieces(targets, gradients, squares):
            converted = square.to(target.dtype)  # itself, unless the parameter is in half precision
            self._adamw([target], [gradient.to(target.dtype) * factor], [converted], step, decay)
            if converted is not square:
                square.copy_(converted)

    def _adamw(
        self, targets: list[Tensor], gradients: list[Tensor], squares: list[Tensor], step: float, decay: float
    ) -> None:
        group = self.group
        fused_adamw_(
            targets,
            gradients,
            gradients,  # the first moment, without momentum: the gradient itself
            squares,
            self._ages[: len(targets)],
            lr=step * group["lr_scale"],
            beta1=0.0,
            beta2=group["betas"][1],
            eps=group["eps"],
            weight_decay=decay,
            fused=self._fused,
        )


class Idle(Bucket):
    """A bucket of parameters without a gradient, which stay where they are; a line search moves them along its line."""

    def collect(self) -> bool:
        self.points = list(map(local, self.parameters))
        return all((point.dtype, point.device) == self.sort for point in self.points)

    def aim(self, factor: float = 1.0) -> None:
        self.save()
        self._begin_average()

    def forget(self) -> None:
        foreach_zero_(self.displacements)

    def accept_probe(self, step: float) -> None:
        foreach_mul_(self.displacements, step)
        self._begin_average()

    def move(self, step: float, number: int, factor: float = 1.0) -> None:
        pass


class Packed(Bucket):
    """A bucket of small parameters on a CPU, in flat tensors. Its methods are those of `Bucket`, on one tensor each."""

    def _hold(self, state: Mapping[Tensor, Any]) -> None:
        size = sum(map(Tensor.numel, self.parameters))
        pair = self.parameters[0].new_empty(2, size)  # gradient and displacement
        flat = torch.empty_like(pair[0])

        def packed(name: str, whole: Tensor | None = None) -> list[Tensor]:
            if name not in state[self.parameters[0]]:
                return []
            whole = torch.empty_like(flat) if whole is None else whole
            for parameter, view in zip(self.parameters, views_of(whole, self.parameters), strict=True):
                state[parameter][name] = view.copy_(state[parameter][name])
            return [whole]

        self._pair, self._transposed = pair, pair.t()
        self._points, self._gradients = views_of(flat, self.parameters), views_of(pair[0], self.parameters)
        self._flat, self._gradient = [flat], [pair[0]]
        self.displacements = packed(DISPLACEMENT, pair[1])
        self.squares, self.origins, self.iterates, self.averages = map(packed, (SQUARE, ORIGIN, ITERATE, AVERAGE))
        self._point, self._origin, self._displacement = flat, self.origins[0], pair[1]
        self._fused = self._contiguous = True

    def _take(self, gradients: list[Tensor]) -> bool:
        foreach_copy_(self._points, self.parameters)
        foreach_copy_(self._gradients, gradients)
        self.points, self.gradients = self._flat, self._gradient
        return True

    def release(self) -> None:
        foreach_copy_(self.parameters, self._points)

    def measure(self) -> tuple[float, float, float] | None:
        (gg, gu), (_, uu) = torch.mm(self._pair, self._transposed).tolist()
        return gg, gu, uu

    def save(self) -> None:
        self._origin.copy_(self._point)

    def _displace(self, number: int) -> None:
        self._displacement.add_(self._point, alpha=number).sub_(self._origin, alpha=number)


def dtype_of(name: str, parameter: Tensor) -> torch.dtype:
    """Return the dtype of a parameter's tensor of some name.

    Iterate, average and displacement are sums of small terms, which half precision would lose.
    """
    precise = name in (ITERATE, AVERAGE, DISPLACEMENT, EXACT)
    return torch.float32 if precise and parameter.dtype in HALF else parameter.dtype


def weight_of(number: int) -> float:
    """Return the weight of the iterate of some number, from 1, in the average of those so far: k³/(1³ + … + k³)."""
    return 4.0 * number / (number + 1.0) ** 2


def stores_average(parameter: Tensor, group: Mapping[str, Any]) -> bool:
    """Return whether the average of a parameter is stored: else it is computed from the parameter and its iterate."""
    beta: float = group["betas"][0]
    return parameter.dtype in HALF or beta < 0.5


def average_of(point: Tensor, held: Mapping[str, Tensor], group: Mapping[str, Any]) -> Tensor:
    """Return the average of a parameter at a point, from its state; of a sharded one, the local shard."""
    return set_to_average(torch.empty_like(local(held[ITERATE])), point, held, group)


def set_to_average(target: Tensor, point: Tensor, held: Mapping[str, Tensor], group: Mapping[str, Any]) -> Tensor:
    """Set a tensor to the average of a parameter at a point, and return it."""
    if AVERAGE in held:
        return target.copy_(local(held[AVERAGE]))
    target.copy_(local(held[ITERATE]))
    beta: float = group["betas"][0]
    for part, here, iterate in pieces(target, point, local(held[ITERATE])) if beta else ():
        part.copy_(iterate.lerp(here.to(iterate.dtype), 1.0 / beta))
    return target


def buckets_of(groups: Sequence[dict[str, Any]], moving: set[int], state: Mapping[Tensor, Any]) -> list[Bucket]:
    """Return the parameters that have a state in buckets; those whose ids are not in `moving` are idle."""
    known = [parameter for group in groups for parameter in group["params"] if ORIGIN in state.get(parameter, {})]
    ages = dict(zip(map(id, known), to_host([state[parameter][AGE].view(()) for parameter in known]), strict=True))
    buckets = []
    for group in groups:
        alike: dict[Any, list[Tensor]] = {}
        for parameter in group["params"]:
            if id(parameter) in ages:
                age, averaged = ages[id(parameter)], AVERAGE in state[parameter]
                sort = (parameter.dtype, parameter.device, is_sharded(parameter), age, averaged)
                alike.setdefault((id(parameter) not in moving, *sort), []).append(parameter)
        for (idle, _, _, sharded, *_), parameters in alike.items():
            kind = Idle if idle else Packed if not sharded and is_small(parameters) else Bucket
            buckets.append(kind(group, parameters, state))
    return buckets


def measured(buckets: Sequence[Bucket], ranks: LocalReduce, *more: Tensor) -> tuple[float, float, float, list[float]]:
    """Return g·g, g·u and u·u of the gradient g and the displacement (or direction) u, and more, in one transfer."""
    moving = [bucket for bucket in buckets if bucket.gradients]
    if len(moving) == 1 and ranks.size == 1:
        numbers = moving[0].measure()
        if numbers is not None and 0.0 < numbers[0] < float("inf") and numbers[2] < float("inf"):
            return *numbers, to_host(more)
    return ranks.gram(
        [parameter for bucket in moving for parameter in bucket.parameters[: len(bucket.gradients)]],  # 1 if packed
        [gradient for bucket in moving for gradient in bucket.gradients],
        [part for bucket in moving for part in bucket.displacements],
        *more,
    )


def slope_along_step(buckets: Sequence[Bucket], ranks: LocalReduce) -> float:
    """Return the inner product of the gradient and the last step."""
    parameters, products = [], []
    for bucket in buckets:
        # A packed bucket has one gradient for all its parameters; an idle one has none.
        for parameter, gradient, point, origin in zip(
            bucket.parameters, bucket.gradients, bucket.points, bucket.origins, strict=False
        ):
            for slope, here, there in pieces(gradient, point, origin):
                parameters.append(parameter)
                products.append(dot(slope, here - there))
    return ranks.total(parameters, products)


def _pieces(*lists: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Yield corresponding pieces of the tensors in some lists."""
    for tensors in zip(*lists, strict=True):
        yield from pieces(*tensors)


def _add(targets: list[Tensor], others: list[Tensor], factor: float) -> None:
    """Add other tensors times a factor; a CPU converts those of another dtype before."""
    if targets[0].dtype == others[0].dtype:
        foreach_add_(targets, others, alpha=factor)
    else:
        for target, other in _pieces(targets, others):
            target.add_(other, alpha=factor)


def add_state(parameter: Tensor, held: dict[str, Any], group: Mapping[str, Any]) -> None:
    """Add the tensors of a parameter that are missing in its state."""
    part = local(parameter).detach()
    held.setdefault(AGE, torch.zeros((), dtype=torch.float32, device=part.device))
    for name in (SQUARE, DISPLACEMENT):
        if name not in held:
            held[name] = whole(torch.zeros_like(part, dtype=dtype_of(name, part)), parameter)
    for name in (ORIGIN, ITERATE):
        if name not in held:
            held[name] = whole(part.to(dtype_of(name, part), copy=True), parameter)
    if AVERAGE not in held and stores_average(parameter, group):
        held[AVERAGE] = whole(average_of(part, held, group), parameter)
