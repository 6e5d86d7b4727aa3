"""Move a model's parameters during a scan, and restore them.

Parameters are set to x0 + a·d1 + b·d2 from a copy of x0, never by increments, and restored bit for bit at the end, also
after an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gradline.torch.snapshot import Snapshot


class Point:
    """Trainable parameters with their names, and a snapshot of everything that an evaluation changes."""

    def __init__(self, model: nn.Module | Iterable[Tensor]) -> None:
        self.modules: list[nn.Module] = []
        if isinstance(model, nn.Module):
            self.modules = list(model.modules())
            named: list[tuple[str, Tensor]] = list(model.named_parameters())
        elif isinstance(model, Tensor):
            raise TypeError("model must be a module or a list of parameters, got one tensor: write [parameter]")
        else:
            try:
                named = [(str(place), parameter) for place, parameter in enumerate(model)]
            except TypeError:
                raise TypeError(f"model must be a module or parameters, got {type(model).__name__}") from None
        self.names = [name for name, parameter in named if _moves(parameter)]
        self.parameters = [parameter for _, parameter in named if _moves(parameter)]
        if not self.parameters:
            raise ValueError("model must have a parameter that requires a gradient (it is what moves), got none")
        self._snapshot = Snapshot(self.parameters, self.modules)
        self.origins = self._snapshot.values

    @contextmanager
    def visited(self, seed: int) -> Iterator[None]:
        """Context manager that enables gradients and seeds torch's generators; restores everything at exit."""
        try:
            with self._snapshot.with_gradients():
                torch.manual_seed(seed)
                yield
        finally:
            self.home()

    def go(self, moves: Sequence[tuple[float, Sequence[Tensor]]]) -> None:
        """Set the parameters to x0 + Σ step · direction."""
        for place, (parameter, origin) in enumerate(zip(self.parameters, self.origins, strict=True)):
            parameter.data.copy_(origin)
            for step, direction in moves:
                parameter.data.add_(direction[place], alpha=step)

    def reset_buffers(self) -> None:
        """Restore buffers that an evaluation changed, such as BatchNorm's running statistics."""
        self._snapshot.restore_buffers()

    def home(self) -> None:
        """Restore parameters and buffers."""
        self._snapshot.restore()


def _moves(parameter: Any) -> bool:
    if not isinstance(parameter, Tensor):
        raise TypeError(f"model must be a module or parameters, got a {type(parameter).__name__} among them")
    return parameter.requires_grad
