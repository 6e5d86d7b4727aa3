"""Memory layouts: slopes do not depend on strides, and moves keep the parameters' own."""

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import gradline
from gradline.torch.line import Gradients, Line
from gradline.torch.measuring import measure

SMALL, LARGE = (8, 4, 3, 3), (32, 48, 3, 3)  # small ones are measured side by side, large ones one by one


def laid_out(tensor, layout):
    """The same numbers with other strides."""
    if layout == "channels_last":
        return tensor.to(memory_format=torch.channels_last)
    if layout == "strided":
        wide = torch.empty(*tensor.shape, 2, dtype=tensor.dtype)[..., 0]
        return wide.copy_(tensor)
    if layout == "transposed":
        return tensor.transpose(0, 1).contiguous().transpose(0, 1)
    return tensor.contiguous()


LAYOUTS = ["contiguous", "channels_last", "strided", "transposed"]


@pytest.mark.parametrize("sort", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize("of_gradient", LAYOUTS)
@pytest.mark.parametrize("of_parameter", LAYOUTS)
def test_the_slope_is_that_of_the_numbers_whatever_the_strides(of_parameter, of_gradient, shape, sort):
    generator = torch.Generator().manual_seed(0)

    def draw(layout):
        drawn = [torch.randint(-4, 5, shape, generator=generator) for _ in range(3)]
        return [laid_out(tensor.to(sort), layout) for tensor in drawn]

    parameters = [nn.Parameter(start) for start in draw(of_parameter)]
    line, directions, gradients = Line(parameters), draw("contiguous"), draw(of_gradient)
    strides = [p.stride() for p in parameters]
    starts = [p.detach().clone() for p in parameters]
    with torch.no_grad():
        torch._foreach_copy_(line.directions, directions)
        norm, slope, _ = line.measure(Gradients(parameters, gradients))
        for step in (0.5, 2.0):  # the first move is made otherwise than those that follow
            line.go(step)
            for p, start, direction in zip(parameters, starts, directions, strict=True):
                assert torch.equal(p, start + step * direction)
        line.home()
    assert slope == sum((d.double() * g.double()).sum().item() for d, g in zip(directions, gradients, strict=True))
    assert norm == pytest.approx(sum(g.double().square().sum().item() for g in gradients) ** 0.5)
    assert all(map(torch.equal, parameters, starts))
    assert [p.stride() for p in parameters] == strides


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
def test_a_channels_last_model_stays_so_and_takes_the_same_steps(direction):
    def run(memory_format):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Tanh(), nn.Conv2d(16, 32, 3), nn.Flatten(), nn.Linear(128, 2))
        model = model.double().to(memory_format=memory_format)
        images = torch.randn(10, 3, 6, 6, dtype=torch.float64).to(memory_format=memory_format)
        optimizer = gradline.GOLSI(model.parameters(), direction=direction)
        records = []
        optimizer.register_search_hook(records.append)
        for _ in range(60):
            optimizer.zero_grad()
            (model(images) - 1.0).square().mean().backward()
            optimizer.step()
        assert all(p.is_contiguous(memory_format=memory_format) for p in (model[0].weight, model[2].weight))
        return [(record.step, record.stop) for record in records]

    last, first = run(torch.channels_last), run(torch.contiguous_format)
    assert len(last) > 5
    assert [stop for _, stop in last] == [stop for _, stop in first]
    assert [step for step, _ in last] == pytest.approx([step for step, _ in first], rel=1e-9)


@pytest.mark.parametrize("size", [12, 6000])
def test_expanded_gradients_are_read_and_never_written_to(size):
    x = nn.Parameter(torch.zeros(size))
    optimizer = gradline.GOLSI([x])
    for slope in (-1.0, -1.0, 1.0):
        x.grad = torch.tensor(slope).expand(size)
        optimizer.step()
    assert optimizer.last.origin.at_zero.slope == pytest.approx(-size)
    assert [seen.slope for _, seen in optimizer.last.transcript] == pytest.approx([-size, size])


@pytest.mark.parametrize("layout", ["channels_last", "transposed"])
def test_tensors_that_lie_alike_are_multiplied_where_they_lie(layout):
    """A copy of each, in another order, takes ten times as long as the product."""
    left, right = (laid_out(torch.ones(64, 64, 3, 3), layout) for _ in range(2))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        assert measure([left], [right])[1] == left.numel()
    allocated = sum(max(event.self_cpu_memory_usage, 0) for event in profiled.key_averages())
    assert allocated < left.numel()  # a copy has four bytes for each number
