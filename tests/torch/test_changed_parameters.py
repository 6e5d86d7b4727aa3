"""Parameters that somebody else writes to between steps: what was put there counts."""

import copy
import math
import warnings

import pytest
import torch
from helpers import Problem, equal, problem_with
from torch import nn

import gradline
from gradline.searches import Angle, Armijo, Fixed, GolsB, GolsI, Prls


def elsewhere(problem):
    """Other weights for the same model."""
    other = Problem(seed=3).model
    return {name: value.clone() for name, value in other.state_dict().items()}


@pytest.mark.parametrize("passes", range(30, 42))
def test_without_a_closure_loaded_weights_are_where_the_next_search_begins(passes):
    problem = problem_with(GolsI())
    for _ in range(passes):
        problem.turn()
    weights = elsewhere(problem)
    problem.model.load_state_dict(weights)
    with pytest.warns(UserWarning, match="parameters were changed since the last step: a new search begins"):
        problem.turn()
    with problem.optimizer.eval():
        assert equal(problem.parameters(), list(weights.values()))
    for _ in range(30):
        problem.turn()
    with problem.optimizer.eval():
        assert not equal(problem.parameters(), list(weights.values()))


def test_with_a_closure_refresh_keeps_the_old_gradient_out():
    problem = problem_with(GolsI())
    for _ in range(5):
        problem.optimizer.step(problem.closure)
    problem.model.load_state_dict(elsewhere(problem))
    problem.optimizer.refresh()
    fresh = Problem(seed=0)
    fresh.model.load_state_dict(problem.model.state_dict())
    fresh.draws.set_state(problem.draws.get_state())
    fresh.optimizer = gradline.GOLSI(fresh.model.parameters(), step_first=problem.optimizer.last.step)
    for _ in range(4):
        problem.optimizer.step(problem.closure)
        fresh.optimizer.step(fresh.closure)
        assert equal(problem.parameters(), fresh.parameters())


@pytest.mark.parametrize("way", ["with", "calls"])
def test_in_eval_mode_too(way):
    problem = problem_with(GolsI())
    for _ in range(31):
        problem.turn()
    weights = elsewhere(problem)
    if way == "with":
        with problem.optimizer.eval():
            problem.model.load_state_dict(weights)
    else:
        problem.optimizer.eval()
        problem.model.load_state_dict(weights)
        problem.optimizer.train()
    assert equal(problem.parameters(), list(weights.values()))
    problem.turn()
    with problem.optimizer.eval():
        assert equal(problem.parameters(), list(weights.values()))


def test_refresh_keeps_what_was_loaded():
    problem = problem_with(GolsI())
    for _ in range(31):
        problem.turn()
    assert problem.optimizer.probing
    weights = elsewhere(problem)
    problem.model.load_state_dict(weights)
    problem.optimizer.refresh()
    assert equal(problem.parameters(), list(weights.values()))
    problem.turn()


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
def test_weights_swapped_and_put_back_change_nothing(direction):
    """As averages of weights are used for validation."""
    plain, swapped = problem_with(GolsI(), direction=direction), problem_with(GolsI(), direction=direction)
    for count in range(40):
        plain.turn()
        swapped.turn()
        before = copy.deepcopy(swapped.model.state_dict())
        with swapped.optimizer.eval() if count % 2 else torch.no_grad():
            here = copy.deepcopy(swapped.model.state_dict())
            swapped.model.load_state_dict(elsewhere(swapped))
            swapped.model.load_state_dict(here)
        assert equal(list(before.values()), swapped.parameters())
    assert equal(plain.parameters(), swapped.parameters())


def test_weights_kept_in_bounds_at_accepted_points():
    problem = problem_with(GolsI())

    def clamp(record):
        with problem.optimizer.eval(), torch.no_grad():
            for parameter in problem.model.parameters():
                parameter.clamp_(-0.2, 0.2)

    problem.optimizer.register_search_hook(clamp)
    before = problem.loss().item()
    for _ in range(150):
        problem.turn()
    with problem.optimizer.eval():
        assert problem.loss().item() < before
        assert max(parameter.abs().max().item() for parameter in problem.model.parameters()) <= 0.2 + 1e-12


# What is written through `.data`, which leaves no trace but the numbers


def clamp_data(model, size=0.05):
    for parameter in model.parameters():
        parameter.data.clamp_(-size, size)


def replace_data(model, size=0.05):
    for parameter in model.parameters():
        parameter.data = torch.full_like(parameter.data, size)


def from_vector(model, size=0.05):
    count = sum(parameter.numel() for parameter in model.parameters())
    nn.utils.vector_to_parameters(torch.linspace(-size, size, count, dtype=torch.float64), model.parameters())


