"""Restore everything that a short training run changes."""

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
def restored(model: nn.Module | None, parameters: list[Tensor], batches: Any) -> Iterator[None]:
    """Context manager that restores the state of model, batches and random number generators at exit, bit for bit.

    Restored are parameters, gradients, buffers, training modes of modules, the position of `gradline.batches`, and the
    random number generators of torch, numpy, Python and the loader.
    """
    gradients = [parameter.grad for parameter in parameters]
    modules = [] if model is None else list(model.modules())
    modes = [module.training for module in modules]
    snapshot = Snapshot(parameters, modules)
    position = batches.state_dict() if isinstance(batches, Batches) else None
    generators = [(generator, generator.get_state()) for generator in _generators(batches)]
    python, numpy = random.getstate(), np.random.get_state()
    for parameter in parameters:
        parameter.grad = None  # otherwise the run would add to the tensors to be restored
    try:
        with snapshot.with_gradients():
            try:
                yield
            finally:
                if position is not None:
                    batches.load_state_dict(position)  # may draw random numbers: a loader reads batches again
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
    """Return the generators of a loader and of its samplers."""
    if not isinstance(batches, DataLoader):
        return []
    parts: list[Any] = [batches, batches.sampler, getattr(batches.batch_sampler, "sampler", None)]
    found = {id(one): one for one in (getattr(part, "generator", None) for part in parts)}
    return [one for one in found.values() if isinstance(one, torch.Generator)]
