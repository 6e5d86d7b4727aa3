"""Save and restore, bit for bit, everything that evaluations of a model change."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def seed_generators(seed: int) -> None:
    """Seed torch's generators as `torch.manual_seed` does, sooner where there is no accelerator.

    For each kind of accelerator that is not in use, `torch.manual_seed` formats the whole stack.
    """
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


class Snapshot:
    """Copies of the trainable parameters and of the buffers of a model, or of a list of parameters.

    They are restored through `.data`, so that graphs still waiting for their backward pass remain valid.
    """

    def __init__(self, model: nn.Module | Iterable[Tensor]) -> None:
        named = _named(model)
        self.names = [name for name, parameter in named if parameter.requires_grad]
        self.parameters = [parameter for _, parameter in named if parameter.requires_grad]
        if not self.parameters:
            raise ValueError("model must have a parameter that requires a gradient (it is what moves), got none")
        self.modules = list(model.modules()) if isinstance(model, nn.Module) else []
        self.values = [parameter.detach().clone() for parameter in self.parameters]
        self._buffers = [
            (module, name, buffer, buffer.detach().clone())
            for module in self.modules
            for name, buffer in module.named_buffers(recurse=False)
        ]

    def restore(self) -> None:
        """Restore parameters and buffers."""
        for parameter, value in zip(self.parameters, self.values, strict=True):
            parameter.data.copy_(value)
        self.restore_buffers()

    def restore_buffers(self) -> None:
        """Restore buffers, such as BatchNorm's running statistics."""
        for module, name, buffer, was in self._buffers:
            setattr(module, name, buffer)
            buffer.data.copy_(was)

    @contextmanager
    def visited(self) -> Iterator[None]:
        """Context manager that enables gradients and restores everything at exit, bit for bit.

        Restored are parameters, their gradients, buffers, training modes of modules, and the random number generators
        of torch, numpy and Python.
        """
        gradients, modes = [parameter.grad for parameter in self.parameters], [one.training for one in self.modules]
        python, numpy = random.getstate(), np.random.get_state()
        devices = sorted({p.device.index or 0 for p in self.parameters if p.device.type == "cuda"})
        for parameter in self.parameters:
            parameter.grad = None  # otherwise a backward pass would add to the tensors to be restored
        try:
            with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.enable_grad():
                yield
        finally:
            self.restore()
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                parameter.grad = gradient
            for module, training in zip(self.modules, modes, strict=True):
                module.training = training
            random.setstate(python)
            np.random.set_state(numpy)


class Noise:
    """Saved states of torch's global generators, on the CPU and on the devices of some tensors.

    Repeated in every evaluation of a step, they give dropout one mask per search.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        devices = {tensor.device for tensor in tensors if tensor.device.type not in ("cpu", "meta")}
        self._host = torch.get_rng_state()
        self._devices: dict[torch.device, Any] = {d: torch.get_device_module(d).get_rng_state(d) for d in devices}

    def again(self) -> None:
        """Restore the generators, so that the same numbers are drawn again."""
        torch.set_rng_state(self._host)
        for device, state in self._devices.items():
            torch.get_device_module(device).set_rng_state(state, device)


def _named(model: Any) -> list[tuple[str, Tensor]]:
    """Return the parameters of a model by name, or those of a list by index."""
    if isinstance(model, Tensor):
        raise TypeError("model must be a module or a list of parameters, got one tensor: write [parameter]")
    try:
        named = list(model.named_parameters() if isinstance(model, nn.Module) else enumerate(model))
    except TypeError:
        raise TypeError(f"model must be a module or its parameters, got {type(model).__name__}") from None
    for _, one in named:
        if not isinstance(one, Tensor):
            raise TypeError(f"model must be a module or its parameters, got a {type(one).__name__} among them")
    return [(str(name), parameter) for name, parameter in named]
