"""How good are the learning rates that `gradline.find_lr` finds?

On each problem and for three optimizers (SGD, SGD with momentum 0.9, Adam), from the same starts and with the same
batches, the loss on all training data and the error on test data after the same number of gradient evaluations, with

* the best of a grid of 11 fixed learning rates from 1e-4 to 10, and torch's default;
* the one learning rate that was found, and the schedule that was found;
* GOLS-I itself along the optimizer's direction: it spends its evaluations on probes.

The searches for the learning rate are not counted: they are made once, and cost `FIND` evaluations.

How a recording is made one number was chosen on the first three problems; the others are held apart. (All but the last
had been looked at when it was decided to take half of a step where there is momentum.) Whether a loss is good is told
by its ratio to the best of the grid. Losses below `SMALL` are all the same: nothing.

Run `python benchmarks/learning_rate.py --help`; needs gradline[study]. The MNIST problems need its files.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import math
import statistics
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import machine, report_progress, write
from torch import Tensor, nn
from torch.nn import functional

import gradline
from gradline.lab.problems import data
from gradline.torch.learning_rate import StepRecorder, find_lr

RATES = [10.0 ** (half / 2) for half in range(-8, 3)]
DEFAULT = 1e-3
"""The default learning rate of torch's SGD and Adam."""
FIND = 300
SMALL = 1e-3
SAMPLES = 5000
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=0.9),
    "Adam": torch.optim.Adam,
}


@dataclass(frozen=True)
class Problem:
    """Data (training inputs and targets, then those of the test), a network and how it is trained."""

    load: Callable[[], tuple[Tensor, ...]]
    network: Callable[[], nn.Module]
    batch_size: int
    chosen_on: bool = False  # whether the rule of `fixed()` was chosen on it
    budget: int = 300
    find: int = FIND


def split(inputs: Any, targets: Any, *, regression: bool = False) -> tuple[Tensor, ...]:
    """Shuffle, Z-score by the training rows, which are four of five, and make tensors."""
    order = np.random.default_rng(0).permutation(len(inputs))
    first = len(inputs) * 4 // 5
    inputs, targets = inputs[order], targets[order]
    spread = inputs[:first].std(axis=0)
    x = torch.tensor((inputs - inputs[:first].mean(axis=0)) / np.where(spread > 0, spread, 1.0), dtype=torch.float32)
    if regression:
        y = torch.tensor((targets - targets[:first].mean()) / targets[:first].std(), dtype=torch.float32)[:, None]
    else:
        y = torch.tensor(targets)
    return x[:first], y[:first], x[first:], y[first:]


def bundled(name: str) -> tuple[Tensor, ...]:
    from sklearn import datasets  # slow to import

    if name == "friedman":
        return split(*datasets.make_friedman1(2500, noise=1.0, random_state=0), regression=True)
    return split(*getattr(datasets, f"load_{name}")(return_X_y=True), regression=name == "diabetes")


@cache
def mnist() -> tuple[Tensor, ...]:
    images = data.load("mnist", download=False)
    x, y = (torch.tensor(array[:SAMPLES]) for array in (images.train_inputs, images.train_targets))
    tested, labels = (torch.tensor(array[:SAMPLES]) for array in (images.test_inputs, images.test_targets))
    return x, y.argmax(dim=1), tested, labels.argmax(dim=1)


def mlp(*widths: int, between: Callable[[], nn.Module] = nn.Tanh) -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), between()]
    return nn.Sequential(*layers[:-1])


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))


def convolutional() -> nn.Module:
    first, second = nn.Conv2d(1, 8, 5, stride=2), nn.Conv2d(8, 16, 3, stride=2)
    features = nn.Sequential(nn.Unflatten(1, (1, 28, 28)), first, nn.ReLU(), second, nn.ReLU(), nn.Flatten())
    return nn.Sequential(features, nn.Linear(400, 10))


