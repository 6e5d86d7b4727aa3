"""Small training problems that the tests share."""

from __future__ import annotations

import gc
import itertools

import torch
from torch import nn

import gradline


class Problem:
    """A model, data and a fixed sequence of mini-batches: two problems of one seed draw the same batches."""

    def __init__(self, seed=0, samples=200, inputs=6, batch_size=20, dtype=torch.float64, model=None):
        generator = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(samples, inputs, generator=generator, dtype=dtype)
        self.targets = (self.inputs.sum(dim=1, keepdim=True).sin() > 0).to(dtype)
        with torch.random.fork_rng():
            torch.default_generator.manual_seed(seed)  # torch.manual_seed formats the stack, which is deep in a test
            self.model = (model or mlp)(inputs).to(dtype)
        self.batch_size = batch_size
        self.draws = torch.Generator().manual_seed(seed + 1)
        self.optimizer = None

    def loss(self, chosen=slice(None)):
        return nn.functional.binary_cross_entropy_with_logits(self.model(self.inputs[chosen]), self.targets[chosen])

    def draw(self):
        return torch.randperm(len(self.inputs), generator=self.draws)[: self.batch_size]

    def closure(self):
        """Dynamic sampling: a new batch at each call."""
        self.optimizer.zero_grad()
        loss = self.loss(self.draw())
        loss.backward()
        return loss

    def losses(self):
        """Dynamic sampling, for optimizers that need the loss of each sample."""
        return self.losses_of(self.draw())

    def losses_of(self, chosen):
        outputs, targets = self.model(self.inputs[chosen]), self.targets[chosen]
        return nn.functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none").sum(dim=1)

    def full(self):
        """All the data at each call."""
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        return loss

    def turn(self, evaluate=None):
        """One call without a closure."""
        (evaluate or self.closure)()
        self.optimizer.step()

    def parameters(self):
        return [p.detach().clone() for p in self.model.parameters()]


def problem_with(search, **options):
    """A problem and its optimizer."""
    problem = Problem()
    problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), search, **options)
    return problem


def mlp(inputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, 1))


def linear(inputs):
    return nn.Linear(inputs, 1)


def equal(left, right):
    """Bit for bit."""
    return len(left) == len(right) and all(itertools.starmap(torch.equal, zip(left, right, strict=True)))


def plain_angle(params, direction=torch.optim.Adam, **options):
    """The search `Angle` along any direction: what `gradline.Angle` does, by the machinery of all searches."""
    return gradline.LineSearchOptimizer(params, gradline.searches.Angle(**options), direction=direction)


def end_listening():
    """End the search for modules of optimizers that other tests left behind, and with it the global hook."""
    from gradline.torch import context

    gc.collect()
    context._listening._contexts.clear()
    nn.Identity()(torch.ones(1))
