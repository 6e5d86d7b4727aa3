"""Every torch optimizer as the direction, in every type: resumed training goes on bit for bit."""

import copy
import io
from functools import partial

import pytest
import torch
from helpers import Problem, equal

import gradline
from gradline.searches import Angle, GolsI

BASES = [
    *(torch.optim.SGD, partial(torch.optim.SGD, momentum=0.9, nesterov=True), torch.optim.Adam),
    *(partial(torch.optim.Adam, amsgrad=True), torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam),
    *(torch.optim.Adamax, torch.optim.Adadelta, torch.optim.Adagrad),
    partial(torch.optim.RMSprop, momentum=0.9, centered=True),
]


def training(dtype, base, search):
    problem = Problem(dtype=getattr(torch, dtype))
    problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), search, direction=base)
    return problem


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("base", BASES, ids=str)
def test_resume_is_exact(base, dtype):
    for search in (GolsI(step_first=0.1), Angle()):
        problem = training(dtype, base, search)
        for _ in range(12):
            problem.turn()
        buffer = io.BytesIO()
        torch.save((problem.model.state_dict(), problem.optimizer.state_dict()), buffer)
        buffer.seek(0)
        model, state = torch.load(buffer, weights_only=True)
        twin = training(dtype, base, search)
        twin.model.load_state_dict(model)
        twin.optimizer.load_state_dict(copy.deepcopy(state))
        twin.draws.set_state(problem.draws.get_state())
        for one, other in zip(problem.optimizer.state.values(), twin.optimizer.state.values(), strict=True):
            for name, value in one.items():
                if isinstance(value, torch.Tensor):
                    assert other[name].dtype == value.dtype, name
                    assert torch.equal(other[name], value), name
        for _ in range(12):
            problem.turn()
            twin.turn()
            assert equal(problem.parameters(), twin.parameters())


def test_a_state_goes_to_the_type_of_the_parameters_all_the_same():
    """What had its parameter's type when it was saved takes that of the parameter it is loaded for."""
    problem, other = (training(dtype, torch.optim.NAdam, GolsI()) for dtype in ("float64", "float32"))
    problem.turn()
    other.optimizer.load_state_dict(problem.optimizer.state_dict())
    for held in other.optimizer.state.values():
        assert {value.dtype for value in held.values()} == {torch.float32}
