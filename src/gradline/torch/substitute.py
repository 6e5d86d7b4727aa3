"""Standing in for a failed evaluation, so that the other processes do not wait for it forever.

Under `DistributedDataParallel` the others are about to average gradients, and wait for this process to take part. If it
failed before its own backward pass, it makes one of a loss that is 0 instead. The result is thrown away everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


class _Stage(Enum):
    BEFORE = auto()  # no forward pass of this evaluation has begun
    FORWARD = auto()
    OUTPUT = auto()  # the forward pass has ended
    BACKWARD = auto()
    DONE = auto()


class Substitute:
    """Follows the passes of a wrapped model through one evaluation, and completes them if it must.

    Without a model (it is unknown what the others wait for) it cannot.
    """

    def __init__(self, model: nn.Module | None) -> None:
        self._model: Any = model
        self._stage = _Stage.BEFORE
        self._outputs: list[Tensor] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow one evaluation."""
        self._stage = _Stage.BEFORE
        if self._model is None:
            yield
            return
        hooks = [
            self._model.register_forward_pre_hook(self._begin_forward),
            self._model.register_forward_hook(self._end_forward),
        ]
        try:
            yield
            self._outputs = []
        finally:
            for hook in hooks:
                hook.remove()

    def stand_in(self) -> bool:
        """Take part in what the others are doing. `False`: it is too late, or unknown what that is."""
        outputs, self._outputs = self._outputs, []
        if self._model is None or self._stage is _Stage.BACKWARD:
            return False
        if self._stage is _Stage.DONE:
            return True
        with torch.enable_grad():
            if self._stage is _Stage.OUTPUT and outputs:
                loss = _zero(outputs)
            else:
                if self._stage is _Stage.BEFORE:
                    self._model._pre_forward()
                loss = self._model._post_forward(_zero([p for p in self._model.parameters() if p.requires_grad]))
            torch.autograd.backward(loss)
        return True

    def _begin_forward(self, *_: Any) -> None:
        # A pass of gradient accumulation (`no_sync`) is nothing the others wait for.
        self._stage = _Stage.FORWARD if self._model.require_backward_grad_sync else _Stage.BEFORE

    def _end_forward(self, _module: Any, _inputs: Any, output: Any) -> None:
        if self._stage is not _Stage.FORWARD:
            return
        self._stage = _Stage.OUTPUT
        leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.requires_grad]
        self._outputs = leaves
        for leaf in leaves:
            leaf.register_hook(self._begin_backward)  # type: ignore[no-untyped-call]

    def _begin_backward(self, _gradient: Tensor) -> None:
        if self._stage is _Stage.OUTPUT:
            self._stage = _Stage.BACKWARD
            self._outputs = []
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)

    def _end_backward(self) -> None:
        self._stage = _Stage.DONE


def _zero(tensors: list[Tensor]) -> Tensor:
    """0, with a gradient of 0 for each of some tensors."""
    return torch.stack([(tensor * 0).sum().to(tensors[0]) for tensor in tensors]).sum()
