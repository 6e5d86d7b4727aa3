"""Runs one after another: any problem with any method. It is also the reference for lock-step."""

from __future__ import annotations

import contextlib
import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from gradline.lab.engines.sampling import (
    check_variances,
    direction_batches,
    ends_in_stall,
    probe_batches,
    reuses,
    runs_of_state,
    stuck,
)
from gradline.lab.jobs.result import Measurements, Result, Status, Table, measurements
from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.methods import Method, SearchMethod
from gradline.lab.methods.objective import Objective
from gradline.lab.methods.stepper import Searching, Stepper
from gradline.lab.problems import Network
from gradline.lab.problems.data import DataSet
from gradline.lab.problems.networks import CHUNK, angle_between, task
from gradline.lab.problems.sampling import Batches, Purpose
from gradline.lab.problems.task import Measured, Task
from gradline.lab.tools.isolation import isolated
from gradline.torch.private import foreach_add_, foreach_copy_
from gradline.torch.snapshot import Snapshot

NAME = "ordinary"
VERSION = 2
_Ended: TypeAlias = tuple[Run, Table, float, Status, str]
"""A run that has ended: its table, its seconds, how it ended and why."""
IDLE = 100
"""Steps in a row without an evaluation that are an error: the budget would never be spent."""


class Ordinary:
    """Runs one after another; arguments as for `gradline.lab.engines.make`."""

    def __init__(
        self, runs: Sequence[Run], data: DataSet | None = None, *, state: dict[str, Any] | None = None
    ) -> None:
        self._data = data
        self._waiting = list(runs)
        self._training: _Training | None = None
        self._done: list[_Ended] = []
        self._evaluations = 0.0
        for run in runs:
            if not run.benchmark:
                check_variances(run, None if data is None else len(data.train_inputs))
        if state is not None:
            self._restore(runs_of_state(state, NAME, VERSION, runs), state)

    @property
    def active(self) -> int:
        return len(self._waiting) + (self._training is not None)

    @property
    def evaluations(self) -> float:
        return self._evaluations + (0.0 if self._training is None else self._training.evaluations)

    def advance(self) -> None:
        """Make one step of the current run."""
        if self._training is None:
            self._training = _Training(self._waiting.pop(0), self._data)
            if not self._training.over:
                self._training.measure()
        training = self._training
        training.iterate()
        if training.over:
            self._done.append(training.ended())
            self._evaluations += training.evaluations
            self._training = None

    def finished(self) -> list[Result]:
        done, self._done = self._done, []
        return [table.result(run, seconds, NAME, status, reason) for run, table, seconds, status, reason in done]

    def partial_results(self) -> dict[str, Measurements]:
        return {} if self._training is None else {self._training.run.key: measurements(self._training.table.columns())}

    def state_dict(self) -> dict[str, Any]:
        """Return the exact state as tensors and plain values.

        A run whose method cannot be resumed (most peers) begins anew.
        """
        training = None if self._training is None else self._training.state_dict()
        again = [] if self._training is None or training is not None else [self._training.run]
        return {
            "engine": NAME,
            "version": VERSION,
            "evaluations": self._evaluations,
            "waiting": [run.key for run in (*again, *self._waiting)],
            "training": training,
            "done": [
                [run.key, table.state_dict(), seconds, status.value, reason]
                for run, table, seconds, status, reason in self._done
            ],
        }

    def _restore(self, run: Callable[[str], Run], state: dict[str, Any]) -> None:
        self._evaluations = state["evaluations"]
        self._waiting = [run(key) for key in state["waiting"]]
        self._done = [
            (run(key), Table.restored(table), seconds, Status(status), reason)
            for key, table, seconds, status, reason in state["done"]
        ]
        if state["training"] is not None:
            self._training = _Training(run(state["training"]["run"]), self._data)
            self._training.load_state_dict(state["training"])


