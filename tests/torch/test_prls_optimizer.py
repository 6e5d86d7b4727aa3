"""`gradline.PrLS`: against a plain loop over samples, and all that an optimizer promises."""

from __future__ import annotations

import copy
import io
import warnings
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from helpers import Problem, equal, linear, mlp
from torch import nn

import gradline
from gradline.protocol import Moments, Origin, Outcome, Pending, Stop, Value
from gradline.searches import Prls

STEPS = 25


def prls(seed=0, model=None, direction=None, batch_size=20, **options):
    """A problem trained by PrLS."""
    problem = Problem(seed=seed, model=model, batch_size=batch_size)
    problem.optimizer = gradline.PrLS(problem.model.parameters(), direction=direction, **options)
    return problem


def trained(problem, steps=STEPS):
    """The records of some steps."""
    records = []
    for _ in range(steps):
        problem.optimizer.step(problem.losses)
        records.append(problem.optimizer.last)
    return records


# ---- a second implementation: one backward pass for each sample, everything kept


def flat(tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


class Plain:
    """PrLS written down again, as plainly as possible, with steepest descent."""

    def __init__(self, problem, *, diagonal):
        self.problem, self.diagonal = problem, diagonal
        self.parameters = list(problem.model.parameters())
        self.search = Prls()
        self.memory = self.search.start()
        self.gradients = None  # of all samples, a row each
        self.losses = None

    def evaluate(self):
        losses = self.problem.losses()
        rows = [flat(torch.autograd.grad(loss, self.parameters, retain_graph=True)) for loss in losses]
        return losses.detach(), torch.stack(rows)

    def move(self, point):
        torch.nn.utils.vector_to_parameters(point, self.parameters)

    def step(self):
        if self.gradients is None:
            self.losses, self.gradients = self.evaluate()
        start = flat(self.problem.parameters())
        mean = self.gradients.mean(dim=0)
        direction = -mean
        count = len(self.losses)
        if self.diagonal:
            slope_var = (direction.square() * self.gradients.var(dim=0)).sum() / count
        else:
            slope_var = (self.gradients @ direction).var() / count
        zero = Moments(
            float(direction @ mean), float(self.losses.mean()), float(self.losses.var() / count), float(slope_var)
        )
        pending = Pending(self.search, Origin(zero, float(direction.norm())), self.memory)
        seen = []
        while pending.outcome is None:
            self.move(start + pending.step * direction)
            losses, gradients = self.evaluate()
            seen.append((losses, gradients))
            pending.tell(Value(float(gradients.mean(dim=0) @ direction), float(losses.mean())))
        outcome = pending.outcome
        self.memory = outcome.memory
        self.losses, self.gradients = seen[outcome.probe]
        self.move(start + outcome.step * direction)
        return pending.record


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_the_plain_one_does(seed, diagonal):
    problem = prls(seed, diagonal=diagonal)
    plain = Plain(Problem(seed=seed), diagonal=diagonal)
    for _ in range(STEPS):
        expected = plain.step()
        problem.optimizer.step(problem.losses)
        record = problem.optimizer.last
        assert record.stop is expected.stop
        assert record.outcome.probe == expected.outcome.probe
        assert record.step == pytest.approx(expected.step, rel=1e-6)
        assert record.origin.at_zero.slope_var == pytest.approx(expected.origin.at_zero.slope_var, rel=1e-6)
        assert record.origin.at_zero.value_var == pytest.approx(expected.origin.at_zero.value_var, rel=1e-6)
    for mine, theirs in zip(problem.parameters(), plain.problem.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-8)


def test_searches_of_several_probes_and_earlier_ones_are_among_those_compared():
    stops = {record.stop for seed in range(4) for record in trained(prls(seed))}
    assert {Stop.PROBABLY_WOLFE, Stop.PROBABLY_WOLFE_EARLIER} <= stops


def convolution(inputs):
    return nn.Sequential(
        nn.Unflatten(1, (1, inputs)), nn.Conv1d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * (inputs - 2), 1)
    )


class Tied(nn.Module):
    """A graph that is not a chain of layers: a weight is used twice."""

    def __init__(self, inputs):
        super().__init__()
        self.inside = nn.Linear(inputs, inputs)
        self.out = nn.Linear(inputs, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.inside(torch.tanh(self.inside(x)))))


class Mixing(nn.Module):
    """A graph without layers that could be recognised."""

    def __init__(self, inputs):
        super().__init__()
        self.norm = nn.LayerNorm(inputs)
        self.weight = nn.Parameter(torch.randn(inputs, 3))
        self.out = nn.Linear(3, 1)

    def forward(self, x):
        return self.out(torch.einsum("bi,ij->bj", self.norm(x), self.weight).softmax(dim=1))


