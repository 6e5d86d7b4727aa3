"""The conversation between a search and a model: one machine behind every way to train.

A search (`Pending`) asks about points on a line (`Line`), x0 + α d. Each evaluation of the gradient is told to it,
whether a closure made it or the user's own `loss.backward()`:

    no search ──gradient──▶ aim d, begin ──▶ probe ──gradient──▶ tell ──▶ probe … ──▶ outcome: accept it, and
                                                              begin the next search from the gradient just computed

`hold` has the whole conversation with a closure and leaves the parameters at the accepted point.
`turn` has one turn of it on gradients that are there, and leaves the parameters at the next probe.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor

from gradline.protocol import (
    Moments,
    Origin,
    Outcome,
    Pending,
    Record,
    Search,
    Slope,
    Stop,
    Value,
    candidates,
    observes,
    observes_at_probes,
)
from gradline.torch.direction import SteepestDescent, Update
from gradline.torch.line import Gradients, Line, measure
from gradline.torch.moments.evaluated import Evaluated
from gradline.torch.moments.statistics import plain_mean_and_variance
from gradline.torch.per_sample import PerSample

Closure: TypeAlias = Callable[[], Any]


class Evaluation(NamedTuple):
    """What one evaluation showed: the value only where the search compares values, and samples where it needs them."""

    gradients: Gradients
    norm: float
    slope: float
    value: float | None
    loss: Any
    value_var: float = 0.0
    samples: Evaluated | None = None

    def seen(self, slope: float, slope_var: float | None = None) -> Slope:
        """What a search is told, with the slope along its own direction and that slope's variance."""
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


class Mark(NamedTuple):
    """Where the conversation stood when a step began."""

    pending: Pending[Any, Any] | None
    told: int
    probing: bool
    iterations: int


