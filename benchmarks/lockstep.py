"""How much faster many runs go in lock-step than one after another.

The number: evaluations per second of the lock-step engine, divided by those of the ordinary one, which drives the same
runs through `gradline.LineSearchOptimizer`. Both include all that a run consists of: drawing and gathering batches,
evaluations, searches, and losses and errors measured every 10 evaluations.

How it is measured:

* One thread and its CPU time, unless told otherwise: what else runs on the machine hardly counts.
* Repetitions are interleaved: in each, all rows in lock-step make a block of evaluations, and so do some of the same
  runs (two of each method) in engines of their own, in shuffled order. A ratio is within one repetition.
* So both are always at the same place in the same runs. After `restart` evaluations all begin anew with other seeds.
* The allocator keeps its memory, as in `overhead.py`.

Run `python benchmarks/lockstep.py --help`; needs gradline[study]. MNIST is used if its files are there, else random
data of its shape.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from harness import header, keep_memory, machine, quartiles, report_progress, write
from problems import SEED

from gradline.lab.engines import Engine
from gradline.lab.engines.lockstep import Lockstep
from gradline.lab.engines.ordinary import Ordinary
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import METHODS
from gradline.lab.problems import PROBLEMS, Network, data

RATIO = "ratio: evaluations per second in lock-step, relative to the same runs one after another"
ENDLESS = 10**9
SINGLES = 2
"""Runs of each method that are also run alone."""


@dataclass(frozen=True)
class Case:
    """Some rows of a problem, their methods by turns. `block` is in evaluations of each run."""

    problem: str
    methods: tuple[str, ...]
    rows: int
    batch_size: int
    target: float | None
    block: int
    repetitions: int
    restart: int = 400

    @property
    def name(self) -> str:
        """What it is called in tables and results."""
        return f"{self.problem}, {' and '.join(self.methods)}"

    def runs(self, first_seed: int) -> list[Run]:
        """The runs, from some seed on."""
        methods = [METHODS[name] for name in self.methods]
        return [
            Run(
                problem=PROBLEMS[self.problem],
                method=methods[row % len(methods)],
                batch_size=self.batch_size,
                seed=first_seed + row // len(methods),
                budget=ENDLESS,
            )
            for row in range(self.rows)
        ]


def cases() -> list[Case]:
    small = [
        Case(problem, methods, 40, 50, target if methods == ("gols-i",) else None, block=20, repetitions=60)
        for problem, target in (("bcwd-logr", 15.0), ("bcwd-netpi", 10.0), ("bcwd-netpii", None))
        for methods in (("gols-i",), ("prls",), ("gols-i", "prls"))
    ]
    large = [
        Case("mnist-net1", methods, 10, 100, 1.0 if methods == ("gols-i",) else None, block=40, repetitions=15)
        for methods in (("gols-i",), ("prls",), ("gols-i", "prls"))
    ]
    return small + large


@cache
def data_of(name: str, quick: bool) -> data.DataSet:
    if name != "mnist":
        return data.load(name)
    if not quick:
        try:
            return data.load(name, download=False)
        except data.DataError:
            report_progress("random data of the shape of MNIST\n")
    source = np.random.default_rng(SEED)
    samples, tested = (300, 60) if quick else (50_000, 10_000)
    arrays = [
        array
        for count in (samples, tested)
        for array in (
            source.standard_normal((count, 784), dtype=np.float32),
            np.eye(10, dtype=np.float32)[source.integers(10, size=count)],
        )
    ]
    return data.DataSet("random", *arrays)


class Race:
    """One case: all rows in lock-step, and some of them alone."""

    def __init__(self, case: Case, quick: bool) -> None:
        self.case = case
        self._data = data_of(PROBLEMS[case.problem].data, quick)
        self._seed = SEED
        self._shuffler = random.Random(SEED)
        self._begin()

    def _begin(self) -> None:
        runs = self.case.runs(self._seed)
        self._seed += len(runs)
        self.together = Lockstep(runs, self._data)
        with mock.patch.object(Network, "load", return_value=self._data):
            self.alone = [Ordinary(run) for run in runs[: SINGLES * len(self.case.methods)]]
        for engine in (self.together, *self.alone):
            advance(engine, self.case.block)

    def repetition(self) -> tuple[float, float]:
        """Seconds of an evaluation in lock-step and alone."""
        if self.together.evaluations >= self.case.restart * self.case.rows:
            self._begin()
        seconds: dict[bool, list[float]] = {True: [], False: []}
        engines: list[Engine] = [self.together, *self.alone]
        for engine in self._shuffler.sample(engines, len(engines)):
            seconds[engine is self.together].append(advance(engine, self.case.block))
        return seconds[True][0], sum(seconds[False]) / len(seconds[False])


def advance(engine: Engine, evaluations: int) -> float:
    """Go on by so many evaluations of each run; the seconds that one took."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    before, enough = engine.evaluations, evaluations * engine.active
    begin = clock()
    while engine.evaluations - before < enough:
        engine.advance()
    return (clock() - begin) / (engine.evaluations - before)


