"""The parameters that a scan moves, and the directions that it moves them along.

Parameters are set to x0 + a·d1 + b·d2 from a copy of x0, never by increments, and restored bit for bit at the end, also
after an exception.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gradline.torch.measuring import widest
from gradline.torch.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class Weight:
    """The direction along a single weight, made by [`weight`][gradline.landscape.weight]."""

    parameter: str | Tensor
    index: tuple[int, ...]


Direction: TypeAlias = Weight | Tensor | NDArray[np.floating] | Sequence[Tensor] | Mapping[str, Tensor]
"""A direction: a list of tensors, one for each parameter that requires a gradient; a dict of tensors by parameter name
(others are zero); one vector of all weights; or a single [`weight`][gradline.landscape.weight]."""


def weight(parameter: str | Tensor, *index: int) -> Weight:
    """Return the direction along a single weight; a step is added to this weight.

    ```python
    import torch
    from gradline import landscape

    model = torch.nn.Sequential(torch.nn.Linear(4, 10), torch.nn.Sigmoid(), torch.nn.Linear(10, 3))
    to_the_first_unit = landscape.weight("0.weight", 0, 3)
    its_bias = landscape.weight(model[0].bias, 0)
    ```

    Args:
        parameter: the parameter, or its name in the module.
        index: the index of the weight in the parameter.
    """
    return Weight(parameter, index)


def random_directions(model: nn.Module | Iterable[Tensor], count: int = 2, *, seed: int = 0) -> list[list[Tensor]]:
    """Return random orthonormal directions, each a list of tensors.

    ```python
    import torch
    from gradline import landscape

    first, second = landscape.random_directions(torch.nn.Linear(3, 2), seed=1)
    assert abs(sum((a * b).sum() for a, b in zip(first, second))) < 1e-6
    ```
    """
    place = Point(model)
    if type(count) is not int or not 1 <= count <= place.weights:
        raise ValueError(f"count must be between 1 and the number of weights, {place.weights}, got {count!r}")
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(place.weights, count, generator=generator, dtype=torch.float64, device="cpu")
    perpendicular, _ = torch.linalg.qr(normal)
    return [_split(column, place.parameters) for column in perpendicular.T]


class Point(Snapshot):
    """Snapshot of everything that an evaluation changes: trainable parameters, with their names, and buffers."""

    def __init__(self, model: nn.Module | Iterable[Tensor]) -> None:
        super().__init__(model)
        self.weights = sum(parameter.numel() for parameter in self.parameters)

    def go(self, moves: Sequence[tuple[float, Sequence[Tensor]]]) -> None:
        """Set the parameters to x0 + Σ step · direction."""
        for place, (parameter, origin) in enumerate(zip(self.parameters, self.values, strict=True)):
            parameter.data.copy_(origin)
            for step, direction in moves:
                parameter.data.add_(direction[place], alpha=step)


def random_unit(place: Point, generator: torch.Generator) -> list[Tensor]:
    """Return a random direction of length 1, uniform over all directions."""
    vector = torch.randn(place.weights, generator=generator, dtype=torch.float64, device="cpu")
    return _split(vector / vector.norm(), place.parameters)


def resolve(direction: Any, place: Point, name: str = "direction") -> list[Tensor]:
    """Return a direction as one tensor for each parameter, of its shape, dtype and device."""
    parts = _parts(direction, place, name)
    for part, parameter, called in zip(parts, place.parameters, place.names, strict=True):
        if part.shape != parameter.shape:
            raise ValueError(
                f"{name} must have the shapes of the parameters, but for {called} it has {tuple(part.shape)} in place "
                f"of {tuple(parameter.shape)}"
            )
    found = [
        part.detach().to(device=parameter.device, dtype=parameter.dtype)
        for part, parameter in zip(parts, place.parameters, strict=True)
    ]
    length = norm(found)
    if not 0.0 < length < math.inf:
        raise ValueError(f"{name} must be finite and not zero (it leads somewhere), got one of length {length}")
    return found


def norm(parts: Sequence[Tensor]) -> float:
    """Return the length of a direction."""
    return math.hypot(*(float(torch.linalg.vector_norm(part, dtype=widest(part))) for part in parts))


def center_of(direction: Any, place: Point) -> float | None:
    """Return the current value of a single weight; `None` for other directions."""
    if not isinstance(direction, Weight):
        return None
    return float(place.parameters[_position(direction, place, "direction")].detach()[direction.index])


def _parts(direction: Any, place: Point, name: str) -> list[Tensor]:
    if isinstance(direction, Weight):
        parts = [torch.zeros_like(parameter) for parameter in place.parameters]
        position = _position(direction, place, name)
        parts[position][direction.index] = 1.0
        return parts
    if isinstance(direction, Mapping):
        for called in direction:
            _require_name(called, place, name)
        known = zip(place.names, place.parameters, strict=True)
        return [direction[called] if called in direction else torch.zeros_like(p) for called, p in known]
    if isinstance(direction, np.ndarray):
        direction = torch.from_numpy(direction)
    if isinstance(direction, Tensor):
        if len(place.parameters) == 1 and direction.shape == place.parameters[0].shape:
            return [direction]
        if direction.shape != (place.weights,):
            raise ValueError(
                f"{name} must have one number for each of the {place.weights} weights, got shape "
                f"{tuple(direction.shape)}"
            )
        return _split(direction, place.parameters)
    if isinstance(direction, str) or not isinstance(direction, Iterable):
        raise TypeError(f"{name} must be tensors, one for each parameter, or landscape.weight(...), got {direction!r}")
    parts = list(direction)
    if len(parts) != len(place.parameters) or not all(isinstance(part, Tensor) for part in parts):
        raise ValueError(
            f"{name} must have one tensor for each of the {len(place.parameters)} parameters that require a gradient, "
            f"got {len(parts)} of {', '.join(sorted({type(part).__name__ for part in parts})) or 'nothing'}"
        )
    return parts


def _position(direction: Weight, place: Point, name: str) -> int:
    """Return the index of the parameter that a weight belongs to."""
    parameter, index = direction.parameter, direction.index
    if isinstance(parameter, str):
        _require_name(parameter, place, name)
        position = place.names.index(parameter)
    else:
        positions = [number for number, one in enumerate(place.parameters) if one is parameter]
        if not positions:
            raise ValueError(f"{name} must be a weight of the model that requires a gradient, got one of another")
        position = positions[0]
    shape = tuple(place.parameters[position].shape)
    if len(index) != len(shape) or not all(-size <= number < size for number, size in zip(index, shape, strict=True)):
        raise ValueError(f"{name} must have an index of one weight in {place.names[position]} of {shape}, got {index}")
    return position


def _require_name(parameter: str, place: Point, name: str) -> None:
    if parameter not in place.names:
        raise ValueError(
            f"{name} must name a parameter that requires a gradient, got {parameter!r}; there are "
            f"{', '.join(place.names)}"
        )


def _split(vector: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    pieces = torch.split(vector, [parameter.numel() for parameter in parameters])
    return [
        piece.reshape(parameter.shape).to(device=parameter.device, dtype=parameter.dtype)
        for piece, parameter in zip(pieces, parameters, strict=True)
    ]
