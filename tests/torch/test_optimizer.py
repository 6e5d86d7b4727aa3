"""The optimizer as torch users meet it: closures, counts, what it shows, groups and odd parameters."""

import functools
import math
import warnings

import numpy as np
import pytest
import torch
from helpers import Problem, equal, linear, problem_with
from torch import nn

import gradline
from gradline.protocol import Origin, Pending, Slope, Stop, Value
from gradline.searches import Angle, Armijo, Fixed, GoldenSection, GolsB, GolsBack, GolsI, GolsMax, StrongWolfe

SLOPE_SEARCHES = [GolsI(), GolsB(max_probes=60), GolsBack(), GolsMax(), Fixed(2.0), Angle()]
VALUE_SEARCHES = [Armijo(), GoldenSection(), StrongWolfe()]
named = functools.partial(pytest.mark.parametrize, ids=lambda value: getattr(value, "__name__", type(value).__name__))


@named("search", SLOPE_SEARCHES + VALUE_SEARCHES)
def test_every_search_trains_on_the_full_batch(search):
    problem = problem_with(search)
    before = problem.loss().item()
    for _ in range(40):
        problem.optimizer.step(problem.full)
    assert problem.loss().item() < 0.7 * before


def test_it_is_a_torch_optimizer():
    problem = problem_with(GolsI())
    assert isinstance(problem.optimizer, torch.optim.Optimizer)
    assert isinstance(gradline.GOLSI(problem.model.parameters()), gradline.LineSearchOptimizer)
    assert "lr" in repr(problem.optimizer)


def test_optimizer_and_plain_driver_agree():
    """The same problem in NumPy, driven through Pending by hand."""
    matrix = np.diag([1.0, 4.0, 0.25])
    start = np.array([1.0, -2.0, 3.0])
    x = torch.tensor(start, requires_grad=True)
    optimizer = gradline.GOLSI([x])

    def closure():
        optimizer.zero_grad()
        loss = 0.5 * x @ torch.tensor(matrix) @ x
        loss.backward()
        return loss

    search, memory, point, gradient, steps = GolsI(), GolsI().start(), start, matrix @ start, []
    for _ in range(25):
        pending = Pending(search, Origin(Slope(-gradient @ gradient), float(np.linalg.norm(gradient))), memory)
        while pending.outcome is None:
            probe = point - pending.step * gradient
            pending.tell(Slope(float(-gradient @ (matrix @ probe))))
        memory, point = pending.outcome.memory, point - pending.outcome.step * gradient
        gradient = matrix @ point
        steps.append((pending.outcome.step, len(pending.transcript), pending.outcome.stop))
        optimizer.step(closure)
        assert optimizer.last.step == pytest.approx(steps[-1][0], rel=1e-12)
        assert (optimizer.last.evaluations, optimizer.last.stop) == steps[-1][1:]
        np.testing.assert_allclose(x.detach().numpy(), point, rtol=1e-12)


def test_a_first_probe_that_is_accepted_costs_one_closure_call():
    problem = problem_with(Fixed(0.01))
    problem.optimizer.step(problem.closure)
    assert problem.optimizer.evaluations == 2  # the very first gradient, and one probe
    for step in range(5):
        problem.optimizer.step(problem.closure)
        assert problem.optimizer.evaluations == 3 + step


def test_evaluations_are_closure_calls_and_probes_plus_the_first_gradient():
    problem = problem_with(GolsI())
    calls, probes = 0, 0

    def closure():
        nonlocal calls
        calls += 1
        return problem.closure()

    for iteration in range(1, 30):
        problem.optimizer.step(closure)
        probes += problem.optimizer.last.evaluations
        assert problem.optimizer.evaluations == calls == probes + 1
        assert problem.optimizer.iterations == iteration


def test_what_it_shows_of_a_step():
    problem = problem_with(GolsI())
    assert problem.optimizer.last.stop is Stop.NOT_YET
    assert problem.optimizer.param_groups[0]["lr"] == 0.0
    loss = problem.optimizer.step(problem.full)
    last = problem.optimizer.last
    assert last.step == last.transcript[-1][0] == problem.optimizer.param_groups[0]["lr"] > 0
    assert isinstance(last.stop, Stop)
    assert str(last.stop) == last.stop.value
    assert last.evaluations == len(last.transcript) > 20  # it grew from 1e-8
    assert isinstance(last.transcript[0][1], Slope)
    assert loss.item() == problem.loss().item()


