"""Compute and measure gradients, from a closure or from the user's own `loss.backward()`.

Computing and measuring are separate calls, because the participating processes may be discovered in between.
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
    """Tensors of one evaluation before measuring; `scalars` are measured together with the gradients."""

    loss: Any
    samples: Evaluated | None
    scalars: tuple[Tensor, ...]
    gradients: Gradients


class Evaluator:
    """Evaluates closures and measures gradients.

    Args:
        sensor: determines what is measured besides the gradient.
        clear: sets all gradients to `None`.
        collect: returns the current gradients.
    """

    def __init__(self, sensor: Sensor, clear: Callable[[], None], collect: Callable[[], Gradients]) -> None:
        self.sensor = sensor
        self.ranks = LocalReduce()  # the processes that take part in each evaluation
        self._clear = clear
        self._collect = collect
        self._under_way: ExitStack | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {
            **vars(self),
            "ranks": LocalReduce(),
            "_under_way": None,
        }  # process groups are not copied but discovered again

    def join(self, ranks: LocalReduce) -> None:
        """Evaluate together with other processes from now on, including a current evaluation."""
        self.ranks = ranks
        if self._under_way is not None:
            self._under_way.enter_context(ranks.failing_together(in_forward=True))

    def evaluate(self, closure: Closure) -> Computed:
        """Clear the gradients, call the closure and return what it computed."""
        with self._together():
            self._clear()  # otherwise gradients would accumulate in closures without zero_grad()
            with torch.enable_grad():
                loss = closure()
            samples = None
            if self.sensor.per_sample is not None:
                samples = self.sensor.per_sample.evaluate(loss)
                loss = samples.losses
            gradients = self._collect()
            return Computed(loss, samples, self.sensor.scalars(loss, gradients), gradients)

    def take(self, closure: Closure | None = None) -> Computed:
        """Return the current gradients, after calling a closure that adds to them, if given."""
        loss = None
        with self._together():
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            gradients = self._collect()
            scalars = () if self.sensor.needs_loss else self.sensor.scalars(loss, gradients)
            return Computed(loss, None, scalars, gradients)

    def measure(self, computed: Computed, line: Line | None) -> Evaluation:
        """Measure an evaluation, along a line if there is one."""
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
        """Make an evaluation that fails in one process fail in all."""
        with ExitStack() as self._under_way:
            try:
                self._under_way.enter_context(self.ranks.failing_together())
                yield
            finally:
                self._under_way = None
