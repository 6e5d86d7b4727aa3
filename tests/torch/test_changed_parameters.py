"""Parameters that somebody else writes to between steps: what was put there counts."""

import copy

import pytest
import torch
from helpers import Problem, equal, problem_with

import gradline
from gradline.searches import GolsI


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
