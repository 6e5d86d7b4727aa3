"""Run line searches on tensors: connect a driver with the line and the sensor.

The driver (`gradline.driver`) decides what follows from an observation. This module evaluates and measures gradients,
moves the parameters, keeps the gradients of candidates, and keeps or restores running statistics.

`run_search` performs a whole search with a closure and leaves the parameters at the accepted point. `advance` passes
the current gradients to the search and leaves the parameters at its next probe.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias, cast

from torch import Tensor

from gradline.codec import Plain
from gradline.driver import Driver, Mark, Phase
from gradline.protocol import Origin, Pending, candidates
from gradline.torch.base import caller
from gradline.torch.context import ModuleContext
from gradline.torch.direction import SteepestDescent, Update
from gradline.torch.distributed.sharded import whole
from gradline.torch.line import Gradients, Line
from gradline.torch.private import foreach_mul_, set_grad
from gradline.torch.sensors import Evaluation, Sensor
from gradline.torch.snapshot import Noise

Closure: TypeAlias = Callable[[], Any]

_OVERFLOWS = {"probe": 1, "origin": 16}
"""Number of consecutive overflows under a loss scaler that are evaluated again. The scaler lowers its scale each time,
and may need several attempts at first."""


class Standing(Enum):
    """Position of the parameters between two calls."""

    ACCEPTED = "at the accepted point"
    PROBE = "at the search's next probe"
    EVALUATION = "at the accepted point, for evaluation"
    EVALUATION_FROM_PROBE = "at the accepted point, for evaluation, until they go back to the probe"

    @property
    def evaluating(self) -> bool:
        """Whether the model is being evaluated, so that no step is allowed."""
        return self in (Standing.EVALUATION, Standing.EVALUATION_FROM_PROBE)

    @property
    def probing(self) -> bool:
        """Whether the parameters are at the probe when training continues."""
        return self in (Standing.PROBE, Standing.EVALUATION_FROM_PROBE)


SessionMark: TypeAlias = tuple[Mark, Standing, dict[int, Evaluation], Plain]


class Session:
    """The state of training by line searches.

    `collect` returns the current gradients, and `settings` those that all processes must share.
    """

    def __init__(
        self,
        driver: Driver,
        direction: SteepestDescent | Update,
        sensor: Sensor,
        context: ModuleContext,
        collect: Callable[[], Gradients],
        settings: Callable[[], Mapping[str, str]],
        *,
        reuse_gradient: bool,
    ) -> None:
        self.driver = driver
        self.direction = direction
        self.sensor = sensor
        self.context = context
        self._collect, self._settings = collect, settings
        context.discovered = self._discovered
        self.reuse_gradient = reuse_gradient
        self.standing = Standing.ACCEPTED
        self.line: Line | None = None
        self.kept: dict[int, Evaluation] = {}  # by probe: the candidates
        self.overflows = 0  # of a loss scaler, in a row
        self._begun = sensor.state()  # numbers of the sensor when the search began

    def _discovered(self) -> None:
        """Use the processes that have been discovered."""
        ranks = self.context.ranks
        ranks.begin(self._settings)
        self.sensor.check(ranks)
        if self.line is not None:
            self.line.ranks = ranks

    def run_search(self, closure: Closure, noise: Noise | None = None) -> Any:
        """Run a whole search, or complete one that `advance` has started; return the loss of the accepted probe.

        With `noise` every evaluation draws the same random numbers.
        """
        loss, driver = None, self.driver
        if not self.context.known:
            self.context.discover()
        self.context.statistics.keep()
        if driver.state.pending is None:
            driver.evaluations += 1
            evaluation = self._evaluate(closure, noise, probing=False, clear=True)
            begun = self._begin(evaluation)
            self.context.statistics.put_back()
            if not begun:
                return evaluation.loss
            del evaluation  # frees its gradients during the search
        before = driver.state.iterations
        while driver.state.iterations == before:
            self.to_probe()
            driver.evaluations += 1
            loss = self._observe(self._evaluate(closure, noise, probing=True, clear=True))
        self.standing = Standing.ACCEPTED
        return loss

    def advance(self, closure: Closure | None = None, *, scaled: bool = False) -> Any:
        """Pass the current gradients, or those of a closure, to the search; move to the next probe; return the loss.

        `scaled`: a loss scaler is used. It lowers its scale after an overflow, so that the same point is evaluated
        again before an overflow counts.
        """
        if not self.context.known:
            self.context.discover(last=closure is None)
        driver, probing = self.driver, self.standing is Standing.PROBE
        if closure is None:
            driver.evaluations += 1
            evaluation = self._evaluate(None, probing=probing)
        else:
            evaluation = self._evaluate(closure, probing=probing)
            driver.evaluations += 1  # one that failed is made again, on another batch
        loss, evaluation.loss = evaluation.loss, None  # do not keep the graph
        if scaled and not evaluation.finite and self.overflows < _OVERFLOWS["probe" if probing else "origin"]:
            self.overflows += 1
            self.context.statistics.put_back()
            return loss
        self.overflows = 0
        if probing:
            self._observe(evaluation)
        else:
            driver.abandon()  # a search begun early by step(closure)
            self._begin(evaluation)
            self.context.statistics.put_back()
        self.standing = Standing.ACCEPTED
        if driver.state.pending is not None:
            self.to_probe()
            self.standing = Standing.PROBE
        return loss

    def to_probe(self) -> None:
        """Move the parameters to the step that the search asks for."""
        line, pending = self.line, self.driver.state.pending
        assert line is not None
        assert pending is not None
        line.go(pending.step)

    def abandon(self) -> None:
        """Discard the current search; the current parameters become the accepted point."""
        self.driver.abandon()
        self.kept = {}
        self.standing = Standing.EVALUATION if self.standing.evaluating else Standing.ACCEPTED
        if self.line is not None:
            self.line.away = False

    def mark(self) -> SessionMark:
        """Return the state to which `rewind` returns, at the start of a step."""
        return self.driver.mark(), self.standing, self.kept, self.sensor.state()

    def rewind(self, mark: SessionMark) -> None:
        """Restore parameters and search after a failure.

        A search accepted since the mark stays accepted; one begun since restarts from its origin. If `rewind` itself
        fails, it can be called again.
        """
        driver, line = self.driver, self.line
        driver_mark, standing, kept, sensor = mark
        if isinstance(self.direction, Update):
            self.direction.restore()
        self.standing = Standing.ACCEPTED
        self.context.statistics.put_back()
        if line is None:
            return
        if driver.phase is Phase.ENDED and not line.away:
            self._accept()  # interrupted just before: the parameters are at the accepted point
        if driver.phase is Phase.ORIGIN:
            self.kept = {}
            line.home()
            return
        same = driver.pending is driver_mark.state.pending
        driver.rewind(driver_mark)
        self.sensor.load_state(sensor if same else self._begun)
        if same and standing is Standing.PROBE:
            self.to_probe()
            self.standing = Standing.PROBE
        else:
            line.home()
        self.kept = kept if same else {}

    def _begin(self, evaluation: Evaluation, *, early: bool = False) -> bool:
        """Set the direction from an evaluation at the current point and begin a search; return whether it has begun."""
        self.kept = {}
        gradients, norm = evaluation.gradients, evaluation.norm
        if self.line is None or not self.line.moves(gradients.parameters):
            self.line = Line(gradients.parameters, self.context.ranks)
        self.line.away = False
        slope, length = -norm, norm
        if evaluation.finite:
            if evaluation.samples is not None and isinstance(self.direction, Update):
                evaluation.samples.keep()  # the base optimizer moves the parameters temporarily
            slope, length = self._aim(self.line, gradients, norm)
            self.line.aimed = self.line.aimed or length < float("inf")
        steepest = isinstance(self.direction, SteepestDescent)
        origin = Origin(self.sensor.at_origin(evaluation, slope, self.line, steepest=steepest), length)
        self._begun = self.sensor.state()
        # torch.distributed.checkpoint primes optimizers with a zero-gradient step. Before the first step it is a no-op.
        still = length == 0.0 or (norm == 0.0 and not self.driver.state.taken)
        return self.driver.begin(origin, zero_direction=still, early=early)

    def _aim(self, line: Line, gradients: Gradients, norm: float) -> tuple[float, float]:
        """Write the direction into the line; return its slope and length."""
        factor = self.sensor.gradient_factor(norm)
        if factor == 1.0:
            slope, length = self.direction.aim(line, gradients, norm)
        else:
            scaled = gradients.cloned()
            foreach_mul_(scaled.tensors, factor)
            before = [parameter.grad for parameter in gradients.parameters]
            try:
                for parameter, tensor in zip(*scaled, strict=True):
                    parameter.grad = whole(tensor, parameter)
                slope, length = self.direction.aim(line, scaled, factor * norm)
            finally:
                for parameter, gradient in zip(gradients.parameters, before, strict=True):
                    parameter.grad = gradient
            slope /= factor  # slope of the unscaled gradient
        self.sensor.aimed(norm)
        return slope, length

    def _observe(self, evaluation: Evaluation) -> Any:
        """Pass a probe to the search and accept the outcome if it ends; return the accepted or last probe's loss."""
        line, driver = self.line, self.driver
        pending = driver.state.pending
        assert line is not None
        assert pending is not None
        if not line.is_finite(pending.step, pending.origin.norm):
            evaluation.slope = float("nan")  # gradients may be finite there, as of a linear loss
        outcome = driver.observe(self.sensor.at_probe(evaluation, line))
        probe = len(pending.transcript) - 1
        if outcome is None:
            self._keep(probe, evaluation)
            self.context.statistics.put_back()
        elif outcome.probe is None:
            line.home()
            self.context.statistics.put_back()
            self._accept()
        else:
            if outcome.probe != probe:
                evaluation.gradients.release()
                evaluation = self._kept(outcome.probe)
                line.go(outcome.step)
                for parameter, gradient in zip(*evaluation.gradients, strict=True):
                    parameter.grad = whole(gradient, parameter)
                if evaluation.statistics is not None:
                    self.context.statistics.put(evaluation.statistics)
            self.context.statistics.keep()
            line.away = False  # the point is accepted, even if the rest is interrupted
            self._accept()
            if self.reuse_gradient:
                self._begin_early(evaluation)
        return evaluation.loss

    def _accept(self) -> None:
        """Make the current point the accepted one."""
        line, before = self.line, self.driver.state.taken
        record = self.driver.accept()
        self.kept = {}
        if line is not None and self.driver.state.taken > before:
            self.sensor.stepped(line, record.step, before)

    def _begin_early(self, evaluation: Evaluation) -> None:
        """Begin the next search from the accepted probe; a failure only warns, since the step is already taken."""
        try:
            self._begin(evaluation, early=True)
        except Exception as error:
            self.driver.abandon()
            warnings.warn(
                f"gradline: the step was taken, but its gradient cannot be used again ({error}): the next step begins "
                f"with an evaluation",
                RuntimeWarning,
                stacklevel=caller(),
            )

    def _keep(self, probe: int, evaluation: Evaluation) -> None:
        """Keep the evaluations of the search's candidates and discard the others."""
        if hasattr(self.driver.search, "candidates"):
            wanted = candidates(self.driver.search, cast("Pending[Any, Any]", self.driver.pending).transcript)
            self.kept = {index: kept for index, kept in self.kept.items() if index in wanted}
            if probe in wanted:
                self.kept[probe] = evaluation.kept(self.context.statistics.now())

    def _kept(self, probe: int) -> Evaluation:
        if probe not in self.kept:
            raise RuntimeError(
                f"a search must accept its last probe or one of its candidates (the gradients of others are gone), but "
                f"{type(self.driver.search).__name__} accepted probe {probe}; give it a method candidates(transcript)"
            )
        return self.kept[probe]

    def _evaluate(
        self, closure: Closure | None, noise: Noise | None = None, *, probing: bool, clear: bool = False
    ) -> Evaluation:
        """Compute an evaluation and measure it, along the line if it is a probe.

        Without a closure the current gradients are used; `clear` clears them before it is called.
        """
        if noise is not None:
            noise.again()
        context, line = self.context, self.line
        if context.known and context.ranks.size == 1:
            evaluation, tensors = self._computed(closure, clear=clear)
        else:
            self._announce(probing=probing)
            with context.failing_together():
                evaluation, tensors = self._computed(closure, clear=clear)
            if not context.known:  # its processes may have been discovered in this evaluation
                context.discover(last=True)
                self._announce(probing=probing)
        gradients = evaluation.gradients
        if probing and line is not None:
            evaluation.norm, evaluation.slope, evaluation.scalars = line.measure(gradients, *tensors)
        else:
            evaluation.norm, evaluation.slope, evaluation.scalars = context.ranks.measure(*gradients, [], *tensors)
        if evaluation.samples is not None:
            evaluation.scalars += self.sensor.value(evaluation.samples, context.ranks)
        return evaluation

    def _computed(self, closure: Closure | None, *, clear: bool) -> tuple[Evaluation, Sequence[Tensor]]:
        """Call the closure, if there is one; return the evaluation, not yet measured, and its scalars as tensors."""
        loss, samples, sensor = None, None, self.sensor
        if closure is not None:
            if clear:  # otherwise gradients would accumulate in closures without zero_grad()
                for parameter in self.context.parameters():
                    parameter.grad = None
            try:
                set_grad(True)
                loss = closure()
            finally:
                set_grad(False)
            if sensor.per_sample:
                samples = sensor.evaluate(loss)
                loss = samples.losses
        gradients = self._collect()
        tensors = () if closure is None and sensor.needs_loss else sensor.scalars(loss, gradients)
        return Evaluation(gradients, loss=loss, samples=samples), tensors

    def _announce(self, *, probing: bool) -> None:
        """Set the search, probe and step that are sent to other processes with the next evaluation."""
        pending = self.driver.pending if probing else None
        probe, step = (0, 0.0) if pending is None else (len(pending.transcript) + 1, pending.step)
        self.context.ranks.at(self.driver.iterations + 1, probe, step)