@pytest.mark.parametrize("model", [linear, mlp, convolution, Tied, Mixing])
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("direction", [None, torch.optim.Adam, torch.optim.SGD])
def test_variances_at_the_origin_are_along_its_direction(model, diagonal, direction):
    problem = prls(model=model, diagonal=diagonal, direction=direction)
    for _ in range(12):
        before = problem.draws.get_state()
        problem.optimizer.step(problem.losses)
        record = problem.optimizer.last
        # Draw the accepted probe's batch again, at the point where the parameters are.
        after = problem.draws.get_state()
        problem.draws.set_state(before)
        for _ in range(record.outcome.probe + (1 if problem.optimizer.iterations > 1 else 2)):
            chosen = problem.draw()
        problem.draws.set_state(after)
        losses = problem.losses_of(chosen)
        parameters = list(problem.model.parameters())
        rows = torch.stack([flat(torch.autograd.grad(loss, parameters, retain_graph=True)) for loss in losses])
        line = problem.optimizer._descent.line
        along = flat(line.directions)
        if diagonal:
            expected = (along.square() * rows.var(dim=0)).sum() / len(losses)
        else:
            expected = (rows @ along).var() / len(losses)
        seen = problem.optimizer._descent.pending.origin.at_zero
        assert seen.slope_var == pytest.approx(float(expected), rel=1e-7)
        assert seen.slope == pytest.approx(float(rows.mean(dim=0) @ along), rel=1e-9)
        assert seen.value == pytest.approx(float(losses.detach().mean()), rel=1e-12)
        torch.testing.assert_close(flat([p.grad for p in parameters]), rows.mean(dim=0), rtol=1e-9, atol=1e-15)


# ---- accepting an earlier probe


@dataclass(frozen=True)
class Hindsight:
    """Probes 0.1, 0.2, 0.3 and takes the first. Looks at variances everywhere."""

    observes: ClassVar = Moments

    def start(self):
        return None

    def candidates(self, transcript):
        return range(len(transcript))

    def search(self, origin, memory):
        for step in (0.1, 0.2, 0.3):
            _ = yield step
        return Outcome(0.1, 0, Stop.LOWEST_MEAN, None)


@pytest.mark.parametrize("model", [mlp, convolution, Tied, Mixing])
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("to_none", [False, True])
def test_an_earlier_probe_comes_back_with_all_that_belongs_to_it(model, diagonal, to_none):
    problem = Problem(model=model)
    problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), Hindsight(), diagonal=diagonal)
    twin = Problem(model=model)
    twin.optimizer = gradline.LineSearchOptimizer(twin.model.parameters(), First(), diagonal=diagonal)

    def closure():
        problem.optimizer.zero_grad(set_to_none=to_none)  # not needed, and must not spoil gradients that are kept
        return problem.losses()

    for step in range(4):
        problem.optimizer.step(closure)
        twin.optimizer.step(twin.losses)
        assert equal(problem.parameters(), twin.parameters())
        assert equal([p.grad for p in problem.model.parameters()], [p.grad for p in twin.model.parameters()])
        mine, theirs = (one.optimizer._descent.pending.origin for one in (problem, twin))
        assert mine.norm == theirs.norm
        assert mine.at_zero == theirs.at_zero
        for _ in range(2):  # the batches of the probes that the twin does not make
            twin.draw()
        assert problem.optimizer.evaluations == 3 * (step + 1) + 1


@dataclass(frozen=True)
class First:
    """Takes 0.1."""

    observes: ClassVar = Moments

    def start(self):
        return None

    def search(self, origin, memory):
        yield 0.1
        return Outcome(0.1, 0, Stop.LOWEST_MEAN, None)


def test_a_search_may_look_at_the_variances_of_its_probes():
    problem = Problem()
    problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), Hindsight())
    problem.optimizer.step(problem.losses)
    for _, seen in problem.optimizer.last.transcript:
        assert isinstance(seen, Moments)
        assert seen.slope_var > 0.0 < seen.value_var
    # PrLS does not, and is spared them.
    problem = prls()
    problem.optimizer.step(problem.losses)
    assert all(type(seen) is Value for _, seen in problem.optimizer.last.transcript)


# ---- saving


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
    with pytest.warns(RuntimeWarning, match="what was seen at the start is not finite"):
        problem.optimizer.step(lambda: problem.losses() * value)
    assert problem.optimizer.last.stop is Stop.NON_FINITE_ORIGIN
    assert equal(problem.parameters(), parameters)
    problem.optimizer.step(problem.losses)
    assert problem.optimizer.last.step > 0.0


def test_losses_whose_variance_overflows_at_the_start():
    problem = prls()
    parameters = problem.parameters()
    with pytest.warns(RuntimeWarning, match="what was seen at the start is not finite"):
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
    pending, line = problem.optimizer._descent.pending, problem.optimizer._descent.line
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
    descent = problem.optimizer._descent
    evaluated = descent.evaluator.per_sample.evaluate(problem.losses_of(chosen))
    line = descent.line
    rows = [flat(torch.autograd.grad(loss, parameters)) for loss in map(problem.losses_of, chosen[:, None])]
    for parameter in parameters:
        parameter._backward_hooks.clear()
    rows = torch.stack([flat(torch.autograd.grad(problem.losses_of(one[None])[0], parameters)) for one in chosen])
    along = flat(line.directions)
    expected = (along.square() * rows.var(dim=0)).sum() if diagonal else (rows @ along).var()
    assert descent.evaluator.per_sample.variance(evaluated, line) == pytest.approx(
        float(expected) / len(chosen), rel=1e-6
    )


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
    memory = other.optimizer._descent.memory
    with pytest.raises(ValueError, match=r"of the same shapes .*has \(4, 6\) and its saved one \(8, 6\)"):
        other.optimizer.load_state_dict(problem.optimizer.state_dict())
    assert other.optimizer._descent.memory == memory
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
