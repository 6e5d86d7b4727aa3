"""The steps of `Angle`: what each gradient is used for.

Each call of `step` uses one gradient, of the mini-batch just evaluated. What it does with it:

    phase   gradient             what happens                                                      next phase
    ------  -------------------  ----------------------------------------------------------------  ----------
    START   zero                 nothing                                                           START
    STEPS   zero                 nothing                                                           STEPS
    START   not finite           nothing                                                           START
    START   finite               Adam's direction d is computed; the first search begins, and the  FIRST
                                 parameters move to its first probe, x0 + α d
    FIRST   any                  the search asks for another step: move to x0 + α d                FIRST
    FIRST   far longer or        reported to the search as not finite, twice in a row at most,     FIRST
            shorter than usual   and not at its first probe
    FIRST   any                  the search ends without a step: back to x0                        START
    FIRST   finite               the search accepts this probe: continue as in phase STEPS         STEPS
    STEPS   finite               the point y is accepted; the angle between gradient and           STEPS
                                 displacement sets α; the iterate z takes Adam's update at
                                 learning rate α, the average x of all iterates follows it, and
                                 the parameters move to y = (1 - β) z + β x
    STEPS   not finite           the same point is evaluated again, on the next mini-batch         STEPS
    STEPS   not finite again     the last step is halved, at last undone (START)                   STEPS
    STEPS   far longer than      as one that is not finite, but the step is halved once at most    STEPS
            usual, and uphill
            along the last step

Parameters without a gradient stay where they are, except in the first search, which moves all that it began with.

The rule that sets α is `gradline.searches.Angle`; what it moves is Schedule-Free AdamW (Defazio et al. 2024), with
weights k³ of the k-th iterate in the average.

Tensors per parameter, all in `optimizer.state`: Adam's second moment, the iterate z, the point x0 before the last step,
and the displacement of the points (during the first search: the direction). Iterate and displacement are in float32 if
the parameter is in half precision. The displacement after n steps is stored times n, as a sum of k (y_k - y_(k-1)).
"""

from __future__ import annotations

import math
import warnings
from operator import attrgetter
from typing import Any

from torch import Tensor

from gradline.driver import Mark
from gradline.protocol import Heading, Origin, Outcome, Record, Slope, Stop
from gradline.searches.angle import AngleMemory
from gradline.torch.angle_state import AngleState, Phase
from gradline.torch.base import caller, warn_of
from gradline.torch.buckets import (
    DISPLACEMENT,
    Bucket,
    add_state,
    buckets_of,
    measured,
    slope_along_step,
)
from gradline.torch.distributed.settings import settings_of
from gradline.torch.distributed.sharded import local
from gradline.torch.measuring import extremes, to_host
from gradline.torch.outliers import LOOKS, OutlierGuard

__all__ = ["AngleSteps"]

_PATIENCE = {False: 1, True: 16}
"""Evaluations of a non-finite point before its step is halved, without and with a loss scaler."""
_FLAT = 20
"""Gradients in a row that are exactly zero, after which a warning is issued."""

_largest = attrgetter("largest")


