"""An observation from outside the package: its type and its sensor, and nothing else."""

import copy
import dataclasses
import math
from typing import ClassVar

import pytest
import torch
from helpers import equal
from torch import nn

import gradline
from gradline.protocol import Outcome, Slope, Stop
from gradline.torch.displacement import Displacement
from gradline.torch.sensors import Sensor


@dataclasses.dataclass(frozen=True, slots=True)
class Steepness(Slope):
    """The slope, the largest component of the gradient, and the length of the last step."""

    largest: float
    last: float


class SteepnessSensor(Sensor):
    observation = Steepness

    def __init__(self, search):
        super().__init__(search)
        self.buffers["moved"] = Displacement()
        self.steps = 0

    def scalars(self, loss, gradients):
        return (torch.stack([tensor.abs().max() for tensor in gradients.tensors]).max(),)

    def at_origin(self, evaluation, slope, line, *, steepest):
        parts = self.buffers["moved"].of(evaluation.gradients.parameters)
        return Steepness(slope, evaluation.scalars[0], math.sqrt(sum(float(part.square().sum()) for part in parts)))

    def at_probe(self, evaluation, line):
        return Steepness(evaluation.slope, evaluation.scalars[0], 0.0)

    def stepped(self, line, step, before):
        self.steps += 1
        for part, direction in zip(self.buffers["moved"].of(line.parameters), line.directions, strict=True):
            part.copy_(step * direction)

    def state(self):
        return self.steps

    def load_state(self, packed):
        if type(packed) is not int:
            raise TypeError("steps must be whole")
        self.steps = packed


@dataclasses.dataclass(frozen=True)
class Bounded:
    """Takes steps that move no component by more than a bound, shorter after long ones."""

    bound: float = 0.1
    observes: ClassVar = Steepness

    def start(self):
        return None

    def search(self, origin, memory):
        step = self.bound / origin.at_zero.largest / (1.0 + origin.at_zero.last)
        seen = yield step
        if not seen.finite:
            return Outcome(0.0, None, Stop.NON_FINITE, None)
        return Outcome(step, 0, Stop.FIXED, None)


class Problem:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double()
        self.optimizer = gradline.LineSearchOptimizer(self.model.parameters(), Bounded())
        self.inputs = torch.randn(32, 4, dtype=torch.float64)

    def turn(self):
        self.optimizer.zero_grad()
        loss = (self.model(self.inputs) - 1.0).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def test_a_search_from_elsewhere_trains_with_an_observation_from_elsewhere():
    problem = Problem()
    losses = [problem.turn() for _ in range(60)]
    assert losses[-1] < 0.1 * losses[0]
    seen = problem.optimizer.last.origin.at_zero
    assert isinstance(seen, Steepness)
    assert seen.largest > 0.0
    assert seen.last > 0.0


def test_it_is_saved_and_resumed_exactly():
    problem, twin = Problem(), Problem()
    for _ in range(7):
        problem.turn()
    for name in ("model", "optimizer"):
        getattr(twin, name).load_state_dict(copy.deepcopy(getattr(problem, name).state_dict()))
    for _ in range(5):
        problem.turn()
        twin.turn()
        assert equal(list(problem.model.parameters()), list(twin.model.parameters()))
        assert problem.optimizer.last == twin.optimizer.last
    assert problem.optimizer._session.sensor.steps == twin.optimizer._session.sensor.steps > 5
    assert "line_buffer_moved" in problem.optimizer.state_dict()["state"][0]


def test_a_damaged_state_of_the_sensor_is_refused():
    problem = Problem()
    problem.turn()
    state = copy.deepcopy(problem.optimizer.state_dict())
    group = state["param_groups"][0]
    group["line_search"] = group["line_search"].replace('"sensor": 0', '"sensor": "none"')
    with pytest.raises(ValueError, match="damaged one: TypeError: steps must be whole"):
        problem.optimizer.load_state_dict(state)


def test_an_observation_without_a_sensor_is_refused():
    class Unmeasured(Slope):
        pass

    @dataclasses.dataclass(frozen=True)
    class Blind(Bounded):
        observes: ClassVar = Unmeasured

    with pytest.raises(TypeError, match=r"subclass gradline.torch.sensors.Sensor with observation = Unmeasured\), got"):
        gradline.LineSearchOptimizer([nn.Parameter(torch.ones(2))], Blind())
