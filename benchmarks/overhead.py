"""What a step of gradline's optimizers costs beyond its gradient evaluations, beside torch's and others.

The number: the time of an optimizer's steps, divided by their closure calls times the time of one
`torch.optim.SGD` step on the same closure. 1.00 means that a search costs exactly as many SGD steps as it makes
evaluations.

How it is measured:

* Every closure call takes a new mini-batch by slicing at a random row, at the same cost for all methods.
* One thread, unless told otherwise, and its CPU time: what else runs on the machine hardly counts. With more threads
  it is the time on the wall.
* Repetitions are interleaved: each times a short block of every method, in shuffled order, and its ratios are to the
  block of SGD in the same repetition. The table has their median and quartiles.
* A second copy of SGD is measured as if it were another method. Its true ratio is 1, so its distance from 1 is what
  this run cannot resolve.
* Every method trains its own copy of one model. After a fixed number of evaluations (or a non-finite loss) it goes back
  to the common start and warms up again, untimed, so that all work at comparable points.
* glibc's allocator gives memory back to the kernel, or not, by the luck of the heap's layout, and the page faults that
  follow shift ratios by 10% from run to run. The script therefore starts itself anew with trimming and mmap turned off
  (see `harness.py`), for all methods alike.
* Memory: torch's own allocations and frees on the CPU, recorded by `torch.profiler` from the building of the model on,
  are summed over time; the peak is read at the probes (in the closure, when the gradients have been cleared and the
  forward pass has not begun) and in the steps (outside the closure), without parameters and gradients.

Run `python benchmarks/overhead.py --help`; needs gradline[bench].
"""

from __future__ import annotations

import argparse
import copy
import gc
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import prodigyopt
import schedulefree
import torch
from harness import header, keep_memory, machine, quartiles, report_progress, write
from problems import PROBLEMS, SEED, Problem, load
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.profiler import ProfilerActivity, profile, record_function

import gradline

REFERENCE = "SGD"
RATIO = "ratio: time per evaluation, relative to a step of torch.optim.SGD on the same closure"


@dataclass(frozen=True)
class Method:
    """An optimizer and the way to drive it. `warm_up` is in evaluations."""

    name: str
    build: Callable[[Iterator[nn.Parameter]], Optimizer]
    closure: bool = True
    warm_up: int = 50


def _schedule_free(parameters: Iterator[nn.Parameter]) -> Optimizer:
    optimizer = schedulefree.AdamWScheduleFree(parameters, lr=1e-3)
    optimizer.train()
    return optimizer


METHODS = (
    Method(REFERENCE, partial(torch.optim.SGD, lr=0.05)),
    Method("SGD, a second copy", partial(torch.optim.SGD, lr=0.05)),  # the control: what differs from 1 is noise
    Method("Angle", gradline.Angle),
    Method("Angle without closure", gradline.Angle, closure=False),
    Method("Angle, average=False", partial(gradline.Angle, average=False)),
    Method("GOLSI", gradline.GOLSI),
    Method("GOLSI without closure", gradline.GOLSI, closure=False),
    Method("GOLSI, direction=Adam", partial(gradline.GOLSI, direction=torch.optim.Adam)),
    Method("Adam", partial(torch.optim.Adam, lr=1e-3)),
    Method("Adam, fused", partial(torch.optim.Adam, lr=1e-3, fused=True)),
    Method("Schedule-Free AdamW", _schedule_free),
    Method("Prodigy", prodigyopt.Prodigy),
    Method("LBFGS, strong Wolfe", partial(torch.optim.LBFGS, line_search_fn="strong_wolfe"), warm_up=120),
)


class Block(NamedTuple):
    """What some steps took."""

    seconds: float
    evaluations: int
    steps: int


