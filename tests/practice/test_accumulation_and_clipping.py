"""Gradients gathered over several micro-batches, and clipped: what the search sees is what is in `.grad`."""

import pytest
import torch
from helpers import Problem, equal, problem_with
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import gradline
from gradline.searches import GolsI

DIRECTIONS = [None, torch.optim.Adam]
PARTS = 4


def parted(problem):
    """The closure of a whole batch, in micro-batches."""

    def closure():
        problem.optimizer.zero_grad()
        total = 0.0
        for chosen in problem.draw().chunk(PARTS):
            loss = problem.loss(chosen) / PARTS
            loss.backward()
            total += loss.detach()
        return total

    return closure


def same(left, right, rel=1e-9):
    """The same search: the same steps for the same reasons, up to rounding."""
    assert left.stop is right.stop
    assert [step for step, _ in left.transcript] == pytest.approx([step for step, _ in right.transcript], rel=rel)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_closure_over_micro_batches_is_the_closure_of_the_whole_batch(direction):
    whole, parts = problem_with(GolsI(), direction=direction), problem_with(GolsI(), direction=direction)
    closure = parted(parts)
    for _ in range(15):
        loss = whole.optimizer.step(whole.closure)
        assert parts.optimizer.step(closure).item() == pytest.approx(loss.item(), rel=1e-9)
        same(parts.optimizer.last, whole.optimizer.last)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_without_a_closure_one_step_after_several_backward_passes(direction):
    whole, parts = problem_with(GolsI(), direction=direction), problem_with(GolsI(), direction=direction)
    closure = parted(parts)
    for _ in range(60):
        whole.turn()
        parts.turn(closure)
    assert parts.optimizer.iterations == whole.optimizer.iterations > 5
    same(parts.optimizer.last, whole.optimizer.last)


def test_gradients_that_are_zeroed_in_place_may_gather_too():
    """`set_to_none=False` adds to the tensor that an accepted probe left behind."""
    plain, kept = problem_with(GolsI()), problem_with(GolsI())
    for _ in range(40):
        plain.turn()
        kept.optimizer.zero_grad(set_to_none=False)
        kept.loss(kept.draw()).backward()
        kept.optimizer.step()
        assert equal(plain.parameters(), kept.parameters())


def clipped(problem, clip):
    def closure():
        loss = problem.closure()
        clip(problem.model.parameters())
        return loss

    return closure


@pytest.mark.parametrize("clip", [lambda p: clip_grad_norm_(p, 0.05), lambda p: clip_grad_value_(p, 0.01)])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_clipping_in_the_closure_is_clipping_before_the_step(clip, direction):
    held, turned = problem_with(GolsI(), direction=direction), problem_with(GolsI(), direction=direction)
    closure, evaluate = clipped(held, clip), clipped(turned, clip)
    for _ in range(8):
        held.optimizer.step(closure)
    while turned.optimizer.evaluations < held.optimizer.evaluations:
        turned.turn(evaluate)
    with turned.optimizer.eval():
        assert equal(held.parameters(), turned.parameters())
    assert held.optimizer.last == turned.optimizer.last


def probe(gradients, clip):
    """What a search saw of some gradients, the first of them at its start."""
    x = torch.nn.Parameter(torch.zeros(2))
    optimizer = gradline.GOLSI([x])
    for gradient in gradients:
        x.grad = torch.tensor(gradient)
        clip(x)
        optimizer.step()
    pending = optimizer._session.driver.pending
    told = pending.transcript or optimizer.last.transcript
    origin = pending.origin if pending.transcript else optimizer.last.origin
    return origin, told[0][1].slope


def test_clipping_by_norm_shortens_the_direction_and_keeps_the_sign_of_the_slope():
    (origin, slope), (plain, before) = (
        probe([[3.0, 4.0], [6.0, -1.0]], clip) for clip in (lambda x: clip_grad_norm_(x, 1.0), lambda x: None)
    )
    assert plain.norm == pytest.approx(5.0)
    assert origin.norm == pytest.approx(1.0)
    assert origin.at_zero.slope == pytest.approx(-1.0)
    assert before < 0.0
    assert slope == pytest.approx(before / 5.0 / 37.0**0.5)  # both factors of the product were scaled


def test_clipping_by_value_may_change_the_sign_of_the_slope():
    gradients = [[1.0, 2.0], [9.0, -4.0]]
    assert probe(gradients, lambda x: None)[1] == pytest.approx(-1.0)
    assert probe(gradients, lambda x: clip_grad_value_(x, 1.5))[1] == pytest.approx(1.5**2 - 1.5)


def test_a_clip_that_never_binds_changes_nothing():
    plain, clipping = problem_with(GolsI()), problem_with(GolsI())
    closure = clipped(clipping, lambda p: clip_grad_norm_(p, 1e9))
    for _ in range(10):
        plain.optimizer.step(plain.closure)
        clipping.optimizer.step(closure)
    assert equal(plain.parameters(), clipping.parameters())


def test_a_tight_clip_still_trains():
    problem = Problem()
    problem.optimizer = gradline.GOLSI(problem.model.parameters())
    before = problem.loss().item()
    closure = clipped(problem, lambda p: clip_grad_norm_(p, 1e-3))
    for _ in range(40):
        problem.optimizer.step(closure)
    assert problem.loss().item() < 0.9 * before