def test_the_returned_loss_is_the_accepted_probes():
    problem = problem_with(GoldenSection())  # accepts earlier probes
    seen = []

    def closure():
        seen.append(problem.full())
        return seen[-1]

    for _ in range(5):
        loss = problem.optimizer.step(closure)
        assert loss.item() == problem.loss().item() == min(value.item() for value in seen)


@named("search", [GoldenSection(), GolsB(tolerance=0.1), StrongWolfe(max_probes=3)])
def test_an_accepted_earlier_probe_is_put_in_place_with_its_gradient(search):
    """Non-finite or worse probes after it must not leave a trace."""
    problem = problem_with(search, reuse_gradient=True)
    for _ in range(4):
        problem.optimizer.step(problem.full)
        got = [p.grad.clone() for p in problem.model.parameters()]
        problem.full()
        torch.testing.assert_close(got, [p.grad for p in problem.model.parameters()], rtol=1e-9, atol=1e-12)


def test_fixed_step_is_gradient_descent():
    problem, reference = problem_with(Fixed(0.5)), Problem()
    sgd = reference.optimizer = torch.optim.SGD(reference.model.parameters(), lr=0.5)
    for _ in range(20):
        problem.optimizer.step(problem.full)
        sgd.step(reference.full)
    torch.testing.assert_close(problem.parameters(), reference.parameters(), rtol=1e-12, atol=0)


# Sampling


def test_static_sampling_evaluates_the_start_on_the_batch_of_the_search():
    problem = problem_with(Armijo())
    batches = gradline.batches.static(problem.inputs, problem.targets, batch_size=20, seed=0)
    used = []

    def loss(x, y):
        used.append(x)
        return nn.functional.binary_cross_entropy_with_logits(problem.model(x), y)

    closure = batches.closure(problem.optimizer, loss)
    for _ in range(5):
        used.clear()
        problem.optimizer.step(closure)
        assert len(used) == problem.optimizer.last.evaluations + 1
        assert all(torch.equal(x, used[0]) for x in used)


def test_value_searches_do_not_reuse_gradients_unless_told():
    for search, reuse, calls in [
        (Armijo(), None, 2),
        (Armijo(), True, 1),
        (Fixed(1e-3), None, 1),
        (Fixed(1e-3), False, 2),
    ]:
        problem = problem_with(search, reuse_gradient=reuse)
        problem.optimizer.step(problem.full)
        before = problem.optimizer.evaluations
        problem.optimizer.step(problem.full)
        assert problem.optimizer.evaluations - before == problem.optimizer.last.evaluations + calls - 1