class Trainer:
    """One method on its own copy of a problem's model."""

    def __init__(self, problem: Problem, method: Method) -> None:
        self.problem = problem
        self.method = method
        self.model = copy.deepcopy(problem.model)
        self.restarts = -1
        self.restart()

    def restart(self) -> None:
        """Back to the common start, with a new optimizer."""
        self.model.load_state_dict(self.problem.model.state_dict())
        self.model.zero_grad()
        self.optimizer = self.method.build(self.model.parameters())
        self.evaluations = 0
        self._calls = 0
        self.restarts += 1
        self._rows = random.Random(self.restarts)  # every method sees the same batches

    def closure(self) -> Tensor:
        """An ordinary closure, on the next mini-batch."""
        self.optimizer.zero_grad()
        return self.backward()

    def backward(self) -> Tensor:
        """The loss of the next mini-batch, and its gradients."""
        loss = self.forward()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def forward(self, **options: Any) -> Tensor:
        """The loss of the next mini-batch."""
        problem = self.problem
        row = self._rows.randrange(len(problem.inputs) - problem.batch_size)
        batch = slice(row, row + problem.batch_size)
        self.evaluations += 1
        return problem.loss(self.model(problem.inputs[batch]), problem.targets[batch], **options)

    def run(self, evaluations: int, closure: Callable[[], Tensor] | None = None) -> Block:
        """Whole steps with at least so many evaluations."""
        closure = closure or self.closure
        step: Callable[..., Any] = self.optimizer.step
        needs_closure = self.method.closure
        before, steps_before = self.evaluations, self._steps()
        clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
        begin = clock()
        while self.evaluations - before < evaluations:
            if needs_closure:
                step(closure)
            else:
                closure()
                step()
            self._calls += 1
        seconds = clock() - begin
        return Block(seconds, self.evaluations - before, self._steps() - steps_before)

    def _steps(self) -> int:
        """Steps so far. Without a closure a search takes several calls of `step`: there they are searches ended."""
        return getattr(self.optimizer, "iterations", self._calls)

    def finite(self) -> bool:
        """Whether there is anything left to train."""
        return all(bool(parameter.isfinite().all()) for parameter in self.model.parameters())

    def ready(self, warm_up: int) -> None:
        """Restart where that is due, and warm up after a start."""
        if self.evaluations >= self.problem.restart or not self.finite():
            self.restart()
        if self.evaluations == 0:
            self.run(warm_up)


class Copies(NamedTuple):
    """Peak memory beyond parameters and gradients, in copies of the parameters."""

    at_probe: float
    in_step: float


def measure_memory(problem: Problem, method: Method, evaluations: int) -> Copies:
    """Run for so many evaluations under the profiler and follow torch's allocations."""
    gc.collect()  # or what an earlier measurement left behind is freed, and counted, in this one
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        trainer = Trainer(problem, method)

        def closure() -> Tensor:
            with record_function("closure"):
                trainer.optimizer.zero_grad()
                with record_function("probe"):
                    pass
                return trainer.backward()

        trainer.run(evaluations, closure)
    at_probe, in_step = follow(profiler.profiler.kineto_results.events())
    size = sum(parameter.numel() * parameter.element_size() for parameter in problem.model.parameters())
    # At a probe the parameters are there and the gradients are not; in the steps both are.
    return Copies(at_probe / size - 1.0, in_step / size - 2.0)


def follow(events: Sequence[Any]) -> tuple[int, int]:
    """The most bytes that were allocated at a probe, and between the first closure and the end outside of closures."""
    happened: list[tuple[int, str, int]] = []
    for event in events:
        name = event.name()
        if name == "[memory]":
            happened.append((event.start_ns(), name, event.nbytes()))
        elif name in ("closure", "probe"):
            happened.append((event.start_ns(), name, 0))
            happened.append((event.end_ns(), f"end of {name}", 0))
    live, at_probe, in_step, counts = 0, 0, 0, False
    for _, name, size in sorted(happened, key=lambda entry: entry[0]):
        live += size
        if name in ("closure", "end of closure"):
            counts = name == "end of closure"
        if name == "probe":
            at_probe = max(at_probe, live)
        elif counts:
            in_step = max(in_step, live)
    return at_probe, in_step


@dataclass
class Result:
    """What has been measured on one problem so far: memory and timed blocks by method, of complete repetitions."""

    problem: Problem
    copies: dict[str, Copies] = field(default_factory=dict)
    repetitions: list[dict[str, Block]] = field(default_factory=list)
    restarts: dict[str, int] = field(default_factory=dict)

    def blocks(self, method: str) -> list[Block]:
        """The timed blocks of a method."""
        return [blocks[method] for blocks in self.repetitions if method in blocks]

    def ratios(self, method: str) -> list[float]:
        """Time per evaluation relative to SGD, of each repetition."""
        return [
            per_evaluation(blocks[method]) / per_evaluation(blocks[REFERENCE])
            for blocks in self.repetitions
            if method in blocks and REFERENCE in blocks
        ]

    def summary(self) -> dict[str, Any]:
        """As plain numbers."""
        problem = self.problem
        reference = [1e6 * per_evaluation(block) for block in self.blocks(REFERENCE)]
        return {
            "title": problem.title,
            "parameters": problem.parameters,
            "batch_size": problem.batch_size,
            "repetitions": len(self.repetitions),
            "sgd_step_microseconds": quartiles(reference),
            "methods": {method.name: self._summary(method.name) for method in METHODS},
        }

    def _summary(self, name: str) -> dict[str, Any]:
        blocks, copies = self.blocks(name), self.copies[name]
        ratio = quartiles(self.ratios(name))
        target = self.problem.targets_of.get(name)
        steps = sum(block.steps for block in blocks)
        return {
            "ratio": ratio,
            "evaluations_per_step": sum(block.evaluations for block in blocks) / steps if steps else None,
            "copies_at_probe": round(copies.at_probe, 2),
            "copies_in_step": round(copies.in_step, 2),
            "restarts": self.restarts.get(name, 0),
            "target": target,
            "met": None if target is None or ratio is None else ratio["median"] <= target,
        }


