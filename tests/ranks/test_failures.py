"""What fails on one rank fails on all: nobody waits, nothing is lost, and training can go on."""

import pytest
import torch
from ranks.processes import Failure
from ranks.work import Trained, net, train
from torch import nn


class Broken(Exception):  # noqa: N818
    """What a rank's own code raises."""


class Fragile(nn.Module):
    """A net that breaks in its forward pass when it is told to."""

    def __init__(self, inputs):
        super().__init__()
        self.net = net(inputs)
        self.norm = nn.BatchNorm1d(inputs, affine=False)  # buffers, which the ranks keep alike
        self.broken = False

    def forward(self, inputs):
        hidden = self.norm(inputs)
        if self.broken:
            raise Broken("in forward")
        return self.net(hidden)


def fail(rank, size, failing, place, at, search="GolsI"):
    """Train; in the evaluation number `at` one rank fails; try again and go on."""
    problem = Trained(rank, size, kind="ddp", search=search, model=Fragile, given=at == 1 and place == "before")
    calls = []

    def closure():
        calls.append(None)
        broken = rank == failing and len(calls) == at
        problem.optimizer.zero_grad()
        if broken and place == "before":
            raise Broken("before forward")
        fragile = problem.model.module
        fragile.broken = broken and place == "forward"
        try:
            loss = problem.loss(problem.draw())
        finally:
            fragile.broken = False
        if broken and place == "loss":
            raise Broken("in the loss")
        loss.backward()
        if broken and place == "after":
            raise Broken("after backward")
        return loss

    errors = []
    for _ in range(6):
        before = problem.parameters()
        try:
            problem.optimizer.step(closure)
        except (Broken, RuntimeError) as error:
            errors.append(f"{type(error).__name__}: {error}")
            assert all(map(torch.equal, before, problem.parameters()))
    return errors, problem.optimizer.iterations, problem.whole()


@pytest.mark.parametrize(("failing", "at"), [(0, 2), (1, 1), (1, 5)])
@pytest.mark.parametrize("place", ["before", "forward", "loss", "after"])
def test_a_closure_that_fails_on_one_rank_raises_on_all(two, failing, place, at):
    answers = two(fail, failing, place, at)
    for rank, (errors, iterations, parameters) in enumerate(answers):
        (error,) = errors
        if rank == failing:
            assert error.startswith("Broken: ")
        else:
            assert "the step was not taken, because it failed elsewhere" in error
            assert f"rank {failing}: Broken: " in error
        assert iterations == 5
        assert all(map(torch.equal, parameters, answers[0][2]))


def fail_sharded(rank, size, place):
    """Train; the third evaluation of rank 1 fails; go on."""
    problem = Trained(rank, size, kind="fsdp", model=net)
    calls, errors = [], []

    def closure():
        calls.append(None)
        problem.optimizer.zero_grad()
        loss = problem.loss(problem.draw())
        if place == "after":
            loss.backward()
        if rank == 1 and len(calls) == 3:
            raise Broken(place)
        if place == "loss":
            loss.backward()
        return loss

    for _ in range(6):
        try:
            problem.optimizer.step(closure)
        except (Broken, RuntimeError) as error:
            errors.append(str(error))
    return errors, problem.optimizer.iterations, problem.whole()


@pytest.mark.parametrize("place", ["loss", "after"])
def test_a_search_over_sharded_parameters_fails_together_too(two, place):
    (first, mine, parameters), (second, its, its_parameters) = two(fail_sharded, place)
    assert first == [f"gradline: the step was not taken, because it failed elsewhere: rank 1: Broken: {place}"]
    assert second == [place]
    assert mine == its == 5
    assert all(map(torch.equal, parameters, its_parameters))


def test_three_ranks_of_which_one_fails(three):
    for rank, (errors, iterations, _) in enumerate(three(fail, 2, "before", 3, "Armijo")):
        assert len(errors) == 1
        assert ("Broken" in errors[0].split(":")[0]) == (rank == 2)
        assert iterations == 5


def all_fail(rank, size):
    problem = Trained(rank, size, kind="ddp", model=net)
    problem.optimizer.step(problem.closure)

    def closure():
        raise Broken(f"of rank {rank}")

    try:
        problem.optimizer.step(closure)
    except Broken as error:
        said = str(error)
    problem.optimizer.step(problem.closure)
    return said, problem.optimizer.iterations


def test_each_rank_raises_its_own_failure(two):
    assert two(all_fail) == [("of rank 0", 2), ("of rank 1", 2)]


def not_finite(rank, size, way):
    """One rank's loss is NaN for a while."""
    problem = Trained(rank, size, kind=way, search="GolsI as published", model=net)
    calls = []

    def closure():
        calls.append(None)
        problem.optimizer.zero_grad()
        loss = problem.loss(problem.draw())
        if rank == 1 and len(calls) in (4, 5):
            loss = loss * float("nan")
        loss.backward()
        return loss

    stops = []
    for _ in range(6):
        problem.optimizer.step(closure)
        stops.append(problem.optimizer.last.stop.name)
    return stops, len(calls), problem.whole()


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_a_loss_that_is_not_finite_on_one_rank_is_so_for_all(two, way):
    answers = two(not_finite, way)
    assert any("FINITE" in stop for stop in answers[0][0])
    assert answers[0][:2] == answers[1][:2]
    for mine, others in zip(answers[0][2], answers[1][2], strict=True):
        assert torch.equal(mine, others)
        assert mine.isfinite().all()


def one_without_gradient(rank, size):
    problem = Trained(rank, size, kind="ddp", model=net)

    def closure():
        loss = problem.closure()
        if rank == 1:
            problem.optimizer.zero_grad()
        return loss

    problem.optimizer.step(closure)


def test_a_rank_without_gradients_says_so_to_all(two):
    first, second = two.run(one_without_gradient)
    assert isinstance(first, Failure)
    assert "rank 1: RuntimeError: no parameter has a gradient" in first
    assert "no parameter has a gradient" in second


def sharded_prls(rank, size, kind, **options):
    return train(rank, size, kind, "Prls", None, True, 1, **options)


def diagonal_prls(rank, size):
    return train(rank, size, "ddp", "Prls", None, True, 1, diagonal=True)


def test_what_variances_cannot_be_found_from_is_refused(two):
    for answer in two.run(sharded_prls, "fsdp"):
        assert "params must be whole in each process for a search that observes variances" in answer
    for answer in two.run(diagonal_prls):
        assert "diagonal must be False in several processes" in answer
        assert "got True and 2 processes" in answer
