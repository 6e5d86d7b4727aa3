"""A step of `gradline.Angle` makes temporary tensors of a bounded size only, whatever the size of a layer."""

import math

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import gradline

SIDE = 1300  # a mask of such a layer, of one byte for each element, is larger than the bound
BOUND = 24 * 2**16  # bytes: three pieces of 2**16 numbers in float64
LAYOUTS = {
    "matrix": lambda layer: layer,
    "channels_last": lambda layer: layer.view(SIDE, 13, 10, 10).to(memory_format=torch.channels_last),
    "gaps": lambda layer: torch.stack((layer, layer), dim=2)[:, :, 0],
}


def temporary(call):
    """Return the most bytes that torch had allocated during a call beyond those that remain, or that there were."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most - max(now, 0)


class Session:
    """Calls of an optimizer on one large layer and a small one, each with the gradient that is asked for."""

    def __init__(self, dtype, layout):
        self.noise = torch.Generator().manual_seed(0)
        layer = torch.randn(SIDE, SIDE, generator=self.noise).to(dtype)
        self.parameters = [nn.Parameter(LAYOUTS[layout](layer)), nn.Parameter(torch.ones(7, dtype=dtype))]
        self.optimizer = gradline.Angle(self.parameters)
        self.bytes = {}

    def phase(self):
        return self.optimizer._phase.name

    def watch(self, name, call):
        self.bytes[name] = max(temporary(call), self.bytes.get(name, 0))

    @torch.no_grad()
    def step(self, name, gradient=None, scale=None):
        """Take a step with the gradient of half the squared length, which is noisy, or another function of x and x0."""
        for parameter in self.parameters:
            if gradient is None:
                noise = torch.randn(parameter.shape, generator=self.noise)
                made = parameter + noise.to(parameter.dtype)
            else:
                made = gradient(parameter, self.optimizer.state.get(parameter, {}).get("origin"))
            parameter.grad = torch.empty_like(parameter).copy_(made)
        if scale is not None:  # as GradScaler does
            self.optimizer.grad_scale, self.optimizer.found_inf = torch.tensor(scale), torch.zeros(())
        self.watch(name, self.optimizer.step)
        vars(self.optimizer).pop("grad_scale", None)
        vars(self.optimizer).pop("found_inf", None)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_temporary_tensors_are_small(dtype, layout):
    session = Session(dtype, layout)
    optimizer = session.optimizer
    session.step("of zero", lambda point, _: torch.zeros_like(point))
    assert session.phase() == "START"
    session.step("that begins the first search")
    assert session.phase() == "FIRST"
    while session.phase() == "FIRST":
        session.step("of the first search")
    for _ in range(3):
        session.step("that is averaged")
    session.step("with a scaled loss", scale=0.5)
    assert optimizer.iterations == 5
    step = optimizer.last.step

    session.step("of an outlier downhill", lambda point, origin: (origin - point) * (1e4 / step))
    assert optimizer.iterations == 6
    step = optimizer.last.step
    for name in ("of an outlier uphill", "that is halved"):
        assert optimizer.last.step == step
        session.step(name, lambda point, origin: (point - origin) * (1e6 / step))
    assert optimizer.last.step == step / 2
    session.step("that is averaged")

    step = optimizer.last.step
    for name, value in (("whose square overflows", 1e25), ("that is not finite", math.nan)):
        assert optimizer.last.step == step
        session.step(name, lambda point, _, value=value: torch.full_like(point, value))
    assert optimizer.last.step == step / 2

    session.watch("eval()", optimizer.eval)
    session.watch("train()", optimizer.train)
    assert {name: size for name, size in session.bytes.items() if size > BOUND} == {}
