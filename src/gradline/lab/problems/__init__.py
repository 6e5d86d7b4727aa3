"""What is trained: a problem builds a task from a seed. A new one is one value in `PROBLEMS`, or your own."""

from __future__ import annotations

from typing import Any

from gradline.lab.problems.network import NETWORKS, Activation, Loss, Network
from gradline.lab.problems.problem import Built, Problem
from gradline.lab.problems.script import Script
from gradline.lab.problems.training import TRAINING

__all__ = ["PROBLEMS", "Activation", "Built", "Loss", "Network", "Problem", "Script", "problem_from_dict"]

_HERE = __name__

BUILT = (
    Built(
        name="cifar-conv",
        builder=f"{_HERE}.images:build_convolutional",
        about="convolutional net with BatchNorm on CIFAR10's first 10,000 images",
        data="cifar10",
        budget=300,
        batch_sizes=(16, 64, 256),
    ),
    Built(
        name="cifar-resnet",
        builder=f"{_HERE}.images:build_residual",
        about="small residual net on CIFAR10's first 10,000 images",
        data="cifar10",
        budget=250,
        batch_sizes=(16, 64, 256),
    ),
    Built(
        name="char-transformer",
        builder=f"{_HERE}.text:build",
        about="two-layer transformer on the characters of Unicode's character names",
        error="share of wrong next characters",
        budget=300,
        batch_sizes=(8, 32, 128),
    ),
    Built(
        name="vae-digits",
        builder=f"{_HERE}.digits:build",
        about="variational autoencoder on scikit-learn's 8 × 8 digits",
        error="test loss",
        batch_sizes=(10, 100, 1500),
    ),
    Built(
        name="regression",
        builder=f"{_HERE}.synthetic:build_regression",
        about="linear regression whose Hessian has a condition number of about 10,000",
        error="test loss",
        batch_sizes=(10, 100, 1000),
    ),
    Built(
        name="factorisation",
        builder=f"{_HERE}.synthetic:build_factorisation",
        about="a matrix of rank 4 from half of its entries",
        error="test loss",
        batch_sizes=(50, 500, 4800),
    ),
    Built(
        name="pinn",
        builder=f"{_HERE}.physics:build",
        about="physics-informed net for -u'' = f in one dimension",
        error="relative error of u",
        budget=750,
        batch_sizes=(16, 128, 512),
    ),
)

PROBLEMS: dict[str, Problem] = {problem.name: problem for problem in (*NETWORKS, *BUILT, *TRAINING)}
"""Every problem by name: those of the paper, those that optimizers are compared on, and those trained to the end."""


def problem_from_dict(values: dict[str, Any]) -> Problem:
    """Return the problem that its `to_dict` described. Nothing is imported for it."""
    if values["kind"] == "network":
        return Network.from_dict(values)
    kinds: dict[str, Any] = {"built": Built, "script": Script}
    if values["kind"] in kinds:
        given = {name: value for name, value in values.items() if name != "kind"}
        made: Problem = kinds[values["kind"]](**given | {"batch_sizes": tuple(values["batch_sizes"])})
        return made
    raise ValueError(f"kind must be network, built or script (the kinds of problems there are), got {values['kind']!r}")
