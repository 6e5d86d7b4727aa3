"""Train on the breast-cancer data (BCWD) with GOLS-I: no learning rate, whatever the batch size.

The data come with scikit-learn. Two networks, four batch sizes, the same number of gradient evaluations for each,
and the same defaults everywhere.

    python examples/bcwd.py [--evaluations N] [--seed N]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn
from tqdm import tqdm

import gradline

TRAINING = 400
BATCH_SIZES = (10, 50, 100, 400)


@dataclass(frozen=True)
class Result:
    """What one training run came to."""

    network: str
    batch_size: int
    loss: float
    training_error: float
    test_error: float
    evaluations_per_step: float
    steps: list[float]


def data(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and test samples, Z-scored on the training samples."""
    source = load_breast_cancer()
    order = torch.randperm(len(source.target), generator=torch.Generator().manual_seed(seed))
    inputs = torch.tensor(source.data)[order]
    targets = torch.tensor(source.target, dtype=torch.float64)[order, None]
    training = inputs[:TRAINING]
    inputs = (inputs - training.mean(dim=0)) / training.std(dim=0)
    return inputs[:TRAINING], targets[:TRAINING], inputs[TRAINING:], targets[TRAINING:]


def networks() -> dict[str, nn.Module]:
    """Logistic regression and a network with one hidden layer, from standard normal weights as in the paper."""
    made = {
        "logistic regression": nn.Sequential(nn.Linear(30, 1)),
        "one hidden layer": nn.Sequential(nn.Linear(30, 32), nn.Sigmoid(), nn.Linear(32, 1)),
    }
    for network in made.values():
        network.double()
        for parameter in network.parameters():
            nn.init.normal_(parameter)
    return made


def train(name: str, model: nn.Module, batch_size: int, evaluations: int, seed: int, bar: tqdm) -> Result:
    """One run, in an ordinary training loop."""
    inputs, targets, test_inputs, test_targets = data(seed)
    loss_of = nn.functional.binary_cross_entropy_with_logits
    optimizer = gradline.GOLSI(model.parameters())
    steps: list[float] = []
    for x, y in gradline.batches.dynamic(inputs, targets, batch_size=batch_size, seed=seed).take(evaluations):
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
        if optimizer.last is not None and optimizer.iterations > len(steps):
            steps.append(optimizer.last.step)
        bar.update()
    with torch.no_grad(), optimizer.eval():
        return Result(
            network=name,
            batch_size=batch_size,
            loss=loss_of(model(inputs), targets).item(),
            training_error=_error(model(inputs), targets),
            test_error=_error(model(test_inputs), test_targets),
            evaluations_per_step=evaluations / max(1, optimizer.iterations),
            steps=steps,
        )


def _error(logits: Tensor, targets: Tensor) -> float:
    return ((logits > 0).double() != targets).double().mean().item()


def study(evaluations: int, seed: int) -> list[Result]:
    """All runs."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # the matrices are tiny: a second thread would only be waited for
    runs = [(name, model, size) for size in BATCH_SIZES for name, model in networks().items()]
    runs.sort(key=lambda run: run[0])
    with tqdm(total=len(runs) * evaluations, unit="evaluation", disable=None) as bar:
        return [train(*run, evaluations, seed, bar) for run in runs]


def summary(results: list[Result]) -> str:
    """A table for people."""
    lines = [
        "network              batch    training loss   training error   test error   evaluations   steps taken",
        "                                                                             per step",
    ]
    lines += [
        f"{r.network:<20} {r.batch_size:>5}    {r.loss:>13.2e}   {r.training_error:>14.1%}   {r.test_error:>10.1%}"
        f"   {r.evaluations_per_step:>11.2f}   {min(r.steps, default=0):.0e} to {max(r.steps, default=0):.0e}"
        for r in results
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Train on the breast-cancer data with GOLS-I, without a learning rate."
    )
    parser.add_argument("--evaluations", type=int, default=3000, help="gradient evaluations per run (default 3000)")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of data split, initial weights and batches (default 0)"
    )
    options = parser.parse_args(argv)
    if options.evaluations < 1:
        parser.error(f"--evaluations must be at least 1 (each is one gradient), got {options.evaluations}")
    print(f"GOLS-I on BCWD: {TRAINING} training samples, {options.evaluations} gradient evaluations per run.")
    print("No learning rate was chosen; all runs use the same defaults.\n")
    print(summary(study(options.evaluations, options.seed)))


if __name__ == "__main__":
    main()
