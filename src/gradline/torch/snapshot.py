"""A copy of everything that evaluations of a model change, and the way back, bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gradline.torch.private import own_buffers

__all__ = ["Snapshot"]


class Snapshot:
    """Copies of some parameters and of a model's buffers.

    They are written to through `.data`, so that a graph which waits for its backward pass stays good.

    Args:
        parameters: what is moved.
        modules: whose buffers are changed.
    """

    def __init__(self, parameters: Sequence[Tensor], modules: Iterable[nn.Module] = ()) -> None:
        self.parameters = list(parameters)
        self.values = [parameter.detach().clone() for parameter in self.parameters]
        self._buffers = [
            (module, name, buffer, buffer.detach().clone())
            for module in modules
            for name, buffer in own_buffers(module).items()
            if buffer is not None
        ]

    def restore(self) -> None:
        """Put parameters and buffers back."""
        for parameter, value in zip(self.parameters, self.values, strict=True):
            parameter.data.copy_(value)
        self.restore_buffers()

    def restore_buffers(self) -> None:
        """Put buffers back, such as the running statistics of BatchNorm."""
        for module, name, buffer, was in self._buffers:
            own_buffers(module)[name] = buffer
            buffer.data.copy_(was)

    @contextmanager
    def with_gradients(self) -> Iterator[None]:
        """Switch gradients on; afterwards torch's generators of random numbers are as they were."""
        devices = sorted({p.device.index or 0 for p in self.parameters if p.device.type == "cuda"})
        with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.enable_grad():
            yield
