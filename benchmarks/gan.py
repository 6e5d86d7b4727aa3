"""How many modes of a ring of Gaussians does a GAN find when Angle trains both of its networks?

The data are eight Gaussians (standard deviation 0.05) on a circle of radius 2. Generator and discriminator are
perceptrons with two hidden layers, trained in turn with the non-saturating loss of Goodfellow et al. (2014). The
optimizers are Angle and Adam at a learning rate of 1e-3, each with its default betas and with β₁ = 0.5. β₁ is the
decay rate of momentum in Adam and Schedule-Free's interpolation in Angle.

A mode is found if at least 1 % of 2,000 generated points lie within three standard deviations of its centre. For Angle
that is counted with the averaged weights of `optimizer.eval()` and with the last ones.

Run `python benchmarks/gan.py --json benchmarks/results/gan.json`: about a minute on one core.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from harness import machine, write
from torch import Tensor, nn
from torch.nn import functional

import gradline

MODES = 8
RADIUS = 2.0
DEVIATION = 0.05
LATENT = 8
WIDTH = 64
BATCH = 128
POINTS = 2000
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "Angle": gradline.Angle,
    "Angle, betas=(0.5, 0.999)": partial(gradline.Angle, betas=(0.5, 0.999)),
    "Adam, 1e-3": partial(torch.optim.Adam, lr=1e-3),
    "Adam, 1e-3, betas=(0.5, 0.999)": partial(torch.optim.Adam, lr=1e-3, betas=(0.5, 0.999)),
}


def centres() -> Tensor:
    """The modes, (MODES, 2)."""
    angles = 2.0 * math.pi * torch.arange(MODES) / MODES
    return RADIUS * torch.stack([angles.cos(), angles.sin()], dim=1)


def sample(size: int) -> Tensor:
    """Points of the data, (size, 2)."""
    return centres()[torch.randint(MODES, (size,))] + DEVIATION * torch.randn(size, 2)


def perceptron(inputs: int, outputs: int) -> nn.Sequential:
    hidden = [nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(WIDTH, outputs))


@torch.no_grad()
def found(generator: nn.Module) -> dict[str, float]:
    """How many modes have at least 1 % of the generated points, and which share of the points lies at any mode."""
    points = generator(torch.randn(POINTS, LATENT, generator=torch.Generator().manual_seed(0)))
    near = torch.cdist(points, centres()) < 3.0 * DEVIATION
    return {"modes": int((near.float().mean(0) >= 0.01).sum()), "share": near.any(1).float().mean().item()}


def train(build: Callable[..., torch.optim.Optimizer], *, seed: int, steps: int) -> dict[str, Any]:
    """Train a GAN and count its modes, with the last weights and, for Angle, with the averaged ones."""
    torch.manual_seed(seed)
    generator, discriminator = perceptron(LATENT, 2), perceptron(2, 1)
    of_generator, of_discriminator = build(generator.parameters()), build(discriminator.parameters())
    for _ in range(steps):
        made = generator(torch.randn(BATCH, LATENT))
        of_discriminator.zero_grad()
        real, fake = discriminator(sample(BATCH)), discriminator(made.detach())
        (functional.softplus(-real).mean() + functional.softplus(fake).mean()).backward()
        of_discriminator.step()

        of_generator.zero_grad()
        functional.softplus(-discriminator(generator(torch.randn(BATCH, LATENT)))).mean().backward()
        of_generator.step()
    result: dict[str, Any] = {"last": found(generator)}
    if isinstance(of_generator, gradline.Angle):
        with of_generator.eval():
            result["average"] = found(generator)
        result["steps"] = {"generator": of_generator.last.step, "discriminator": of_discriminator.last.step}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4000, help="steps of each of the two networks")
    parser.add_argument("--json", type=Path, help="write the results there, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs: dict[str, list[dict[str, Any]]] = {}
    for name, build in OPTIMIZERS.items():
        runs[name] = [train(build, seed=seed, steps=options.steps) for seed in range(options.seeds)]
        for weights in ("average", "last"):
            if weights in runs[name][0]:
                modes = ", ".join(str(run[weights]["modes"]) for run in runs[name])
                share = ", ".join(f"{run[weights]['share']:.0%}" for run in runs[name])
                print(f"{name:32s} {weights:8s} modes of {MODES}: {modes}   points at a mode: {share}", flush=True)
    if options.json:
        write(options.json, machine(), steps=options.steps, runs=runs)


if __name__ == "__main__":
    main()
