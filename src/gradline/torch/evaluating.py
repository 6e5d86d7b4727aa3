"""Evaluations: gradients are computed by a closure, or were by the user's own `loss.backward()`, and measured.

Computing and measuring are two calls: in between it becomes known which processes take part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from gradline.torch.line import Gradients, Line
from gradline.torch.measuring import LocalReduce
from gradline.torch.moments.evaluated import Evaluated
from gradline.torch.sensors import Evaluation, Sensor

Closure: TypeAlias = Callable[[], Any]


class Computed(NamedTuple):
    """What one evaluation computed, before anything of it is measured: `scalars` are measured with the gradients."""

    loss: Any
    samples: Evaluated | None
    scalars: tuple[Tensor, ...]
    gradients: Gradients


class Evaluator:
    """Makes evaluations.

    Args:
        sensor: says what must be measured beside the gradient.
        clear: removes all gradients.
        collect: finds the gradients that there are.
    """

    def __init__(self, sensor: Sensor, clear: Callable[[], None], collect: Callable[[], Gradients]) -> None:
        self.sensor = sensor
        self.ranks = LocalReduce()  # the processes that make each evaluation together
        self._clear = clear
        self._collect = collect
        self._under_way: ExitStack | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {
            **vars(self),
            "ranks": LocalReduce(),
            "_under_way": None,
        }  # process groups are not copied, but found anew

    def join(self, ranks: LocalReduce) -> None:
        """Evaluate together with other processes from now on, in an evaluation under way too."""
        self.ranks = ranks
        if self._under_way is not None:
            self._under_way.enter_context(ranks.failing_together(in_forward=True))

    def evaluate(self, closure: Closure) -> Computed:
        """Have a closure compute the gradients."""
        with self._together():
            self._clear()  # or a closure that forgets it would see all gradients there ever were
            with torch.enable_grad():
                loss = closure()
            samples = None
            if self.sensor.per_sample is not None:
                samples = self.sensor.per_sample.evaluate(loss)
                loss = samples.losses
            gradients = self._collect()
            return Computed(loss, samples, self.sensor.scalars(loss, gradients), gradients)

    def take(self, closure: Closure | None = None) -> Computed:
        """Take the gradients there are, or that a closure adds to them."""
        loss = None
        with self._together():
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            gradients = self._collect()
            scalars = () if self.sensor.needs_loss else self.sensor.scalars(loss, gradients)
            return Computed(loss, None, scalars, gradients)

    def measure(self, computed: Computed, line: Line | None) -> Evaluation:
        """Measure what was computed, along a line if there is one."""
        loss, samples, tensors, gradients = computed
        if line is None:
            norm, slope, scalars = self.ranks.measure(*gradients, [], *tensors)
        else:
            norm, slope, scalars = line.measure(gradients, *tensors)
        if samples is not None and self.sensor.per_sample is not None:
            scalars = [*scalars, *self.sensor.per_sample.value(samples, self.ranks)]
        return Evaluation(gradients, norm, slope, scalars, loss, samples)

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Make what fails in one process fail in all, for one evaluation."""
        with ExitStack() as self._under_way:
            try:
                self._under_way.enter_context(self.ranks.failing_together())
                yield
            finally:
                self._under_way = None
