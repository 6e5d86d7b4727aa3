"""What `Angle` is made of, one part changed at a time: training losses of the average on the problems it was tuned on.

    python benchmarks/angle.py                              # all variants, two seeds: about 20 minutes of one core
    python benchmarks/angle.py --problems regression --seeds 1
    python benchmarks/angle.py --json benchmarks/results/angle.json

What is in the JSON file already is not made again: the same command goes on after Ctrl-C. CIFAR10 is looked for where
`gradline run compare` does; without it, name other problems.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from gradline.lab import studies
from gradline.lab.engines.ordinary import Ordinary
from gradline.lab.findings.traces import thin
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import Peer
from gradline.lab.methods.objective import Objective
from gradline.lab.methods.stepper import Searching, Stepper
from gradline.lab.studies import Setting
from gradline.searches import Angle, AngleMemory
from gradline.torch.displacement import Displacement
from gradline.torch.line import Line


class LastStep(Displacement):
    """A displacement of one step: a horizon that does not grow."""

    def add(self, line: Line, step: float, before: int) -> None:
        """Forget all steps before."""
        super().add(line, step, 0)


class LateSteps(Displacement):
    """A displacement from the mean of about the last tenth of the points."""

    def add(self, line: Line, step: float, before: int) -> None:
        """Forget quickly: a weight of 9/(n + 9) for the present point."""
        super().add(line, step, before // 9)


class AllSteps(Displacement):
    """A displacement from the very first point."""

    def add(self, line: Line, step: float, before: int) -> None:
        """Forget nothing."""
        super().add(line, step, 10**12)


@dataclass(frozen=True, kw_only=True)
class Target(Angle):
    """Angle with a target for its cosine other than 0."""

    target: float = 0.0

    def next_step(self, memory: AngleMemory, cosine: float) -> AngleMemory:
        """Subtract the target."""
        return super().next_step(memory, cosine - self.target)


@dataclass(frozen=True, kw_only=True)
class Slow(Angle):
    """Angle whose changes are always divided by n + 10, also while its steps are short."""

    def next_step(self, memory: AngleMemory, cosine: float) -> AngleMemory:
        """Hide the first step, to which the present one is compared."""
        return super().next_step(memory._replace(first=0.0), cosine)._replace(first=memory.first)


@dataclass(frozen=True, kw_only=True)
class Steady(Angle):
    """A feedback that does not slow down: α ← α exp(-(c - target)/2); α doubles until c first is positive."""

    target: float = 0.0

    def next_step(self, memory: AngleMemory, cosine: float) -> AngleMemory:
        """Keep in `square` whether a cosine was positive."""
        square = 1.0 if cosine >= 0.0 else memory.square
        factor = 2.0 if square == 0.0 else math.exp(-(cosine - self.target) / 2.0)
        return memory._replace(step=max(self.step_min, min(self.step_max, memory.step * factor)), square=square)


ADAM = torch.optim.Adam
Make = tuple[Angle, type[Displacement], Any]
VARIANTS: dict[str, Make] = {
    "angle": (Angle(), Displacement, ADAM),
    "gain 5": (Angle(gain=5.0), Displacement, ADAM),
    "gain 20": (Angle(gain=20.0), Displacement, ADAM),
    "climb 0": (Angle(climb=0.0), Displacement, ADAM),
    "climb 3": (Angle(climb=3.0), Displacement, ADAM),
    "divided by n + 10": (Slow(), Displacement, ADAM),
    "target 0.05": (Target(target=0.05), Displacement, ADAM),
    "target 0.2": (Target(target=0.2), Displacement, ADAM),
    "displacement from late points": (Angle(), LateSteps, ADAM),
    "displacement from the first point": (Angle(), AllSteps, ADAM),
    "last step, target 0": (Steady(), LastStep, ADAM),
    "last step, target 0.2": (Steady(target=0.2), LastStep, ADAM),
    "last step, steepest descent, target 0.2": (Steady(target=0.2), LastStep, None),
    "Adam without momentum": (Angle(), Displacement, partial(ADAM, betas=(0.0, 0.999))),
    "steepest descent": (Angle(), Displacement, None),
}


def method(name: str) -> Peer:
    """A variant as a method of the comparison."""
    search, displacement, direction = VARIANTS[name]

    def build(objective: Objective) -> Stepper:
        stepper = Searching(objective, search, direction, average=True)
        stepper.optimizer._session.sensor.buffers["displacement"] = displacement()
        return stepper

    return Peer(name, name, build, "gradline", "gradline")


def train(run: Run) -> float:
    """The last training loss of a run."""
    engine = Ordinary(run)
    while engine.active:
        engine.advance()
    (result,) = engine.finished()
    return thin(result).at_budget("train_loss")


def measure(setting: Setting, name: str, seeds: int, known: dict[str, float | None], keep: Callable[[], None]) -> float:
    """The median of the last training losses; infinite where one is not finite."""
    losses = []
    for seed in range(seeds):
        key = f"{name} | {setting.name} | {setting.budget} | {seed}"
        if key not in known:
            run = Run(
                problem=setting.problem,
                batch_size=setting.batch_size,
                method=method(name),
                seed=seed,
                budget=setting.budget,
                record_every=setting.record_every,
                benchmark=True,
            )
            loss = train(run)
            known[key] = float(f"{loss:.4g}") if math.isfinite(loss) else None
            keep()
        value = known[key]
        losses.append(math.inf if value is None else value)
    return statistics.median(losses)


def main() -> None:
    """Measure what is missing, and show all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=["tune"], help="as for gradline run compare (default: tune)")
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budget", type=int, help="evaluations of each run (default: the problem's)")
    parser.add_argument("--json", type=Path, help="keep all losses here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    settings = studies.load("compare", problems=arguments.problems, budget=arguments.budget).settings
    file: Path | None = arguments.json
    known: dict[str, float | None] = json.loads(file.read_text()) if file and file.exists() else {}

    def keep() -> None:
        if file:
            file.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")

    rows: dict[str, list[float]] = {}
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("runs", total=len(settings) * len(arguments.variants))
        for name in arguments.variants:
            for setting in settings:
                rows.setdefault(name, []).append(measure(setting, name, arguments.seeds, known, keep))
                progress.advance(task)
    show([setting.problem.name for setting in settings], rows)


def show(problems: list[str], rows: dict[str, list[float]]) -> None:
    """Print geometric means of losses over those of the first variant: over all settings, and for each problem."""
    first = next(iter(rows.values()))
    table = Table("variant", "all", "lower in", *dict.fromkeys(problems), box=None)
    for name, losses in rows.items():
        ratios = [math.log(loss / base) for loss, base in zip(losses, first, strict=True)]
        parts = [
            [r for r, other in zip(ratios, problems, strict=True) if other == one] for one in dict.fromkeys(problems)
        ]
        means = [f"{math.exp(statistics.fmean(part)):.2g}×" for part in (ratios, *parts)]
        table.add_row(name, means[0], f"{sum(r < 0.0 for r in ratios)} of {len(ratios)}", *means[1:])
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
