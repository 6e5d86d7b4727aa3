"""`gradline.PrLS`: what it promises as an optimizer, and what closures and models may do."""

from __future__ import annotations

import copy
import io
import warnings
from dataclasses import dataclass

import pytest
import torch
from helpers import Problem, equal, linear, mlp
from prls_problems import Hindsight, Mixing, Tied, flat, prls, trained
from torch import nn

import gradline
from gradline.protocol import Stop
from gradline.searches import Prls


def saved(problem):
    """Everything about a problem, through a file."""
    file = io.BytesIO()
    state = {"model": problem.model.state_dict(), "optimizer": problem.optimizer.state_dict()}
    torch.save({**state, "draws": problem.draws.get_state()}, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
@pytest.mark.parametrize("model", [mlp, Tied])
@pytest.mark.parametrize("after", [0, 1, 7])
def test_resume_is_exact(direction, model, after):
    problem = prls(model=model, direction=direction)
    trained(problem, after)
    state = saved(problem)
    twin = prls(seed=5, model=model, direction=direction)
    twin.inputs, twin.targets = problem.inputs, problem.targets
    twin.model.load_state_dict(state["model"])
    twin.optimizer.load_state_dict(state["optimizer"])
    twin.draws.set_state(state["draws"])
    assert twin.optimizer.last == problem.optimizer.last
    assert trained(problem) == trained(twin)
    assert equal(problem.parameters(), twin.parameters())


def test_a_copy_goes_on_as_the_original():
    problem = prls()
    trained(problem, 6)
    twin = copy.deepcopy(problem)
    assert trained(problem) == trained(twin)
    assert equal(problem.parameters(), twin.parameters())


# ---- failures


@pytest.mark.parametrize("model", [mlp, Tied])
@pytest.mark.parametrize("fails_at", range(12))
def test_a_failure_leaves_everything_as_it_was(model, fails_at):
    problem, twin = prls(1, model=model), prls(1, model=model)
    trained(problem, 1)
    trained(twin, 1)
    calls = iter(range(1000))

    def closure():
        losses = problem.losses()
        if next(calls) == fails_at:
            problem.draws.set_state(before)
            raise KeyboardInterrupt
        return losses

    for _ in range(10):
        parameters, iterations, before = problem.parameters(), problem.optimizer.iterations, problem.draws.get_state()
        try:
            problem.optimizer.step(closure)
        except KeyboardInterrupt:
            assert equal(problem.parameters(), parameters)
            assert problem.optimizer.iterations == iterations
            problem.optimizer.step(closure)
        twin.optimizer.step(twin.losses)
        assert problem.optimizer.last.outcome == twin.optimizer.last.outcome
        assert equal(problem.parameters(), twin.parameters())


@pytest.mark.parametrize(
    ("returned", "error", "sentence"),
    [
        (
            lambda losses: losses.mean(),
            TypeError,
            r"losses must be a tensor of shape \(B,\).*got a tensor of shape \(\)",
        ),
        (lambda losses: losses[:1], ValueError, r"at least 2 samples .*got shape \(1,\)"),
        (lambda losses: losses.detach(), ValueError, "losses must have a graph"),
        (lambda losses: None, TypeError, r"losses must be a tensor of shape \(B,\).*got None"),
        (lambda losses: (losses.mean().backward(), losses)[1], RuntimeError, "remove backward.. from the closure"),
    ],
)
@pytest.mark.parametrize("already", [0, 3])
def test_what_a_closure_must_return(returned, error, sentence, already):
    problem = prls()
    trained(problem, already)
    parameters = problem.parameters()
    with pytest.raises(error, match=sentence):
        problem.optimizer.step(lambda: returned(problem.losses()))
    assert equal(problem.parameters(), parameters)
    problem.optimizer.step(problem.losses)


def test_it_needs_a_closure():
    problem = prls()
    problem.losses().mean().backward()
    with pytest.raises(RuntimeError, match=r"Prls compares values .* call step\(closure\)"):
        problem.optimizer.step()


def test_batch_norm_is_refused_unless_it_is_allowed():
    def normed(inputs):
        return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))

    problem = prls(model=normed)
    parameters = problem.parameters()
    with pytest.raises(ValueError, match="BatchNorm"):
        problem.optimizer.step(problem.losses)
    assert equal(problem.parameters(), parameters)
    problem.model.eval()
    problem.optimizer.step(problem.losses)
    allowed = prls(model=normed, allow_batch_norm=True)
    trained(allowed, 5)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_losses_that_are_not_finite_at_the_start(value):
    problem = prls()
    parameters = problem.parameters()
    with pytest.warns(RuntimeWarning, match="the observation at the start is not finite"):
        problem.optimizer.step(lambda: problem.losses() * value)
    assert problem.optimizer.last.stop is Stop.NON_FINITE_ORIGIN
    assert equal(problem.parameters(), parameters)
    problem.optimizer.step(problem.losses)
    assert problem.optimizer.last.step > 0.0