PROBLEMS = {
    "diabetes, MLP": Problem(partial(bundled, "diabetes"), partial(mlp, 10, 32, 1), 32, chosen_on=True),
    "wine, MLP": Problem(partial(bundled, "wine"), partial(mlp, 13, 16, 3, between=nn.ReLU), 16, chosen_on=True),
    "Friedman 1, MLP": Problem(
        partial(bundled, "friedman"), partial(mlp, 10, 32, 32, 1, between=nn.ReLU), 50, chosen_on=True
    ),
    "breast cancer, MLP": Problem(partial(bundled, "breast_cancer"), partial(mlp, 30, 32, 2), 32),
    "digits, BatchNorm": Problem(partial(bundled, "digits"), normalised, 64),
    "MNIST, MLP": Problem(mnist, partial(mlp, 784, 64, 10), 64),
    "MNIST, conv": Problem(mnist, convolutional, 64, budget=200),
}


class Race:
    """One problem with one seed: all ways to train begin at the same point and see the same batches."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self.samples = problem.load()
        self.loss_of = functional.mse_loss if self.samples[1].is_floating_point() else functional.cross_entropy
        torch.manual_seed(seed)
        self.start = problem.network()

    def batches(self, seed: int) -> gradline.batches.Batches:
        """Endless mini-batches."""
        return gradline.batches.dynamic(*self.samples[:2], batch_size=self.problem.batch_size, seed=seed)

    def find(self, optimizer: Callable[..., torch.optim.Optimizer]) -> StepRecorder:
        """The steps of a short run, on other batches than those of training."""
        model = self.start
        return find_lr(
            model,
            lambda x, y: self.loss_of(model(x), y),
            self.batches(self.seed + 1000),
            evaluations=self.problem.find,
            direction=optimizer,
            progress=False,
        )

    def train(
        self, optimizer: Callable[..., torch.optim.Optimizer], rate: float, steps: StepRecorder | None = None
    ) -> tuple[float, float]:
        """With a learning rate, or with the schedule of some steps."""
        model = copy.deepcopy(self.start)
        made = optimizer(model.parameters(), lr=rate)
        scheduler = None if steps is None else steps.schedule(made, total=self.problem.budget)
        for x, y in self.batches(self.seed).take(self.problem.budget):
            made.zero_grad()
            self.loss_of(model(x), y).backward()
            made.step()
            if scheduler is not None:
                scheduler.step()
        return self.measure(model)

    def search(self, direction: Callable[..., torch.optim.Optimizer]) -> tuple[float, float]:
        """With GOLS-I."""
        model = copy.deepcopy(self.start)
        optimizer = gradline.GOLSI(model.parameters(), direction=direction)
        for x, y in self.batches(self.seed).take(self.problem.budget):
            optimizer.zero_grad()
            self.loss_of(model(x), y).backward()
            optimizer.step()
        optimizer.eval()
        return self.measure(model)

    @torch.no_grad()
    def measure(self, model: nn.Module) -> tuple[float, float]:
        """Loss on the training data; on test data the share of errors, or the loss of a regression."""
        inputs, targets, tested, expected = self.samples
        model.eval()
        loss, outputs = float(self.loss_of(model(inputs), targets)), model(tested)
        if expected.is_floating_point():
            return loss, float(self.loss_of(outputs, expected))
        return loss, float((outputs.argmax(dim=1) != expected).float().mean())


def measured(race: Race, optimizer: str) -> dict[str, Any]:
    """One seed of one row."""
    build = OPTIMIZERS[optimizer]
    steps = race.find(build)
    return {
        "rate": steps.fixed(),
        "grid": [race.train(build, rate) for rate in RATES],
        "fixed": race.train(build, steps.fixed()),
        "schedule": race.train(build, DEFAULT, steps),
        "GOLS-I": race.search(build),
    }


def task(name: str, seed: int, quick: bool) -> list[dict[str, Any]]:
    """One seed of one problem: a row for each optimizer."""
    problem = PROBLEMS[name]
    race = Race(replace(problem, budget=20, find=40) if quick else problem, seed)
    return [measured(race, optimizer) for optimizer in OPTIMIZERS]


def summarise(seeds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the seeds; the best of the grid is one rate for all of them."""
    losses = [middle(seed["grid"][place][0] for seed in seeds) for place in range(len(RATES))]
    best = min(range(len(RATES)), key=losses.__getitem__)
    row: dict[str, Any] = {"seeds": len(seeds), "best_rate": RATES[best], "rate": [seed["rate"] for seed in seeds]}
    ways = {"best": best, "default": RATES.index(DEFAULT)}
    for name in ("best", "default", "fixed", "schedule", "GOLS-I"):
        pairs = [seed["grid"][ways[name]] if name in ways else seed[name] for seed in seeds]
        row[name] = {"loss": middle(loss for loss, _ in pairs), "test": middle(test for _, test in pairs)}
        row[name]["ratio"] = max(row[name]["loss"], SMALL) / max(losses[best], SMALL)
    row["grid_losses"] = losses
    return row


