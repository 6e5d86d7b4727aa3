"""Replace the backward pass of a failed evaluation, so that other processes do not wait for it forever.

Under `DistributedDataParallel` the other processes wait for this one to average gradients. If it failed before its
backward pass, it makes one with a zero loss instead. All processes discard the result.

Under `fully_shard` they wait for its shards in the forward pass too, which cannot be made without inputs: only the
backward pass can be replaced.
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
    """Tracks the passes of a wrapped model in one evaluation and completes them after a failure.

    The others are assumed to make as many passes as were made here in the previous evaluation. Without a model it does
    nothing, because it is unknown what the others wait for.
    """

    def __init__(self, model: nn.Module | None) -> None:
        self._reference: Any = (lambda: None) if model is None else weakref.ref(model)
        self._stage = _Stage.BEFORE
        self._outputs: list[Tensor] = []
        self._hooks: list[Any] = []
        self._forwards = self._backwards = 0  # synchronized passes of this evaluation
        self._usual: int | None = 1  # passes per evaluation; None: forward and backward passes are not paired
        self._accumulating = False  # a pass without synchronization has begun
        self._used: list[Tensor] | None = None  # parameters that had a gradient after the last evaluation

    @contextmanager
    def watching(self, in_forward: bool = False) -> Iterator[None]:
        """Track one evaluation, from its start or from the start of its first forward pass."""
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
        """Complete the passes that the others wait for. `False`: it is too late, or they are unknown."""
        outputs, self._outputs = self._outputs, []
        model: Any = self._reference()
        if model is None or self._usual is None or self._stage is _Stage.BACKWARD:
            return False
        if _is_sharded(model):
            return self._end_sharded(outputs)
        if model._join_config.enable:  # the others may have run out of data
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
                self._stage = _Stage.BEFORE  # so that it is not tracked
                torch.autograd.backward(loss)
                self._backwards += 1
        return True

    def _end_sharded(self, outputs: list[Tensor]) -> bool:
        """Make the last backward pass, if only that is missing; return whether all passes have been made."""
        if self._stage is _Stage.OUTPUT and outputs and self._backwards + 1 == self._forwards == self._usual:
            self._stage = _Stage.BEFORE  # so that it is not tracked
            with torch.enable_grad():
                torch.autograd.backward(_zero(outputs))
            self._backwards += 1
        return self._stage is _Stage.BEFORE and self._backwards == self._usual

    def _begin_forward(self, model: Any, _inputs: Any) -> None:
        # With DDP the others do not wait for a pass of gradient accumulation (`no_sync`).
        synchronized = _is_sharded(model) or model.require_backward_grad_sync
        self._stage = _Stage.FORWARD if synchronized else _Stage.BEFORE
        self._accumulating = not synchronized

    def _end_forward(self, model: Any, _inputs: Any, output: Any) -> None:
        if self._stage is not _Stage.FORWARD:
            return
        self._stage = _Stage.OUTPUT
        shown = [leaf for leaf in leaves(output) if isinstance(leaf, Tensor) and leaf.requires_grad]
        self._outputs = shown
        if torch.is_grad_enabled() or _is_sharded(model):  # then the others wait for a pass without gradients too
            self._forwards += 1
            if not shown:  # no tensors in the output: notice the backward pass at the parameters
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


def _is_sharded(model: nn.Module) -> bool:
    return not isinstance(model, nn.parallel.DistributedDataParallel)


def _zero(tensors: list[Tensor]) -> Tensor:
    """Return a zero loss whose gradient is 0 for each of some tensors."""
    return torch.stack([(tensor * 0).sum().to(tensors[0]) for tensor in tensors]).sum()
