"""One run: build, step, measure, and tell what came of it."""

from __future__ import annotations

import contextlib
import io
import math
import platform
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import nn

from gradline.lab.bench.objective import Objective, Task
from gradline.lab.bench.runs import Point, Record, Run, Status
from gradline.lab.methods.peers import METHODS, Method
from gradline.lab.methods.peers.stepping import Stepper
from gradline.lab.problems.bench import PROBLEMS, Problem

IDLE = 100
"""So many steps in a row without a single evaluation are a failure: the budget would never be spent."""


def train(
    run: Run,
    *,
    tick: Callable[[float], None] = lambda evaluations: None,
    method: Method | None = None,
    problem: Problem | None = None,
) -> Record:
    """Make a run. An error of the method is told in the record; Ctrl-C is raised.

    Args:
        run: which.
        tick: is told the evaluations so far after every step.
        method: in place of the one with the run's name.
        problem: likewise.
    """
    method = method or METHODS[run.method]
    problem = problem or PROBLEMS[run.problem]
    with apart(run.seed):
        _warm_up(method)
    with apart(run.seed):
        objective = Objective(problem.build(run.seed), run.batch_size, run.seed)
        training = _Training(run, objective, problem.points)
        try:
            status, reason = training.whole(method.build, tick), ""
        except Exception as error:
            status, reason = Status.FAILED, _sentence(error)
    counter = objective.counter
    versions = {"python": platform.python_version(), "torch": torch.__version__, method.package: method.version()}
    return Record(
        run=run,
        status=status,
        reason=reason,
        points=tuple(training.points),
        forwards=counter.forwards,
        backwards=counter.backwards,
        versions=versions,
    )


class _Training:
    """A run under way."""

    def __init__(self, run: Run, objective: Objective, points: int) -> None:
        self.run = run
        self.objective = objective
        self.every = max(3 * run.budget // points, 1)
        self.points: list[Point] = []

    def whole(self, build: Callable[[Objective], Stepper], tick: Callable[[float], None]) -> Status:
        counter, budget = self.objective.counter, 3 * self.run.budget
        self.objective.model.train()
        watch = _Watch()
        with watch:
            stepper = build(self.objective)
        self.measure(stepper, 0, watch)
        steps, idle, due = 0, 0, self.every
        while counter.thirds < budget:
            before = counter.thirds
            with watch:
                stepper.step()
            steps += 1
            idle = 0 if counter.thirds > before else idle + 1
            if idle >= IDLE:
                raise RuntimeError(f"{IDLE} steps in a row without an evaluation")
            tick(counter.evaluations)
            if counter.thirds >= min(due, budget):
                due = (counter.thirds // self.every + 1) * self.every
                if not self.measure(stepper, steps, watch):
                    return Status.DIVERGED
        return Status.DONE

    @torch.no_grad()
    def measure(self, stepper: Stepper, steps: int, watch: _Watch) -> bool:
        """Add a point, and say whether there is any use in going on."""
        with stepper.measured() as model:
            was_training = model.training
            model.eval()
            loss, error = self.objective.task.measure(model)
            model.train(was_training)
        self.points.append(
            Point(
                thirds=self.objective.counter.thirds,
                steps=steps,
                seconds=watch.seconds,
                processor=watch.processor,
                train_loss=loss,
                test_error=error,
            )
        )
        return math.isfinite(loss) or all(bool(part.isfinite().all()) for part in self.objective.parameters)


class _Watch:
    """Adds up the time that is spent in its contexts, on the wall and of this thread's processor."""

    def __init__(self) -> None:
        self.seconds = self.processor = 0.0
        self._begin = 0.0, 0.0

    def __enter__(self) -> None:
        self._begin = time.perf_counter(), time.thread_time()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._begin[0]
        self.processor += time.thread_time() - self._begin[1]


_WARM: set[object] = set()
"""The methods that have been at work in this process."""


def _warm_up(method: Method) -> None:
    """Let a method pay for what is paid once in a process, its imports above all, before times are taken."""
    if method.build in _WARM:
        return
    _WARM.add(method.build)
    source = torch.Generator().manual_seed(0)
    inputs = torch.randn(8, 2, generator=source)
    task = Task(
        nn.Linear(2, 1), 8, lambda model, chosen: model(inputs[chosen]).square().sum(dim=1), lambda model: (0, 0)
    )
    # Whatever is wrong with the method shows in the run itself.
    with contextlib.suppress(Exception):
        stepper = method.build(Objective(task, 4, 0))
        for _ in range(3):
            stepper.step()


@contextlib.contextmanager
def apart(seed: int) -> Iterator[None]:
    """Random numbers of its own, and nothing printed: some peers reseed NumPy, print or warn at every step."""
    numbers = np.random.get_state()
    try:
        with (
            torch.random.fork_rng(devices=[]),
            contextlib.redirect_stdout(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            torch.manual_seed(seed)
            yield
    finally:
        np.random.set_state(numbers)


def _sentence(error: Exception) -> str:
    """An error in a line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
