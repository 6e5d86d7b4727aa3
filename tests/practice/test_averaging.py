"""Averages of weights (EMA, SWA) are taken over accepted points, never over probes."""

import warnings

import pytest
import torch
from helpers import Problem, equal, problem_with
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

import gradline
from gradline.searches import GolsI

KINDS = {"SWA": {}, "EMA": {"multi_avg_fn": get_ema_multi_avg_fn(0.9)}}


def averaged(problem, kind):
    return AveragedModel(problem.model, **KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_hook_averages_the_points_that_a_closure_averages(kind):
    """The hook is called when the parameters have gone on to the next probe: `eval()` goes back for the moment."""
    held, turned = problem_with(GolsI()), problem_with(GolsI())
    of_held, of_turned = averaged(held, kind), averaged(turned, kind)

    def update(record):
        with turned.optimizer.eval():
            of_turned.update_parameters(turned.model)

    turned.optimizer.register_search_hook(update)
    for _ in range(12):
        held.optimizer.step(held.closure)
        of_held.update_parameters(held.model)
    while turned.optimizer.evaluations < held.optimizer.evaluations:
        before = turned.optimizer.iterations
        turned.turn()
        assert int(of_turned.n_averaged) == turned.optimizer.iterations >= before
    assert equal(list(of_held.parameters()), list(of_turned.parameters()))


def test_averaging_probes_is_not_the_same():
    """Why the hook: an average taken after each call has points in it that no search accepted."""
    problem = problem_with(GolsI())
    hooked, careless = averaged(problem, "SWA"), averaged(problem, "SWA")

    def update(record):
        with problem.optimizer.eval():
            hooked.update_parameters(problem.model)

    problem.optimizer.register_search_hook(update)
    for _ in range(60):
        problem.turn()
        careless.update_parameters(problem.model)
    assert int(careless.n_averaged) > int(hooked.n_averaged) > 5
    assert not equal(list(hooked.parameters()), list(careless.parameters()))


def test_an_average_does_not_disturb_the_search():
    plain, averaging = problem_with(GolsI()), problem_with(GolsI())
    average = averaged(averaging, "EMA")

    def update(record):
        with averaging.optimizer.eval():
            average.update_parameters(averaging.model)

    averaging.optimizer.register_search_hook(update)
    for _ in range(50):
        plain.turn()
        averaging.turn()
        assert equal(plain.parameters(), averaging.parameters())


def test_update_bn_after_training():
    problem = Problem(model=lambda inputs: nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)))
    problem.optimizer = gradline.GOLSI(problem.model.parameters())
    average = averaged(problem, "SWA")
    for _ in range(10):
        problem.optimizer.step(problem.closure)
        average.update_parameters(problem.model)
    with torch.no_grad():
        update_bn([problem.inputs], average)
        inside = average.module[0](problem.inputs)
    torch.testing.assert_close(average.module[1].running_mean, inside.mean(dim=0))


def test_swalr_does_nothing_and_is_told_so_once():
    plain, scheduled = problem_with(GolsI()), problem_with(GolsI())
    scheduler = SWALR(scheduled.optimizer, swa_lr=0.05)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(8):
            plain.optimizer.step(plain.closure)
            scheduled.optimizer.step(scheduled.closure)
            scheduler.step()
    assert ["the search finds each step" in str(warning.message) for warning in told] == [True]
    assert equal(plain.parameters(), scheduled.parameters())
