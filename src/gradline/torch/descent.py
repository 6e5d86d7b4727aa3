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
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import nn

from gradline.protocol import (
    Moments,
    Origin,
    Outcome,
    Pending,
    Record,
    Search,
    Stop,
    candidates,
    observes_at_probes,
)
from gradline.torch.context import ModuleContext
from gradline.torch.direction import SteepestDescent, Update
from gradline.torch.evaluating import Closure, Evaluation, Evaluator
from gradline.torch.line import Gradients, Line
from gradline.torch.noise import Noise
from gradline.torch.ranks import find
from gradline.torch.sharded import whole
from gradline.torch.usual import Usual
from gradline.torch.way import Way


class Mark(NamedTuple):
    """Where the conversation stood when a step began."""

    pending: Pending[Any, Any] | None
    told: int
    probing: bool
    iterations: int
    kept: dict[int, Evaluation]


class Descent:
    """The state of training by line searches."""

    def __init__(
        self,
        search: Search[Any, Any],
        direction: SteepestDescent | Update,
        evaluator: Evaluator,
        context: ModuleContext,
        *,
        reuse_gradient: bool,
        way: Way | None = None,
    ) -> None:
        self.search = search
        self.way = way
        self.direction = direction
        self.evaluator = evaluator
        self.reuse_gradient = reuse_gradient
        self.context = context
        context.on_found = partial(self.discover_context, last=False)
        self.process_group: Any = None
        self.settings: Callable[[], Mapping[str, str]] = dict  # that all processes must share
        self._around: list[nn.Module] | None = None  # the modules for which other processes were looked for last
        self.iterations = 0  # searches that have ended
        self.taken = 0  # those of them that took a step
        self.usual = Usual()  # of the gradients, where the search looks at angles
        self.last: Record[Any, Any] | None = None
        self.memory = search.start()
        self.pending: Pending[Any, Any] | None = None
        self.line: Line | None = None
        self.kept: dict[int, Evaluation] = {}
        self.probing = False  # between calls the parameters belong at the probe
        self.overflows = 0  # of a loss scaler, in a row
        self._nothing: Record[Any, Any] | None = None  # why the last attempt to begin a search began none

    @property
    def evaluations(self) -> int:
        """How many evaluations were made."""
        return self.evaluator.count

    @evaluations.setter
    def evaluations(self, count: int) -> None:
        self.evaluator.count = count

    def discover_context(self, *, last: bool) -> None:
        """Find layers with running statistics and other processes, from the modules that are known by now.

        `last`: an evaluation has been made, so that all modules were called and no others are expected.
        """
        if self.context.known:
            return
        self.context.refresh()
        around = self.context.around()
        if self._around is None or list(map(id, around)) != list(map(id, self._around)):
            self.evaluator.join(find(self.context.parameters(), around, self.process_group))
            self.evaluator.ranks.begin(self.settings)
            self._around = around
        if self.evaluator.per_sample is not None:
            self.evaluator.per_sample.check(self.evaluator.ranks)
        if self.line is not None:
            self.line = self.line.among(self.evaluator.ranks)
        if last:
            self.context.stop()
            self._around = None  # nothing here keeps a model alive

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "process_group": None}  # process groups are not copied

    def hold(self, closure: Closure, noise: Noise | None = None) -> Any:
        """Search to the end, or end what `turn` has begun; return the accepted probe's loss.

        With `noise` every evaluation draws the same random numbers.
        """
        loss = None
        self.discover_context(last=False)
        self.context.statistics.keep()
        if self.pending is None:
            loss = self._begin(self._evaluate(closure, noise, at_probe=False))
            self.context.statistics.put_back()
            if self.pending is None:
                self._finish(cast("Record[Any, Any]", self._nothing))
                return loss
        pending = self.pending
        while pending.outcome is None:
            self.to_probe()
            loss = self._tell(self._evaluate(closure, noise, at_probe=True))
        self.probing = False
        return loss

    def turn(self, closure: Closure | None = None, *, scaled: bool = False) -> Any:
        """Tell the gradients that are there, or that a closure computes, and go to the next probe. Returns its loss.

        `scaled`: by a loss scaler, which lowers its scale after an overflow. So there is another look at the same point
        before it counts: one at a probe, and at the start as many as the scale may need to find its size.
        """
        self.discover_context(last=closure is None)
        self._say_place(probing=self.probing)
        computed = self.evaluator.look(closure)
        self.discover_context(last=True)
        self._say_place(probing=self.probing)
        evaluation = self.evaluator.measured(computed, self.line if self.probing else None)
        loss, evaluation = evaluation.loss, evaluation._replace(loss=None)  # a kept one must not keep its graph
        if scaled and not evaluation.finite and self.overflows < (1 if self.probing else 16):
            self.overflows += 1
            self.context.statistics.put_back()
            return loss
        self.overflows = 0
        if self.probing:
            self._tell(evaluation)
        else:
            self._begin(evaluation)
            self.context.statistics.put_back()
            if self.pending is None:
                self._finish(cast("Record[Any, Any]", self._nothing))
        self.probing = False
        if self.pending is not None:
            self.to_probe()
            self.probing = True
        return loss

    def to_probe(self) -> None:
        """Put the parameters where the search wants to look."""
        cast(Line, self.line).go(cast("Pending[Any, Any]", self.pending).step)

    def abandon(self) -> None:
        """End the search under way where the parameters are now: somebody has put them there."""
        self.pending, self.kept, self.probing = None, {}, False
        if self.line is not None:
            self.line.away = False

    def mark(self) -> Mark:
        """Note where the conversation stands."""
        told = 0 if self.pending is None else len(self.pending.transcript)
        return Mark(self.pending, told, self.probing, self.iterations, self.kept)

    def rewind(self, mark: Mark) -> None:
        """After a failure: put parameters and search back to where they stood.

        A search that has been accepted since stays accepted, and one that has begun since is put back to its beginning.
        """
        pending, line = self.pending, self.line
        self.probing = False
        self.context.statistics.put_back()
        if line is None:
            return
        if pending is None or (pending.outcome is not None and not line.away):
            # Interrupted after the accepted point was made home: while aiming from there, or just before.
            if pending is not None and pending.outcome is not None:
                self._accept(pending.record, mark.iterations + 1)
            self.pending, self.kept = None, {}
            line.home()
            return
        told, kept = (mark.told, mark.kept) if pending is mark.pending else (0, {})
        again = Pending.replay(self.search, pending.origin, pending.memory, pending.transcript[:told])
        probing = mark.probing and pending is mark.pending
        if probing:
            line.go(again.step)
        else:
            line.home()
        self.pending, self.kept, self.probing = (
            again,
            kept,
            probing,
        )  # last: so far it can be done again

    def _begin(self, at_origin: Evaluation) -> Any:
        """Aim from an evaluation at the present point and begin a search, if there is anything to search.

        Returns the loss, so that nobody needs to hold on to the evaluation and its gradients.
        """
        self.pending, self.kept = None, {}
        gradients, norm = at_origin.gradients, at_origin.norm
        if self.line is None or not self.line.moves(gradients.parameters):
            self.line = Line(gradients.parameters, self.evaluator.ranks)
        self.line.away = False
        slope, length = -norm, norm
        if at_origin.finite:
            if at_origin.samples is not None and isinstance(self.direction, Update):
                at_origin.samples.keep()  # a base optimizer moves the parameters, and they are put back
            slope, length = self._aim(self.line, gradients, norm)
            self.line.aimed = self.line.aimed or math.isfinite(length)
        variance = self._variance(at_origin)
        origin = Origin(at_origin.seen(slope, variance, self._course(at_origin)), length)
        if not (origin.at_zero.finite and math.isfinite(length) and math.isfinite(variance or 0.0)):
            outcome = Outcome(0.0, None, Stop.NON_FINITE_ORIGIN, self.memory)
        elif length == 0.0 or (norm == 0.0 and not self.taken):
            # At first a gradient of 0 is no gradient: checkpoints are loaded into what such a step leaves behind.
            outcome = Outcome(0.0, None, Stop.ZERO_DIRECTION, self.memory)
        else:
            pending = Pending(self.search, origin, self.memory)
            if pending.outcome is None:
                self.pending = pending
                return at_origin.loss
            outcome = pending.outcome
        self._nothing = Record(self.search, origin, self.memory, outcome, [])
        return at_origin.loss

    def _aim(self, line: Line, gradients: Gradients, norm: float) -> tuple[float, float]:
        """Aim, for a search that looks at angles by the usual length of an unusually long gradient.

        Other searches look at what the direction does before they take a step.
        """
        part = 1.0 if self.way is None else self.usual.part(norm)
        if part == 1.0:
            slope, length = self.direction.aim(line, gradients, norm)
        else:
            shorter = gradients.cloned()
            torch._foreach_mul_(shorter.tensors, part)
            before = [parameter.grad for parameter in gradients.parameters]
            try:
                for parameter, tensor in zip(*shorter, strict=True):
                    parameter.grad = whole(tensor, parameter)
                slope, length = self.direction.aim(line, shorter, part * norm)
            finally:
                for parameter, gradient in zip(gradients.parameters, before, strict=True):
                    parameter.grad = gradient
            slope /= part  # along the direction, at the whole gradient
        if self.way is not None:
            self.usual = self.usual.after(norm)
        return slope, length

    def _course(self, at_origin: Evaluation) -> tuple[float, float] | None:
        """How the gradient stands to the way, for a search that asks; not finite where the gradient is not."""
        if self.way is None:
            return None
        if not at_origin.finite:
            return at_origin.norm, at_origin.norm
        return self.way.look(at_origin.gradients, at_origin.norm, cast(Line, self.line).ranks)

    def _variance(self, at_origin: Evaluation) -> float | None:
        """The variance of the slope along the direction just aimed; infinite where nothing was."""
        per_sample = self.evaluator.per_sample
        if per_sample is None or at_origin.samples is None:
            return None
        if not at_origin.finite:
            return math.inf
        steepest = isinstance(self.direction, SteepestDescent)
        return per_sample.variance(at_origin.samples, cast(Line, self.line), steepest=steepest)

    def _tell(self, evaluation: Evaluation) -> Any:
        """Tell the search of its probe; if that ends it, accept the outcome. Returns the loss that stands."""
        pending = cast("Pending[Any, Any]", self.pending)
        if not cast(Line, self.line).is_finite(pending.step, pending.origin.norm):
            evaluation = evaluation._replace(slope=math.nan)  # gradients may be finite there, of a linear loss say
        pending.tell(evaluation.seen(evaluation.slope, self._variance_of_probe(evaluation)))
        probe = len(pending.transcript) - 1
        outcome = pending.outcome
        if outcome is None:
            self._keep(probe, evaluation)
            self.context.statistics.put_back()
        elif outcome.probe is None:
            self._give_up(pending)
        else:
            if outcome.probe != probe:
                evaluation.gradients.release()
                evaluation = self._kept(outcome.probe)
                cast(Line, self.line).go(outcome.step)
                for parameter, gradient in zip(*evaluation.gradients, strict=True):
                    parameter.grad = whole(gradient, parameter)
                if evaluation.statistics is not None:
                    self.context.statistics.put(evaluation.statistics)
            self.context.statistics.keep()
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
        if record.step > 0.0 and iterations > self.iterations:
            if self.way is not None:
                self.way.go(cast(Line, self.line), record.step, self.taken)
            self.taken += 1
        self.memory = record.outcome.memory
        self.last = record
        self.iterations = iterations

    def _give_up(self, pending: Pending[Any, Any]) -> None:
        """Go back to the origin. The next search evaluates it anew: it may be its gradient that was at fault."""
        cast(Line, self.line).home()
        self.context.statistics.put_back()
        self._finish(pending.record)

    def _keep(self, probe: int, evaluation: Evaluation) -> None:
        """Keep the gradients of probes that may yet be accepted, and only these. The last one is there anyway."""
        if hasattr(self.search, "candidates"):
            wanted = candidates(self.search, cast("Pending[Any, Any]", self.pending).transcript)
            self.kept = {index: kept for index, kept in self.kept.items() if index in wanted}
            if probe in wanted:
                self.kept[probe] = evaluation.kept()._replace(statistics=self.context.statistics.now())

    def _kept(self, probe: int) -> Evaluation:
        if probe not in self.kept:
            raise RuntimeError(
                f"a search must accept its last probe or one of its candidates (the gradients of others are gone), but "
                f"{type(self.search).__name__} accepted probe {probe}; give it a method candidates(transcript)"
            )
        return self.kept[probe]

    def _variance_of_probe(self, evaluation: Evaluation) -> float | None:
        per_sample = self.evaluator.per_sample
        if per_sample is None or evaluation.samples is None or observes_at_probes(self.search) is not Moments:
            return None
        return per_sample.variance(evaluation.samples, cast(Line, self.line)) if evaluation.finite else math.inf

    def _evaluate(self, closure: Closure, noise: Noise | None, *, at_probe: bool) -> Evaluation:
        if noise is not None:
            noise.again()
        self._say_place(probing=at_probe)
        computed = self.evaluator.evaluate(closure)
        self.discover_context(last=True)
        self._say_place(probing=at_probe)
        return self.evaluator.measured(computed, self.line if at_probe else None)

    def _say_place(self, *, probing: bool) -> None:
        """Tell the other processes, with the numbers of the next evaluation, which one it is."""
        pending = self.pending if probing else None
        probe, step = (0, 0.0) if pending is None else (len(pending.transcript) + 1, pending.step)
        self.evaluator.ranks.at(self.iterations + 1, probe, step)