class Descent:
    """The state of training by line searches.

    `collect` finds the gradients there are; `per_sample` makes them from per-sample losses, where variances are needed.
    """

    def __init__(
        self,
        search: Search[Any, Any],
        direction: SteepestDescent | Update,
        collect: Callable[[], Gradients],
        *,
        reuse_gradient: bool,
        per_sample: PerSample | None = None,
    ) -> None:
        self.search = search
        self.direction = direction
        self.collect = collect
        self.reuse_gradient = reuse_gradient
        self.per_sample = per_sample
        self.evaluations = 0
        self.iterations = 0
        self.last: Record[Any, Any] | None = None
        self.memory = search.start()
        self.pending: Pending[Any, Any] | None = None
        self.line: Line | None = None
        self.kept: dict[int, Evaluation] = {}
        self.probing = False  # between calls the parameters belong at the probe
        self._nothing: Record[Any, Any] | None = None  # why the last attempt to begin a search began none

    def hold(self, closure: Closure) -> Any:
        """Search to the end, or end what `turn` has begun; return the accepted probe's loss."""
        loss = None
        if self.pending is None:
            loss = self._begin(self._evaluate(closure, None))
            if self.pending is None:
                self._finish(cast("Record[Any, Any]", self._nothing))
                return loss
        pending = self.pending
        while pending.outcome is None:
            self.to_probe()
            loss = self._tell(self._evaluate(closure, self.line))
        self.probing = False
        return loss

    def turn(self) -> None:
        """Tell the gradients that are there, and go to the next probe."""
        self.evaluations += 1
        if self.probing:
            self._tell(self._look(None, self.line))
        else:
            self._begin(self._look(None, None))
            if self.pending is None:
                self._finish(cast("Record[Any, Any]", self._nothing))
        self.probing = False
        if self.pending is not None:
            self.to_probe()
            self.probing = True

    def to_probe(self) -> None:
        """Put the parameters where the search wants to look."""
        cast(Line, self.line).go(cast("Pending[Any, Any]", self.pending).step)

    def mark(self) -> Mark:
        """Note where the conversation stands."""
        told = 0 if self.pending is None else len(self.pending.transcript)
        return Mark(self.pending, told, self.probing, self.iterations)

    def rewind(self, mark: Mark) -> None:
        """After a failure: put parameters and search back to where they stood.

        A search that has been accepted since stays accepted, and one that has begun since is put back to its beginning.
        """
        pending, line = self.pending, self.line
        self.probing = False
        if line is None:
            return
        if pending is None or (pending.outcome is not None and not line.away):
            # Interrupted after the accepted point was made home: while aiming from there, or just before.
            if pending is not None and pending.outcome is not None:
                self._accept(pending.record, mark.iterations + 1)
            self.pending, self.kept = None, {}
            line.home()
            return
        told = mark.told if pending is mark.pending else 0
        self.pending = Pending.replay(self.search, pending.origin, pending.memory, pending.transcript[:told])
        self.kept = {probe: kept for probe, kept in self.kept.items() if probe < told}
        if mark.probing and pending is mark.pending:
            self.to_probe()
            self.probing = True
        else:
            line.home()

    def _begin(self, at_origin: Evaluation) -> Any:
        """Aim from an evaluation at the present point and begin a search, if there is anything to search.

        Returns the loss, so that nobody needs to hold on to the evaluation and its gradients.
        """
        self.pending, self.kept = None, {}
        gradients, norm = at_origin.gradients, at_origin.norm
        if self.line is None or not self.line.moves(gradients.parameters):
            self.line = Line(gradients.parameters)
        self.line.away = False
        slope, length = -norm, norm
        if at_origin.finite:
            if at_origin.samples is not None and isinstance(self.direction, Update):
                at_origin.samples.keep()  # a base optimizer moves the parameters, and they are put back
            slope, length = self.direction.aim(self.line, gradients, norm)
            self.line.aimed = True
        variance = self._variance(at_origin)
        origin = Origin(at_origin.seen(slope, variance), length)
        if not (origin.at_zero.finite and math.isfinite(length) and math.isfinite(variance or 0.0)):
            outcome = Outcome(0.0, None, Stop.NON_FINITE_ORIGIN, self.memory)
        elif length == 0.0:
            outcome = Outcome(0.0, None, Stop.ZERO_DIRECTION, self.memory)
        else:
            pending = Pending(self.search, origin, self.memory)
            if pending.outcome is None:
                self.pending = pending
                return at_origin.loss
            outcome = pending.outcome
        self._nothing = Record(self.search, origin, self.memory, outcome, [])
        return at_origin.loss

    def _variance(self, at_origin: Evaluation) -> float | None:
        """The variance of the slope along the direction just aimed; infinite where nothing was."""
        if self.per_sample is None or at_origin.samples is None:
            return None
        if not at_origin.finite:
            return math.inf
        steepest = isinstance(self.direction, SteepestDescent)
        return self.per_sample.variance(at_origin.samples, cast(Line, self.line), steepest=steepest)

    def _tell(self, evaluation: Evaluation) -> Any:
        """Tell the search of its probe; if that ends it, accept the outcome. Returns the loss that stands."""
        pending = cast("Pending[Any, Any]", self.pending)
        pending.tell(evaluation.seen(evaluation.slope, self._variance_of_probe(evaluation)))
        probe = len(pending.transcript) - 1
        outcome = pending.outcome
        if outcome is None:
            self._keep(probe, evaluation)
        elif outcome.probe is None:
            self._give_up(pending)
        else:
            if outcome.probe != probe:
                evaluation.gradients.release()
                evaluation = self._kept(outcome.probe)
                cast(Line, self.line).go(outcome.step)
                for parameter, gradient in zip(*evaluation.gradients, strict=True):
                    parameter.grad = gradient
            self._finish(pending.record)
            if self.reuse_gradient:
                self._begin_early(evaluation)
        return evaluation.loss

    def _begin_early(self, evaluation: Evaluation) -> None:
        """Begin the next search from the accepted probe. The step is taken: a failure here is not this step's."""
        try:
            self._begin(evaluation)
        except Exception as error:
            self.pending = None
            warnings.warn(
                f"gradline: the step was taken, but its gradient cannot be used again ({error}): the next step begins "
                f"with an evaluation",
                RuntimeWarning,
                stacklevel=7,
            )

    def _finish(self, record: Record[Any, Any]) -> None:
        """Make the present point the accepted one."""
        cast(Line, self.line).away = False  # from here on it is, even if what follows is interrupted
        self._accept(record, self.iterations + 1)
        self.pending, self.kept = None, {}

    def _accept(self, record: Record[Any, Any], iterations: int) -> None:
        self.memory = record.outcome.memory
        self.last = record
        self.iterations = iterations

    def _give_up(self, pending: Pending[Any, Any]) -> None:
        """Go back to the origin; where the evaluations were at fault, not the direction, that one stands."""
        cast(Line, self.line).home()
        self._finish(pending.record)
        if pending.record.stop is Stop.NON_FINITE and self.reuse_gradient:
            again = Pending(self.search, pending.origin, self.memory)
            if again.outcome is None:  # with the new memory there may be nothing to search from here
                self.pending = again

    def _keep(self, probe: int, evaluation: Evaluation) -> None:
        """Keep the gradients of probes that may yet be accepted, and only these. The last one is there anyway."""
        if hasattr(self.search, "candidates"):
            wanted = candidates(self.search, cast("Pending[Any, Any]", self.pending).transcript)
            self.kept = {index: kept for index, kept in self.kept.items() if index in wanted}
            if probe in wanted:
                self.kept[probe] = evaluation.kept()

    def _kept(self, probe: int) -> Evaluation:
        if probe not in self.kept:
            raise RuntimeError(
                f"a search must accept its last probe or one of its candidates (the gradients of others are gone), but "
                f"{type(self.search).__name__} accepted probe {probe}; give it a method candidates(transcript)"
            )
        return self.kept[probe]

    def _variance_of_probe(self, evaluation: Evaluation) -> float | None:
        if self.per_sample is None or evaluation.samples is None or observes_at_probes(self.search) is not Moments:
            return None
        line = cast(Line, self.line)
        return self.per_sample.variance(evaluation.samples, line) if evaluation.finite else math.inf

    def _evaluate(self, closure: Closure, line: Line | None) -> Evaluation:
        self.evaluations += 1
        with torch.enable_grad():
            loss = closure()
        return self._look(loss, line)

    def _look(self, loss: Any, line: Line | None) -> Evaluation:
        """What the gradients show, along a line if there is one; and the loss, where values count."""
        samples = None
        if self.per_sample is not None:
            samples = self.per_sample.evaluate(loss)
            loss = samples.losses
        scalars = (self._scalar(loss),) if samples is None and observes(self.search) is not Slope else ()
        gradients = self.collect()
        if line is None:
            norm, slope, values = measure(gradients.tensors, [], *scalars)
        else:
            norm, slope, values = line.measure(gradients, *scalars)
        if samples is not None:
            value, variance = plain_mean_and_variance(samples.losses)
            return Evaluation(gradients, norm, slope, value, loss, variance, samples)
        return Evaluation(gradients, norm, slope, values[0] if values else None, loss)

    def _scalar(self, loss: Any) -> Tensor:
        if isinstance(loss, Tensor) and loss.numel() == 1:
            return loss.detach().reshape(())
        if isinstance(loss, float | int):
            return torch.tensor(float(loss), dtype=torch.float64)
        got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
        raise TypeError(
            f"closure must return the loss, one number ({type(self.search).__name__} compares it), got {got}"
        )
