"""Save and restore, bit for bit, everything that evaluations of a model change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gradline.torch.private import own_buffers

__all__ = ["Snapshot"]


class Snapshot:
    """Copies of some parameters and of a model's buffers.

    They are restored through `.data`, so that graphs still waiting for their backward pass remain valid.

    Args:
        parameters: the parameters to save.
        modules: the modules whose buffers to save.
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
        """Restore parameters and buffers."""
        for parameter, value in zip(self.parameters, self.values, strict=True):
            parameter.data.copy_(value)
        self.restore_buffers()

    def restore_buffers(self) -> None:
        """Restore buffers, such as BatchNorm's running statistics."""
        for module, name, buffer, was in self._buffers:
            own_buffers(module)[name] = buffer
            buffer.data.copy_(was)

    @contextmanager
    def with_gradients(self) -> Iterator[None]:
        """Context manager that enables gradients and restores torch's random number generators at exit."""
        devices = sorted({p.device.index or 0 for p in self.parameters if p.device.type == "cuda"})
        with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.enable_grad():
            yield
