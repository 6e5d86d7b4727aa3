"""`gradline.Angle` after interrupts, and where losses and gradients are not finite, zero, huge, linear or unbounded."""

import copy
import inspect
import itertools
import math
import sys
import warnings

import pytest
import torch
from helpers import Problem, equal
from torch import nn

import gradline
from gradline.protocol import Stop
from gradline.torch import buckets
from gradline.torch.angle_state import Phase
from gradline.torch.private import DispatchMode

PHASES = {"START": 0, "FIRST": 4, "STEPS": 40}


def normed(inputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))


def problem_of(calls=0, **options):
    problem = Problem(model=normed)
    problem.optimizer = gradline.Angle(problem.model.parameters(), **options)
    for _ in range(calls):
        problem.turn()
    return problem


def values(problem):
    return [value.detach().clone() for value in problem.model.state_dict().values()]


def spoil(problem, value=math.nan):
    """A call whose gradients are not finite, as after a bad batch."""
    problem.closure()
    for parameter in problem.model.parameters():
        parameter.grad.fill_(value)
    problem.optimizer.step()


@pytest.mark.parametrize("error", [OSError("disk"), KeyboardInterrupt(), MemoryError()], ids=repr)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_closure_that_raises_changes_nothing(phase, when, error):
    problem, twin = problem_of(PHASES[phase]), problem_of(PHASES[phase])
    draws, before = problem.draws.get_state(), values(problem)

    def failing():
        if when == "after":
            problem.closure()
        raise error

    with pytest.raises(type(error)):
        problem.optimizer.step(failing)
    assert equal(before, values(problem))
    problem.draws.set_state(draws)
    for _ in range(20):
        problem.optimizer.step(problem.closure)
        twin.turn()
    assert equal(values(problem), values(twin))
    assert problem.optimizer.evaluations == twin.optimizer.evaluations


@pytest.mark.parametrize("call", ["step", "eval", "train", "state_dict", "restart", "refresh"])
def test_calls_in_a_closure_are_refused(call):
    problem = problem_of(10)

    def closure():
        loss = problem.closure()
        getattr(problem.optimizer, call)()
        return loss

    with pytest.raises(RuntimeError, match=rf"{call}\(\) must be called between steps"):
        problem.optimizer.step(closure)


class Interrupt(DispatchMode):
    """Raises before the n-th kernel."""

    def __init__(self, at):
        super().__init__()
        self.at, self.count = at, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function.namespace == "aten"  # not the profiler's, after the step
        if self.count == self.at:
            raise KeyboardInterrupt
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("phase", [*PHASES, "last probe", "not finite"])
def test_an_interrupt_at_any_kernel_of_a_step_leaves_the_parameters_as_they_were(phase, packed, monkeypatch):
    if not packed:
        monkeypatch.setattr(buckets, "is_small", lambda parameters: False)
    calls = PHASES.get(phase, 40)
    if phase == "last probe":
        probing = problem_of()
        while probing.optimizer.iterations == 0:
            probing.turn()
        calls = probing.optimizer.evaluations - 1
    begun = problem_of(calls)
    if phase == "not finite":
        spoil(begun)
    begun.closure()
    if phase == "not finite":
        for parameter in begun.model.parameters():
            parameter.grad.fill_(math.nan)
    gradients = [parameter.grad.clone() for parameter in begun.model.parameters()]
    kernels = 0
    for at in range(1, 1000):
        problem = copy.deepcopy(begun)
        for parameter, gradient in zip(problem.model.parameters(), gradients, strict=True):
            parameter.grad = gradient.clone()
        before, origin = problem.parameters(), [held["origin"].clone() for held in problem.optimizer.state.values()]
        interrupt = Interrupt(at)
        try:
            with interrupt:
                problem.optimizer.step()
        except KeyboardInterrupt:
            kernels += 1
            now = problem.parameters()
            assert equal(before, now) or equal(origin, now), at
            assert problem.optimizer.evaluations == begun.optimizer.evaluations
            for _ in range(6):
                problem.turn()
            assert all(bool(p.isfinite().all()) for p in problem.parameters())
            problem.optimizer.state_dict()
        else:
            break
    assert kernels > 5


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("phase", PHASES)
def test_one_bad_batch_changes_nothing_but_one_evaluation(phase, value):
    problem = problem_of(PHASES[phase])
    before, iterations = values(problem), problem.optimizer.iterations
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        spoil(problem, value)
    assert len(told) == (phase == "START")
    if phase != "FIRST":  # there the search goes on with another probe
        assert equal(before, values(problem))
    assert problem.optimizer.iterations == iterations + (phase == "START")
    for _ in range(30):
        problem.turn()
    assert problem.optimizer.last.stop is Stop.ANGLE
    assert all(bool(value.isfinite().all()) for value in values(problem))


