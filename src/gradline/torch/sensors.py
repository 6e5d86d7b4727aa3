"""Sensors: measure the observations that searches need.

The optimizer uses the sensor whose `observation` is the observation type (`gradline.protocol`) that the search
`observes`. Subclassing `Sensor` registers a sensor, so that other packages can add an observation type and its sensor.

A sensor may request scalars that are measured together with the gradient (one transfer from the device, averaged over
processes), and keep buffers (one vector over the parameters each) and numbers, which are saved with the optimizer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from gradline.codec import Plain, count, number
from gradline.protocol import Heading, Search, Slope, Value, observes
from gradline.torch.displacement import Displacement
from gradline.torch.line import Gradients, Line
from gradline.torch.measuring import LocalReduce
from gradline.torch.moments.evaluated import Evaluated
from gradline.torch.outliers import LOOKS, OutlierGuard

_SENSORS: dict[type[Slope], type[Sensor]] = {}


@dataclass(slots=True)
class Evaluation:
    """Measurements of one evaluation.

    `slope` is along the line, if there is one; `scalars` are those the sensor requested; `samples` is set if the
    closure returned per-sample losses; `statistics` are the running statistics after the evaluation, if it is kept.
    """

    gradients: Gradients
    norm: float = math.nan
    slope: float = math.nan
    scalars: list[float] = field(default_factory=list)
    loss: Any = None
    samples: Evaluated | None = None
    statistics: list[Tensor | None] | None = None

    @property
    def finite(self) -> bool:
        """Whether the gradient and all scalars are finite."""
        return math.isfinite(self.norm) and all(map(math.isfinite, self.scalars))

    def kept(self, statistics: list[Tensor | None]) -> Evaluation:
        """Return a copy with these running statistics that remains valid after further evaluations."""
        if self.samples is None:
            return replace(self, gradients=self.gradients.cloned(), statistics=statistics)
        self.samples.keep()
        self.gradients.release()
        return replace(self, statistics=statistics)


class Sensor:
    """Measures observations of one type for a search; the base class measures slopes."""

    observation: ClassVar[type[Slope]] = Slope
    needs_loss: ClassVar[bool] = False
    """Whether `step()` needs a closure that returns the loss."""
    per_sample: ClassVar[bool] = False
    """Whether the closure returns per-sample losses, which `evaluate` then receives, and makes no backward pass."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _SENSORS[cls.observation] = cls

    def __init__(self, search: Search[Any, Any]) -> None:
        self.search = search
        self.buffers: dict[str, Displacement] = {}

    def scalars(self, loss: Any, gradients: Gradients) -> tuple[Tensor, ...]:
        """Return the scalar tensors to measure together with the gradient."""
        return ()

    def evaluate(self, losses: Any) -> Evaluated:
        """Call `backward` on the mean of per-sample losses."""
        raise NotImplementedError(f"{type(self).__name__} must define evaluate (its closures return per-sample losses)")

    def value(self, samples: Evaluated, ranks: LocalReduce) -> tuple[float, ...]:
        """Return the scalars of per-sample losses, over the samples of all processes."""
        return ()

    def check(self, ranks: LocalReduce) -> None:
        """Raise an error for settings that several processes do not support."""

    def at_origin(self, evaluation: Evaluation, slope: float, line: Line, *, steepest: bool) -> Slope:
        """Return the observation at the origin.

        Args:
            evaluation: the evaluation at the origin.
            slope: the slope along the new direction.
            line: the line of the search.
            steepest: whether the direction is the negative gradient of this evaluation.
        """
        return Slope(slope)

    def at_probe(self, evaluation: Evaluation, line: Line) -> Slope:
        """Return the observation at a probe."""
        return Slope(evaluation.slope)

    def gradient_factor(self, norm: float) -> float:
        """Return the factor for a gradient of this length before the direction is computed from it."""
        return 1.0

    def aimed(self, norm: float) -> None:
        """Note that a direction was computed from a gradient of this length."""

    def stepped(self, line: Line, step: float, before: int) -> None:
        """Note that a step was taken along a line, after `before` earlier steps."""

    def state(self) -> Plain:
        """Return the sensor's numbers to save."""
        return None

    def load_state(self, packed: Plain) -> None:
        """Restore a saved `state`; raise an error if it is damaged."""


