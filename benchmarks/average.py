"""Which weights should points have in the average of Angle? Validation losses of several averages of the same run.

The weights of the first n points add up to n to some power: 9 in `gradline.Angle`. A larger power makes a shorter
average; `last` is the last point itself. Each run of Angle on a problem of the study `train` that is not held out keeps
all of these averages, and measures them after a quarter of its evaluations and at its end.

    python benchmarks/average.py                              # all problems, three seeds: about 20 minutes of one core
    python benchmarks/average.py --problems digits-mlp/16 --seeds 1
    python benchmarks/average.py --json benchmarks/results/average.json

What is in the JSON file already is not made again: the same command goes on after Ctrl-C. MNIST and CIFAR10 are looked
for where `gradline run train` does; without them, name other problems. Networks with BatchNorm are not measured: their
statistics would have to be averaged too.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor, nn

import gradline
from gradline.lab import studies
from gradline.lab.methods.objective import Objective
from gradline.lab.problems.sampling import Batches, Purpose
from gradline.lab.problems.task import Task
from gradline.lab.studies import Setting

POWERS = {"9": 9.0, "3": 3.0, "14": 14.0, "19": 19.0, "39": 39.0, "99": 99.0, "last": math.inf}
"""The powers by name; the first is gradline's, to which others are compared."""


@torch.no_grad()
def validation_loss(task: Task, points: list[Tensor]) -> float:
    """The validation loss of the model at some point, where it does not stay."""
    parameters = list(task.model.parameters())
    present = [parameter.clone() for parameter in parameters]
    nn.utils.vector_to_parameters(torch.cat([point.flatten() for point in points]), parameters)
    loss = task.measure(task.model.eval()).validation_loss
    nn.utils.vector_to_parameters(torch.cat([point.flatten() for point in present]), parameters)
    task.model.train()
    return loss


def train(setting: Setting, seed: int) -> dict[str, dict[str, float]]:
    """Train once; return the validation loss of each average, after a quarter of the evaluations and after all."""
    torch.manual_seed(seed)
    task = setting.problem.build(seed)
    batches = Batches(seed=seed, purpose=Purpose.PROBES, samples=task.samples, size=setting.batch_size)
    objective = Objective(task, batches)
    parameters = objective.parameters
    optimizer = gradline.Angle(parameters, average=False)
    averages = {name: [parameter.detach().clone() for parameter in parameters] for name in POWERS}
    seen, points = {}, 0
    for evaluation in range(1, setting.budget + 1):
        objective.begin()
        objective.next_batch()
        optimizer.zero_grad()
        objective.backward()
        if optimizer.iterations:  # the gradient is that of an accepted point, not of a probe of the first search
            points += 1
            with torch.no_grad():
                for name, power in POWERS.items():
                    weight = 1.0 - (1.0 - 1.0 / points) ** power
                    for mean, parameter in zip(averages[name], parameters, strict=True):
                        mean.lerp_(parameter, weight)
        optimizer.step()
        if evaluation in (setting.budget // 4, setting.budget):
            losses = {name: validation_loss(task, average) for name, average in averages.items()}
            seen[str(evaluation)] = {name: float(f"{loss:.4g}") for name, loss in losses.items()}
    return seen


def main() -> None:
    """Measure what is missing, and show all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=["tune"], help="as for gradline run train (default: tune)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", type=int, help="evaluations of each run (default: the study's)")
    parser.add_argument("--json", type=Path, help="keep all losses here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    every = studies.load("train", problems=arguments.problems, budget=arguments.budget).settings
    longest = {one.name: one for one in sorted(every, key=lambda one: one.budget)}  # a quarter is measured on the way
    file: Path | None = arguments.json
    known: dict[str, dict[str, dict[str, float]]] = json.loads(file.read_text()) if file and file.exists() else {}
    table = Table("case", "loss: 9", *(name for name in POWERS if name != "9"), box=None)
    rows: dict[str, list[float]] = {name: [] for name in POWERS}
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("runs", total=len(longest) * arguments.seeds)
        for setting in longest.values():
            runs = []
            for seed in range(arguments.seeds):
                key = f"{setting.name} | {setting.budget} | {seed}"
                if key not in known:
                    known[key] = train(setting, seed)
                    if file:
                        file.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n")
                runs.append(known[key])
                progress.advance(task)
            for length in runs[0]:
                medians = {name: statistics.median(run[length][name] for run in runs) for name in POWERS}
                for name in POWERS:
                    rows[name].append(medians[name] / medians["9"])
                ratios = (f"{rows[name][-1]:.3f}×" for name in POWERS if name != "9")
                table.add_row(f"{setting.name}, {int(length):,}", f"{medians['9']:.3g}", *ratios)
    for about, mean in (("median", statistics.median), ("geometric mean", statistics.geometric_mean)):
        table.add_row(about, "", *(f"{mean(rows[name]):.3f}×" for name in POWERS if name != "9"))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
