"""Runs one after another, through `gradline.LineSearchOptimizer`: any `nn.Module`, and the reference for lock-step."""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradline.lab.engines.sampling import check_variances, direction_batches, probe_batches, reuses
from gradline.lab.jobs.partial import Growth
from gradline.lab.jobs.result import Result
from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.jobs.tables import Table
from gradline.lab.problems.modules import Criterion, Data, angle_between, criterion, largest, network
from gradline.lab.problems.sampling import chosen_samples
from gradline.protocol import Moments, observes
from gradline.torch.optimizer import LineSearchOptimizer

NAME = "ordinary"
VERSION = 1
CHUNK = 4096
"""Samples of one pass, where all are looked at."""


class Ordinary:
    """Runs of one problem, one after another.

    Args:
        runs: the runs.
        data: what they are trained on.
        state: what `state_dict` gave: go on from there, with the same runs.
    """

    def __init__(self, runs: Sequence[Run], data: Data, *, state: dict[str, Any] | None = None) -> None:
        self._samples = _Tensors(runs[0], data)
        self._data = data
        for run in runs:
            check_variances(run, len(data.train_inputs))
        self._waiting = list(runs)
        self._training: _Training | None = None
        self._done: list[tuple[Run, Table, float]] = []
        self._evaluations = 0
        if state is not None:
            self._restore({run.key: run for run in runs}, state)

    @property
    def active(self) -> int:
        """Runs not finished."""
        return len(self._waiting) + (self._training is not None)

    @property
    def evaluations(self) -> int:
        """Evaluations made so far, as they count for budgets."""
        return self._evaluations + (0 if self._training is None else self._training.optimizer.evaluations)

    def advance(self) -> None:
        """One iteration of the run whose turn it is."""
        begin = time.perf_counter()
        if self._training is None:
            self._training = _Training(self._waiting.pop(0), self._data, self._samples)
            self._training.start()
        training = self._training
        training.iterate()
        training.seconds += time.perf_counter() - begin
        if training.over:
            self._done.append((training.run, training.table, training.seconds))
            self._evaluations += training.optimizer.evaluations
            self._training = None

    def finished(self) -> list[Result]:
        """The results of runs that have finished since the last call."""
        done, self._done = self._done, []
        return [table.result(run, seconds, NAME) for run, table, seconds in done]

    def growing(self) -> dict[str, Growth]:
        """What has been measured of the run under way."""
        return {} if self._training is None else {self._training.run.key: self._training.table.growth()}

    def state_dict(self) -> dict[str, Any]:
        """Everything to go on from, as tensors and plain values."""
        return {
            "engine": NAME,
            "version": VERSION,
            "evaluations": self._evaluations,
            "waiting": [run.key for run in self._waiting],
            "training": None if self._training is None else self._training.state_dict(),
            "done": [[run.key, table.state_dict(), seconds] for run, table, seconds in self._done],
        }

    def _restore(self, runs: dict[str, Run], state: dict[str, Any]) -> None:
        if (state["engine"], state["version"]) != (NAME, VERSION):
            raise ValueError(
                f"state must be of {NAME} runs, version {VERSION} (what this gradline reads), "
                f"got {state['engine']!r}, version {state['version']!r}"
            )

        def run(key: str) -> Run:
            if key not in runs:
                raise ValueError(f"runs must contain those of the state (they go on), but {key} is missing")
            return runs[key]

        self._evaluations = state["evaluations"]
        self._waiting = [run(key) for key in state["waiting"]]
        self._done = [(run(key), Table.restored(table), seconds) for key, table, seconds in state["done"]]
        if state["training"] is not None:
            self._training = _Training(run(state["training"]["run"]), self._data, self._samples)
            self._training.load_state_dict(state["training"])


class _Tensors:
    """The data as tensors, and the loss."""

    def __init__(self, run: Run, data: Data) -> None:
        dtype = getattr(torch, run.problem.dtype)
        arrays = (data.train_inputs, data.train_targets, data.test_inputs, data.test_targets)
        inputs, targets, *test = (torch.from_numpy(np.asarray(array)).to(dtype) for array in arrays)
        self.train = inputs, targets
        self.test = test[0], test[1]
        self.criterion: Criterion = criterion(run.problem)