_SENSORS[Slope] = Sensor


class ValueSensor(Sensor):
    """Measures slope and value of the loss."""

    observation = Value
    needs_loss = True

    def scalars(self, loss: Any, gradients: Gradients) -> tuple[Tensor, ...]:
        if isinstance(loss, Tensor) and loss.numel() == 1:
            return (loss.detach().reshape(()),)
        if isinstance(loss, float | int):
            return (torch.tensor(float(loss), dtype=torch.float64, device="cpu"),)
        got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
        raise TypeError(
            f"closure must return the loss, one number ({type(self.search).__name__} compares it), got {got}"
        )

    def at_origin(self, evaluation: Evaluation, slope: float, line: Line, *, steepest: bool) -> Slope:
        # A zero-gradient step without a closure primes checkpoints.
        return Value(slope, evaluation.scalars[0] if evaluation.scalars else 0.0)

    def at_probe(self, evaluation: Evaluation, line: Line) -> Slope:
        return Value(evaluation.slope, evaluation.scalars[0])


class HeadingSensor(Sensor):
    """Measures slopes, and at origins the angle between gradient and displacement.

    Where a gradient is far longer than usual and the slope positive, the slope is reported as infinite, so that the
    search evaluates again and shortens the step. In the first search, after its first probe, the length alone decides.
    """

    observation = Heading

    def __init__(self, search: Search[Any, Any]) -> None:
        super().__init__(search)
        self.buffers["displacement"] = Displacement()
        self.guard = OutlierGuard()
        self.rejected = LOOKS  # evaluations in a row that were; the first probe of the first search is not
        self.first = True  # whether this is the first search

    def at_origin(self, evaluation: Evaluation, slope: float, line: Line, *, steepest: bool) -> Slope:
        if not evaluation.finite:
            return Heading(slope, evaluation.norm, evaluation.norm)
        along, scale = self.buffers["displacement"].measure(evaluation.gradients, evaluation.norm, line.ranks)
        self.first = scale == 0.0
        self.rejected = LOOKS if self.first else 0
        return Heading(slope, along, scale)

    def at_probe(self, evaluation: Evaluation, line: Line) -> Slope:
        if self.first:
            far = self.rejected < LOOKS and self.guard.is_off_scale(evaluation.norm)
            self.rejected = self.rejected + 1 if far else 0
            return Slope(math.inf if far else evaluation.slope)
        if self.rejected < LOOKS and not (evaluation.finite and evaluation.slope <= 0.0):
            if not evaluation.finite:
                self.rejected += 1
            elif self.guard.is_outlier(evaluation.norm):
                self.rejected += 1
                self.guard = self.guard.after(evaluation.norm)
                return Slope(math.inf)
        return Slope(evaluation.slope)

    def gradient_factor(self, norm: float) -> float:
        return self.guard.factor(norm)

    def aimed(self, norm: float) -> None:
        self.guard = self.guard.after(norm)

    def stepped(self, line: Line, step: float, before: int) -> None:
        self.buffers["displacement"].add(line, step, before)

    def state(self) -> Plain:
        return {**self.guard._asdict(), "rejected": self.rejected, "first": self.first}

    def load_state(self, packed: Plain) -> None:
        length, first = number(packed["length"]), packed["first"]
        if not 0.0 <= length < math.inf:
            raise ValueError(f"{length!r} is not a length")
        if not isinstance(first, bool):
            raise TypeError(f"{first!r} is not true or false")
        self.guard, self.first = OutlierGuard(length, count(packed["seen"]), number(packed["start"])), first
        self.rejected = count(packed["rejected"])


def sensor_for(search: Search[Any, Any]) -> type[Sensor]:
    """Return the sensor class for the observation type of a search."""
    kind = observes(search)
    if kind not in _SENSORS:
        raise TypeError(
            f"search must observe something that a sensor measures ({', '.join(k.__name__ for k in _SENSORS)}; to add "
            f"one, subclass gradline.torch.sensors.Sensor with observation = {kind.__name__}), got {search!r}"
        )
    return _SENSORS[kind]
