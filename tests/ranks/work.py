"""What the processes of the tests do: train one small model on parts of a batch, each on its own."""

import functools

import torch
from helpers import Problem
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import gradline
from gradline.searches import Angle, Armijo, GolsI, GolsMax, Prls

# The first steps are such that the first search needs few evaluations.
SEARCHES = {
    "Angle": functools.partial(Angle, step_first=0.5),
    "GolsI": functools.partial(GolsI, step_first=0.1),
    "GolsI as published": GolsI,
    "GolsMax": functools.partial(GolsMax, step_min=0.01),
    "Armijo": Armijo,
    "Prls": Prls,
}
DIRECTIONS = {
    None: None,
    "Adam": torch.optim.Adam,
    "AdamW": functools.partial(torch.optim.AdamW, weight_decay=0.1),
    "SGD": functools.partial(torch.optim.SGD, momentum=0.9),
}


class Trained(Problem):
    """A problem of which each rank sees its part of every batch; alone, all of it.

    Without a search the optimizer is `gradline.Angle`.
    """

    def __init__(
        self,
        rank=0,
        size=1,
        *,
        kind=None,
        search="GolsI",
        direction=None,
        model=None,
        given=False,
        dtype=torch.float64,
        **options,
    ):
        super().__init__(batch_size=12, model=model, dtype=dtype)
        self.rank, self.size = rank, size
        self.wrapped = self.model
        if kind == "ddp":
            self.wrapped = self.model = DistributedDataParallel(self.model)
        elif kind == "fsdp":
            for layer in self.model:
                if sum(p.numel() for p in layer.parameters()):
                    fully_shard(layer)
            fully_shard(self.model)
        options["model"] = self.model if given else None
        if search is None:
            self.optimizer = gradline.Angle(self.model.parameters(), step_first=0.25, **options)
        else:
            self.optimizer = gradline.LineSearchOptimizer(
                self.model.parameters(), SEARCHES[search](), direction=DIRECTIONS[direction], **options
            )

    def draw(self):
        return super().draw()[self.rank :: self.size]

    def train(self, steps, *, closure):
        """The steps taken, and how many evaluations there were."""
        taken = []
        for _ in range(steps if closure else 4 * steps):
            if not closure:
                self.turn()
            else:
                self.optimizer.step(self.losses if getattr(self.optimizer, "per_sample", False) else self.closure)
            if self.optimizer.last is not None:
                taken.append(self.optimizer.last.step)
        return taken, self.optimizer.evaluations

    def whole(self):
        """All parameters, joined, as `eval()` sets them."""
        with self.optimizer.eval():
            return [getattr(p, "full_tensor", lambda p=p: p)().detach().clone() for p in self.model.parameters()]


def net(inputs):
    return nn.Sequential(nn.Linear(inputs, 7), nn.Tanh(), nn.Linear(7, 5, bias=False), nn.Tanh(), nn.Linear(5, 1))


def train(rank, size, kind, search, direction, closure, steps=4, **options):
    problem = Trained(rank, size, kind=kind, search=search, direction=direction, model=net, **options)
    return *problem.train(steps, closure=closure), problem.whole()
