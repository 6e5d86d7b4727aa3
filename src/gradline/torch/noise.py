"""Repeat random numbers in every evaluation of a step, so that dropout has one mask per search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Noise:
    """Saved states of torch's global generators, on the CPU and on the devices of some tensors."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        devices = {tensor.device for tensor in tensors if tensor.device.type not in ("cpu", "meta")}
        self._host = torch.get_rng_state()
        self._devices: dict[torch.device, Any] = {d: torch.get_device_module(d).get_rng_state(d) for d in devices}

    def again(self) -> None:
        """Restore the generators, so that the same numbers are drawn again."""
        torch.set_rng_state(self._host)
        for device, state in self._devices.items():
            torch.get_device_module(device).set_rng_state(state, device)