def test_losses_whose_variance_overflows_at_the_start():
    problem = prls()
    parameters = problem.parameters()
    with pytest.warns(RuntimeWarning, match="the observation at the start is not finite"):
        problem.optimizer.step(lambda: problem.losses() * 1e200)
    assert equal(problem.parameters(), parameters)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_probes_that_are_not_finite_are_never_accepted(value):
    problem = prls()
    trained(problem, 3)
    parameters = problem.parameters()
    evaluations = problem.optimizer.evaluations
    with pytest.warns(RuntimeWarning, match="not finite"):
        problem.optimizer.step(lambda: problem.losses() * value)
    assert equal(problem.parameters(), parameters)
    assert problem.optimizer.last.stop is Stop.NON_FINITE
    assert problem.optimizer.evaluations <= evaluations + 7
    problem.optimizer.step(problem.losses)
    assert problem.optimizer.last.step > 0.0


def test_a_slope_of_zero_ends_with_its_reason_after_one_evaluation():
    problem = prls(model=linear)
    with torch.no_grad():
        for parameter in problem.model.parameters():
            parameter.zero_()
    problem.inputs.zero_()
    problem.targets.fill_(0.5)  # binary cross-entropy at probability 0.5: no slope at all
    problem.optimizer.step(problem.losses)
    assert problem.optimizer.last.stop is Stop.ZERO_DIRECTION
    assert problem.optimizer.evaluations == 1


# ---- parameters


def test_parameters_that_the_losses_do_not_use_stay():
    problem = Problem()
    unused, frozen = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2), requires_grad=False)
    groups = [
        {"params": [unused, *problem.model[0].parameters()]},
        {"params": [*problem.model[2].parameters(), frozen]},
    ]
    problem.optimizer = gradline.PrLS(groups)
    twin = prls()
    assert [r.step for r in trained(problem)] == [r.step for r in trained(twin)]
    assert equal(problem.parameters(), twin.parameters())
    assert torch.equal(unused, torch.ones(3))
    assert torch.equal(frozen, torch.ones(2))
    assert [group["lr"] for group in problem.optimizer.param_groups] == [problem.optimizer.last.step] * 2


def test_gradients_that_a_hook_changes_give_the_direction_and_its_variance():
    def halve(parameter):
        parameter.grad.mul_(0.5)

    problem = prls()
    for parameter in problem.model.parameters():
        parameter.register_post_accumulate_grad_hook(halve)
    problem.optimizer.step(problem.losses)
    pending, line = problem.optimizer._session.driver.pending, problem.optimizer._session.line
    assert equal(line.directions, [-p.grad for p in problem.model.parameters()])
    plain = prls()
    plain.optimizer.step(plain.losses)
    first, halved = plain.optimizer.last.origin.at_zero, problem.optimizer.last.origin.at_zero
    # Half the direction: half of each slope along it, a quarter of the variance.
    assert halved.slope_var == pytest.approx(first.slope_var / 4, rel=1e-9)
    assert pending is not None


def test_half_precision_and_autocast():
    problem = Problem(dtype=torch.float32)
    problem.optimizer = gradline.PrLS(problem.model.parameters())

    def closure():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return problem.losses()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses = [float(problem.optimizer.step(closure)) for _ in range(60)]
    assert sum(losses[-10:]) < sum(losses[:10])


