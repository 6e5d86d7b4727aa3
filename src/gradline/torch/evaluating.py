"""Evaluations: what the gradients at one point show, whoever computed them.

A closure made them, or the user's own `loss.backward()`; in one process or in several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from gradline.protocol import Course, Moments, Search, Slope, Value, observes
from gradline.torch.line import Gradients, Line
from gradline.torch.measuring import Alone
from gradline.torch.moments.evaluated import Evaluated
from gradline.torch.per_sample import PerSample

Closure: TypeAlias = Callable[[], Any]


class Evaluation(NamedTuple):
    """What one evaluation showed: the value only where the search compares values, and samples where it needs them.

    `statistics` are the layers' running statistics after it, where it is kept.
    """

    gradients: Gradients
    norm: float
    slope: float
    value: float | None
    loss: Any
    value_var: float = 0.0
    samples: Evaluated | None = None
    statistics: list[Tensor | None] | None = None

    def seen(self, slope: float, slope_var: float | None = None, course: tuple[float, float] | None = None) -> Slope:
        """What a search is told, with the slope along its own direction and that slope's variance, or with a course."""
        if course is not None:
            return Course(slope, *course)
        if self.value is None:
            return Slope(slope)
        return Value(slope, self.value) if slope_var is None else Moments(slope, self.value, self.value_var, slope_var)

    @property
    def finite(self) -> bool:
        """Whether gradient, value and the value's variance are finite."""
        return math.isfinite(self.norm) and math.isfinite(self.value or 0.0) and math.isfinite(self.value_var)

    def kept(self) -> Evaluation:
        """The same for later, when other evaluations have been made."""
        if self.samples is None:
            return self._replace(gradients=self.gradients.cloned())
        self.samples.keep()
        self.gradients.release()
        return self


class Computed(NamedTuple):
    """What one evaluation computed, before anything of it is measured: `scalars` are measured with the gradients."""

    loss: Any
    samples: Evaluated | None
    scalars: tuple[Tensor, ...]
    gradients: Gradients


class Evaluator:
    """Makes evaluations, and counts them.

    `clear` removes all gradients, and `collect` finds those that there are; `per_sample` makes them from per-sample
    losses, where variances are needed; `ranks` are the processes that make each evaluation together.
    """

    def __init__(
        self,
        search: Search[Any, Any],
        clear: Callable[[], None],
        collect: Callable[[], Gradients],
        per_sample: PerSample | None = None,
    ) -> None:
        self.per_sample = per_sample
        self.ranks = Alone()
        self.count = 0
        self._search = search
        self._clear = clear
        self._collect = collect
        self._under_way: ExitStack | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "ranks": Alone(), "_under_way": None}  # process groups are not copied, but found anew

    def join(self, ranks: Alone) -> None:
        """Evaluate together with other processes from now on, in an evaluation under way too."""
        self.ranks = ranks
        if self._under_way is not None:
            self._under_way.enter_context(ranks.failing_together(in_forward=True))

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Make what fails in one process fail in all, for one evaluation."""
        with ExitStack() as self._under_way:
            try:
                self._under_way.enter_context(self.ranks.failing_together())
                yield
            finally:
                self._under_way = None

    def evaluate(self, closure: Closure) -> Computed:
        """Have a closure compute the gradients."""
        with self._together():
            self.count += 1
            self._clear()  # or a closure that forgets it would see all gradients there ever were
            with torch.enable_grad():
                loss = closure()
            return self._computed(loss)

    def look(self, closure: Closure | None = None) -> Computed:
        """Take the gradients there are, or that a closure computes."""
        loss = None
        with self._together():
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            self.count += 1
            return Computed(loss, None, (), self._collect())

    def _computed(self, loss: Any) -> Computed:
        samples = None
        if self.per_sample is not None:
            samples = self.per_sample.evaluate(loss)
            loss = samples.losses
        valued = samples is None and issubclass(observes(self._search), Value)
        scalars = (self._scalar(loss),) if valued else ()
        return Computed(loss, samples, scalars, self._collect())

    def measured(self, computed: Computed, line: Line | None) -> Evaluation:
        """Measure what was computed, along a line if there is one."""
        loss, samples, scalars, gradients = computed
        if line is None:
            norm, slope, values = self.ranks.measure(*gradients, [], *scalars)
        else:
            norm, slope, values = line.measure(gradients, *scalars)
        if samples is not None and self.per_sample is not None:
            value, variance = self.per_sample.value(samples, self.ranks)
            return Evaluation(gradients, norm, slope, value, loss, variance, samples)
        return Evaluation(gradients, norm, slope, values[0] if values else None, loss)

    def _scalar(self, loss: Any) -> Tensor:
        if isinstance(loss, Tensor) and loss.numel() == 1:
            return loss.detach().reshape(())
        if isinstance(loss, float | int):
            return torch.tensor(float(loss), dtype=torch.float64)
        got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
        raise TypeError(
            f"closure must return the loss, one number ({type(self._search).__name__} compares it), got {got}"
        )
