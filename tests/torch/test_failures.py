"""A step that fails leaves the parameters exactly as they were before it, and training can go on."""

import copy
import re
import sys

import pytest
import torch
from helpers import equal, problem_with
from torch import nn

import gradline
from gradline.protocol import Stop
from gradline.searches import Armijo, GolsB, GolsI


class TripError(Exception):
    pass


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
            if problem.optimizer._session.driver.pending is not None and (round_ == 0 or isinstance(search, Armijo)):
                problem.draw()  # the gradient at the start is known: its batch is not drawn again
            problem.optimizer.step(problem.closure)
        untouched.optimizer.step(untouched.closure)
        assert equal(problem.parameters(), untouched.parameters())
        assert problem.optimizer.last == untouched.optimizer.last


def test_a_failure_in_the_middle_of_calls_without_closure_goes_back_to_the_probe():
    problem = problem_with(GolsI())
    for _ in range(4):
        problem.turn(problem.full)
    before = problem.parameters()
    with pytest.raises(TripError):
        problem.optimizer.step(failing(problem.full, 2, TripError()))
    assert equal(before, problem.parameters())
    twin = problem_with(GolsI())
    for _ in range(6):
        twin.turn(twin.full)
    for _ in range(2):
        problem.turn(problem.full)
    assert equal(problem.parameters(), twin.parameters())  # what was told before the failure still counts


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

    with pytest.warns(RuntimeWarning, match="the search ended at a point that is not finite: nothing was changed"):
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

    with pytest.warns(RuntimeWarning, match="the observation at the start is not finite"):
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


class Stubborn(torch.optim.SGD):
    """Fails as often as it is told to, after the damage is done."""

    failures = 0

    def step(self, closure=None):
        super().step(closure)
        if self.failures:
            self.failures -= 1
            raise TripError


def test_a_failing_direction_leaves_the_accepted_point():
    """The step was accepted, then the direction's own optimizer failed: the step stands, and the next begins anew."""
    problem, untouched = problem_with(GolsI(), direction=Stubborn), problem_with(GolsI(), direction=Stubborn)
    for step in range(2):
        problem.optimizer._base.failures = step
        untouched.optimizer.step(untouched.full)
        if step:
            with pytest.warns(RuntimeWarning, match="step was taken, but its gradient cannot be used again") as told:
                problem.optimizer.step(problem.full)
            assert told[0].filename == __file__
        else:
            problem.optimizer.step(problem.full)
        assert equal(problem.parameters(), untouched.parameters())
        assert problem.optimizer.last == untouched.optimizer.last
        assert problem.optimizer.param_groups[0]["lr"] == problem.optimizer.last.step
    parameters = problem.parameters()
    problem.optimizer._base.failures = 1
    with pytest.raises(TripError):  # now nothing has been moved yet, and it is an error
        problem.optimizer.step(problem.full)
    assert equal(problem.parameters(), parameters)
    problem.optimizer.step(problem.full)
    assert problem.optimizer.iterations == 3


# Failures of the direction and interrupts


def turns(problem, count):
    for _ in range(count):
        problem.turn(problem.full)


def test_calls_without_closure_go_on_after_a_failing_direction():
    problem = problem_with(GolsI(), direction=Stubborn)
    while problem.optimizer.iterations < 2:
        problem.turn(problem.full)
    problem.optimizer._base.failures = 1
    with pytest.warns(RuntimeWarning, match="the next step begins with an evaluation"):
        turns(problem, 100)
    before = problem.loss().item()
    problem.optimizer.eval()
    problem.optimizer.train()
    for _ in range(40):
        problem.turn(problem.full)
    with problem.optimizer.eval():
        assert problem.loss().item() < before


@pytest.mark.parametrize("direction", [None, torch.optim.Adam], ids=str)
@pytest.mark.parametrize("with_closure", [True, False])
def test_an_interrupt_anywhere_in_our_code_leaves_a_point_that_was_accepted(direction, with_closure):
    """A trace function raises at every line of descent, direction and line in turn, as a signal may."""
    points, event = [], 0

    class Interrupter:
        def __init__(self, at):
            self.at, self.count, self.done = at, 0, False

        def __call__(self, frame, event, arg):
            name = frame.f_code.co_filename
            if not name.endswith(("descent.py", "direction.py", "line.py")) or frame.f_code.co_name == "rewind":
                return None
            if event == "line" and not self.done:
                self.count += 1
                if self.count == self.at:
                    self.done = True
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return self

    for at in range(1, 400, 7):
        problem = problem_with(GolsI(step_min=1e-2), direction=direction)
        points = [problem.parameters()]
        problem.optimizer.step(problem.full)
        points.append(problem.parameters())
        interrupter = Interrupter(at)
        sys.settrace(interrupter)
        try:
            for _ in range(3):
                problem.optimizer.step(problem.full) if with_closure else problem.turn(problem.full)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        if not interrupter.done:
            break
        with problem.optimizer.eval():
            accepted = problem.parameters()
        assert all(torch.isfinite(p).all() for p in accepted)
        assert problem.optimizer.iterations > 1 or equal(accepted, points[1])
        loss = problem.loss().item()
        for _ in range(25):
            problem.optimizer.step(problem.full) if with_closure else problem.turn(problem.full)
        with problem.optimizer.eval():
            assert problem.loss().item() <= loss
        event = at
    assert event > 50