def per_evaluation(block: Block) -> float:
    return block.seconds / block.evaluations


def measure(result: Result, quick: bool) -> Iterator[str]:
    """Fill the result, telling what has been done: memory first, then interleaved timings."""
    problem = result.problem
    warm_ups = {method.name: 6 if quick else min(method.warm_up, problem.warm_up) for method in METHODS}
    for method in METHODS:
        result.copies[method.name] = measure_memory(problem, method, warm_ups[method.name])
        yield f"memory of {method.name}"
    trainers = [Trainer(problem, method) for method in METHODS]
    shuffler = random.Random(SEED)
    gc.freeze()  # what was built before is not looked through again while the clock runs
    for repetition in range(problem.repetitions):
        blocks = {}
        for trainer in shuffler.sample(trainers, len(trainers)):
            trainer.ready(warm_ups[trainer.method.name])
            block = trainer.run(problem.block)
            if trainer.finite():
                blocks[trainer.method.name] = block
        result.repetitions.append(blocks)
        result.restarts = {trainer.method.name: trainer.restarts for trainer in trainers}
        yield f"repetition {repetition + 1} of {problem.repetitions}"
    gc.unfreeze()


def table(summary: dict[str, Any]) -> str:
    sgd = summary["sgd_step_microseconds"]
    lines = [
        f"{summary['title']}: {summary['parameters']:,} parameters, batch {summary['batch_size']}, "
        f"{summary['repetitions']} repetitions, an SGD step is {sgd['median']:,.0f} µs",
        f"  {'':22} {'ratio':>6} {'quartiles':>13} {'target':>7} {'':4} {'evals/step':>10}"
        f" {'copies at probe':>15} {'in step':>8} {'restarts':>8}",
    ]
    for name, row in summary["methods"].items():
        ratio = row["ratio"] or {"median": math.nan, "lower": math.nan, "upper": math.nan}
        target = "" if row["target"] is None else f"{row['target']:.2f}"
        verdict = {None: "", True: "pass", False: "miss"}[row["met"]]
        evaluations = math.nan if row["evaluations_per_step"] is None else row["evaluations_per_step"]
        lines.append(
            f"  {name:22} {ratio['median']:6.2f} {ratio['lower']:6.2f}-{ratio['upper']:<6.2f} {target:>7} {verdict:4}"
            f" {evaluations:10.2f} {row['copies_at_probe']:15.1f} {row['copies_in_step']:8.1f} {row['restarts']:8}"
        )
    return "\n".join(lines)


def run(names: Sequence[str], quick: bool, summaries: dict[str, dict[str, Any]]) -> bool:
    """Measure the problems, print and collect their tables; false if interrupted, with what there is so far."""
    for name in names:
        result = Result(load(name, quick))
        complete = True
        try:
            for done in measure(result, quick):
                report_progress(f"{name}: {done}")
        except KeyboardInterrupt:
            complete = False
        report_progress("")
        if result.repetitions:
            summaries[name] = result.summary()
            print(f"\n{table(summaries[name])}", flush=True)
        if not complete:
            return False
    return True


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problem", choices=PROBLEMS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="a smoke run of a few seconds; its numbers mean nothing")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    keep_memory()
    torch.set_num_threads(chosen.threads)
    about = machine()
    print(header(about, chosen.quick, RATIO), flush=True)
    summaries: dict[str, dict[str, Any]] = {}
    complete = run(chosen.problem or list(PROBLEMS), chosen.quick, summaries)
    if chosen.json:
        write(chosen.json, about, quick=chosen.quick, complete=complete, problems=summaries)
    return 0 if complete else 130


if __name__ == "__main__":
    sys.exit(main())
