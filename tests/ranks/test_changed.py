"""Parameters that are written to, change their type or overflow: every rank decides the same."""

import warnings

import pytest
import torch
import torch.distributed as dist
from ranks.work import Trained
from torch import nn
from torch.distributed.fsdp import fully_shard

import gradline
from gradline.searches import Fixed


def whole(parameters):
    return [p.full_tensor().detach().clone() if hasattr(p, "full_tensor") else p.detach().clone() for p in parameters]


def written(rank, size, kind):
    """Writes that change the shard of one rank only, at a probe's accepted point."""
    problem = Trained(rank, size, kind=kind)
    for _ in range(9):
        problem.turn()
    assert problem.optimizer.probing
    with problem.optimizer.eval():
        first = next(problem.model.parameters())
        keep = torch.ones(first.shape, dtype=first.dtype)
        keep[0] = 0.0  # a row of the first rank's shard
        if kind == "fsdp":
            keep = dist.tensor.distribute_tensor(keep, first.device_mesh, first.placements)
        first.data.mul_(keep)
        there = whole(problem.model.parameters())
    problem.turn()  # it would wait for ever, if one rank went on with its search
    with problem.optimizer.eval():
        now = whole(problem.model.parameters())
    return all(map(torch.equal, there, now)), bool((there[0][0] == 0.0).all())


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_what_is_written_through_data_in_eval_mode_counts(two, kind):
    assert set(two(written, kind)) == {(True, True)}


def overflowing(rank, size):
    """A linear loss whose first parameter alone overflows: it is on one rank."""
    warnings.simplefilter("ignore")
    model = nn.Linear(4, 4, bias=False, dtype=torch.float32)
    nn.init.zeros_(model.weight)
    fully_shard(model)
    optimizer = gradline.LineSearchOptimizer(model.parameters(), Fixed(1e10))
    factors = torch.ones(4, 4)
    factors[0] = 1e30
    for _ in range(3):
        optimizer.zero_grad()
        (model(torch.eye(4)) * factors.T).sum().backward()
        optimizer.step()
    with optimizer.eval():
        return whole(model.parameters())[0].isfinite().all().item(), str(optimizer.last.stop)


def test_what_overflows_on_one_rank_is_refused_on_all(two):
    answers = two(overflowing)
    assert len(set(answers)) == 1
    assert answers[0][0]
    assert "not finite" in answers[0][1]
