"""Whatever parameters there are: groups, frozen, unused, of any precision and layout, with zero or huge gradients."""

import pytest
import torch
from helpers import Problem, equal, problem_with
from torch import nn

import gradline
from gradline.protocol import Stop
from gradline.searches import GolsI


def test_groups_move_together_by_one_step():
    grouped, plain = Problem(), problem_with(GolsI())
    layers = list(grouped.model.parameters())
    grouped.optimizer = gradline.GOLSI([{"params": layers[:1], "name": "first"}, {"params": layers[1:]}])
    for _ in range(10):
        grouped.optimizer.step(grouped.closure)
        plain.optimizer.step(plain.closure)
        assert [group["lr"] for group in grouped.optimizer.param_groups] == [plain.optimizer.last.step] * 2
    assert equal(grouped.parameters(), plain.parameters())


def test_named_parameters():
    problem = Problem()
    problem.optimizer = gradline.GOLSI(problem.model.named_parameters())
    problem.optimizer.step(problem.closure)
    assert problem.optimizer.param_groups[0]["param_names"][0] == "0.weight"


def test_frozen_and_unused_parameters_stay_and_may_join_later():
    problem = Problem()
    unused = nn.Parameter(torch.ones(3, dtype=torch.float64))
    problem.model[0].requires_grad_(False)
    problem.optimizer = gradline.GOLSI([*problem.model.parameters(), unused])
    frozen = problem.model[0].weight.detach().clone()
    for _ in range(5):
        problem.optimizer.step(problem.closure)
    assert torch.equal(problem.model[0].weight, frozen)
    assert torch.equal(unused, torch.ones(3, dtype=torch.float64))
    problem.model[0].requires_grad_(True)
    for _ in range(5):
        problem.optimizer.step(problem.closure)
    assert not torch.equal(problem.model[0].weight, frozen)


def test_parameters_that_take_turns_to_have_a_gradient():
    torch.manual_seed(0)
    heads = [nn.Parameter(torch.randn(4, dtype=torch.float64)) for _ in range(2)]
    shared = nn.Parameter(torch.randn(4, dtype=torch.float64))
    optimizer = gradline.GOLSI([*heads, shared])
    start = [p.detach().clone() for p in (*heads, shared)]
    for turn in range(60):
        optimizer.zero_grad()
        ((heads[turn % 2] * shared).sum() - 1.0).square().backward()
        optimizer.step()
        probe, others = heads[turn % 2], heads[1 - turn % 2]
        assert probe.isfinite().all()
        assert others.isfinite().all()
    assert not any(map(torch.equal, start, (*heads, shared)))
    held = [p for p in optimizer.state if "line_direction" in optimizer.state[p]]
    assert len(held) == 2  # one head and what they share


def test_added_groups_join_the_next_search():
    problem = Problem()
    first, second = problem.model[0], problem.model[2]
    problem.optimizer = gradline.GOLSI(first.parameters())
    problem.optimizer.step(problem.closure)
    problem.optimizer.add_param_group({"params": second.parameters()})
    assert problem.optimizer.param_groups[1]["lr"] == problem.optimizer.last.step
    before = second.weight.detach().clone()
    for _ in range(3):
        problem.optimizer.step(problem.closure)
    assert not torch.equal(second.weight, before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_precisions(dtype):
    problem = Problem(dtype=dtype, batch_size=100)
    problem.optimizer = gradline.GOLSI(problem.model.parameters())
    before = problem.loss().item()
    for _ in range(60):
        problem.optimizer.step(problem.closure)
    assert problem.loss().item() < 0.8 * before
    assert all(p.dtype == dtype for p in problem.model.parameters())
    assert problem.optimizer.state[problem.model[0].weight]["line_direction"].dtype == dtype


def test_mixed_precisions_in_one_model():
    problem = Problem(dtype=torch.float32)
    problem.model[2].to(torch.float64)
    problem.model[1].register_forward_hook(lambda module, args, output: output.double())
    problem.targets = problem.targets.double()
    problem.optimizer = gradline.GOLSI(problem.model.parameters())
    for _ in range(30):
        problem.optimizer.step(problem.closure)
    assert problem.loss().item() < 0.7


def test_memory_formats_do_not_change_the_numbers():
    def run(memory_format):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 2)).double()
        model = model.to(memory_format=memory_format)
        images = torch.randn(10, 3, 6, 6, dtype=torch.float64)
        optimizer = gradline.GOLSI(model.parameters())

        def closure():
            optimizer.zero_grad()
            loss = model(images).square().mean()
            loss.backward()
            return loss

        return [optimizer.step(closure).item() for _ in range(8)]

    assert run(torch.channels_last) == pytest.approx(run(torch.contiguous_format), rel=1e-9)