class _Training:
    """One run in progress."""

    def __init__(self, run: Run, data: DataSet | None) -> None:
        self.run = run
        self.table = Table(run.record_every)
        self.over = False
        self._status, self._reason = Status.DONE, ""
        self._time = _Stopwatch()
        self._idle = 0
        self._random = torch.Generator().manual_seed(run.seed).get_state()  # for dropout and the like
        if run.benchmark:
            _warm_up(run.method)
        with self._apart(keep=False):
            self._objective = _objective(run, data)
        try:
            check_variances(run, self._objective.task.samples)
            with self._apart(), self._time:
                self._stepper = run.method.build(self._objective)
        except Exception as error:
            self._fail(error)
        else:
            if run.angle and isinstance(self._stepper, Searching):
                self._stepper.keep_direction = True

    @property
    def evaluations(self) -> float:
        """Evaluations so far, as they count for the budget."""
        stepper: Stepper | None = getattr(self, "_stepper", None)
        own = None if stepper is None or _foreign(self.run) else stepper.evaluations
        return self._objective.counter.evaluations if own is None else own

    def iterate(self) -> None:
        if self.over:
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
            self.table.add_step(made)
        else:
            self.table.add(made, record.evaluations, record.origin, record.outcome)
        searched = record is not None and bool(record.transcript)
        stalled = record is not None and stuck(record) and ends_in_stall(self.run, self._objective.task.samples)
        self.over = stalled or made >= self.run.budget
        if self.table.due(made) or self.over:
            self.measure(self._angle() if self.run.angle and searched else math.nan)

    def ended(self) -> _Ended:
        """Return the run, its table, and how it ended."""
        return self.run, self.table, self._time.seconds, self._status, self._reason

    def _fail(self, error: Exception) -> None:
        """Record an error of the method as the result of a run of a comparison; raise it in other runs."""
        if not self.run.benchmark:
            raise error
        lines = str(error).strip().splitlines()
        self._status, self.over = Status.FAILED, True
        self._reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__

    @torch.no_grad()
    def measure(self, angle: float = math.nan) -> None:
        """Measure losses and errors, and end a run whose parameters are not finite any more."""
        with self._apart(keep=False), self._stepper.measured() as model:
            was_training = model.training
            model.eval()
            measured = self._objective.task.measure(model)
            if self.over and self._objective.task.test is not None:
                loss, error = self._objective.task.test(model)
                measured = measured._replace(test_loss=loss, test_error=error)
            model.train(was_training)
        self.table.fill(self.table.reserve(angle, self._time.seconds, self._time.cpu_seconds), measured)
        finite = math.isfinite(measured.train_loss) or all(bool(x.isfinite().all()) for x in self._objective.parameters)
        if not finite:
            self._status, self.over = Status.DIVERGED, True

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

    def state_dict(self) -> dict[str, Any] | None:
        """Return the run as tensors and plain values; `None`: it has to begin anew."""
        stepper = self._stepper.state_dict()
        if stepper is None:
            return None
        return copy.deepcopy(
            {
                "run": self.run.key,
                "model": dict(self._objective.model.state_dict()),
                "stepper": stepper,
                "counted": [self._objective.counter.forwards, self._objective.counter.backwards],
                "steps": self._objective.steps,
                "drawn": self._objective.drawn,
                "random": self._random,
                "table": self.table.state_dict(),
                "seconds": [self._time.seconds, self._time.cpu_seconds],
            }
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        objective = self._objective
        objective.model.load_state_dict(state["model"])
        self._stepper.load_state_dict(copy.deepcopy(state["stepper"]))
        objective.counter.forwards, objective.counter.backwards = state["counted"]
        objective.steps, objective.drawn, self._random = state["steps"], state["drawn"], state["random"]
        self._time.seconds, self._time.cpu_seconds = state["seconds"]
        self.table = Table.restored(state["table"])


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


def _objective(run: Run, data: DataSet | None) -> Objective:
    """Return what a run trains: its task, and the batches of its probes and directions."""
    if data is not None and isinstance(run.problem, Network):
        made = task(run.problem, data, seed=run.seed)
    else:
        made = run.problem.build(run.seed)
    return Objective(
        made,
        probe_batches(run, made.samples),
        direction_batches(run, made.samples),
        static=run.sampling is Sampling.STATIC,
        reuse_gradient=reuses(run),
        diagonal=run.diagonal,
        counted=_foreign(run),
        budget=run.budget,
    )


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
