"""A step that fails leaves the parameters exactly as they were before it, and training can go on."""

import pytest
import torch
from helpers import Problem, equal
from torch import nn

import gradline
from gradline.protocol import Stop
from gradline.searches import Armijo, GolsB, GolsI


class TripError(Exception):
    pass


def problem_with(search, **options):
    problem = Problem()
    problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), search, **options)
    return problem


def failing(closure, call, error):
    count = 0

    def wrapped():
        nonlocal count
        count += 1
        loss = closure()
        if count == call:
            raise error
        return loss

    return wrapped


@pytest.mark.parametrize("error", [TripError(), KeyboardInterrupt(), torch.OutOfMemoryError("no memory")], ids=repr)
@pytest.mark.parametrize("call", [1, 2, 5])
@pytest.mark.parametrize("search", [GolsI(), GolsB(tolerance=0.1), Armijo()], ids=str)
def test_a_failing_closure_leaves_the_parameters_and_the_step_can_be_taken_again(search, call, error):
    problem, untouched = problem_with(search), problem_with(search)
    for round_ in range(3):
        before = problem.parameters()
        draws = problem.draws.get_state()
        try:
            problem.optimizer.step(failing(problem.closure, call, error))
        except type(error):
            assert equal(before, problem.parameters())
            assert problem.optimizer.iterations == round_
            problem.draws.set_state(draws)
            problem.optimizer.step(problem.closure if round_ else skip_first(problem, search))
        untouched.optimizer.step(untouched.closure)
        assert equal(problem.parameters(), untouched.parameters())
        assert problem.optimizer.last == untouched.optimizer.last


def skip_first(problem, search):
    """After a failure in the probes of the very first step its gradient is known: its batch is not drawn again."""
    if problem.optimizer._descent.pending is not None and isinstance(search, GolsI | GolsB):
        problem.draw()
    return problem.closure


def test_a_failure_in_the_middle_of_calls_without_closure_goes_back_to_the_probe():
    problem = problem_with(GolsI())
    for _ in range(4):
        problem.turn()
    before = problem.parameters()
    with pytest.raises(TripError):
        problem.optimizer.step(failing(problem.closure, 2, TripError()))
    assert equal(before, problem.parameters())
    problem.turn()
    assert problem.optimizer.iterations > 0 or not equal(before, problem.parameters())


def test_an_interrupt_in_the_optimizers_own_work(monkeypatch):
    """Whichever move of the parameters is interrupted, they end where the step began."""
    from gradline.torch.line import Line

    original = Line.go
    for interrupted_call in range(1, 6):
        problem = problem_with(GolsI())
        calls = 0

        def go(line, step):
            nonlocal calls
            calls += 1
            original(line, step)
            if calls == interrupted_call:
                raise KeyboardInterrupt

        start = problem.parameters()
        monkeypatch.setattr(Line, "go", go)
        with pytest.raises(KeyboardInterrupt):
            problem.optimizer.step(problem.full)
        assert equal(start, problem.parameters())
        problem.optimizer.step(problem.full)
        assert problem.optimizer.iterations == 1
        monkeypatch.undo()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("search", [GolsI(), GolsB(), Armijo()], ids=str)
def test_non_finite_everywhere_changes_nothing_and_tells(search, value):
    problem = problem_with(search, reuse_gradient=True)
    problem.optimizer.step(problem.full)
    before, step = problem.parameters(), problem.optimizer.last.step

    def broken():
        problem.optimizer.zero_grad()
        loss = problem.loss() * torch.tensor(value)
        loss.backward()
        return loss

    with pytest.warns(RuntimeWarning, match="no step gave a finite slope: nothing was changed"):
        problem.optimizer.step(broken)
    assert equal(before, problem.parameters())
    assert problem.optimizer.last.stop is Stop.NON_FINITE
    assert problem.optimizer.last.step == problem.optimizer.param_groups[0]["lr"] == 0.0
    problem.optimizer.step(problem.full)
    assert problem.optimizer.last.step > 0
    if isinstance(search, GolsI):
        assert problem.optimizer.last.transcript[0][0] == pytest.approx(step, rel=0.5)
    assert not equal(before, problem.parameters())


def test_a_non_finite_first_gradient_changes_nothing_and_tells():
    problem = problem_with(GolsI(), direction=torch.optim.Adam)
    before = problem.parameters()

    def broken():
        problem.optimizer.zero_grad()
        (problem.loss() * float("nan")).backward()

    with pytest.warns(RuntimeWarning, match="the slope at the start is not finite"):
        problem.optimizer.step(broken)
    assert equal(before, problem.parameters())
    assert problem.optimizer.last.stop is Stop.NON_FINITE_ORIGIN
    for _ in range(5):
        problem.optimizer.step(problem.full)
    assert all(torch.isfinite(p).all() for p in problem.model.parameters())
    assert problem.optimizer.last.step > 0


def test_one_nan_batch_only_halves_the_step():
    x = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    optimizer = gradline.GOLSI([x])
    bad = [False]

    def closure():
        optimizer.zero_grad()
        loss = (x.square() * (float("nan") if bad[0] else 1.0)).sum()
        loss.backward()
        bad[0] = False
        return loss

    optimizer.step(closure)
    step = optimizer.last.step
    bad[0] = True
    optimizer.step(closure)
    assert optimizer.last.step in (step / 2, step)
    assert x.isfinite().all()


def test_a_failing_direction_leaves_the_accepted_point():
    """The step was accepted, then the direction's own optimizer failed: nothing is half moved."""

    class Stubborn(torch.optim.SGD):
        failures = 0

        def step(self, closure=None):
            super().step(closure)
            if self.failures:
                self.failures -= 1
                raise TripError

    problem = problem_with(GolsI(), direction=Stubborn)
    problem.optimizer.step(problem.full)
    problem.optimizer._base.failures = 1
    with pytest.raises(TripError):
        problem.optimizer.step(problem.full)
    assert problem.optimizer.iterations == 2
    reference = problem.loss().item()
    problem.optimizer.step(problem.full)
    assert problem.optimizer.last.transcript[0][0] == pytest.approx(problem.optimizer.last.step, rel=1e9)
    assert problem.loss().item() < reference