def test_zero_gradients_neither_divide_nor_search():
    x = nn.Parameter(torch.zeros(3))
    optimizer = gradline.GOLSI([x])

    def closure():
        optimizer.zero_grad()
        loss = x.square().sum()
        loss.backward()
        return loss

    for call in range(1, 4):
        assert optimizer.step(closure) == 0.0
        assert optimizer.evaluations == call
        assert optimizer.last.stop is Stop.ZERO_DIRECTION
        assert optimizer.last.step == 0.0
    assert torch.equal(x, torch.zeros(3))


def test_a_search_from_a_zero_gradient_leaves_the_memory_alone():
    x = nn.Parameter(torch.tensor([4.0]))
    optimizer = gradline.GOLSI([x])
    slack = [False]

    def closure():
        optimizer.zero_grad()
        loss = (x.square() * (0.0 if slack[0] else 1.0)).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    step = optimizer.last.step
    optimizer.refresh()
    slack[0] = True
    for _ in range(4):
        optimizer.step(closure)
        assert optimizer.last.stop is Stop.ZERO_DIRECTION
    slack[0] = False
    optimizer.step(closure)
    assert optimizer.last.transcript[0][0] == step


def test_tiny_gradients_do_not_underflow():
    x = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = gradline.GOLSI([x])
    (1e-25 * x).sum().backward()
    optimizer.step()
    assert optimizer.last.stop is Stop.NOT_YET  # a search has begun
    assert optimizer.evaluations == 1


def test_huge_gradients_do_not_overflow():
    x = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = gradline.GOLSI([x], step_min=1e-40)

    def closure():
        optimizer.zero_grad()
        loss = (1e25 * x).square().sum() * 1e-25
        loss.backward()
        return loss

    first = closure().item()
    for _ in range(10):
        optimizer.step(closure)
    assert closure().item() < 1e-3 * first


def test_angle_refuses_sparse_gradients_too():
    layer = nn.Embedding(5, 3, sparse=True)
    optimizer = gradline.Angle(layer.parameters())
    layer(torch.tensor([1, 2])).square().sum().backward()
    with pytest.raises(TypeError, match=r"gradients must be dense .*of shape \(5, 3\) has a sparse one"):
        optimizer.step()


@pytest.mark.parametrize("build", [gradline.Angle, gradline.GOLSI])
@pytest.mark.parametrize("width", [1, 5000])
def test_torchs_default_device_changes_nothing(build, width):
    """Parameters need not be where `torch.set_default_device` has new tensors made: on "meta" they have no values."""
    points = []
    for device in ("cpu", "meta"):
        parameter = nn.Parameter(torch.linspace(1.0, 2.0, width))
        with torch.device(device):
            optimizer = build([parameter])
            for _ in range(40):
                optimizer.zero_grad()
                torch.cosh(parameter).sum().backward()
                optimizer.step()
        points.append(parameter.detach())
    assert torch.equal(*points)


def test_an_origin_in_double_precision_is_kept_besides_half_precision():
    """Steps below the smallest normal number of float16 are computed in float64, on a copy also of what is float64."""
    exact, rough = nn.Parameter(torch.tensor([1.5, -2.5]).double()), nn.Parameter(torch.tensor([1.5]).half())
    optimizer = gradline.GOLSI([exact, rough])
    start = exact.detach().clone()
    steps = []
    while not optimizer.iterations:
        optimizer.zero_grad()
        (exact.square().sum() + rough.double().square().sum()).backward()
        optimizer.step()
        steps.append(optimizer._session.driver.step)
        with optimizer.eval():
            if not optimizer.iterations:
                assert torch.equal(exact, start)
    assert min(steps) < torch.finfo(torch.float16).tiny