def test_refresh_evaluates_anew():
    problem = prls()
    trained(problem, 3)
    evaluations = problem.optimizer.evaluations
    problem.optimizer.refresh()
    problem.optimizer.step(problem.losses)
    assert problem.optimizer.evaluations == evaluations + problem.optimizer.last.evaluations + 1


def test_batches_make_its_closure():
    problem = Problem()
    problem.optimizer = gradline.PrLS(problem.model.parameters())
    assert problem.optimizer.per_sample
    batches = gradline.batches.dynamic(problem.inputs, problem.targets, batch_size=25, seed=0)
    closure = batches.closure(problem.optimizer, lambda x, y: (problem.model(x) - y).square().sum(dim=1))
    losses = [float(problem.optimizer.step(closure)) for _ in range(80)]
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])


# ---- what closures and models may do


def test_a_parameter_that_is_frozen_later_stays():
    problem = prls()
    trained(problem, 3)
    weight = problem.model[0].weight
    weight.requires_grad_(False)
    problem.optimizer.refresh()
    frozen = weight.detach().clone()
    trained(problem, 5)
    assert torch.equal(weight, frozen)


@pytest.mark.parametrize("build", [gradline.PrLS, gradline.GOLSI])
def test_autocast_around_the_step_sees_the_moved_weights(build):
    """Autocast keeps the weights it has cast until it ends."""
    problem = Problem(dtype=torch.float32)
    problem.optimizer = build(problem.model.parameters())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = []
        for _ in range(60):
            closure = problem.losses if problem.optimizer.per_sample else problem.closure
            losses.append(problem.optimizer.step(closure).item())
    assert sum(losses[-10:]) < sum(losses[:10])


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("model", [mlp, Mixing])
def test_hooks_run_once_for_each_evaluation_and_spoil_no_variance(model, diagonal):
    problem = prls(model=model, diagonal=diagonal)
    calls = []

    def clip(gradient):
        calls.append(None)
        return gradient.clamp(-1e-3, 1e-3)

    parameters = list(problem.model.parameters())
    for parameter in parameters:
        parameter.register_hook(clip)
    for _ in range(3):
        problem.optimizer.step(problem.losses)
    assert len(calls) == problem.optimizer.evaluations * len(parameters)
    chosen = problem.draw()
    session = problem.optimizer._session
    evaluated = session.sensor.evaluate(problem.losses_of(chosen))
    line = session.line
    rows = [flat(torch.autograd.grad(loss, parameters)) for loss in map(problem.losses_of, chosen[:, None])]
    for parameter in parameters:
        parameter._backward_hooks.clear()
    rows = torch.stack([flat(torch.autograd.grad(problem.losses_of(one[None])[0], parameters)) for one in chosen])
    along = flat(line.directions)
    expected = (along.square() * rows.var(dim=0)).sum() if diagonal else (rows @ along).var()
    variance = session.sensor._variance(evaluated, line, steepest=False)
    assert variance == pytest.approx(float(expected) / len(chosen), rel=1e-6)


def test_reentrant_checkpoints_hide_the_graph_and_are_refused():
    def checkpointed(reentrant):
        class Net(nn.Module):
            def __init__(self, inputs):
                super().__init__()
                self.first, self.last = nn.Linear(inputs, 8), nn.Linear(8, 1)

            def forward(self, x):
                x = x.clone().requires_grad_()
                hidden = torch.utils.checkpoint.checkpoint(self.first, x, use_reentrant=reentrant)
                return self.last(torch.tanh(hidden))

        return Net

    problem = prls(model=checkpointed(True))
    parameters = problem.parameters()
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        problem.optimizer.step(problem.losses)
    assert equal(problem.parameters(), parameters)
    problem = prls(model=checkpointed(False))
    plain = prls(model=lambda inputs: nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, 1)))
    for mine, theirs in zip(trained(problem, 5), trained(plain, 5), strict=True):
        assert mine.step == pytest.approx(theirs.step, rel=1e-6)


