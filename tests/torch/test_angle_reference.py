"""`gradline.Angle` takes the steps of a plain reference, and its iterate takes AdamW's updates at the step it shows."""

import functools
import math

import pytest
import torch
from helpers import Problem, equal, mlp
from reference_angle import ReferenceAngle
from torch import nn

import gradline
from gradline.torch import buckets

MODELS = {
    "packed": mlp,
    "unpacked": lambda inputs: nn.Sequential(nn.Linear(inputs, 520), nn.Tanh(), nn.Linear(520, 520), nn.Linear(520, 1)),
    "conv": lambda inputs: nn.Sequential(
        nn.Unflatten(1, (2, 3, 1)), nn.Conv2d(2, 3, (2, 1)), nn.Tanh(), nn.Flatten(), nn.Linear(6, 1)
    ),
}


def problem_of(build, model="packed", **options):
    problem = Problem(model=MODELS[model])
    if model == "conv":
        problem.model.to(memory_format=torch.channels_last)
    problem.optimizer = build(problem.model.parameters(), **options)
    return problem


def assert_equal_steps(mine, other, calls, rtol=1e-9):
    for _ in range(calls):
        mine.turn()
        other.turn()
        for one, reference in zip(mine.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(one, reference, rtol=rtol, atol=1e-12)
        assert mine.optimizer.evaluations == other.optimizer.evaluations
    assert mine.optimizer.iterations > 5


@pytest.fixture
def unpacked(monkeypatch):
    monkeypatch.setattr(buckets, "is_small", lambda parameters: False)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("model", MODELS)
def test_its_steps_are_those_of_the_reference(model, decay):
    mine = problem_of(gradline.Angle, model, weight_decay=decay)
    other = problem_of(ReferenceAngle, model, weight_decay=decay)
    assert_equal_steps(mine, other, 25 if model == "unpacked" else 60)
    packed = [isinstance(bucket, buckets.Packed) for bucket in mine.optimizer._buckets]
    assert packed == [model != "unpacked"]


@pytest.mark.parametrize("beta", [0.0, 0.4, 0.7, 0.99])
def test_betas_eps_and_settings_of_the_search_are_those_given(beta, unpacked):
    options = {"betas": (beta, 0.9), "eps": 1e-3, "step_first": 1e-2, "gain": 6.0}
    mine = problem_of(gradline.Angle, **options)
    assert_equal_steps(mine, problem_of(ReferenceAngle, **options), 60)
    assert ("average" in next(iter(mine.optimizer.state.values()))) == (beta < 0.5)


def test_groups_have_their_own_decay_and_moments():
    def groups(parameters):
        first, *others = parameters
        return [{"params": [first], "weight_decay": 0.3, "betas": (0.8, 0.9)}, {"params": others, "eps": 1e-4}]

    mine = problem_of(lambda parameters: gradline.Angle(groups(parameters), weight_decay=0.02))
    other = problem_of(lambda parameters: ReferenceAngle(groups(parameters), weight_decay=0.02))
    assert_equal_steps(mine, other, 60)


class Experts(Problem):
    """Two experts, of which each mini-batch uses the first, the second or both; some batches are not finite."""

    def __init__(self, build, bad):
        super().__init__(model=lambda inputs: nn.ModuleList([nn.Linear(inputs, 1), nn.Linear(inputs, 1)]))
        self.optimizer = build(self.model.parameters())
        self.calls, self.bad = 0, bad

    def loss(self, chosen):
        self.calls += 1
        used = ((0, 1), (0,), (1,), (0,), (0,))[self.calls % 5]
        outputs = sum(self.model[expert](self.inputs[chosen]) for expert in used)
        factor = math.nan if self.calls in self.bad else 1.0
        return factor * nn.functional.binary_cross_entropy_with_logits(outputs, self.targets[chosen])


@pytest.mark.parametrize("bad", [(), (40, 41), (41, 42), (42, 43), (43, 44), (44, 45), range(40, 48)], ids=str)
@pytest.mark.parametrize("packed", [True, False])
def test_parameters_without_a_gradient_are_where_the_reference_has_them(packed, bad, request):
    """The first search moves them along its line; a step that is halved is so for all that it moved, and no others."""
    if not packed:
        request.getfixturevalue("unpacked")
    mine = Experts(functools.partial(gradline.Angle, weight_decay=0.1), bad)
    assert_equal_steps(mine, Experts(functools.partial(ReferenceAngle, weight_decay=0.1), bad), 60)


def test_a_closure_changes_nothing():
    turned, held = problem_of(gradline.Angle), problem_of(gradline.Angle)
    for _ in range(40):
        turned.turn()
        loss = held.optimizer.step(held.closure)
        assert loss.item() > 0.0
        assert equal(turned.parameters(), held.parameters())
    assert turned.optimizer.step(turned.full) is not None
    assert turned.optimizer.step() is None


@pytest.mark.parametrize("kind", ["packed", "unpacked"])
def test_gradients_stay_as_they_were_computed(kind, request):
    """The kernel takes them for the first moment, which it writes."""
    if kind == "unpacked":
        request.getfixturevalue("unpacked")
    problem = problem_of(gradline.Angle)
    for _ in range(30):
        problem.closure()
        before = [parameter.grad.clone() for parameter in problem.model.parameters()]
        problem.optimizer.step()
        assert equal(before, [parameter.grad for parameter in problem.model.parameters()])


def test_a_closure_is_called_once():
    problem, calls = problem_of(gradline.Angle), []
    for call in range(30):
        problem.optimizer.step(lambda: calls.append(None) or problem.closure())
        assert len(calls) == call + 1 == problem.optimizer.evaluations


def test_packing_changes_only_the_rounding(monkeypatch):
    packed = problem_of(gradline.Angle, weight_decay=0.1)
    packed.turn()
    with monkeypatch.context() as patch:
        patch.setattr(buckets, "is_small", lambda parameters: False)
        apart = problem_of(gradline.Angle, weight_decay=0.1)
        apart.turn()
    kinds = [type(problem.optimizer._buckets[0]) for problem in (packed, apart)]
    assert kinds == [buckets.Packed, buckets.Bucket]
    assert_equal_steps(packed, apart, 60)
    for one, other in zip(packed.optimizer.state.values(), apart.optimizer.state.values(), strict=True):
        for name, value in one.items():
            torch.testing.assert_close(value, other[name], rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("kind", ["packed", "unpacked"])
def test_each_update_is_adamws_at_the_learning_rate_shown(kind, request):
    """AdamW is given the learning rates of the groups, which show the step times `lr_scale`."""
    if kind == "unpacked":
        request.getfixturevalue("unpacked")
    scales = (1.0, 0.1, 0.0, 3.0)
    options = {"weight_decay": 0.2, "betas": (0.8, 0.95), "eps": 1e-6}

    def build(parameters):
        groups = [{"params": [p], "lr_scale": scale} for p, scale in zip(parameters, scales, strict=True)]
        return gradline.Angle(groups, **options)

    problem = problem_of(build)
    for _ in range(40):
        problem.turn()
    states = [problem.optimizer.state[parameter] for parameter in problem.model.parameters()]
    twins = [nn.Parameter(held["iterate"].clone()) for held in states]
    adamw = torch.optim.AdamW([{"params": [twin]} for twin in twins], **options | {"betas": (0.0, 0.95)})
    adamw.load_state_dict({**adamw.state_dict(), "state": moments_of(problem.optimizer)})
    start = problem.parameters()
    for _ in range(10):
        problem.turn()
        assert problem.optimizer.last.step > 0.0
        for group, shown, scale in zip(adamw.param_groups, problem.optimizer.param_groups, scales, strict=True):
            group["lr"] = shown["lr"]
            assert shown["lr"] == problem.optimizer.last.step * scale
        for twin, parameter in zip(twins, problem.model.parameters(), strict=True):
            twin.grad = parameter.grad.clone()
        adamw.step()
        for twin, held in zip(twins, states, strict=True):
            torch.testing.assert_close(twin.detach(), held["iterate"], rtol=1e-11, atol=1e-13)
    moved = [not torch.equal(one, other) for one, other in zip(start, problem.parameters(), strict=True)]
    assert moved == [True, True, False, True]


def moments_of(optimizer):
    state = optimizer.state_dict()["state"]
    return {
        place: {"exp_avg": torch.zeros_like(held["iterate"])}
        | {name: held[name].clone() for name in ("step", "exp_avg_sq")}
        for place, held in state.items()
    }


def test_lr_scale_also_scales_the_first_search(unpacked):
    """The probes are `lr_scale` times as far from the start, for decay too."""
    start, probes = None, {}
    for scale in (1.0, 0.25):
        problem = problem_of(gradline.Angle, weight_decay=0.3, lr_scale=scale)
        start = problem.parameters()
        problem.turn()
        probes[scale] = [now - before for now, before in zip(problem.parameters(), start, strict=True)]
    for far, near in zip(probes[1.0], probes[0.25], strict=True):
        torch.testing.assert_close(0.25 * far, near, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("kind", ["strided", "transposed", "expanded gradient", "gradient in another layout"])
def test_parameters_and_gradients_of_any_layout(kind, unpacked):
    """Kernels that go through memory must not take one entry for another."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    targets = [torch.randn(4, 6, generator=generator, dtype=torch.float64) for _ in range(40)]
    found = []
    for plain in (True, False):
        parameter = start.clone()
        if kind == "strided" and not plain:
            parameter = torch.zeros(4, 12, dtype=torch.float64)[:, ::2].copy_(start)
        elif kind == "transposed" and not plain:
            parameter = torch.zeros(6, 4, dtype=torch.float64).t().copy_(start)
        parameter = nn.Parameter(parameter)
        optimizer = gradline.Angle([parameter])
        for target in targets:
            gradient = parameter.detach() - target
            if kind == "expanded gradient":
                gradient = gradient.mean().expand(4, 6)
                gradient = gradient.clone() if plain else gradient
            elif kind == "gradient in another layout" and not plain:
                gradient = gradient.t().contiguous().t()
            parameter.grad = gradient
            optimizer.step()
        found.append(parameter.detach().clone())
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)
