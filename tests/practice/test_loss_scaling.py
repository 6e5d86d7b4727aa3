"""float16 with `torch.amp.GradScaler`: the search sees the gradients as they are without it."""

import pytest
import torch
from helpers import Problem, equal
from torch import nn
from torch.amp import GradScaler
from torch.nn.utils import clip_grad_norm_

import gradline


def training(**options):
    problem = Problem(dtype=torch.float32, batch_size=200)
    problem.optimizer = gradline.GOLSI(problem.model.parameters(), **options)
    return problem


def scaled_turn(problem, scaler, *, unscale=False, clip=None):
    """One call without a closure, as torch's documentation has it."""
    problem.optimizer.zero_grad()
    scaler.scale(problem.loss(problem.draw())).backward()
    if unscale or clip:
        scaler.unscale_(problem.optimizer)
    if clip:
        clip_grad_norm_(problem.model.parameters(), clip)
    scaler.step(problem.optimizer)
    scaler.update()


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
@pytest.mark.parametrize("unscale", [False, True])
def test_a_scaled_loss_takes_the_same_steps_bit_for_bit(direction, unscale):
    """A power of two changes no digit, and the scale grows every seventh step."""
    plain, scaled = training(direction=direction), training(direction=direction)
    scaler = GradScaler("cpu", init_scale=2.0**10, growth_interval=7)
    for _ in range(50):
        plain.turn()
        scaled_turn(scaled, scaler, unscale=unscale)
        assert equal(plain.parameters(), scaled.parameters())
    assert scaler.get_scale() > 2.0**15
    assert plain.optimizer.last == scaled.optimizer.last


def test_clipping_after_unscaling_is_clipping_without_a_scaler():
    plain, scaled = training(), training()
    scaler = GradScaler("cpu", init_scale=2.0**10)
    for _ in range(50):
        plain.closure()
        clip_grad_norm_(plain.model.parameters(), 0.05)
        plain.optimizer.step()
        scaled_turn(scaled, scaler, clip=0.05)
    assert plain.optimizer.iterations > 5
    assert equal(plain.parameters(), scaled.parameters())


def test_model_optimizer_and_scaler_are_saved_and_resumed_together(tmp_path):
    first, second = training(direction=torch.optim.Adam), training(direction=torch.optim.Adam)
    scaler, again = (GradScaler("cpu", init_scale=2.0**10, growth_interval=5) for _ in range(2))
    for _ in range(33):
        scaled_turn(first, scaler)
    parts = [first.model.state_dict(), first.optimizer.state_dict(), scaler.state_dict()]
    torch.save(parts, tmp_path / "saved.pt")
    saved = torch.load(tmp_path / "saved.pt", weights_only=True)
    for part, state in zip((second.model, second.optimizer, again), saved, strict=True):
        part.load_state_dict(state)
    second.draws.set_state(first.draws.get_state())
    for _ in range(20):
        scaled_turn(first, scaler)
        scaled_turn(second, again)
        assert equal(first.parameters(), second.parameters())
        assert scaler.get_scale() == again.get_scale()


def test_after_a_refused_step_the_gradients_are_not_divided_twice():
    """GradScaler multiplies its scale with what it finds on the optimizer, and a failed step left it there."""
    plain, problem, scaler = training(), training(), GradScaler("cpu", init_scale=2.0**10)
    for turn in range(60):
        plain.turn()
        scaled_turn(problem, scaler)
        assert equal(plain.parameters(), problem.parameters())
        if turn % 5 == 0:
            plain.draw()
            with problem.optimizer.eval(), pytest.raises(RuntimeError, match=r"call optimizer\.train"):
                scaled_turn(problem, scaler)
            scaler.update()
    assert problem.optimizer.iterations > 3


def test_a_closure_is_refused():
    problem, scaler = training(), GradScaler("cpu", init_scale=4.0)
    scaled_turn(problem, scaler)
    before = problem.parameters()
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(problem.optimizer, closure=problem.closure)
    with pytest.raises(RuntimeError, match="must be called without a closure"):
        scaler.step(problem.optimizer, problem.closure)
    assert equal(before, problem.parameters())
    assert not hasattr(problem.optimizer, "grad_scale")