def test_two_bad_batches_halve_the_last_step():
    problem = problem_of(40)
    origin = [held["origin"].clone() for held in problem.optimizer.state.values()]
    before, step = problem.parameters(), problem.optimizer.last.step
    spoil(problem)
    spoil(problem)
    for start, far, now in zip(origin, before, problem.parameters(), strict=True):
        torch.testing.assert_close(now, (start + far) / 2)
    assert problem.optimizer.last.step == step / 2
    assert problem.optimizer.param_groups[0]["lr"] == step / 2


def test_the_step_after_ten_bad_batches_is_that_after_two():
    problem, twin = problem_of(40), problem_of(40)
    for bad, each in ((10, problem), (2, twin)):
        step = each.optimizer.last.step
        for _ in range(bad):
            spoil(each)
        assert each.optimizer.last.step == step / 2 ** (bad - 1)
        each.turn()
        assert step / 3 < each.optimizer.last.step < step / 1.5, "half of the step, and what one cosine changes"


@pytest.mark.parametrize("phase", ["START", "STEPS"])
def test_a_scaler_may_lower_its_scale_sixteen_times_before_an_overflow_counts(phase):
    problem = problem_of(PHASES[phase])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    before, step = values(problem), problem.optimizer.param_groups[0]["lr"]

    def overflow():
        problem.optimizer.zero_grad()
        scaler.scale(problem.loss(problem.draw())).backward()
        next(problem.model.parameters()).grad.view(-1)[0] = math.inf
        scaler.step(problem.optimizer)
        scaler.update()

    for _ in range(16):
        overflow()
        assert equal(before, values(problem))
    assert scaler.get_scale() == 2.0**24
    if phase == "START":
        with pytest.warns(RuntimeWarning, match="the observation at the start is not finite"):
            overflow()
    else:
        overflow()
        assert problem.optimizer.param_groups[0]["lr"] == step / 2.0
        assert not equal(before, values(problem))


def test_many_bad_batches_undo_the_step_and_say_so():
    problem = problem_of(40)
    origin = [held["origin"].clone() for held in problem.optimizer.state.values()]
    heard = []
    problem.optimizer.register_search_hook(heard.append)

    def spoil_until_heard():
        while not heard:
            spoil(problem)

    with pytest.warns(RuntimeWarning, match=r"not finite: nothing was changed \(1 probe\)$"):
        spoil_until_heard()
    assert equal(origin, problem.parameters())
    assert problem.optimizer.last.stop is Stop.NON_FINITE
    assert problem.optimizer.last.step == 0.0
    assert problem.optimizer.param_groups[0]["lr"] == 0.0
    for _ in range(40):
        problem.turn()
    assert problem.optimizer.last.stop is Stop.ANGLE
    assert problem.loss().item() < 1.0


