"""Standing in for a failed evaluation, so that the other processes do not wait for it forever.

Under `DistributedDataParallel` the others are about to average gradients, and wait for this process to take part. If it
failed before its own backward pass, it makes one of a loss that is 0 instead. The result is thrown away everywhere.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

import torch
from torch import Tensor, nn

from gradline.torch.private import begin_ddp_forward, end_ddp_forward, leaves, when_backward_ends


class _Stage(Enum):
    BEFORE = auto()  # no forward pass of this evaluation has begun, or the last backward pass has ended
    FORWARD = auto()
    OUTPUT = auto()  # the forward pass has ended
    BACKWARD = auto()


class StandIn:
    """Follows the passes of a wrapped model through one evaluation, and completes them if it must.

    Without a model (it is unknown what the others wait for) it cannot. The others are taken to make as many passes as
    were made here in the evaluation before.
    """

    def __init__(self, model: nn.Module | None) -> None:
        self._reference: Any = (lambda: None) if model is None else weakref.ref(model)
        self._stage = _Stage.BEFORE
        self._outputs: list[Tensor] = []
        self._hooks: list[Any] = []
        self._forwards = self._backwards = 0  # of this evaluation, as far as others take part in them
        self._usual: int | None = 1  # passes of an evaluation; None: forward and backward passes do not go in pairs
        self._accumulating = False  # a pass that the others do not take part in has begun
        self._used: list[Tensor] | None = None  # parameters that had a gradient after the last evaluation

    @contextmanager
    def watching(self, in_forward: bool = False) -> Iterator[None]:
        """Follow one evaluation, from its beginning or from the beginning of its first forward pass."""
        self._stage = _Stage.BEFORE
        self._forwards = self._backwards = 0
        self._accumulating = False
        model = self._reference()
        if model is None:
            yield
            return
        self._hooks = [
            model.register_forward_pre_hook(self._begin_forward),
            model.register_forward_hook(self._end_forward),
        ]
        if in_forward:
            self._begin_forward(model, None)
        try:
            yield
            self._outputs = []
            self._used = [parameter for parameter in model.parameters() if parameter.grad is not None]
            if self._forwards:
                self._usual = self._forwards if self._forwards == self._backwards else None
        finally:
            for hook in self._hooks:
                hook.remove()
            self._hooks = []

    def stand_in(self) -> bool:
        """Take part in what the others are doing. `False`: it is too late, or unknown what that is."""
        outputs, self._outputs = self._outputs, []
        model = self._reference()
        if model is None or self._usual is None or self._stage is _Stage.BACKWARD:
            return False
        if model._join_config.enable:  # the others may have run out of data, and take part in nothing any more
            return False
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if model.static_graph:
            if self._used is None:
                return False
            parameters = [parameter for parameter in self._used if parameter.requires_grad]
        with torch.enable_grad():
            while self._backwards < self._usual or self._stage is not _Stage.BEFORE:
                if self._stage is _Stage.OUTPUT and outputs:
                    loss = _zero(outputs)
                else:
                    if self._stage is _Stage.BEFORE:
                        if self._accumulating:  # buffers are sent in the first of several passes only
                            model.require_forward_param_sync = False
                        begin_ddp_forward(model)
                    loss = end_ddp_forward(model, _zero(parameters))
                self._stage = _Stage.BEFORE  # so that it is not followed
                torch.autograd.backward(loss)
                self._backwards += 1
        return True

    def _begin_forward(self, model: Any, _inputs: Any) -> None:
        # A pass of gradient accumulation (`no_sync`) is nothing the others wait for.
        self._stage = _Stage.FORWARD if model.require_backward_grad_sync else _Stage.BEFORE
        self._accumulating = not model.require_backward_grad_sync

    def _end_forward(self, model: Any, _inputs: Any, output: Any) -> None:
        if self._stage is not _Stage.FORWARD:
            return
        self._stage = _Stage.OUTPUT
        shown = [leaf for leaf in leaves(output) if isinstance(leaf, Tensor) and leaf.requires_grad]
        self._outputs = shown
        if torch.is_grad_enabled():
            self._forwards += 1
            if not shown:  # an output that shows no tensors: then its backward pass is seen where it ends
                shown = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for leaf in shown:
            self._hooks.append(leaf.register_hook(self._begin_backward))  # type: ignore[no-untyped-call]

    def _begin_backward(self, _gradient: Tensor) -> None:
        if self._stage is _Stage.OUTPUT:
            self._stage = _Stage.BACKWARD
            self._outputs = []
            when_backward_ends(self._end_backward)

    def _end_backward(self) -> None:
        self._stage = _Stage.BEFORE
        self._backwards += 1


def _zero(tensors: list[Tensor]) -> Tensor:
    """0, with a gradient of 0 for each of some tensors."""
    return torch.stack([(tensor * 0).sum().to(tensors[0]) for tensor in tensors]).sum()
