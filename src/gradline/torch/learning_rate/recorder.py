"""The steps that a search took, and what to make of them: one learning rate, or a schedule."""

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
from gradline.torch.learning_rate.schedule import RecordedSchedule, rate_at
from gradline.torch.optimizer import LineSearchOptimizer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["StepRecorder"]

PARTS = 10
"""A schedule has at most so many knots, each the median of a tenth of the recording."""
NEAR = 3.0
"""A knot is within this factor of the one learning rate."""
FEWEST = 5
"""A knot is the median of so many steps at least."""
MEMORY = 0.5
"""What is taken of the steps of an optimizer with momentum: it goes on along a direction after the search has ended."""
FORMAT = "steps 1"
"""What tells a saved recording from other files."""


class StepRecorder:
    """Record the steps of an optimizer's searches, for training without searches later.

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

    A step is the learning rate of the optimizer that is the search's direction: of plain SGD, if none was given.
    Searches that found no step are counted, but not recorded: those that changed nothing, and those that ended uphill
    even at the smallest step.

    Args:
        optimizer: a gradline optimizer. Recording begins at once, and ends with `stop()`.
    """

    _handle: RemovableHandle | None = None

    def __init__(self, optimizer: LineSearchOptimizer) -> None:
        if not isinstance(optimizer, LineSearchOptimizer):
            raise TypeError(
                f"optimizer must be a gradline optimizer (its searches are recorded; of a trainer's wrapper give the "
                f"one inside), got {type(optimizer).__name__}"
            )
        base = optimizer._base
        self._begin("SGD" if base is None else type(base).__name__, _momentum(base))
        self._handle = optimizer.register_search_hook(self._take)

    def _begin(self, kind: str, momentum: float) -> None:
        self.steps: list[float] = []
        """The steps found, in order."""
        self.lengths: list[float] = []
        """The lengths of the directions along which they were found."""
        self.searches = 0
        """How many searches there were, those that found no step included."""
        self.kind = kind
        """The class of optimizer whose learning rates the steps are."""
        self.momentum = momentum
        """Its momentum, or the first of its betas; 0 if it has neither."""
        self._last_stop = ""

    def _take(self, record: Record[Any, Any]) -> None:
        self.searches += 1
        self._last_stop = str(record.stop)
        if record.step > 0.0 and record.stop is not Stop.STEP_MIN:
            self.steps.append(record.step)
            self.lengths.append(record.origin.norm)

    def stop(self) -> None:
        """Record no more."""
        if self._handle is not None:
            self._handle.remove()

    def fixed(self) -> float:
        """One learning rate: the median of the steps, each weighted by the length of its direction.

        Half of it for optimizers with momentum (Adam is one): the search finds how far to go along a direction at once,
        and such an optimizer goes on along it in the steps that follow.

        The median, since steps differ by powers of ten: a mean would be that of the few largest, which only the search
        knew to be safe where it took them. The weights, since steps lose their meaning as the gradient vanishes:
        towards the end of training they grow without bound, or become those of the noise.
        """
        return self._share * _median(self._there(), np.array(self.lengths))

    def rates(self, total: int | None = None) -> list[float]:
        """The learning rates of the whole course, one for each step of training.

        Args:
            total: to how many steps it is stretched; `None`: as many as were recorded.
        """
        total = self._total(total)
        knots = self._knots()
        return [rate_at(knots, step / total) for step in range(total)]

    def schedule(self, optimizer: Optimizer, total: int | None = None) -> RecordedSchedule:
        """The whole course as a scheduler: call its `step()` after each step of the optimizer.

        The recording is cut into up to ten parts. The median of each (half of it, as for `fixed()`) is its learning
        rate, and between them the logarithm of the rate is linear. After `total` steps the last rate is held. All rates
        are within a factor of 3 of `fixed()`: where steps went further, a search was looking after them.

        Args:
            optimizer: of the kind and momentum that was the direction. Its own `lr` is replaced. If its groups have
                several, the first follows the recording and the others keep their proportion to it.
            total: to how many steps the course is stretched; `None`: as many as were recorded.
        """
        total, knots = self._total(total), self._knots()
        if isinstance(optimizer, LineSearchOptimizer):
            raise TypeError("optimizer must be one that needs a learning rate, got a gradline optimizer: it needs none")
        ours, theirs = (self.kind, self.momentum), (type(optimizer).__name__, _momentum(optimizer))
        if ours != theirs:
            raise ValueError(
                f"optimizer must be {_words(*ours)} (the recorded steps are its learning rates; record with this "
                f"optimizer as the direction, or use rates()), got {_words(*theirs)}"
            )
        lrs = [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]
        if not lrs[0] > 0.0:
            raise ValueError(
                f"optimizer must have a first group with an lr above 0 (the others keep their proportion to it), "
                f"got {lrs[0]!r}"
            )
        return RecordedSchedule(optimizer, knots, total)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the recording as JSON."""
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
        """Read what `save` wrote. It records no more."""
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
        """Draw the steps, the schedule and the one learning rate. Needs matplotlib."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(layout="constrained").subplots()
        axes.semilogy(range(len(self.steps)), self._there(), ".", color="0.6", label="steps of the search")
        axes.semilogy(self.rates(), color="C0", label="schedule")
        axes.axhline(self.fixed(), color="C1", linestyle="--", label=f"fixed: {self.fixed():.2g}")
        axes.set(xlabel="step", ylabel=f"learning rate of {_words(self.kind, self.momentum)}")
        axes.legend()
        return axes

    def __repr__(self) -> str:
        about = f"{len(self.steps)} steps of {self.searches} searches, for {_words(self.kind, self.momentum)}"
        return f"<StepRecorder: {about}{f', fixed {self.fixed():.3g}' if self.steps else ''}>"

    @property
    def _share(self) -> float:
        return MEMORY if self.momentum else 1.0

    def _there(self) -> NDArray[np.float64]:
        if not self.steps:
            why = f"the last of {self.searches} searches: {self._last_stop}" if self.searches else "no search has ended"
            raise RuntimeError(f"no step was recorded, so that there is no learning rate to tell ({why})")
        return np.array(self.steps)

    def _knots(self) -> list[float]:
        steps = self._there()
        parts = np.array_split(steps, max(1, min(PARTS, len(steps) // FEWEST)))
        fixed = self.fixed()
        return [float(np.clip(self._share * np.median(part), fixed / NEAR, fixed * NEAR)) for part in parts]

    def _total(self, total: int | None) -> int:
        if total is None:
            return len(self._there())
        if type(total) is not int or total < 1:
            raise ValueError(f"total must be a whole number above 0 (the course is stretched to it), got {total!r}")
        return total


def _median(steps: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """The least step such that it and those below it have half of the weight."""
    order = np.argsort(steps)
    below = np.cumsum(weights[order])
    return float(steps[order][np.searchsorted(below, below[-1] / 2)])


def _momentum(optimizer: Optimizer | None) -> float:
    if optimizer is None:
        return 0.0
    group = optimizer.param_groups[0]
    return float(group["betas"][0] if "betas" in group else group.get("momentum", 0.0))


def _words(kind: str, momentum: float) -> str:
    return f"{kind} with momentum {momentum:g}" if momentum else kind
