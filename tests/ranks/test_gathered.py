"""Sharded parameters that are whole for a while, or sharded in two ways."""

import pytest
import torch
from helpers import Problem
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

import gradline
from gradline.torch.distributed.sharded import shards


def evaluate_between(rank, size):
    """How far outputs are from those of the parameters, after an evaluation without a backward pass."""
    problem = Problem(model=lambda inputs: nn.Sequential(nn.Linear(inputs, 7), nn.Tanh(), nn.Linear(7, 1)))
    fully_shard(problem.model)
    problem.optimizer = gradline.GOLSI(problem.model.parameters())
    away = []
    for _ in range(6):
        problem.turn()
        with torch.no_grad():
            with problem.optimizer.eval():
                problem.model(problem.inputs)
            seen = problem.model(problem.inputs)
            problem.model.reshard()
            away.append(float((seen - problem.model(problem.inputs)).abs().max()))
            problem.model.reshard()
    return problem.optimizer.probing, away


def test_evaluation_leaves_no_old_parameters_behind(two):
    assert two(evaluate_between) == [(True, [0.0] * 6)] * 2


def parts(rank, size):
    mesh = init_device_mesh("cpu", (1, size))
    ways = [(Replicate(), Replicate()), (Replicate(), Shard(0))]
    whole = distribute_tensor(torch.zeros(8), mesh, [Replicate(), Replicate()])
    strided = type(whole).from_local(torch.zeros(4), mesh, [Replicate(), _StridedShard(0, split_factor=2)])
    return [shards(distribute_tensor(torch.zeros(8), mesh, way)) for way in ways], shards(strided)


@pytest.mark.filterwarnings("ignore")
def test_strided_shards_count(two):
    assert two(parts) == [([1, 2], 2)] * 2
