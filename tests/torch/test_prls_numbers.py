"""`gradline.PrLS` against a plain loop over samples: steps, variances, and probes that are accepted later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from helpers import Problem, equal, linear, mlp
from prls_problems import STEPS, Hindsight, Mixing, Tied, convolution, flat, prls, trained

import gradline
from gradline.protocol import Moments, Origin, Outcome, Pending, Stop, Value
from gradline.searches import Prls

# ---- a second implementation: one backward pass for each sample, everything kept


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
        line = problem.optimizer._session.line
        along = flat(line.directions)
        if diagonal:
            expected = (along.square() * rows.var(dim=0)).sum() / len(losses)
        else:
            expected = (rows @ along).var() / len(losses)
        seen = problem.optimizer._session.driver.pending.origin.at_zero
        assert seen.slope_var == pytest.approx(float(expected), rel=1e-7)
        assert seen.slope == pytest.approx(float(rows.mean(dim=0) @ along), rel=1e-9)
        assert seen.value == pytest.approx(float(losses.detach().mean()), rel=1e-12)
        torch.testing.assert_close(flat([p.grad for p in parameters]), rows.mean(dim=0), rtol=1e-9, atol=1e-15)


# ---- accepting an earlier probe


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
        mine, theirs = (one.optimizer._session.driver.pending.origin for one in (problem, twin))
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
