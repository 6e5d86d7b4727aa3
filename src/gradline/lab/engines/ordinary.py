"""One run by itself: any problem with any method. It is also the reference for lock-step."""

from __future__ import annotations

import contextlib
import copy
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradline.lab.engines import ends_in_stall, runs_of_state, stuck
from gradline.lab.jobs.result import Measurements, Result, Status, Table, measurements
from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.methods import Method, SearchMethod
from gradline.lab.methods.objective import Objective
from gradline.lab.methods.stepper import Searching, Stepper
from gradline.lab.problems.networks import CHUNK, angle_between
from gradline.lab.problems.sampling import Batches, Purpose
from gradline.lab.problems.task import Measured, Task
from gradline.lab.tools.isolation import isolated
from gradline.torch.private import foreach_add_, foreach_copy_
from gradline.torch.snapshot import Snapshot

NAME = "ordinary"
VERSION = 3
IDLE = 100
"""Steps in a row without an evaluation that are an error: the budget would never be spent."""


class Ordinary:
    """An engine of one run, from the beginning or from a state of `state_dict()`."""

    def __init__(self, run: Run, *, state: dict[str, Any] | None = None) -> None:
        if state is not None:
            run = runs_of_state(state, NAME, VERSION, [run])[state["run"]]
        self.run = run
        self._table = Table(run.record_every)
        self._over = self._taken = False
        self._status, self._reason = Status.DONE, ""
        self._time = _Stopwatch()
        self._idle = 0
        self._random = torch.Generator().manual_seed(run.seed).get_state()  # for dropout and the like
        if run.benchmark:
            _warm_up(run.method)
        with self._apart(keep=False):
            task = run.problem.build(run.seed)
        self._objective = Objective(
            task,
            *run.batches(task.samples),
            static=run.sampling is Sampling.STATIC,
            reuse_gradient=run.reuses_gradient,
            diagonal=run.diagonal,
            counted=_foreign(run),
            budget=run.budget,
        )
        self._stepper: Stepper | None = None
        try:
            run.check_variances(task.samples)
            with self._apart(), self._time:
                self._stepper = run.method.build(self._objective)
        except Exception as error:
            self._fail(error)
            return
        if isinstance(self._stepper, Searching):
            self._stepper.keep_direction = run.angle
        if state is not None and state["training"] is not None:
            self._restore(state["training"])
        else:
            self._measure()

    @property
    def active(self) -> int:
        return int(not self._over)

    @property
    def evaluations(self) -> float:
        """Evaluations so far, as they count for the budget."""
        own = None if self._stepper is None or _foreign(self.run) else self._stepper.evaluations
        return self._objective.evaluations if own is None else own

    def advance(self) -> None:
        """Make one step."""
        if self._over or self._stepper is None:
            return
        before = self.evaluations
        self._objective.begin()
        try:
            with self._apart(), self._time:
                self._stepper.step()
            self._idle = 0 if self.evaluations > before else self._idle + 1
            if self._idle >= IDLE:
                raise RuntimeError(f"{IDLE} steps in a row without an evaluation")
        except Exception as error:
            self._fail(error)
            return
        made = self.evaluations
        record = self._stepper.record
        if record is None:
            self._table.add_step(made)
        else:
            self._table.add(made, record.evaluations, record.origin, record.outcome)
        searched = record is not None and bool(record.transcript)
        stalled = record is not None and stuck(record) and ends_in_stall(self.run, self._objective.task.samples)
        self._over = stalled or made >= self.run.budget
        if self._table.due(made) or self._over:
            self._measure(self._angle() if self.run.angle and searched else math.nan)

    def finished(self) -> list[Result]:
        if not self._over or self._taken:
            return []
        self._taken = True
        return [self._table.result(self.run, self._time.seconds, NAME, self._status, self._reason)]

    def partial_results(self) -> dict[str, Measurements]:
        return {self.run.key: measurements(self._table.columns())}

    def _fail(self, error: Exception) -> None:
        """Record an error of the method as the result of a run of a comparison; raise it in other runs."""
        if not self.run.benchmark:
            raise error
        lines = str(error).strip().splitlines()
        self._status, self._over = Status.FAILED, True
        self._reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__

    @torch.no_grad()
    def _measure(self, angle: float = math.nan) -> None:
        """Measure losses and errors, and end a run whose parameters are not finite any more."""
        assert self._stepper is not None
        with self._apart(keep=False), self._stepper.measured() as model:
            was_training = model.training
            model.eval()
            measured = self._objective.task.measure(model)
            if self._over and self._objective.task.test is not None:
                loss, error = self._objective.task.test(model)
                measured = measured._replace(test_loss=loss, test_error=error)
            model.train(was_training)
        times = angle, self._time.seconds, self._time.cpu_seconds
        self._table.measure(self._table.iterations, measured, *times)
        finite = math.isfinite(measured.train_loss) or all(bool(x.isfinite().all()) for x in self._objective.parameters)
        if not finite:
            self._status, self._over = Status.DIVERGED, True

    @contextlib.contextmanager
    def _apart(self, *, keep: bool = True) -> Iterator[None]:
        """Context manager with the run's own random state; `keep`: the next context continues from its end."""
        with isolated(self._random) if _foreign(self.run) else _own_numbers(self._random):
            yield
            if keep:
                self._random = torch.get_rng_state()

    def _angle(self) -> float:
        """Return the angle between the direction of the last search and that of all samples, at its origin."""
        if not isinstance(self._stepper, Searching):
            return math.nan
        gradient = torch.cat([part.reshape(-1) for part in self._full_gradient(self._stepper.origin)])
        direction = torch.cat([part.reshape(-1) for part in self._stepper.direction])
        return angle_between(direction.double(), -gradient.double())

    def _full_gradient(self, point: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradient of all samples at a point; parameters and gradients stay as they are."""
        found = self._objective.task
        parameters: list[Tensor] = [*self._objective.parameters]
        here = Snapshot(parameters)
        total = [torch.zeros_like(parameter) for parameter in here.values]
        try:
            with torch.no_grad():
                foreach_copy_(parameters, list(point))
            for begin in range(0, found.samples, CHUNK):
                chosen = slice(begin, min(begin + CHUNK, found.samples))
                loss = found.losses(self._objective.model, chosen).sum() / found.samples
                foreach_add_(total, torch.autograd.grad(loss, parameters))
        finally:
            here.restore()
        return total

    def state_dict(self) -> dict[str, Any]:
        """Return the exact state as tensors and plain values; a method that cannot be resumed (most peers) has none."""
        stepper = None if self._stepper is None else self._stepper.state_dict()
        training = {
            "model": dict(self._objective.model.state_dict()),
            "stepper": stepper,
            "counted": [self._objective.forwards, self._objective.backwards],
            "steps": self._objective.steps,
            "drawn": self._objective.drawn,
            "random": self._random,
            "table": self._table.state_dict(),
            "seconds": [self._time.seconds, self._time.cpu_seconds],
        }
        state = {"engine": NAME, "version": VERSION, "run": self.run.key}
        return state | {"training": None if stepper is None else copy.deepcopy(training)}

    def _restore(self, state: dict[str, Any]) -> None:
        assert self._stepper is not None
        objective = self._objective
        objective.model.load_state_dict(state["model"])
        self._stepper.load_state_dict(copy.deepcopy(state["stepper"]))
        objective.forwards, objective.backwards = state["counted"]
        objective.steps, objective.drawn, self._random = state["steps"], state["drawn"], state["random"]
        self._time.seconds, self._time.cpu_seconds = state["seconds"]
        self._table = Table.restored(state["table"])


@contextlib.contextmanager
def _own_numbers(state: Tensor) -> Iterator[None]:
    """Do what `isolated` does, for searches of gradline, which use no other generator and print nothing: cheaper."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.filterwarnings("ignore", "gradline: ", RuntimeWarning)  # the table has the reason
        torch.set_rng_state(state)
        yield


class _Stopwatch:
    """Adds up the time spent in its contexts: seconds by the clock, and of this thread's processor."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0
        self._begin = 0.0, 0.0

    def __enter__(self) -> None:
        self._begin = time.perf_counter(), time.thread_time()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._begin[0]
        self.cpu_seconds += time.thread_time() - self._begin[1]


def _foreign(run: Run) -> bool:
    """Return whether a run is isolated and its passes are counted: with code of other packages, or in a comparison."""
    return run.benchmark or not isinstance(run.method, SearchMethod)


_WARM: set[str] = set()
"""Names of the methods that have been warmed up in this process."""


def _warm_up(method: Method) -> None:
    """Make a few steps with a method before its time is taken: imports are paid once in a process."""
    if method.name in _WARM:
        return
    _WARM.add(method.name)
    inputs = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    batches = Batches(seed=0, purpose=Purpose.PROBES, samples=8, size=4)
    # Whatever is wrong with the method shows in the run itself.
    with contextlib.suppress(Exception), isolated():
        small = Task(
            nn.Linear(2, 1),
            8,
            lambda model, chosen: model(inputs[chosen]).square().sum(dim=1),
            lambda model: Measured(*[math.nan] * 4),
        )
        stepper = method.build(Objective(small, batches))
        for _ in range(3):
            stepper.step()
