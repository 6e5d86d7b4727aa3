"""Small worlds for the fuzz test: a model, its data, its optimizer, and what must be true of them."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

import gradline
from gradline.protocol import Value, observes
from gradline.searches import (
    Angle,
    Armijo,
    Fixed,
    GoldenSection,
    GolsB,
    GolsBack,
    GolsI,
    GolsMax,
    Prls,
    StrongWolfe,
)

SAMPLES, FEATURES = 40, 8
SEARCHES = [
    GolsI(step_min=1e-4),
    GolsI(step_min=1e-3, strict=True, max_probes=4),
    GolsMax(step_min=1e-3),
    GolsBack(step_min=1e-3, step_max=10.0),
    GolsB(step_min=1e-2, tolerance=0.3),
    Fixed(0.05),
    Angle(),
    Armijo(),
    GoldenSection(tolerance=0.1),
    StrongWolfe(max_probes=20),
    Prls(),
]
DIRECTIONS = [
    None,
    partial(torch.optim.SGD, momentum=0.9, weight_decay=0.01),
    torch.optim.Adam,
    partial(torch.optim.AdamW, weight_decay=0.1, amsgrad=True),
]
MODELS = {
    "linear": lambda: nn.Linear(FEATURES, 1),
    "mlp": lambda: nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, 1)),
    "norm": lambda: nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 1)),
    "dropout": lambda: nn.Sequential(nn.Linear(FEATURES, 6), nn.Dropout(0.4), nn.Tanh(), nn.Linear(6, 1)),
    "tied": lambda: _Tied(),
    "conv": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)),
        nn.Conv2d(2, 3, 2).to(memory_format=torch.channels_last),
        nn.Flatten(),
        nn.Linear(3, 1),
    ),
}


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x))).mean(dim=1, keepdim=True)


class Net(nn.Module):
    """Any of the models, with a parameter that no loss depends on, and one that is trained when it is added."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.unused = nn.Parameter(torch.ones(3))
        self.late = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.body(x) * (1 + self.late)


class Plan(NamedTuple):
    model: str
    dtype: torch.dtype
    search: Any
    direction: Any
    mode: str
    """closure, free (no closure) or spread."""
    groups: int
    reuse_gradient: bool | None
    same_noise: bool

    @property
    def possible(self) -> bool:
        slopes_only = not issubclass(observes(self.search), Value)
        return (slopes_only or self.mode == "closure") and not (isinstance(self.search, Prls) and self.model == "norm")


@contextmanager
def told_of_by_others() -> Iterator[None]:
    """Without the warnings of data that are not finite and of learning rates, which other tests look at."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "gradline: something set group", UserWarning)
        warnings.filterwarnings("ignore", "gradline: .* not finite", RuntimeWarning)
        yield


class World:
    """A training run. Which batch an evaluation has, and its noise, depend on its number alone: copies go on alike."""

    def __init__(self, plan: Plan, *, late: bool = False, frozen: frozenset[int] = frozenset()) -> None:
        self.plan = plan
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(SAMPLES, FEATURES, generator=generator).to(plan.dtype)
        self.targets = self.inputs.double().sum(dim=1, keepdim=True).sin()
        with torch.random.fork_rng():
            torch.default_generator.manual_seed(1)
            self.net = Net(MODELS[plan.model]()).to(plan.dtype)
        self.first = [*self.net.body.parameters(), self.net.unused]
        self.late, self.frozen = False, frozenset()
        cut = max(1, len(self.first) // plan.groups)
        groups = [{"params": self.first[:cut]}, {"params": self.first[cut:]}][: plan.groups]
        if plan.groups == 1:
            groups = [{"params": self.first}]
        self.optimizer = gradline.LineSearchOptimizer(
            groups,
            plan.search,
            direction=plan.direction,
            reuse_gradient=plan.reuse_gradient,
            spread=plan.mode == "spread",
            same_noise=plan.same_noise,
        )
        if late:
            self.add_late()
        self.freeze(frozen)
        self.drawn = 0  # evaluations so far
        self.factor = 1.0  # of the loss
        self.failure: tuple[int, BaseException] | None = None  # at which of the next evaluations, and what
        self.seen: list[list[torch.Tensor | None]] = []  # the gradients of the evaluations of a step
        self.ended: list[bool] = []  # whether each search accepted a probe
        self.listen()

    def listen(self) -> None:
        self.optimizer.register_search_hook(lambda record: self.ended.append(record.outcome.probe is not None))

    def add_late(self) -> None:
        self.optimizer.add_param_group({"params": [self.net.late]})
        self.late = True

    def freeze(self, frozen: frozenset[int]) -> None:
        self.frozen = frozen
        for place, parameter in enumerate(self.first):
            parameter.requires_grad_(place not in frozen)
            parameter.grad = None

    def losses(self) -> torch.Tensor:
        number = self.drawn
        self.drawn += 1
        chosen = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(number))[:10]
        if not self.plan.same_noise:
            torch.default_generator.manual_seed(number)
        found = self.net(self.inputs[chosen])
        precise = torch.float64 if self.plan.dtype == torch.float64 else torch.float32
        return (found.to(precise) - self.targets[chosen].to(precise)).square().sum(dim=1) * self.factor

    def closure(self) -> torch.Tensor:
        self.net.zero_grad()  # of what the optimizer has not been given yet too
        loss = self.losses()
        if not self.optimizer.per_sample:
            loss = loss.mean()
            loss.backward()
            self.seen.append([None if p.grad is None else p.grad.clone() for p in self.net.parameters()])
        if self.failure is not None:
            left, error = self.failure
            self.failure = (left - 1, error)
            if left == 0:
                raise error
        return loss

    def step(self) -> None:
        """One call of `step`, whatever that means in this mode."""
        self.seen = []
        torch.default_generator.manual_seed(1000 + self.drawn)
        with told_of_by_others():
            if self.plan.mode == "free":
                self.closure()
                self.optimizer.step()
            else:
                self.optimizer.step(self.closure)

    def parameters(self) -> list[torch.Tensor]:
        return [p.detach().clone() for p in self.net.parameters()]

    def accepted(self) -> list[torch.Tensor]:
        with self.optimizer.eval():
            return self.parameters()

    def buffers(self) -> list[torch.Tensor]:
        return [buffer.clone() for buffer in self.net.buffers()]

    def resumed(self, *, model_first: bool) -> World:
        """What a checkpoint on disk brings back in a new process."""
        file = io.BytesIO()
        torch.save({"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}, file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        twin = World(self.plan, late=self.late, frozen=self.frozen)
        parts = [("net", twin.net), ("optimizer", twin.optimizer)]
        for name, part in parts if model_first else reversed(parts):
            part.load_state_dict(saved[name])
        twin.drawn, twin.ended = self.drawn, list(self.ended)
        return twin

    def copied(self) -> World:
        twin = copy.deepcopy(self)
        twin.listen()
        return twin
