"""Many runs of one network at once: an `Engine` whose rounds evaluate every run once.

Rows are put together as far as their points and activations fit into `CACHE`: many of a small network, where calls
cost more than arithmetic; one by one of a large network, where memory traffic is all that counts.

The rule it obeys: no number of a row depends on which rows are beside it. In double precision this holds bit for bit
with the builds of torch that use MKL (and for large networks always); in single precision batched products of small
networks round by the position of a row in memory.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradline.lab.engines import runs_of_state
from gradline.lab.engines.lockstep.factored import Factored
from gradline.lab.engines.lockstep.group import Group
from gradline.lab.engines.lockstep.layers import Layers
from gradline.lab.engines.lockstep.measures import Measures
from gradline.lab.engines.lockstep.points import Points
from gradline.lab.engines.lockstep.rows import Row
from gradline.lab.jobs.result import Measurements, Result, measurements
from gradline.lab.jobs.runs import Run
from gradline.lab.problems import Network
from gradline.lab.problems.data import DataSet

NAME = "lockstep"
VERSION = 5
CACHE = 2**23
"""Bytes that the rows of one group may need."""
RANK = 32
"""The largest batch with which the gradient of a large network is kept as factors: with 100 samples they cost more."""
ROUNDS = 8
"""Evaluations of a row of a large network before it is the next one's turn, and the cache's contents change."""


class Lockstep:
    """Runs of one network (the same data, layers, loss and precision), each in its own iteration and phase.

    `lockstep_accepts` must be true of each of them. Arguments as for `gradline.lab.engines.make`.
    """

    def __init__(self, runs: Sequence[Run], data: DataSet, *, state: dict[str, Any] | None = None) -> None:
        self._layers = Layers(_network(runs[0]), data)
        self._measures = Measures(self._layers)
        self._done: list[tuple[Row, float]] = []
        self._evaluations = 0  # of rows that are gone
        if state is None:
            self._groups = self._grouped(runs)
            with torch.inference_mode():
                for group in self._groups:
                    group.start()
        else:
            self._restore(runs_of_state(state, NAME, VERSION, runs), state)

    @property
    def active(self) -> int:
        return sum(len(group.rows) for group in self._groups)

    @property
    def evaluations(self) -> int:
        return self._evaluations + sum(row.driver.evaluations for group in self._groups for row in group.rows)

    def advance(self) -> None:
        """Make one evaluation of each run; `ROUNDS` evaluations if the network is large."""
        with torch.inference_mode():
            for group in self._groups:
                begin = time.perf_counter()
                done: list[Row] = []
                for _ in range(ROUNDS if self._layers.large else 1):
                    done += group.round()
                    if not group.rows:
                        break
                if done:
                    self._measures.flush()
                group.seconds += (time.perf_counter() - begin) / (len(group.rows) + len(done))
                for row in done:
                    self._done.append((row, group.seconds))
                    self._evaluations += row.driver.evaluations
        if any(not group.rows for group in self._groups):
            self._groups = [group for group in self._groups if group.rows]

    def finished(self) -> list[Result]:
        done, self._done = self._done, []
        return [row.table.result(row.run, seconds, NAME) for row, seconds in done]

    def partial_results(self) -> dict[str, Measurements]:
        return {row.run.key: measurements(row.table.columns()) for group in self._groups for row in group.rows}

    def state_dict(self) -> dict[str, Any]:
        """Return the exact state of the runs in progress, as tensors and plain values."""
        self._measures.flush()
        return {
            "engine": NAME,
            "version": VERSION,
            "evaluations": self._evaluations,
            "groups": [
                {
                    "rows": [row.state_dict() for row in group.rows],
                    "points": group.points.state_dict(),
                    "seconds": group.seconds,
                }
                for group in self._groups
            ],
        }

    def _restore(self, runs: dict[str, Run], state: dict[str, Any]) -> None:
        self._evaluations = state["evaluations"]
        self._groups = []
        for saved in state["groups"]:
            rows = [Row.restored(runs[one["run"]], len(self._layers.train), one) for one in saved["rows"]]
            kind = Factored if "origin" in saved["points"] else Points
            group = Group(rows, kind.restored(saved["points"], self._layers), self._layers, self._measures)
            group.seconds = saved["seconds"]
            self._groups.append(group)

    def _grouped(self, runs: Sequence[Run]) -> list[Group]:
        samples = len(self._layers.train)
        together: dict[tuple[tuple[int, bool], ...], list[Row]] = {}
        for run in runs:
            row = Row(run, samples)
            sources = row.probes, row.directions or row.probes
            together.setdefault(tuple((source.size, source.whole) for source in sources), []).append(row)
        groups = []
        for sizes, rows in together.items():
            most = self._capacity(max(sizes)[0])
            for begin in range(0, len(rows), most):
                part = rows[begin : begin + most]
                starts = [self._layers.start(_network(row.run), row.run.seed) for row in part]
                groups.append(Group(part, self._points(starts, max(sizes)[0]), self._layers, self._measures))
        return groups

    def _points(self, starts: list[Tensor], size: int) -> Points | Factored:
        if self._layers.large and size <= RANK:
            return Factored(starts[0][None], None, self._layers)
        return Points.at(starts, self._layers)

    def _capacity(self, size: int) -> int:
        """Return the number of rows with batches of a size that fit into `CACHE`."""
        if self._layers.large:
            return 1
        numbers = 4 * self._layers.width + 2 * size * (sum(self._layers.sizes) + len(self._layers.sizes))
        return max(1, CACHE // (numbers * self._layers.train.element_size()))


def _network(run: Run) -> Network:
    assert isinstance(run.problem, Network)
    return run.problem