def test_a_first_search_without_a_step_leaves_the_running_statistics_as_they_were():
    problem = problem_of(1)
    with problem.optimizer.eval():
        before = values(problem)

    def spoil_until_it_ends():
        while not problem.optimizer.iterations:
            spoil(problem)

    with pytest.warns(RuntimeWarning, match=r"not finite: nothing was changed \(9 probes\)$"):
        spoil_until_it_ends()
    assert equal(before, values(problem))


def test_parameters_that_became_infinite_come_back():
    """The displacement is then not finite either, and zero times infinity is not zero."""
    problem = problem_of(40)
    with torch.no_grad():
        for parameter in problem.model.parameters():
            parameter.fill_(math.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(60):
            problem.turn()
    assert all(bool(p.isfinite().all()) for p in problem.parameters())
    for _ in range(30):
        problem.turn()
    assert problem.optimizer.last.stop is Stop.ANGLE


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e-30, 1e-25, 1e25, 1e30])
def test_gradients_whose_squares_leave_the_range_of_the_numbers(size, dtype):
    """The loss of each point is finite, but squares of float32 are 0 or infinite."""
    parameter = nn.Parameter(torch.full((4,), 2.0, dtype=dtype))
    optimizer = gradline.Angle([parameter])
    for _ in range(60):
        parameter.grad = parameter.detach() * size
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            optimizer.step()
        assert bool(parameter.isfinite().all())
    for _ in range(60):
        parameter.grad = parameter.detach().clone()
        optimizer.step()
    assert bool(parameter.isfinite().all())


def test_zero_gradients_change_nothing_after_the_first_search():
    for calls in PHASES.values():
        problem = problem_of(calls)
        if problem.optimizer._phase is Phase.FIRST:
            continue
        before = problem.parameters()
        for parameter in problem.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        problem.optimizer.step()
        assert equal(before, problem.parameters())
        assert problem.optimizer.evaluations == calls + (calls > 0)  # the very first one may be a preparation


def test_statistics_measured_with_a_zero_gradient_are_kept():
    for calls in (0, 40):
        problem = problem_of(calls)
        problem.closure()
        for parameter in problem.model.parameters():
            parameter.grad.zero_()
        problem.optimizer.step()
        before = values(problem)

        def failing(problem=problem):
            problem.closure()
            raise OSError("disk")

        with pytest.raises(OSError, match="disk"):
            problem.optimizer.step(failing)
        assert equal(before, values(problem))


@pytest.mark.parametrize("edge", [0.05, 0.5, 20.0])
def test_a_plateau_ends_the_first_search(edge):
    """Gradients are exactly zero beyond the edge, as those of saturated outputs; the first search must leave it."""
    parameter = nn.Parameter(torch.zeros(3))
    optimizer = gradline.Angle([parameter])
    for _ in range(60):
        inside = parameter.detach().abs() < edge
        parameter.grad = torch.where(inside, parameter.detach() - edge / 10, torch.zeros(3))
        optimizer.step()
    with optimizer.eval():
        assert optimizer.iterations > 20
        assert bool((parameter.abs() < edge).all())


@pytest.mark.parametrize("scale", [1.0, -3.0])
def test_along_a_linear_loss_steps_stay_within_their_bounds(scale):
    parameter = nn.Parameter(torch.zeros(3))
    optimizer = gradline.Angle([parameter], step_max=10.0)
    for _ in range(200):
        parameter.grad = torch.full((3,), scale)
        optimizer.step()
        assert optimizer.last.step <= 10.0
    assert bool(parameter.isfinite().all())
    assert bool((parameter * scale < 0.0).all())


def test_a_linear_loss_without_bounds_says_how_the_first_search_ended():
    parameter, records = nn.Parameter(torch.zeros(3)), []
    optimizer = gradline.Angle([parameter])
    optimizer.register_search_hook(records.append)
    for _ in range(200):
        parameter.grad = torch.ones(3)
        optimizer.step()
    assert records[0].stop is Stop.STEP_MAX
    assert bool(parameter.isfinite().all())


