"""Mixtures of experts: a parameter has no gradient in the evaluations that do not use it."""

import pytest
import torch
from torch import nn

import gradline


class Experts(nn.Module):
    """A gate that is trained always, and experts of which each batch uses one."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(3, 3)
        self.experts = nn.ModuleList(nn.Linear(3, 1) for _ in range(3))

    def forward(self, inputs, chosen):
        return self.experts[chosen](torch.tanh(self.gate(inputs)))


def training(direction=None):
    torch.manual_seed(0)
    model = Experts().double()
    inputs = torch.randn(30, 3, dtype=torch.float64)
    optimizer = gradline.GOLSI(model.parameters(), direction=direction)

    def evaluate(chosen):
        optimizer.zero_grad()
        loss = (model(inputs, chosen) - 0.5).square().mean()
        loss.backward()
        return loss

    return model, optimizer, evaluate


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
def test_a_probe_that_leaves_an_expert_out_adds_nothing_for_it(direction):
    model, optimizer, evaluate = training(direction)
    evaluate(0)
    optimizer.step()
    assert "experts.1.weight" not in gradients(model)
    named = dict(model.named_parameters())
    directions = {name: optimizer.state[p]["line_direction"] for name, p in named.items() if p in optimizer.state}
    assert directions.keys() == {"gate.weight", "gate.bias", "experts.0.weight", "experts.0.bias"}
    evaluate(1)
    seen = gradients(model)
    both = directions.keys() & seen.keys()
    assert both == {"gate.weight", "gate.bias"}
    slope = sum((directions[name] * seen[name]).sum().item() for name in both)
    optimizer.step()
    told = optimizer._session.driver.pending.transcript or optimizer.last.transcript
    assert told[0][1].slope == pytest.approx(slope, rel=1e-9)


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
def test_an_expert_that_the_start_did_not_use_stays_for_that_search(direction):
    model, optimizer, evaluate = training(direction)
    still = [p.detach().clone() for p in model.experts[1].parameters()]
    moving = [p.detach().clone() for p in (*model.gate.parameters(), *model.experts[0].parameters())]
    turns = iter([0])
    optimizer.step(lambda: evaluate(next(turns, 1)))
    assert all(map(torch.equal, still, model.experts[1].parameters()))
    assert not any(map(torch.equal, moving, (*model.gate.parameters(), *model.experts[0].parameters())))


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
def test_with_and_without_a_closure_take_the_same_steps(direction):
    model, optimizer, evaluate = training(direction)
    twin, other, again = training(direction)
    generator = torch.Generator().manual_seed(0)
    choices = torch.randint(3, (5000,), generator=generator).tolist()
    held = iter(choices)
    for _ in range(15):
        optimizer.step(lambda: evaluate(next(held)))
    for chosen in choices[: optimizer.evaluations]:
        again(chosen)
        other.step()
    with other.eval():
        assert all(map(torch.equal, model.parameters(), twin.parameters()))
    assert other.last == optimizer.last
    assert all(p.isfinite().all() for p in model.parameters())


def test_it_trains_all_experts():
    _, optimizer, evaluate = training()
    generator = torch.Generator().manual_seed(0)

    def closure():
        return evaluate(int(torch.randint(3, (), generator=generator)))

    def total():
        return sum(evaluate(chosen).item() for chosen in range(3))

    before = lowest = total()
    for _ in range(60):  # where it stands after the last of them is chance: the batches are single experts'
        optimizer.step(closure)
        lowest = min(lowest, total())
    assert lowest < 0.2 * before
