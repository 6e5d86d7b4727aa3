"""`StepRecorder`: record the steps of searches and derive a learning rate or a schedule from them."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from gradline.protocol import Record, Stop
from gradline.torch.base import GradlineOptimizer, require_gradline
from gradline.torch.learning_rate.schedule import RecordedSchedule, rate_at
from gradline.torch.optimizer import LineSearchOptimizer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = 10
"""Largest number of knots of a schedule, each the median of an equal part of the recording."""
NEAR = 3.0
"""Largest factor between a knot and the constant learning rate."""
FEWEST = 5
"""Smallest number of steps per knot, if there is more than one knot."""
MEMORY = 0.5
"""Factor for optimizers with momentum, which continue along a direction in the steps that follow."""
FORMAT = "steps 1"
"""Marks a file as a saved recording."""


class StepRecorder:
    """Record the accepted steps of an optimizer's searches, for later training with a learning rate.

    ```python
    import torch, gradline

    torch.manual_seed(0)
    inputs = torch.randn(256, 5)
    targets = inputs.sum(dim=1, keepdim=True).sin()
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = gradline.GOLSI(model.parameters())
    steps = gradline.StepRecorder(optimizer)
    for x, y in gradline.batches.dynamic(inputs, targets, batch_size=64, seed=0).take(200):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    sgd = torch.optim.SGD(model.parameters(), lr=steps.fixed())
    scheduler = steps.schedule(sgd, total=1000)  # or the whole course of the steps
    ```

    A step is a learning rate of the direction's optimizer, or of plain SGD if no direction was given. Searches that
    accepted no step, or ended with `Stop.STEP_MIN`, are counted but not recorded.

    Args:
        optimizer: a gradline optimizer. Recording starts immediately and ends with `stop()`.
    """

    _handle: RemovableHandle | None = None

    def __init__(self, optimizer: GradlineOptimizer) -> None:
        require_gradline(optimizer, "recorded")
        if isinstance(optimizer, LineSearchOptimizer):
            base = optimizer._base
            self._begin("SGD" if base is None else type(base).__name__, _momentum(base))
        else:
            self._begin("AdamWScheduleFree", _momentum(optimizer))
        self._handle = optimizer.register_search_hook(self._record)

    def _begin(self, kind: str, momentum: float) -> None:
        self.steps: list[float] = []
        """The recorded steps, in order."""
        self.lengths: list[float] = []
        """The length of the direction of each recorded step."""
        self.searches = 0
        """Number of searches, including those without a recorded step."""
        self.kind = kind
        """Class name of the optimizer whose learning rates the steps are."""
        self.momentum = momentum
        """Momentum of that optimizer, or the first of its betas; 0 if it has neither."""
        self._last_stop = ""

    def _record(self, record: Record[Any, Any]) -> None:
        self.searches += 1
        self._last_stop = str(record.stop)
        if record.step > 0.0 and record.stop is not Stop.STEP_MIN:
            self.steps.append(record.step)
            self.lengths.append(1.0 if math.isnan(record.origin.norm) else record.origin.norm)  # Angle measures none

    def stop(self) -> None:
        """Stop recording."""
        if self._handle is not None:
            self._handle.remove()

    def fixed(self) -> float:
        """Return a constant learning rate: the median of the steps, weighted by the lengths of their directions.

        For optimizers with momentum (Adam included) it is half of that, because they continue along a direction in the
        steps that follow.

        A median is used because steps differ by orders of magnitude: a mean would be dominated by the few largest. The
        weights reduce the influence of steps along vanishing gradients, which grow without bound or are dominated by
        noise towards the end of training.
        """
        return self._share * _median(self._recorded(), np.array(self.lengths))

    def rates(self, total: int | None = None) -> list[float]:
        """Return the learning rates of the schedule, one for each step of training.

        Args:
            total: number of steps to stretch the schedule to. `None`: the number of recorded steps.
        """
        total = self._total(total)
        knots = self._knots()
        return [rate_at(knots, step / total) for step in range(total)]

    def schedule(self, optimizer: Optimizer, total: int | None = None) -> RecordedSchedule:
        """Return a learning-rate scheduler that follows the recorded steps; call its `step()` after each step.

        The recording is split into up to ten parts. The learning rate of each is the median of its steps (half of it
        with momentum, as for `fixed()`), limited to within a factor of 3 of `fixed()`. Between the parts the logarithm
        of the rate is interpolated linearly. After `total` steps the last rate is held.

        Args:
            optimizer: of the class and momentum of the recorded direction. Its `lr` is replaced. If its groups have
                different ones, the first follows the recording and the others keep their ratio to it.
            total: number of steps to stretch the schedule to. `None`: the number of recorded steps.
        """
        total, knots = self._total(total), self._knots()
        if isinstance(optimizer, GradlineOptimizer):
            raise TypeError("optimizer must be one that needs a learning rate, got a gradline optimizer: it needs none")
        ours, theirs = (self.kind, self.momentum), (type(optimizer).__name__, _momentum(optimizer))
        if ours != theirs:
            raise ValueError(
                f"optimizer must be {_description(*ours)} (the recorded steps are its learning rates; record with this "
                f"optimizer as the direction, or use rates()), got {_description(*theirs)}"
            )
        lrs = [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]
        if not lrs[0] > 0.0:
            raise ValueError(
                f"optimizer must have a first group with an lr above 0 (the others keep their proportion to it), "
                f"got {lrs[0]!r}"
            )
        return RecordedSchedule(optimizer, knots, total)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the recording to a JSON file."""
        content = {
            "gradline": FORMAT,
            "kind": self.kind,
            "momentum": self.momentum,
            "searches": self.searches,
            "last_stop": self._last_stop,
            "steps": self.steps,
            "lengths": self.lengths,
        }
        Path(file).write_text(json.dumps(content) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> StepRecorder:
        """Read a recording that `save` wrote; the result does not record any further."""
        content = json.loads(Path(file).read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("gradline") != FORMAT:
            raise ValueError(f"file must be a recording that StepRecorder.save wrote, got {os.fspath(file)!r}")
        for name in ("steps", "lengths"):
            if not all(isinstance(one, float) and 0.0 < one < math.inf for one in content[name]):
                raise ValueError(f"file must hold {name} above 0 and finite, got {os.fspath(file)!r}")
        made = cls.__new__(cls)
        made._begin(content["kind"], content["momentum"])
        made.steps, made.lengths = content["steps"], content["lengths"]
        made.searches, made._last_stop = content["searches"], content["last_stop"]
        return made

    def plot(self, axes: Axes | None = None) -> Axes:
        """Plot the steps, the schedule and the constant learning rate. Needs matplotlib."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(layout="constrained").subplots()
        axes.semilogy(range(len(self.steps)), self._recorded(), ".", color="0.6", label="steps of the search")
        axes.semilogy(self.rates(), color="C0", label="schedule")
        axes.axhline(self.fixed(), color="C1", linestyle="--", label=f"fixed: {self.fixed():.2g}")
        axes.set(xlabel="step", ylabel=f"learning rate of {_description(self.kind, self.momentum)}")
        axes.legend()
        return axes

    def __repr__(self) -> str:
        about = f"{len(self.steps)} steps of {self.searches} searches, for {_description(self.kind, self.momentum)}"
        return f"<StepRecorder: {about}{f', fixed {self.fixed():.3g}' if self.steps else ''}>"

    @property
    def _share(self) -> float:
        return MEMORY if self.momentum else 1.0

    def _recorded(self) -> NDArray[np.float64]:
        if not self.steps:
            why = f"the last of {self.searches} searches: {self._last_stop}" if self.searches else "no search has ended"
            raise RuntimeError(f"no step was recorded, so that there is no learning rate to tell ({why})")
        return np.array(self.steps)

    def _knots(self) -> list[float]:
        steps = self._recorded()
        parts = np.array_split(steps, max(1, min(PARTS, len(steps) // FEWEST)))
        fixed = self.fixed()
        return [float(np.clip(self._share * np.median(part), fixed / NEAR, fixed * NEAR)) for part in parts]

    def _total(self, total: int | None) -> int:
        if total is None:
            return len(self._recorded())
        if type(total) is not int or total < 1:
            raise ValueError(f"total must be a whole number above 0 (the course is stretched to it), got {total!r}")
        return total


def _median(steps: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Return the weighted median: the smallest step up to which the weights sum to half of the total."""
    order = np.argsort(steps)
    below = np.cumsum(weights[order])
    return float(steps[order][np.searchsorted(below, below[-1] / 2)])


def _momentum(optimizer: Optimizer | None) -> float:
    if optimizer is None:
        return 0.0
    group = optimizer.param_groups[0]
    return float(group["betas"][0] if "betas" in group else group.get("momentum", 0.0))


def _description(kind: str, momentum: float) -> str:
    return f"{kind} with momentum {momentum:g}" if momentum else kind