def measure(case: Case, quick: bool) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Yields what there is after each repetition."""
    race = Race(case, quick)
    pairs: list[tuple[float, float]] = []
    gc.freeze()  # what was built before is not looked through again while the clock runs
    for repetition in range(case.repetitions):
        pairs.append(race.repetition())
        yield f"repetition {repetition + 1} of {case.repetitions}", pairs
    gc.unfreeze()


def summarise(case: Case, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    ratio = quartiles([alone / together for together, alone in pairs])
    return {
        "rows": case.rows,
        "batch_size": case.batch_size,
        "repetitions": len(pairs),
        "together_microseconds": quartiles([1e6 * together for together, _ in pairs]),
        "alone_microseconds": quartiles([1e6 * alone for _, alone in pairs]),
        "ratio": ratio,
        "target": case.target,
        "met": None if case.target is None or ratio is None else ratio["median"] >= case.target,
    }


def heading() -> str:
    return (
        f"{'':34} {'rows':>4} {'batch':>5} {'together':>9} {'alone':>9} {'ratio':>6} {'quartiles':>13} {'target':>7}\n"
        f"{'':34} {'':>4} {'':>5} {'µs':>9} {'µs':>9}"
    )


def line(name: str, row: dict[str, Any]) -> str:
    ratio, target = row["ratio"], "" if row["target"] is None else f"{row['target']:.1f}"
    verdict = {None: "", True: "pass", False: "miss"}[row["met"]]
    return (
        f"{name:34} {row['rows']:4} {row['batch_size']:5} {row['together_microseconds']['median']:9.1f} "
        f"{row['alone_microseconds']['median']:9.1f} {ratio['median']:6.1f} "
        f"{ratio['lower']:6.1f}-{ratio['upper']:<6.1f} {target:>7} {verdict}"
    ).rstrip()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = sorted({case.problem for case in cases()})
    parser.add_argument("--problem", choices=names, action="append", help="only this one (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="a smoke run of a few seconds; its numbers mean nothing")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    return parser.parse_args()


def shortened(case: Case) -> Case:
    return replace(case, rows=4, batch_size=10, block=3, repetitions=2, restart=8)


def run(chosen: Sequence[Case], quick: bool, summaries: dict[str, dict[str, Any]]) -> bool:
    """Measure the cases, print and collect their lines; false if interrupted, with what there is so far."""
    print(f"\n{heading()}", flush=True)
    for case in chosen:
        pairs: list[tuple[float, float]] = []
        complete = True
        try:
            for done, pairs in measure(case, quick):  # noqa: B007
                report_progress(f"{case.name}: {done}")
        except KeyboardInterrupt:
            complete = False
        report_progress("")
        if pairs:
            summaries[case.name] = summarise(case, pairs)
            print(line(case.name, summaries[case.name]), flush=True)
        if not complete:
            return False
    return True


def main() -> int:
    chosen = arguments()
    keep_memory()
    torch.set_num_threads(chosen.threads)
    about = machine()
    print(header(about, chosen.quick, RATIO), flush=True)
    some = [case for case in cases() if chosen.problem is None or case.problem in chosen.problem]
    summaries: dict[str, dict[str, Any]] = {}
    complete = run([shortened(case) for case in some] if chosen.quick else some, chosen.quick, summaries)
    if chosen.json:
        write(chosen.json, about, quick=chosen.quick, complete=complete, cases=summaries)
    return 0 if complete else 130


if __name__ == "__main__":
    sys.exit(main())