def middle(values: Iterable[float]) -> float:
    """The median, where what is not a number is worse than all numbers."""
    return statistics.median(math.inf if math.isnan(value) else value for value in values)


def table(results: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| problem | optimizer | best rate | found | best of grid | found rate | found schedule | default | GOLS-I |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in results.items():
        problem, _, optimizer = name.rpartition(", ")
        cells = [problem, optimizer, f"{row['best_rate']:.2g}", f"{statistics.median(row['rate']):.2g}"]
        best = row["best"]
        cells.append(f"{best['loss']:.2g}, {shown(best['test'])}")
        cells += [
            f"{row[way]['ratio']:.1f}, {shown(row[way]['test'])}" for way in ("fixed", "schedule", "default", "GOLS-I")
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def shown(test: float) -> str:
    return f"{test:.3f}"


def overall(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Geometric means and the worst of the ratios, of problems held apart and of the others."""
    found: dict[str, Any] = {}
    for part, chosen_on in (("held apart", False), ("chosen on", True)):
        for optimizer in OPTIMIZERS:
            for way in ("fixed", "schedule", "default", "GOLS-I"):
                ratios = [
                    row[way]["ratio"]
                    for name, row in results.items()
                    if row["chosen_on"] is chosen_on and name.endswith(f", {optimizer}")
                ]
                if ratios:
                    mean = math.exp(statistics.fmean(map(math.log, ratios)))
                    found[f"{part}, {optimizer}, {way}"] = {"mean": mean, "worst": max(ratios)}
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--problem", choices=sorted(PROBLEMS), action="append", help="only this one (may be repeated)")
    parser.add_argument("--seeds", type=int, default=2, help="runs of each kind (default: 2)")
    parser.add_argument("--quick", action="store_true", help="a smoke run of a few seconds; its numbers mean nothing")
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    return parser.parse_args()


def available(names: Iterable[str]) -> list[str]:
    """Those whose data are there."""
    found = []
    for name in names:
        try:
            PROBLEMS[name].load()
        except data.DataError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
        else:
            found.append(name)
    return found


def main() -> int:
    chosen = arguments()
    torch.set_num_threads(1)
    names = chosen.problem or list(PROBLEMS)
    problems = {name: PROBLEMS[name] for name in available(["wine, MLP"] if chosen.quick else names)}
    seeds: dict[str, list[dict[str, Any]]] = {
        f"{name}, {optimizer}": [] for name in problems for optimizer in OPTIMIZERS
    }
    tasks = [(name, seed) for seed in range(1 if chosen.quick else chosen.seeds) for name in problems]
    complete = True
    with ProcessPoolExecutor(chosen.workers, get_context("spawn"), torch.set_num_threads, (1,)) as workers:
        waiting = {workers.submit(task, *one, chosen.quick): one for one in tasks}
        try:
            for done in as_completed(waiting):
                name, seed = waiting[done]
                report_progress(f"{name}, seed {seed}: done")
                for optimizer, row in zip(OPTIMIZERS, done.result(), strict=True):
                    seeds[f"{name}, {optimizer}"].append(row)
        except KeyboardInterrupt:
            complete = False
            workers.shutdown(cancel_futures=True)
    report_progress("")
    results = {
        name: {"chosen_on": problems[name.rpartition(", ")[0]].chosen_on, **summarise(rows)}
        for name, rows in seeds.items()
        if rows
    }
    print(table(results))
    means = overall(results)
    for name, ratios in means.items():
        print(f"{name}: ratio to the best of the grid {ratios['mean']:.1f}, at worst {ratios['worst']:.1f}")
    if chosen.json:
        write(chosen.json, machine(), quick=chosen.quick, complete=complete, rows=results, overall=means)
    return 0 if complete else 130


if __name__ == "__main__":
    sys.exit(main())
