"""Peak memory of a method, in copies of the parameters: what it holds and what it needs for a moment in a step."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from gradline.lab.methods import METHODS, Method, Peer
from gradline.lab.methods.objective import Objective
from gradline.lab.problems.sampling import Batches, Purpose
from gradline.lab.problems.task import Measured, Task
from gradline.lab.tools.isolation import isolated
from gradline.lab.tools.threads import threads
from gradline.torch.private import DispatchMode, leaves

WIDTH = 600
"""Width of a square layer, so large that inputs and outputs are negligible beside the parameters."""
STEPS = 12
"""Some methods need a few steps before they hold all that they will; SaLSA searches in every one of the first ten."""


def peak_copies(method: Method) -> float:
    """Return the peak memory of a method beyond the parameters, in units of their memory.

    The gradient is one copy, so that plain SGD has 1. LBFGS has its whole history of 100 steps by the end, which is
    200 copies. Measured on a linear layer.
    """
    task = _task()
    objective = Objective(task, Batches(seed=0, purpose=Purpose.PROBES, samples=task.samples, size=4))
    objective.next_batch()

    with isolated(), Allocated() as allocated:
        stepper = method.build(objective)
        for _ in range(STEPS):
            stepper.step()
    return float(allocated.most) / sum(part.numel() * part.element_size() for part in objective.parameters)


@threads()
def copies(methods: Iterable[str]) -> dict[str, float | str]:
    """Return the peak memory of installed methods by name, of a grid once; the text of the error where it failed."""
    found: dict[str, float | str] = {}
    for name in methods:
        method = METHODS[name]
        label = (method.family if isinstance(method, Peer) else None) or name
        if label not in found and method.unavailable() is None:
            try:
                found[label] = round(peak_copies(method), 1)
            except Exception as error:  # a peer may fail in any way
                found[label] = f"failed: {type(error).__name__}"
    return found


class Allocated(DispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the storages that operations make while it is on, until they are freed.

    Memory that an operation allocates and frees inside itself is not counted.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {part.untyped_storage()._cdata for part in leaves((args, kwargs)) if isinstance(part, Tensor)}
        made = func(*args, **(kwargs or {}))
        for part in leaves(made):
            if isinstance(part, Tensor):
                storage = part.untyped_storage()
                size, name = storage.nbytes(), storage._cdata
                if name not in before | self._known:
                    self._known.add(name)
                    self.now += size
                    self.most = max(self.most, self.now)
                    weakref.finalize(storage, self._free, size, name)
        return made

    def _free(self, size: int, name: int) -> None:
        self.now -= size
        self._known.discard(name)


def _task() -> Task:
    source = torch.Generator().manual_seed(0)
    inputs = torch.randn(64, WIDTH, generator=source)
    targets = torch.randn(64, WIDTH, generator=source)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Linear(WIDTH, WIDTH, bias=False)

    def losses(model: nn.Module, chosen: Tensor | slice) -> Tensor:
        errors: Tensor = model(inputs[chosen]) - targets[chosen]
        return errors.square().mean(dim=1)

    return Task(model, len(inputs), losses, lambda model: Measured(*[0.0] * 4))
