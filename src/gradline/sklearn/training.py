"""Training a network by line searches: samples, passes through them, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from gradline.protocol import Search, Value, observes
from gradline.torch import LineSearchOptimizer, batches

Losses: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""From outputs and targets to the loss of each sample."""

AT_ONCE = 4096
"""How many samples the whole loss is computed of at a time."""


@dataclass(frozen=True)
class Samples:
    """Inputs (a tensor, or a sparse matrix by rows), targets, and weights whose mean is 1, if there are any."""

    inputs: Any
    targets: Tensor
    weights: Tensor | None

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, chosen: Tensor) -> Samples:
        """Some of them, with dense inputs."""
        here = chosen.to(self.targets.device)
        if isinstance(self.inputs, Tensor):
            inputs = self.inputs[here]
        else:
            inputs = torch.from_numpy(self.inputs[chosen.numpy()].toarray()).to(here.device)
        return Samples(inputs, self.targets[here], None if self.weights is None else self.weights[here])


class Training:
    """A network, its samples and the optimizer between them.

    Searches that compare values see one mini-batch per search, all others a new one at every look. The loss of a
    batch is an unbiased estimate of the loss of all samples, sample weights included; the penalty on the weights,
    `decay` / 2 times the sum of their squares, is part of both.
    """

    def __init__(
        self,
        network: nn.Module,
        samples: Samples,
        losses: Losses,
        search: Search[Any, Any],
        *,
        direction: Any,
        decay: float,
        batch_size: int,
        seed: int,
    ) -> None:
        self.network = network
        self.samples = samples
        self.losses = losses
        self.decay = decay
        self.steps: list[float] = []
        self.optimizer = LineSearchOptimizer(network.parameters(), search, direction=direction)
        self.optimizer.register_search_hook(lambda record: self.steps.append(record.step))
        draw = batches.static if observes(search) is Value else batches.dynamic
        stream = draw(torch.arange(len(samples)), batch_size=batch_size, seed=seed)
        self._closure = stream.closure(self.optimizer, self._of_batch)
        self._batches = len(samples) // batch_size

    def go(self) -> None:
        """One pass: as many gradients as there are batches in the data, and on to the end of the search."""
        goal = self.optimizer.evaluations + self._batches
        while self.optimizer.evaluations < goal:
            self.optimizer.step(self._closure)

    @torch.no_grad()
    def loss(self) -> float:
        """The loss of all samples at the accepted point."""
        parts = torch.split(torch.arange(len(self.samples)), AT_ONCE)
        total = sum(float(self._of_samples(self.samples.take(chosen)).sum()) for chosen in parts)
        return total / len(self.samples) + float(self._penalty())

    def state(self) -> dict[str, Any]:
        """The optimizer's state to keep: on the CPU, and in tensors of its own, which a pickle holds once."""
        saved = self.optimizer.state_dict()
        for held in saved["state"].values():
            held.update({name: value.to("cpu", copy=True) for name, value in held.items() if isinstance(value, Tensor)})
        return saved

    def _of_batch(self, chosen: Tensor) -> Tensor:
        losses = self._of_samples(self.samples.take(chosen))
        return (losses if self.optimizer.per_sample else losses.mean()) + self._penalty()

    def _of_samples(self, samples: Samples) -> Tensor:
        losses = self.losses(self.network(samples.inputs), samples.targets)
        return losses if samples.weights is None else losses * samples.weights

    def _penalty(self) -> Tensor:
        layers = (layer for layer in self.network.modules() if isinstance(layer, nn.Linear))
        squares = [layer.weight.square().sum() for layer in layers]
        return 0.5 * self.decay * torch.stack(squares).sum()


class Patience:
    """Notes the best of the passes, and how many in a row were not better than it by `tol`. Low is good."""

    def __init__(self, tol: float, passes: float) -> None:
        self.tol = tol
        self.passes = passes
        self.best = math.inf
        self.waited = 0

    def note(self, seen: float) -> bool:
        """Whether this is the best so far."""
        self.waited = 0 if seen <= self.best - self.tol else self.waited + 1  # NaN is no improvement
        better = seen < self.best
        self.best = seen if better else self.best
        return better

    @property
    def ended(self) -> bool:
        """Whether it has waited long enough."""
        return self.waited > self.passes