@pytest.mark.parametrize("spread", [False, True])
def test_a_closure_may_unscale_by_itself(spread):
    plain, scaled = training(spread=spread), training(spread=spread)
    scaler = GradScaler("cpu", init_scale=2.0**10, growth_interval=7)

    def closure():
        scaled.optimizer.zero_grad()
        loss = scaled.loss(scaled.draw())
        scaler.scale(loss).backward()
        scaler.unscale_(scaled.optimizer)
        scaler.update()
        return loss

    for _ in range(10):
        assert plain.optimizer.step(plain.closure) == scaled.optimizer.step(closure)
        assert equal(plain.parameters(), scaled.parameters())
    assert scaler.get_scale() > 2.0**10


def test_a_scaler_that_is_turned_off_leaves_closures_alone():
    plain, scaled = training(), training()
    scaler = GradScaler("cpu", enabled=False)
    for _ in range(5):
        assert plain.optimizer.step(plain.closure) == scaler.step(scaled.optimizer, scaled.closure)
        scaler.update()
    assert equal(plain.parameters(), scaled.parameters())


def overflowing(problem, scaler, times):
    """An evaluation whose scaled gradients do not fit, whatever it is that overflows; `times` in a row."""
    for _ in range(times):
        problem.optimizer.zero_grad()
        (scaler.scale(problem.loss()) * float("inf")).backward()
        scaler.step(problem.optimizer)
        scaler.update()


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
def test_an_overflow_costs_one_evaluation_and_changes_nothing_else(direction):
    """The scale is halved, and the same point is looked at again: at the start and at any probe."""
    plain, scaled = training(direction=direction), training(direction=direction)
    scaler = GradScaler("cpu", init_scale=2.0**20)
    for turn in range(60):
        if turn % 3 == 0:
            before = scaled.parameters()
            overflowing(scaled, scaler, 1)
            assert equal(before, scaled.parameters())
        plain.turn()
        scaled_turn(scaled, scaler)
        assert equal(plain.parameters(), scaled.parameters())
    assert scaler.get_scale() == 1.0
    assert scaled.optimizer.evaluations == plain.optimizer.evaluations + 20
    assert scaled.optimizer.last == plain.optimizer.last


def test_the_scale_finds_its_size_without_a_word():
    plain, scaled = training(), training()
    scaler = GradScaler("cpu")
    overflowing(scaled, scaler, 16)
    for _ in range(40):
        plain.turn()
        scaled_turn(scaled, scaler)
    assert equal(plain.parameters(), scaled.parameters())
    assert scaled.optimizer.iterations == plain.optimizer.iterations


def test_a_start_that_is_never_finite_is_told():
    scaled, scaler = training(), GradScaler("cpu")
    with pytest.warns(RuntimeWarning, match="the observation at the start is not finite"):
        overflowing(scaled, scaler, 17)


def test_a_probe_that_is_not_finite_twice_is_too_far():
    scaled, scaler = training(), GradScaler("cpu", init_scale=2.0**10)
    for _ in range(30):
        scaled_turn(scaled, scaler)
    steps = scaled.optimizer._session.driver.pending.step
    overflowing(scaled, scaler, 2)
    assert scaled.optimizer._session.driver.pending.step == steps / 2


def test_an_overflow_does_not_count_in_running_statistics():
    problem, scaler = Problem(dtype=torch.float32, model=normalised), GradScaler("cpu", init_scale=2.0**10)
    problem.optimizer = gradline.GOLSI(problem.model.parameters())
    scaled_turn(problem, scaler)  # with its first step the optimizer finds the layers that have them
    for turn in range(10):
        before = [buffer.clone() for buffer in problem.model.buffers()]
        overflowing(problem, scaler, 1)
        assert equal(before, list(problem.model.buffers())), turn
        scaled_turn(problem, scaler)


def normalised(inputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
