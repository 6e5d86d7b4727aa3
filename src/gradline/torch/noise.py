"""The same random numbers for every evaluation of a step: dropout then has one mask within a search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Noise:
    """The states of torch's global generators, on the host and where some tensors are."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        devices = {tensor.device for tensor in tensors if tensor.device.type not in ("cpu", "meta")}
        self._host = torch.get_rng_state()
        self._devices: dict[torch.device, Any] = {d: torch.get_device_module(d).get_rng_state(d) for d in devices}

    def again(self) -> None:
        """Draw the same numbers once more."""
        torch.set_rng_state(self._host)
        for device, state in self._devices.items():
            torch.get_device_module(device).set_rng_state(state, device)