def test_a_failing_step_does_not_advance_the_direction_twice():
    problem, untouched = (
        problem_with(Armijo(), direction=torch.optim.Adam),
        problem_with(Armijo(), direction=torch.optim.Adam),
    )
    for _ in range(3):
        with pytest.raises(TripError):
            problem.optimizer.step(failing(problem.full, 2, TripError()))
        problem.optimizer.step(problem.full)
        untouched.optimizer.step(untouched.full)
        assert equal(problem.parameters(), untouched.parameters())


def test_an_accepted_earlier_probe_takes_its_gradients_alone():
    """A parameter that had a gradient only at the last probe, a NaN, must not be moved by the direction's optimizer."""
    x, head = nn.Parameter(torch.tensor([3.0])), nn.Parameter(torch.tensor([1.0]))
    optimizer = gradline.LineSearchOptimizer([x, head], GolsB(step_min=0.5, max_probes=3), direction=torch.optim.Adam)
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        optimizer.zero_grad()
        loss = (x - 30.0).square().sum()
        if calls == 4:
            loss = loss * float("nan") + (head * float("nan")).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert optimizer.last.outcome.probe == 1
    assert torch.equal(head, torch.tensor([1.0]))
    assert head.grad is None
    assert x.isfinite().all()


def test_a_direction_that_moves_parameters_without_gradients_is_refused():
    class Decaying(torch.optim.SGD):
        @torch.no_grad()
        def step(self, closure=None):
            super().step(closure)
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.mul_(1.0 - 0.01 * group["lr"])

    x, idle = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = gradline.GOLSI([x, idle], direction=Decaying)
    x.square().sum().backward()
    with pytest.raises(TypeError, match="leaves parameters without a gradient alone, but Decaying moved one"):
        optimizer.step()
    assert torch.equal(idle, torch.ones(2))
    assert torch.equal(x, torch.ones(2))
    assert optimizer.param_groups[0]["lr"] == 0.0


def test_an_overflow_that_lasts_under_a_loss_scaler_is_a_probe_like_any_other():
    """GradScaler skips the steps of other optimizers then, and would leave a search at its bad probe for ever."""

    def run(scaler):
        x = nn.Parameter(torch.tensor([0.0]))
        optimizer = gradline.GOLSI([x])
        while optimizer.iterations < 12:
            assert optimizer.evaluations < 1000
            optimizer.zero_grad()
            loss = -x.sum() - 0.01 * (0.4 - x).sqrt().sum()  # NaN beyond 0.4
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        with optimizer.eval():
            return x.item(), optimizer.evaluations

    (plain, fewer), (scaled, more) = run(None), run(torch.amp.GradScaler("cpu", init_scale=2.0**10))
    assert scaled == pytest.approx(plain, rel=1e-6)
    assert more > fewer  # each overflow was looked at twice


# Calls that would pull the search away from under the closure


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("step()", lambda optimizer, saved: optimizer.step()),
        ("step()", lambda optimizer, saved: optimizer.step(lambda: None)),
        ("refresh()", lambda optimizer, saved: optimizer.refresh()),
        ("state_dict()", lambda optimizer, saved: optimizer.state_dict()),
        ("load_state_dict()", lambda optimizer, saved: optimizer.load_state_dict(saved)),
        ("eval()", lambda optimizer, saved: optimizer.eval()),
        ("train()", lambda optimizer, saved: optimizer.train()),
        ("add_param_group()", lambda optimizer, saved: optimizer.add_param_group({"params": [torch.ones(1)]})),
        ("copying it", lambda optimizer, saved: copy.deepcopy(optimizer)),
    ],
)
def test_what_does_harm_in_a_closure_is_refused(name, call, spread):
    problem, plain = problem_with(GolsI(), spread=spread), problem_with(GolsI(), spread=spread)
    for _ in range(3):
        problem.optimizer.step(problem.full)
        plain.optimizer.step(plain.full)
    saved = problem.optimizer.state_dict()

    def closure():
        loss = problem.full()
        call(problem.optimizer, saved)
        return loss

    before = problem.parameters()
    with pytest.raises(RuntimeError, match=rf"^{re.escape(name)} must be called between steps, not in a closure"):
        problem.optimizer.step(closure)
    assert equal(before, problem.parameters())
    for _ in range(3):  # and training goes on as if nothing had been
        problem.optimizer.step(problem.full)
        plain.optimizer.step(plain.full)
        assert equal(problem.parameters(), plain.parameters())
