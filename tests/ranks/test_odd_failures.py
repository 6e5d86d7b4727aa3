"""Failures in odd places under DDP: in accumulation, in direction and variances, of models that hide their outputs."""

import contextlib

import pytest
import torch
from ranks.work import Trained, net
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradline


class Broken(Exception):  # noqa: N818
    """What a rank's own code raises."""


class Normed(nn.Module):
    """A net with buffers, which breaks in its forward pass when it is told to; one layer is never used."""

    def __init__(self, unused):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 1)
        self.unused = nn.Linear(3, 3) if unused else None
        self.broken = False

    def forward(self, inputs):
        hidden = self.norm(self.first(inputs))
        if self.broken:
            raise Broken("in forward")
        return self.last(hidden)


def _steps(optimizer, closure, count=5):
    errors = []
    for _ in range(count):
        try:
            optimizer.step(closure)
        except (Broken, RuntimeError, MemoryError, ValueError) as error:
            errors.append(f"{type(error).__name__}: {error}")
    return errors, optimizer.iterations


def accumulate(rank, size, micro, synced, place, at, passes=3, **wrapping):
    """Some forward and backward passes in an evaluation; one rank fails in one of them."""
    torch.manual_seed(0)
    model = DistributedDataParallel(Normed("static_graph" in wrapping), **wrapping)
    if place == "devices":  # as on accelerators, where inputs are moved
        model.device_ids, place = [0], "before"
    optimizer = gradline.GOLSI(model.parameters())
    inputs, calls = torch.randn(8, 4) + rank, []

    def closure():
        calls.append(None)
        optimizer.zero_grad()
        for part in range(passes):
            hit = rank == 1 and len(calls) == at and part == micro
            with contextlib.nullcontext() if synced or part == passes - 1 else model.no_sync():
                if hit and place == "before":
                    raise Broken("before forward")
                model.module.broken = hit and place == "forward"
                try:
                    loss = model(inputs[part : part + 4]).square().mean()
                finally:
                    model.module.broken = False
                if hit and place == "loss":
                    raise Broken("in the loss")
                loss.backward()
                if hit and place == "after":
                    raise Broken("after backward")
        return loss

    return *_steps(optimizer, closure), [p.detach().clone() for p in model.parameters()]


def check(answers, iterations=4):
    (first, count, parameters), (second, _, others) = answers
    assert len(first) == len(second) == 1
    assert "the step was not taken, because it failed elsewhere: rank 1: " in first[0]
    assert second[0].startswith("Broken: ")
    assert count == iterations
    assert all(map(torch.equal, parameters, others))


@pytest.mark.parametrize(("micro", "synced"), [(0, True), (1, False)], ids=["synchronised", "no_sync"])
@pytest.mark.parametrize("place", ["before", "forward", "loss", "after", "devices"])
def test_a_failure_in_one_of_several_passes(two, micro, synced, place):
    check(two(accumulate, micro, synced, place, 3))


def static_graph(rank, size, at):
    return accumulate(rank, size, 0, True, "before", at, passes=1, static_graph=True)


def test_a_static_graph_does_not_see_unused_parameters(two):
    check(two(static_graph, 4))


class Hidden:
    """An output that shows no tensors."""

    def __init__(self, tensor):
        self.tensor = tensor


class Hiding(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net(4)

    def forward(self, inputs):
        return Hidden(self.net(inputs))


def hidden(rank, size, place):
    torch.manual_seed(0)
    model = DistributedDataParallel(Hiding())
    optimizer = gradline.GOLSI(model.parameters())
    inputs, calls = torch.randn(8, 4) + rank, []

    def closure():
        calls.append(None)
        hit = rank == 1 and len(calls) == 3
        optimizer.zero_grad()
        loss = model(inputs).tensor.square().mean()
        if hit and place == "loss":
            raise Broken("in the loss")
        loss.backward()
        if hit and place == "after":
            raise Broken("after backward")
        return loss

    return *_steps(optimizer, closure), [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("place", ["loss", "after"])
def test_a_model_whose_output_hides_its_tensors(two, place):
    check(two(hidden, place))


def spread(rank, size):
    problem = Trained(rank, size, kind="ddp", search="GolsI as published", model=net, spread=True)
    calls = []

    def closure():
        calls.append(None)
        if rank == 1 and len(calls) == 3:
            raise Broken("before forward")
        return problem.closure()

    return *_steps(problem.optimizer, closure, 6), problem.whole()


def test_a_spread_search_fails_together_too(two):
    check(two(spread))


class Flaky(torch.optim.SGD):
    """An update for which one rank has no memory, once."""

    def step(self, closure=None):
        self.count = getattr(self, "count", 0) + 1
        if dist.get_rank() == 1 and self.count == 3:
            raise MemoryError("no memory")
        return super().step(closure)


def flaky(rank, size):
    problem = Trained(rank, size, kind="ddp", model=net)
    problem.optimizer = gradline.GOLSI(problem.model.parameters(), direction=Flaky, reuse_gradient=False)
    return *_steps(problem.optimizer, problem.closure), problem.whole()


def test_a_direction_that_fails_on_one_rank_fails_on_all(two):
    (first, count, parameters), (second, _, others) = two(flaky)
    assert "rank 1: MemoryError: no memory" in first[0]
    assert second == ["MemoryError: no memory"]
    assert count == 4
    assert all(map(torch.equal, parameters, others))


def one_sample(rank, size):
    problem = Trained(rank, size, kind="ddp", search="Prls", model=net)
    calls = []

    def closure():
        calls.append(None)
        chosen = problem.draw()
        return problem.losses_of(chosen[:1] if rank == 1 and len(calls) == 3 else chosen)

    return *_steps(problem.optimizer, closure), len(calls)


def test_a_rank_with_one_sample_has_no_variance_and_says_so_to_all(two):
    (first, count, calls), (second, _, others) = two(one_sample)
    assert len(first) == len(second) == 1
    assert "because it failed elsewhere: rank 1: " in first[0]
    assert count == 4
    assert calls == others
