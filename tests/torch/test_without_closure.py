"""The headline: loss.backward(); optimizer.step() in an unchanged loop, and what stands where between the calls."""

import pytest
import torch
from helpers import equal, problem_with
from torch import nn

import gradline
from gradline.protocol import Stop
from gradline.searches import Angle, Armijo, Fixed, GolsB, GolsBack, GolsI, GolsMax

SEARCHES = [
    *(GolsI(), GolsI(strict=True, max_probes=5), GolsB(tolerance=0.1), GolsBack(), GolsMax(), Fixed(0.5)),
    Angle(),
]
DIRECTIONS = [None, torch.optim.Adam, torch.optim.SGD]


def accepted(problem):
    with problem.optimizer.eval():
        return problem.optimizer.last, problem.optimizer.evaluations, problem.parameters()


@pytest.mark.parametrize("direction", DIRECTIONS, ids=str)
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_the_same_trajectory_with_and_without_closure(search, direction):
    held, turned = problem_with(search, direction=direction), problem_with(search, direction=direction)
    for _ in range(12):
        held.optimizer.step(held.closure)
        while turned.optimizer.iterations < held.optimizer.iterations:
            turned.turn()
        one, other = accepted(held), accepted(turned)
        assert one[:2] == other[:2]
        assert equal(one[2], other[2])


def test_the_same_trajectory_through_zero_and_non_finite_gradients():
    """Evaluations 3, 7-8 and 30-80 are NaN, 12 and 13 are flat, and the first one is NaN too."""

    def run(closure_free):
        x = nn.Parameter(torch.tensor([3.0, -4.0], dtype=torch.float64))
        optimizer = gradline.GOLSI([x])
        log, call = [], 0

        def closure():
            nonlocal call
            optimizer.zero_grad()
            factor = 1.0
            if call in (0, 3, 7, 8) or 30 <= call < 80:
                factor = float("nan")
            elif call in (12, 13):
                factor = 0.0
            loss = (x.square() * torch.tensor([1.0, 10.0])).sum() * factor
            loss.backward()
            call += 1
            return loss

        while call < 120:
            if closure_free:
                closure()
                before = optimizer.iterations
                optimizer.step()
                if optimizer.iterations == before:
                    continue
            else:
                optimizer.step(closure)
            with optimizer.eval():
                log.append((call, optimizer.last.stop, optimizer.last.step, x.tolist()))
        return [entry for entry in log if entry[0] < 115]

    with pytest.warns(RuntimeWarning, match="nothing was changed"):
        held, turned = run(False), run(True)
    assert held == turned
    assert {Stop.NON_FINITE, Stop.NON_FINITE_ORIGIN} < {entry[1] for entry in held}


def test_one_call_is_one_evaluation():
    problem = problem_with(GolsI())
    for call in range(1, 40):
        problem.turn()
        assert problem.optimizer.evaluations == call
    assert 0 < problem.optimizer.iterations < 39


def test_between_calls_the_parameters_stand_at_the_probe_and_eval_shows_the_accepted_point():
    problem = problem_with(GolsI())
    start = problem.parameters()
    for _ in range(6):
        problem.turn()
        at_probe = problem.parameters()
        assert not equal(at_probe, start)
        problem.optimizer.eval()
        assert problem.optimizer.iterations > 0 or equal(problem.parameters(), start)
        problem.optimizer.eval()  # twice is once
        problem.optimizer.train()
        assert equal(problem.parameters(), at_probe)
        problem.optimizer.train()
        assert equal(problem.parameters(), at_probe)


def test_eval_as_a_context_manager_goes_back_even_after_an_error():
    problem = problem_with(GolsI())
    problem.turn()
    at_probe = problem.parameters()
    with pytest.raises(ZeroDivisionError), problem.optimizer.eval():
        raise ZeroDivisionError
    assert equal(problem.parameters(), at_probe)
    problem.optimizer.eval()
    with problem.optimizer.eval():
        pass
    with pytest.raises(RuntimeError, match=r"call optimizer.train\(\) first"):
        problem.optimizer.step()
    problem.optimizer.train()
    assert equal(problem.parameters(), at_probe)


def test_looking_at_the_accepted_point_changes_nothing():
    looked, plain = problem_with(GolsI()), problem_with(GolsI())
    for _ in range(30):
        looked.turn()
        with looked.optimizer.eval():
            looked.loss()
        plain.turn()
        assert equal(looked.parameters(), plain.parameters())


def test_changing_from_no_closure_to_closure_and_back():
    problem = problem_with(GolsI())
    for _ in range(3):
        problem.turn(problem.full)
    problem.optimizer.step(problem.full)  # ends the search that the calls had begun
    evaluations = problem.optimizer.last.evaluations
    assert problem.optimizer.evaluations == evaluations + 1
    point = problem.parameters()
    problem.closure()
    problem.optimizer.step()  # this gradient was taken at the accepted point: a search begins from it
    with problem.optimizer.eval():
        assert equal(problem.parameters(), point)
    before = problem.loss().item()
    for _ in range(60):
        problem.turn()
    with problem.optimizer.eval():
        assert problem.loss().item() < before


def test_searches_that_compare_values_say_what_to_do():
    problem = problem_with(Armijo())
    problem.closure()
    with pytest.raises(RuntimeError, match=r"Armijo compares values .*call step\(closure\).*such as GolsI"):
        problem.optimizer.step()


def test_refresh_ends_the_search_at_the_accepted_point():
    problem = problem_with(GolsI())
    start = problem.parameters()
    problem.turn()
    problem.optimizer.refresh()
    assert equal(problem.parameters(), start)
    problem.turn()
    assert problem.optimizer.evaluations == 2


def test_gradients_may_be_accumulated_in_place():
    """zero_grad(set_to_none=False) writes into the same tensors: no kept gradient may alias them."""
    plain, in_place = problem_with(GolsB(tolerance=0.1)), problem_with(GolsB(tolerance=0.1))
    for _ in range(60):
        plain.turn()
        in_place.optimizer.zero_grad(set_to_none=False)
        in_place.loss(in_place.draw()).backward()
        in_place.optimizer.step()
    assert equal(plain.parameters(), in_place.parameters())
