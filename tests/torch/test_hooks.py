"""Torch's hooks of steps, and the profiler's records: made only if there are hooks or a profiler."""

import pytest
import torch
from helpers import Problem
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.profiler import ProfilerActivity, profile

import gradline
from gradline.torch import private


def training(build):
    problem = Problem()
    problem.optimizer = build(problem.model.parameters())
    return problem


@pytest.fixture(params=[gradline.Angle, gradline.GOLSI], ids=["Angle", "GOLSI"])
def problem(request):
    return training(request.param)


def test_hooks_of_one_optimizer_and_of_all_are_called_once_around_each_step(problem):
    heard = []
    optimizer = problem.optimizer
    handles = [
        register_optimizer_step_pre_hook(lambda *_: heard.append("all before")),
        optimizer.register_step_pre_hook(lambda *_: heard.append("before")),
        optimizer.register_step_post_hook(lambda *_: heard.append("after")),
        register_optimizer_step_post_hook(lambda *_: heard.append("all after")),
    ]
    try:
        optimizer.step(problem.closure)
    finally:
        for handle in handles:
            handle.remove()
    assert heard == ["all before", "before", "after", "all after"]
    optimizer.step(problem.closure)
    assert len(heard) == 4


@pytest.mark.parametrize("by_name", [False, True])
def test_a_hook_sees_the_closure_and_may_replace_it(problem, by_name):
    seen, called = [], []

    def replacement():
        called.append(True)
        return problem.closure()

    def hook(optimizer, args, kwargs):
        seen.append((*args[1:], *kwargs.values()))
        return (optimizer, replacement), {}

    problem.optimizer.register_step_pre_hook(hook)
    if by_name:
        problem.optimizer.step(closure=problem.closure)
    else:
        problem.optimizer.step(problem.closure)
    assert seen == [(problem.closure,)]
    assert called


def test_a_hook_sees_no_closure_where_there_is_none(problem):
    seen = []
    problem.optimizer.register_step_pre_hook(lambda _, args, kwargs: seen.append((args[1:], kwargs)))
    problem.closure()
    problem.optimizer.step()
    assert seen == [((), {})]


@pytest.mark.parametrize("used_before", [False, True])
def test_hooks_are_called_once_for_a_step_that_extends_gradlines(used_before):
    class Own(gradline.Angle):
        def step(self, closure=None):
            return super().step(closure)

    if used_before:  # torch wraps the methods of a class when it is first used
        training(gradline.Angle)
    problem, heard = training(Own), []
    problem.optimizer.register_step_pre_hook(lambda *_: heard.append("before"))
    problem.optimizer.step(problem.closure)
    assert heard == ["before"]


def test_a_profiler_records_steps_and_the_clearing_of_gradients(problem):
    name = type(problem.optimizer).__name__
    problem.optimizer.step(problem.closure)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        problem.optimizer.zero_grad()
        problem.optimizer.step(problem.closure)
    counts = {event.key: event.count for event in profiler.key_averages()}
    assert counts[f"Optimizer.step#{name}.step"] == 1
    assert counts[f"Optimizer.zero_grad#{name}.zero_grad"] >= 1


def test_gradients_are_cleared_as_torch_does(problem):
    problem.closure()
    parameters = list(problem.model.parameters())
    problem.optimizer.zero_grad(set_to_none=False)
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in parameters)
    problem.optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in parameters)


def test_torch_does_not_wrap_a_marked_step():
    class Plain(torch.optim.SGD):
        def step(self, closure=None):
            return "plain"

    private.leave_unwrapped(Plain.step)
    marked = Plain.step
    optimizer = Plain([torch.nn.Parameter(torch.zeros(1))])
    assert Plain.step is marked
    assert not private.is_watched(optimizer)
    optimizer.register_step_post_hook(lambda *_: None)
    assert private.is_watched(optimizer)