class _Training:
    """One run under way."""

    def __init__(self, run: Run, data: Data, tensors: _Tensors) -> None:
        samples = len(data.train_inputs)
        self.run = run
        self.model = network(run.problem, data, seed=run.seed)
        self.optimizer = LineSearchOptimizer(
            self.model.parameters(),
            run.method.search,
            reuse_gradient=reuses(run),
            diagonal=run.diagonal and observes(run.method.search) is Moments,
        )
        self.table = Table(run.record_every)
        self.over = False
        self.seconds = 0.0
        self._tensors = tensors
        self._probes, self._directions = probe_batches(run, samples), direction_batches(run, samples)
        self._drawn = 0
        self._at_start = False  # of an iteration: the first evaluation, where directions have batches of their own
        self._parameters: list[Tensor] = list(self.model.parameters())
        self._direction: list[Tensor] = []  # of the search under way, where angles are measured
        self._random = torch.Generator().manual_seed(run.seed).get_state()  # for dropout and the like

    def start(self) -> None:
        """Measure where the run starts."""
        self._measure(math.nan)

    def iterate(self) -> None:
        """One search."""
        optimizer = self.optimizer
        self._at_start = True
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.filterwarnings("ignore", "gradline: ", RuntimeWarning)  # the table has the reason
            torch.set_rng_state(self._random)
            optimizer.step(self._closure)
            self._random = torch.get_rng_state()
        record: Any = optimizer.last
        self.table.add(optimizer.evaluations, record.evaluations, record.origin, record.outcome)
        self.over = optimizer.evaluations >= self.run.budget
        if self.table.due(optimizer.evaluations) or self.over:
            self._measure(self._angle() if self.run.angle and record.transcript else math.nan)

    def _closure(self) -> Tensor:
        if self.run.angle:
            self._note_direction()
        self.optimizer.zero_grad()
        inputs, targets = self._batch()
        losses = self._tensors.criterion(self.model(inputs), targets)
        if self.optimizer.per_sample:
            return losses
        mean = losses.mean()
        mean.backward()  # type: ignore[no-untyped-call]
        return mean

    def _batch(self) -> tuple[Tensor, Tensor]:
        """The samples of the next evaluation, as they are drawn in lock-step."""
        source, position = self._probes, self.table.iterations
        if self._at_start and self._directions is not None:
            source = self._directions
        elif self.run.sampling is not Sampling.STATIC:
            position = self._drawn
            self._drawn += 1
        self._at_start = False
        inputs, targets = self._tensors.train
        if source.whole:
            return inputs, targets
        chosen = torch.from_numpy(source.at(position))
        return inputs.index_select(0, chosen), targets.index_select(0, chosen)

    @torch.no_grad()
    def _measure(self, angle: float) -> None:
        measured: list[float] = []
        training = self.model.training
        self.model.eval()
        for part, (inputs, targets) in enumerate((self._tensors.train, self._tensors.test)):
            chosen = chosen_samples(self.run.seed, len(inputs), self.run.problem.error_samples, part)
            if chosen is not None:
                inputs, targets = inputs[torch.from_numpy(chosen)], targets[torch.from_numpy(chosen)]
            measured += self._loss_and_error(inputs, targets)
        self.model.train(training)
        self.table.fill(self.table.reserve(angle), measured)

    def _loss_and_error(self, inputs: Tensor, targets: Tensor) -> tuple[float, float]:
        if len(inputs) == 0:
            return math.nan, math.nan
        loss, errors = 0.0, 0.0
        for some, wanted in zip(torch.split(inputs, CHUNK), torch.split(targets, CHUNK), strict=True):
            outputs = self.model(some)
            loss += float(self._tensors.criterion(outputs, wanted).sum(dtype=torch.float64))
            errors += float((largest(outputs, 1) != largest(wanted, 1)).sum())
        return loss / len(inputs), errors / len(inputs)

    def _note_direction(self) -> None:
        """Keep the direction of a search that makes its first probe: at its end it may be the next one's."""
        descent = self.optimizer._descent
        if descent.pending is not None and not descent.pending.transcript:
            self._direction = [part.clone() for part in descent.line.directions]  # type: ignore[union-attr]

    def _angle(self) -> float:
        """The angle between the direction of the search just ended and that of all samples, where it began."""
        line: Any = self.optimizer._descent.line
        gradient = torch.cat([part.reshape(-1) for part in self._full_gradient(line.origins)])
        direction = torch.cat([part.reshape(-1) for part in self._direction])
        return angle_between(direction.double(), -gradient.double())

    def _full_gradient(self, point: Sequence[Tensor]) -> list[Tensor]:
        """The gradient of all samples at a point; parameters and gradients are put back."""
        here = [parameter.detach().clone() for parameter in self._parameters]
        inputs, targets = self._tensors.train
        total = [torch.zeros_like(parameter) for parameter in here]
        try:
            with torch.no_grad():
                torch._foreach_copy_(self._parameters, list(point))
            for some, wanted in zip(torch.split(inputs, CHUNK), torch.split(targets, CHUNK), strict=True):
                loss = self._tensors.criterion(self.model(some), wanted).sum() / len(inputs)
                torch._foreach_add_(total, torch.autograd.grad(loss, self._parameters))
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self._parameters, here)
        return total

    def state_dict(self) -> dict[str, Any]:
        """The run as tensors and plain values."""
        return copy.deepcopy(
            {
                "run": self.run.key,
                "model": dict(self.model.state_dict()),
                "optimizer": self.optimizer.state_dict(),
                "drawn": self._drawn,
                "random": self._random,
                "table": self.table.state_dict(),
                "seconds": self.seconds,
            }
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self._drawn, self.seconds, self._random = state["drawn"], state["seconds"], state["random"]
        self.table = Table.restored(state["table"])