# Bad input


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (
            lambda p: gradline.GOLSI(p, lr=0.1),
            ValueError,
            r"lr must be None or not given .*the search finds the step.*got 0.1",
        ),
        (lambda p: gradline.GOLSI([{"params": p, "lr": 1.0}]), ValueError, "lr of parameter group 0 must be None"),
        (lambda p: gradline.GOLSI(p, growth=1.0), ValueError, r"growth must be above 1 .*got 1.0"),
        (lambda p: gradline.GOLSI(p, speed=2), TypeError, "speed"),
        (lambda p: gradline.GOLSI([]), ValueError, "empty parameter list"),
        (lambda p: gradline.GOLSI(torch.optim.Adam(p)), TypeError, "give its class as direction=torch.optim.Adam"),
        (
            lambda p: gradline.GOLSI(p, direction=torch.optim.Adam(p)),
            TypeError,
            "must be the class of a torch optimizer",
        ),
        (lambda p: gradline.GOLSI(p, direction="adam"), TypeError, "must be the class of a torch optimizer.*'adam'"),
        (lambda p: gradline.LineSearchOptimizer(p, GolsI), TypeError, r"not its class: write GolsI\(\)"),
        (lambda p: gradline.GOLSI(p, direction=torch.optim.LBFGS), TypeError, "needs no closure.*LBFGS"),
        (
            lambda p: gradline.GOLSI(p, direction=torch.optim.Rprop),
            TypeError,
            "proportional to its learning rate.*Rprop",
        ),
        (lambda p: gradline.GOLSI(p, direction=torch.optim.Adafactor), TypeError, "proportional.*Adafactor"),
        (
            lambda p: gradline.LineSearchOptimizer(p, GolsI(), diagonal=True),
            ValueError,
            "diagonal must not be given .*GolsI looks at none.*True",
        ),
        (
            lambda p: gradline.LineSearchOptimizer(p, GolsI(), allow_batch_norm=True),
            ValueError,
            "allow_batch_norm must not be given",
        ),
        (lambda p: gradline.PrLS(p, lr=0.1), ValueError, "lr must be None or not given"),
        (lambda p: gradline.PrLS(p, growth=0.5), ValueError, "growth must be at least 1"),
        (lambda p: gradline.GOLSI([nn.Parameter(torch.zeros(2, dtype=torch.complex64))]), TypeError, "must be real"),
    ],
)
def test_bad_arguments(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make(list(linear(3).parameters()))


def test_a_refused_group_is_not_added():
    problem = problem_with(GolsI())
    with pytest.raises(ValueError, match="weight_decay must be 0 without a direction"):
        problem.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))], "weight_decay": 0.1})
    with pytest.raises(TypeError, match="must be real"):
        problem.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2, dtype=torch.complex64))]})
    assert len(problem.optimizer.param_groups) == 1
    problem.optimizer.step(problem.closure)


def test_sparse_gradients_are_refused_and_nothing_moves():
    embedding = nn.Embedding(5, 2, sparse=True)
    optimizer = gradline.GOLSI(embedding.parameters())
    before = embedding.weight.detach().clone()
    embedding(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(TypeError, match=r"must be dense .*\(5, 2\).*sparse=False"):
        optimizer.step()
    assert torch.equal(embedding.weight, before)


@pytest.mark.parametrize(("loss", "shown"), [(None, "None"), (torch.ones(3), r"shape \(3,\)")])
def test_value_searches_need_one_number(loss, shown):
    problem = problem_with(Armijo())
    before = problem.parameters()

    def closure():
        problem.full()
        return loss

    with pytest.raises(TypeError, match=f"closure must return the loss, one number.*Armijo.*{shown}"):
        problem.optimizer.step(closure)
    assert equal(before, problem.parameters())


def test_value_searches_take_plain_numbers_too():
    problem = problem_with(Armijo())
    before = problem.loss().item()
    for _ in range(10):
        problem.optimizer.step(lambda: problem.full().item())
    assert problem.loss().item() < before
    assert isinstance(problem.optimizer.last.transcript[0][1], Value)


def test_no_gradient_at_all_is_said():
    with pytest.raises(RuntimeError, match=r"no parameter has a gradient: call loss.backward\(\)"):
        problem_with(GolsI()).optimizer.step()


# What torch users expect of any optimizer


def test_zero_grad_between_steps_loses_nothing():
    one, other = problem_with(GolsI()), problem_with(GolsI())
    for set_to_none in (True, False, True, False):
        one.optimizer.step(one.closure)
        other.optimizer.step(other.closure)
        other.optimizer.zero_grad(set_to_none=set_to_none)
    assert equal(one.parameters(), other.parameters())


def test_the_closure_runs_with_gradients_enabled():
    problem = problem_with(GolsI())
    with torch.no_grad():
        problem.optimizer.step(problem.closure)
    assert problem.optimizer.last is not None


def test_refresh_starts_from_a_new_gradient():
    problem = problem_with(GolsI())
    problem.optimizer.step(problem.closure)
    before = problem.optimizer.evaluations
    problem.optimizer.refresh()
    problem.optimizer.step(problem.closure)
    assert problem.optimizer.evaluations == before + problem.optimizer.last.evaluations + 1


def test_the_global_generator_is_left_alone():
    problem = problem_with(GolsI())
    state = torch.get_rng_state()
    for _ in range(3):
        problem.optimizer.step(problem.closure)
    assert torch.equal(state, torch.get_rng_state())


def test_no_numpy_or_torch_warning_escapes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = problem_with(GolsI())
        problem.optimizer.step(problem.closure)
    assert math.isfinite(problem.optimizer.last.step)
