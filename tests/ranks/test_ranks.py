"""Several processes take the steps that one takes on the joined batch, and all take the same."""

import copy

import pytest
import torch
import torch.distributed as dist
from ranks.work import Trained, net, train

WAYS = [
    ("GolsI", None, False),
    ("GolsI", "Adam", True),
    ("GolsMax", "SGD", False),
    ("Armijo", None, True),
    ("Angle", "Adam", False),
    ("Angle", None, True),
]
OF_THREE = [("GolsI", "AdamW", False), ("GolsMax", None, True), ("Angle", "Adam", True)]


def check_against_one_process(world, kind, search, direction, closure):
    steps, evaluations, parameters = train(0, 1, None, search, direction, closure)
    answers = world(train, kind, search, direction, closure)
    first = answers[0]
    for rank_steps, rank_evaluations, rank_parameters in answers:
        assert rank_steps == first[0]  # not approximately
        assert rank_evaluations == evaluations
        for mine, others, alone in zip(rank_parameters, first[2], parameters, strict=True):
            assert torch.equal(mine, others)
            torch.testing.assert_close(mine, alone, rtol=1e-7, atol=1e-9)
    assert first[0] == pytest.approx(steps, rel=1e-7)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
@pytest.mark.parametrize(("search", "direction", "closure"), WAYS)
def test_two_ranks_take_the_steps_of_one_process_on_the_joined_batch(two, kind, search, direction, closure):
    check_against_one_process(two, kind, search, direction, closure)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
@pytest.mark.parametrize(("search", "direction", "closure"), OF_THREE)
def test_three_ranks_do_too(three, kind, search, direction, closure):
    check_against_one_process(three, kind, search, direction, closure)


@pytest.mark.parametrize(("world", "direction"), [("two", None), ("three", "Adam")])
def test_prls_pools_the_variances_of_all_ranks(request, world, direction):
    world = request.getfixturevalue(world)
    steps, evaluations, parameters = train(0, 1, None, "Prls", direction, True)
    answers = world(train, "ddp", "Prls", direction, True)
    for rank_steps, rank_evaluations, rank_parameters in answers:
        assert rank_steps == answers[0][0]
        assert rank_steps == pytest.approx(steps, rel=1e-6)
        assert rank_evaluations == evaluations
        for mine, alone in zip(rank_parameters, parameters, strict=True):
            torch.testing.assert_close(mine, alone, rtol=1e-6, atol=1e-8)


def averaged_by_hand(rank, size, told):
    """Gradients averaged by the user's own code, as other frameworks do."""
    group = dist.group.WORLD if told else None
    problem = Trained(rank, size, search="Armijo", model=net, process_group=group)

    def closure():
        loss = problem.closure()
        for parameter in problem.model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        return loss

    try:
        problem.optimizer.step(closure)
        problem.optimizer.step(closure)
    except RuntimeError as error:
        return str(error)
    return problem.optimizer.last.step, problem.optimizer.evaluations, problem.whole()


def test_ranks_that_average_by_themselves_name_their_group(two):
    steps, evaluations, parameters = train(0, 1, None, "Armijo", None, True, 2)
    for step, count, mine in two(averaged_by_hand, True):
        assert step == pytest.approx(steps[-1], rel=1e-9)
        assert count == evaluations
        for one, alone in zip(mine, parameters, strict=True):
            torch.testing.assert_close(one, alone, rtol=1e-9, atol=1e-12)


def each_for_itself(rank, size):
    """Processes in one group that train models of their own."""
    problem = Trained(model=net)
    for _ in range(3 + 2 * rank):
        problem.optimizer.step(problem.closure)
    return problem.optimizer.iterations


def test_a_process_group_alone_does_not_tie_models_together(two):
    assert two(each_for_itself) == [3, 5]


def copied(rank, size):
    """A copy of an optimizer that was told its group."""
    twin = copy.deepcopy(Trained(rank, size, search="Armijo", model=net, process_group=dist.group.WORLD))

    def closure():
        loss = twin.closure()
        for parameter in twin.model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        return loss

    twin.optimizer.step(closure)
    return twin.optimizer.last.step, twin.optimizer.last.origin.at_zero.value


def test_a_copy_trains_with_the_same_processes(two):
    first, second = two(copied)
    assert first == second