@pytest.mark.parametrize("model", [mlp, Mixing])
def test_batches_written_into_one_buffer(model):
    """As data loaders with pinned memory do. Where an evaluation cannot be asked again, the next step begins anew."""
    problem = Problem(model=model)
    problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), Hindsight())
    inputs, targets = torch.empty(20, 6, dtype=torch.float64), torch.empty(20, 1, dtype=torch.float64)

    def closure():
        chosen = problem.draw()
        inputs.copy_(problem.inputs[chosen])
        targets.copy_(problem.targets[chosen])
        outputs = problem.model(inputs)
        return nn.functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none").sum(dim=1)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(5):
            problem.optimizer.step(closure)
    assert problem.optimizer.iterations == 5
    words = {str(warning.message) for warning in told}
    assert all("inputs of this evaluation were changed in place since" in text for text in words)
    if model is mlp:
        assert not words
    else:
        assert words


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_large_and_small_losses_in_float32(diagonal, scale):
    """Squares of slopes overflow and vanish long before slopes do."""
    problem = Problem(dtype=torch.float32)
    problem.optimizer = gradline.PrLS(problem.model.parameters(), diagonal=diagonal, step_first=1e-4 / scale)
    plain = Problem(dtype=torch.float32)
    plain.optimizer = gradline.PrLS(plain.model.parameters(), diagonal=diagonal)
    for _ in range(3):
        problem.optimizer.step(lambda: scale * problem.losses())
        plain.optimizer.step(plain.losses)
        mine, theirs = problem.optimizer.last.origin.at_zero, plain.optimizer.last.origin.at_zero
        assert mine.slope_var == pytest.approx(theirs.slope_var * scale**4, rel=1e-2)
        assert problem.optimizer.last.step == pytest.approx(plain.optimizer.last.step / scale, rel=1e-2)


def test_a_copy_before_any_direction_was_aimed():
    problem = prls(direction=torch.optim.Adam)
    with pytest.warns(RuntimeWarning, match="not finite"):
        problem.optimizer.step(lambda: problem.losses() * float("nan"))
    twin = copy.deepcopy(problem)
    assert trained(problem, 3) == trained(twin, 3)


def test_a_search_that_accepts_a_probe_it_gave_up():
    @dataclass(frozen=True)
    class Forgetful(Hindsight):
        def candidates(self, transcript):
            return ()

    problem = Problem()
    problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), Forgetful())
    parameters = problem.parameters()
    with pytest.raises(RuntimeError, match=r"accepted probe 0; give it a method candidates"):
        problem.optimizer.step(problem.losses)
    assert equal(problem.parameters(), parameters)


# ---- states that do not fit


def test_a_state_of_other_shapes_is_refused_and_nothing_changes():
    problem, other = prls(), prls(model=lambda inputs: nn.Sequential(nn.Linear(inputs, 4), nn.Tanh(), nn.Linear(4, 1)))
    trained(problem, 3)
    trained(other, 2)
    memory = other.optimizer._session.driver.memory
    with pytest.raises(ValueError, match=r"of the same shapes .*has \(4, 6\) and its saved \w+ \(8, 6\)"):
        other.optimizer.load_state_dict(problem.optimizer.state_dict())
    assert other.optimizer._session.driver.memory == memory
    assert other.optimizer.iterations == 2
    trained(other, 2)


def test_the_last_search_keeps_its_own_settings():
    problem, other = prls(), prls(max_probes=3)
    trained(problem, 3)
    other.optimizer.load_state_dict(problem.optimizer.state_dict())
    assert other.optimizer.last == problem.optimizer.last
    assert other.optimizer.last.search == Prls()
    assert other.optimizer.search == Prls(max_probes=3)


def test_a_state_cannot_be_taken_inside_a_closure():
    problem = prls()
    trained(problem, 2)

    def closure():
        with pytest.raises(RuntimeError, match="between steps, not in a closure"):
            problem.optimizer.state_dict()
        return problem.losses()

    problem.optimizer.step(closure)
    problem.optimizer.state_dict()


def test_a_search_that_could_not_begin_can_be_drawn():
    problem = prls()
    with pytest.warns(RuntimeWarning, match="not finite"):
        problem.optimizer.step(lambda: problem.losses() * float("nan"))
    data = gradline.plot.search_data(problem.optimizer.last)
    assert data.beliefs is None
    assert "not finite" in data.reason