class AngleSteps(AngleState):
    """Torch optimizer that takes the steps of `Angle`."""

    _moving = False  # within an update of the parameters
    _unscaled = 1.0  # factor of the gradients in this step: the inverse of GradScaler's scale
    _flat = 0  # gradients in a row that were zero
    _told_of_flat_loss = False

    @property
    def last(self) -> Record[Any, Any]:
        """Record of the last step: its size `.step`, `.cosine`, and the reason `.stop`."""
        last = self._driver.last
        if self._phase is Phase.STEPS and (last is None or self._driver.taken > 1):
            memory = self._driver.memory
            return self._record(memory.step, Outcome(memory.step, 0, Stop.ANGLE, memory))
        return self._driver.record

    def _record(self, step: float, outcome: Outcome[Any]) -> Record[Any, Any]:
        """Return the record of a step, which is not measured along a line."""
        origin = Origin(Heading(math.nan, *self._heading), math.nan)
        return Record(self.search, origin, self._before, outcome, [(step, Slope(math.nan))])

    @property
    def averaged_from(self) -> int:
        """The step since which the average has 90 % of its weight; 0 without an average."""
        return math.ceil(self._driver.memory.taken * 0.1**0.25) if self.average else 0

    def _advance(self) -> None:
        """Use the current gradients as the table at the head of this file says."""
        if not self._context.known:
            self._context.discover(last=True)
        if self._unsettled and not self._settle():
            return
        with self._context.ranks.telling():
            buckets = self._collected()
        numbers, phase = self._numbers(), self._phase
        try:
            ended = self._use(buckets, phase)
            self._moving = not (phase is self._phase is Phase.START)
            for bucket in buckets:
                bucket.release()
            self._moving = False
        except BaseException:
            self._undo(buckets, *numbers)
            raise
        self._context.ranks.moved()
        self._show_step()
        if ended and (self._optimizer_search_hooks or self._phase is Phase.START):
            record = self.last
            warn_of(record)
            self._call_hooks(record)

    def _use(self, buckets: list[Bucket], phase: Phase) -> bool:
        """Use the gradients in the buckets; return whether a step was taken, or the first search ended without one."""
        scaled = "found_inf" in vars(self)
        probed = [part for bucket in buckets for part in bucket.points] if phase is Phase.FIRST else []
        gg, gu, uu, values = self._measure_scaled(buckets, *extremes(probed))
        if gg == 0.0:
            self._count_flat()
            if phase is not Phase.FIRST:  # nothing to learn
                self._context.statistics.keep()
                # torch.distributed.checkpoint primes optimizers with such a step, which is not counted
                self._driver.evaluations += self._driver.evaluations > 0
                return False
        else:
            self._flat = 0
        self._driver.evaluations += 1
        if phase is Phase.FIRST:
            return self._continue_first(buckets, gg, gu, uu, finite=all(map(math.isfinite, values)))
        if phase is Phase.STEPS:
            return self._step(buckets, gg, gu, uu, scaled=scaled)
        return self._begin_first(buckets, gg, scaled=scaled)

    def _count_flat(self) -> None:
        """Count a gradient of zero; warn, once, if there were many in a row."""
        self._flat += 1
        if self._flat == _FLAT and not self._told_of_flat_loss:
            self._told_of_flat_loss = True
            warnings.warn(
                f"gradline: the last {_FLAT} gradients were exactly zero, and no step was taken. Look for parameters "
                f"that the loss does not depend on (frozen, detached, another model's), for saturated or dead units "
                f"(sigmoid, ReLU), and for a loss multiplied by 0",
                RuntimeWarning,
                stacklevel=caller(),
            )

    def _numbers(self) -> tuple[Mark, int, tuple[Any, ...]]:
        """Return all that a step changes apart from tensors."""
        own = (self._guard, self._failures, self._heading, self._before)
        return self._driver.mark(), self._driver.evaluations, own

    def _undo(self, buckets: list[Bucket], mark: Mark, evaluations: int, own: tuple[Any, ...]) -> None:
        """After an interrupt, or a failure on another rank: go back to where the parameters were before this call."""
        self._context.statistics.put_back()
        driver, moving = self._driver, self._moving
        driver.evaluations, driver.state, self._moving = evaluations, mark.state, False
        self._guard, self._failures, self._heading, self._before = own
        driver.rewind(mark)
        if moving:  # points and displacement may be incomplete
            for bucket in buckets:
                bucket.go_back()
                bucket.forget()
            if self._phase is Phase.FIRST:
                self._forget(buckets)
                driver.state = driver.state._replace(memory=self.search.start(), pending=None, taken=0)
        elif self._phase is Phase.FIRST:
            self._to_probe(buckets)
        for bucket in buckets:
            bucket.release()

    def _step(self, buckets: list[Bucket], gg: float, gu: float, uu: float, *, scaled: bool) -> bool:
        """Accept the current point and take the next step from it; return whether a step was taken or given up."""
        if not (math.isfinite(gg) and math.isfinite(gu) and math.isfinite(uu)) or self._overflows(buckets, gg):
            return self._halve(buckets, _PATIENCE[scaled], Stop.NON_FINITE)
        norm = math.sqrt(gg)
        if self._overshoots(buckets, norm):
            self._guard = self._guard.after(norm)
            return self._halve(buckets, _PATIENCE[False], Stop.STEP_MIN)
        halvings, self._failures = max(self._failures - _PATIENCE[scaled], 0), 0
        memory = self.search.count_step(self._driver.state.memory, halvings)
        self._context.statistics.keep()
        self._move(buckets, memory, norm, gu, norm * math.sqrt(uu), counted=1)
        return True

    def _overshoots(self, buckets: list[Bucket], norm: float) -> bool:
        """Return whether a gradient is far longer than usual, and the loss increases along the last step."""
        outlier = self._failures < LOOKS and self._guard.is_outlier(norm)
        return outlier and slope_along_step(buckets, self._context.ranks) > 0.0

    def _move(
        self, buckets: list[Bucket], memory: AngleMemory, norm: float, gu: float, scale: float, *, counted: int
    ) -> None:
        """Set the step from the angle between gradient and displacement, and take it in place.

        `memory` is that of the step accepted here, which adds `counted` to the driver's counts.
        """
        cosine = max(-1.0, min(1.0, gu / scale)) if scale > 0.0 else 0.0
        self._heading, self._before = (gu, scale), memory
        after = self.search.next_step(memory, cosine, faded=self._guard.has_faded(norm))
        factor, self._guard = self._guard.factor(norm), self._guard.after(norm)
        for bucket in buckets:
            bucket.save()
        self._moving = True
        for bucket in buckets:
            bucket.move(after.step, memory.taken + 1, factor * self._unscaled)
        state = self._driver.state
        self._driver.state = state._replace(
            memory=after, iterations=state.iterations + counted, taken=state.taken + counted
        )
        self._moving = False

    def _halve(self, buckets: list[Bucket], patience: int, stop: Stop) -> bool:
        """Evaluate a rejected point again, halve its step, and undo it if it cannot be halved, for the reason given."""
        self._context.statistics.put_back()
        self._failures += 1
        driver = self._driver
        if self._failures <= patience:
            return False
        memory = self.search.halve_step(driver.memory)
        self._moving = True
        if memory.step >= self.search.step_min:
            for bucket in buckets:
                bucket.halve(memory.taken + 1, 0.5 ** (self._failures - patience - 1))
            driver.state = driver.state._replace(memory=memory)
            self._moving = False
            return False
        for bucket in buckets:
            bucket.go_back()
        record = self._record(memory.step, Outcome(0.0, None, stop, self.search.start()))
        self._forget(buckets)
        state = driver.state
        memory, iterations = self.search.start(), state.iterations + 1
        driver.state = state._replace(memory=memory, last=record, iterations=iterations, taken=0)
        self._moving = False
        return True

    def _begin_first(self, buckets: list[Bucket], gg: float, *, scaled: bool) -> bool:
        """Compute Adam's direction and begin the first search along it; return whether it ended at once."""
        finite = math.isfinite(gg) and not self._overflows(buckets, gg)
        if not finite and scaled and self._failures < _PATIENCE[scaled]:  # the scaler lowers its scale
            self._failures += 1
            self._context.statistics.put_back()
            return False
        self._failures = 0
        slope = length = math.nan
        if finite:
            self._guard = OutlierGuard().after(math.sqrt(gg))
            for bucket in buckets:
                bucket.aim(self._unscaled)
            _, slope, square, _ = self._measure(buckets)
            length = math.sqrt(square)
        begun = self._driver.begin(Origin(Heading(slope, 0.0, 0.0), length), zero_direction=length == 0.0)
        self._context.statistics.put_back()
        if begun:
            self._moving = True
            self._failures = LOOKS
            self._to_probe(buckets)
            self._moving = False
        return not begun

    def _continue_first(self, buckets: list[Bucket], gg: float, gd: float, dd: float, *, finite: bool) -> bool:
        """Tell the first search the slope at its probe, which may be finite or not; return whether it has ended."""
        driver = self._driver
        if self._context.ranks.any(not finite):
            gd = math.nan  # gradients may be finite there, as of a linear loss
        far = self._failures < LOOKS and self._guard.is_off_scale(math.sqrt(gg))
        self._failures = self._failures + 1 if far else 0
        outcome = driver.observe(Slope(math.inf if far else gd))
        if outcome is None:
            self._context.statistics.put_back()
            self._to_probe(buckets)
            return False
        self._moving = True
        driver.accept()
        if outcome.probe is None:
            self._context.statistics.put_back()
            for bucket in buckets:
                bucket.go_back()
            self._forget(buckets)
            self._moving = False
            return True
        self._failures = 0
        for bucket in buckets:
            bucket.accept_probe(outcome.step)
        self._context.statistics.keep()
        norm = math.sqrt(gg)
        length = outcome.step * math.sqrt(dd)
        self._move(buckets, driver.memory, norm, outcome.step * gd, norm * length, counted=0)  # `accept` has counted it
        return True

    def _to_probe(self, buckets: list[Bucket]) -> None:
        """Move the parameters to the step that the first search asks for."""
        pending = self._driver.pending
        assert pending is not None
        for bucket in buckets:
            bucket.to_probe(pending.step)

    def _forget(self, buckets: list[Bucket]) -> None:
        """Forget the displacement, so that the next gradient begins a new first search."""
        self._failures = 0
        for bucket in buckets:
            bucket.forget()

    def _begin_anew(self) -> None:
        """Forget step, displacement and average, so that the next gradient begins a first search."""
        for parameter in self._known():
            local(self.state[parameter][DISPLACEMENT]).zero_()
        driver = self._driver
        last = self.last if driver.iterations else None
        self._forget([])
        driver.state = driver.state._replace(memory=self.search.start(), pending=None, last=last, taken=0)
        self._context.listen()

    def _shown_in(self, group: dict[str, Any], step: float) -> float:
        scale: float = group["lr_scale"]
        return step * scale

    def _collected(self) -> list[Bucket]:
        """Return all parameters that have or had a gradient, in buckets with their gradients."""
        buckets = self._buckets
        moving = [id(parameter) for parameter in self._parameters() if parameter.grad is not None]
        if buckets is not None and moving == self._collecting and all(bucket.collect() for bucket in buckets):
            return buckets
        parameters = self._with_gradient().parameters
        self._conform()
        for parameter, group in self._grouped(parameters):
            add_state(parameter, self.state[parameter], group)
        self._collecting = moving
        self._buckets = buckets = buckets_of(self.param_groups, set(moving), self.state)
        for bucket in buckets:
            bucket.collect()
        return buckets

    def _measure_scaled(self, buckets: list[Bucket], *more: Tensor) -> tuple[float, float, float, list[float]]:
        """Do as `_measure`, with gradients divided by GradScaler's scale, if there is one, where they are used."""
        self._unscaled = 1.0
        scale = vars(self).get("grad_scale")
        if scale is None:
            return self._measure(buckets, *more)
        gg, gu, uu, (*values, self._unscaled) = self._measure(buckets, *more, 1.0 / scale)
        return gg * self._unscaled**2, gu * self._unscaled, uu, values

    def _measure(self, buckets: list[Bucket], *more: Tensor) -> tuple[float, float, float, list[float]]:
        """Return g·g, g·u and u·u for the gradient g and the stored displacement or direction u, and more scalars."""
        ranks = self._context.ranks
        if ranks.size > 1:
            ranks.begin(self._settings)
            ranks.at(self.iterations + 1, 0, self._driver.memory.step)
        gg, gu, uu, values = measured(buckets, ranks, *more)
        return gg * self._unscaled**2, gu * self._unscaled, uu, values

    def _overflows(self, buckets: list[Bucket], gg: float) -> bool:
        """Return whether squares of these gradients may overflow: an infinite second moment remains infinite."""
        if gg <= min(map(_largest, buckets)):
            return False
        limits = [(extreme, bucket.largest) for bucket in buckets for extreme in extremes(bucket.gradients)]
        numbers = to_host([extreme for extreme, _ in limits])
        squares = [(self._unscaled * number) ** 2 for number in numbers]
        return self._context.ranks.any(any(square > limit for square, (_, limit) in zip(squares, limits, strict=True)))

    def _settings(self) -> dict[str, str]:
        """Settings that determine the steps: they must be equal in all processes that train one model."""
        return settings_of(self.search, self, average=self.average)
