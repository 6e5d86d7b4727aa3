"""Everything that a short training run changes, and the way back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from gradline.torch.batches import Batches
from gradline.torch.snapshot import Snapshot


@contextmanager
def put_back(model: nn.Module | None, parameters: list[Tensor], batches: Any) -> Iterator[None]:
    """Whatever happens inside: afterwards all is as it was, bit for bit.

    That is: parameters, gradients, buffers, the modes of modules, the position of `gradline.batches`, and the
    generators of random numbers: torch's, numpy's, Python's, and those that a loader has of its own.
    """
    gradients = [parameter.grad for parameter in parameters]
    modules = [] if model is None else list(model.modules())
    modes = [module.training for module in modules]
    snapshot = Snapshot(parameters, modules)
    position = batches.state_dict() if isinstance(batches, Batches) else None
    generators = [(generator, generator.get_state()) for generator in _generators(batches)]
    python, numpy = random.getstate(), np.random.get_state()
    for parameter in parameters:
        parameter.grad = None  # or the run would add to the tensors that are put back
    try:
        with snapshot.with_gradients():
            try:
                yield
            finally:
                if position is not None:
                    batches.load_state_dict(position)  # it may draw random numbers: a loader reads batches again
    finally:
        snapshot.restore()
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        for module, training in zip(modules, modes, strict=True):
            module.training = training
        random.setstate(python)
        np.random.set_state(numpy)
        for generator, state in generators:
            generator.set_state(state)


def _generators(batches: Any) -> list[torch.Generator]:
    """The generators of a loader and of its samplers."""
    if not isinstance(batches, DataLoader):
        return []
    parts: list[Any] = [batches, batches.sampler, getattr(batches.batch_sampler, "sampler", None)]
    found = {id(one): one for one in (getattr(part, "generator", None) for part in parts)}
    return [one for one in found.values() if isinstance(one, torch.Generator)]