@torch.no_grad()
def test_weight_decay_of_a_very_long_step_does_not_turn_the_signs_of_weights():
    group = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.5, "lr_scale": 1.0}
    points = []
    for start in (1.0, 100.0):
        parameter = nn.Parameter(torch.full((3,), start))
        state = {parameter: {}}
        buckets.add_state(parameter, state[parameter], group)
        (bucket,) = buckets.buckets_of([group | {"params": [parameter]}], {id(parameter)}, state)
        parameter.grad = torch.ones(3)
        assert bucket.collect()
        bucket.move(1e3, 1)
        bucket.release()
        points.append(parameter.detach())
    torch.testing.assert_close(points[0], torch.full((3,), -1e3))
    torch.testing.assert_close(points[1], points[0])


def test_a_loss_unbounded_below_stays_finite():
    parameter = nn.Parameter(torch.ones(3))
    optimizer = gradline.Angle([parameter])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(300):
            optimizer.zero_grad()
            (-(parameter**4).sum()).backward()
            optimizer.step()
    with optimizer.eval():
        assert bool(parameter.isfinite().all())


def test_a_start_that_is_not_finite_is_told_of_each_time():
    problem = problem_of()
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="gradline: .*not finite"):
            spoil(problem)
    assert problem.optimizer.last.stop is Stop.NON_FINITE_ORIGIN
    assert problem.optimizer.iterations == 2


def interrupted(call, at, where="line"):
    """Whether a call was interrupted before its n-th line in gradline, or at the start of the n-th function."""
    events = itertools.count(1)

    def interrupt(frame, event, argument):
        code = frame.f_code
        if "gradline" not in code.co_filename or code.co_flags & inspect.CO_GENERATOR:  # closing one would swallow it
            return None
        if event == where and next(events) == at:
            raise KeyboardInterrupt
        return interrupt

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("phase", ["FIRST", "STEPS"])
def test_training_goes_on_after_an_interrupt_at_any_line_of_a_restart(phase):
    for count in itertools.count(1):
        problem = problem_of(PHASES[phase])
        if not interrupted(problem.optimizer.restart, count):
            break
        for _ in range(15):
            problem.turn()
        assert all(map(torch.isfinite, map(torch.sum, problem.parameters())))
    assert count > 10


def test_training_goes_on_after_an_interrupt_in_any_function_of_the_first_step():
    """In this step the layers with running statistics are found."""
    for at in itertools.count(1):
        problem = problem_of()
        if not interrupted(lambda problem=problem: problem.optimizer.step(problem.closure), at, "call"):
            break
        for _ in range(2):
            problem.optimizer.step(problem.closure)
        assert all(map(torch.isfinite, map(torch.sum, problem.parameters())))
    assert at > 100


@pytest.mark.parametrize("options", [{}, {"average": False}, {"betas": (0.3, 0.99)}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("phase", PHASES)
def test_after_an_interrupt_at_any_line_eval_and_train_set_the_parameters(phase, dtype, options):
    problem = Problem(dtype=dtype)
    problem.optimizer = gradline.Angle(problem.model.parameters(), **options)
    for _ in range(PHASES[phase]):
        problem.turn()
    optimizer, training = problem.optimizer, problem.parameters()
    with optimizer.eval():
        evaluated = problem.parameters()
    calls = {optimizer.eval: evaluated, optimizer.train: training}
    for first, then in itertools.product(calls, calls):
        for at in itertools.count(1):
            (optimizer.train if first == optimizer.eval else optimizer.eval)()
            if not interrupted(first, at):
                break
            then()
            assert equal(problem.parameters(), calls[then])
        assert at > 5
    optimizer.train()
    twin = Problem(dtype=dtype)
    twin.optimizer = gradline.Angle(twin.model.parameters(), **options)
    for _ in range(PHASES[phase]):
        twin.turn()
    for _ in range(20):
        problem.turn()
        twin.turn()
    assert equal(problem.parameters(), twin.parameters())