WRITES = [clamp_data, replace_data, from_vector]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("search", [GolsI(), GolsB(tolerance=0.1), Angle()], ids=str)
@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
def test_what_is_written_through_data_in_eval_mode_counts(search, direction, write):
    problem = problem_with(search, direction=direction)
    for passes in range(8):
        for _ in range(5 + passes):
            problem.turn()
        with problem.optimizer.eval():
            write(problem.model, size=0.05 / (passes + 1))
            written = problem.parameters()
        with problem.optimizer.eval():
            assert equal(problem.parameters(), written)
        problem.turn()  # begins a search from there
        with problem.optimizer.eval():
            assert equal(problem.parameters(), written)


@pytest.mark.parametrize("write", [replace_data, from_vector])
def test_another_storage_is_seen_between_steps(write):
    problem = problem_with(GolsI())
    for _ in range(31):
        problem.turn()
    write(problem.model)
    written = problem.parameters()
    with pytest.warns(UserWarning, match="parameters were changed since the last step"):
        problem.turn()
    with problem.optimizer.eval():
        assert equal(problem.parameters(), written)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("call", ["eval", "refresh"])
def test_what_is_written_through_data_at_a_probe_is_seen_by_eval_and_refresh(write, call):
    problem = problem_with(GolsI())
    for _ in range(31):
        problem.turn()
    write(problem.model)
    written = problem.parameters()
    if call == "refresh":
        problem.optimizer.refresh()
    else:
        with pytest.warns(UserWarning, match="parameters were changed since the last step") as told:
            problem.optimizer.eval()
        assert told[0].filename == __file__
    assert equal(problem.parameters(), written)


def test_refresh_at_a_probe_that_is_not_a_number_goes_home():
    """NaN is not equal to itself, but the parameters are still where the search has put them."""
    x = nn.Parameter(torch.tensor([1.0, -1.0]))
    optimizer = gradline.LineSearchOptimizer([x], Fixed(1.0))
    x.square().sum().backward()
    optimizer.step()
    line = optimizer._session.line
    line.directions[0].fill_(math.nan)
    with torch.no_grad():
        optimizer._session.to_probe()
    assert x.isnan().all()
    optimizer.refresh()
    assert torch.equal(x, torch.tensor([1.0, -1.0]))


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
@pytest.mark.parametrize(
    ("search", "closure"),
    [(s, c) for s in (GolsI(), GolsB(tolerance=0.1), Angle()) for c in (True, False)]
    + [(Armijo(), True), (Prls(), True)],
)
@pytest.mark.parametrize(("before", "after"), [("float32", "float64"), ("float64", "float32"), ("float32", "bfloat16")])
def test_a_model_may_change_its_type(search, direction, closure, before, after):
    """Everything goes along: the line, the way, kept gradients and the direction's own state."""
    problem = Problem(dtype=getattr(torch, before))
    problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), search, direction=direction)
    evaluate = problem.losses if problem.optimizer.per_sample else problem.closure

    def advance(count):
        for _ in range(count):
            problem.optimizer.step(evaluate) if closure else problem.turn()

    advance(4 if closure else 33)
    with problem.optimizer.eval():
        accepted = problem.parameters()
    kind = getattr(torch, after)
    problem.model.to(kind)
    problem.inputs, problem.targets = problem.inputs.to(kind), problem.targets.to(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with problem.optimizer.eval():
            assert equal(problem.parameters(), [part.to(kind) for part in accepted])
            loss = problem.loss().item()
        searches = problem.optimizer.iterations
        advance(12 if closure else 60)
    assert problem.optimizer.iterations > searches
    with problem.optimizer.eval():
        assert all(parameter.dtype == kind for parameter in problem.parameters())
        assert problem.loss().item() < loss + 0.05
    for held in problem.optimizer.state.values():
        assert all(part.dtype == kind for name, part in held.items() if name.startswith(("line_", "exp_avg")))


@pytest.mark.parametrize("inside", [True, False])
def test_a_model_may_change_its_type_at_the_accepted_point(inside):
    problem = problem_with(GolsI())
    for _ in range(31):
        problem.turn()
    probe = problem.parameters()
    if inside:
        with problem.optimizer.eval():
            problem.model.float()
    else:
        problem.model.float()
    problem.inputs, problem.targets = problem.inputs.float(), problem.targets.float()
    for mine, was in zip(problem.parameters(), probe, strict=True):
        torch.testing.assert_close(mine, was.float())
    told = len(problem.optimizer._session.driver.pending.transcript)
    pending = problem.optimizer._session.driver.pending
    problem.turn()
    assert len(pending.transcript) == told + 1  # the search under way has gone on


def test_a_parameter_that_changes_its_shape_is_refused():
    x = nn.Parameter(torch.ones(3))
    optimizer = gradline.GOLSI([x])
    x.square().sum().backward()
    optimizer.step()
    x.data = torch.ones(4)
    with pytest.raises(RuntimeError, match=r"must keep their shapes .*one of shape \(3,\) has \(4,\) now; build a new"):
        optimizer.step()
