"""Ranks that do not do the same say so, on all ranks, instead of training different models."""

from unittest import mock

import pytest
import torch
import torch.distributed as dist
from ranks.work import Trained, net

import gradline
from gradline.searches import Angle, GolsI
from gradline.torch.distributed.reduce import _for_the_host

KEPT = ("iterations", "last", "probing")


def state(problem):
    return [getattr(problem.optimizer, name) for name in KEPT], problem.parameters()


def refused(problem, step):
    """What a step says that all ranks refuse, and whether everything is then as it was before."""
    before = state(problem)
    try:
        step()
    except RuntimeError as error:
        after = state(problem)
        return str(error), after[0] == before[0] and all(map(torch.equal, after[1], before[1]))
    return None, False


def refresh_on_one(rank, size, kind, closure, direction):
    problem = Trained(rank, size, kind=kind, model=net, direction=direction)
    step = problem.turn if not closure else lambda: problem.optimizer.step(problem.closure)
    for _ in range(7):
        step()
    if rank == 1:
        problem.optimizer.refresh()
    answer = refused(problem, step)
    if rank == 0:
        problem.optimizer.refresh()
    for _ in range(5):
        step()
    return *answer, problem.optimizer.iterations, problem.whole()


@pytest.mark.parametrize(
    ("kind", "closure", "direction"),
    [("ddp", False, None), ("ddp", True, None), ("ddp", False, "Adam"), ("fsdp", False, None), ("fsdp", True, "Adam")],
)
def test_refresh_on_one_rank_raises_on_all(two, kind, closure, direction):
    answers = two(refresh_on_one, kind, closure, direction)
    for message, unchanged, iterations, parameters in answers:
        assert "all ranks must evaluate the same point, but rank 0 evaluates probe " in message
        assert ", rank 1 the origin of search " in message
        assert unchanged
        assert iterations == answers[0][2] > 1
        assert all(map(torch.equal, parameters, answers[0][3]))


def loaded_on_one(rank, size):
    """A checkpoint read by one rank only."""
    problem = Trained(rank, size, kind="ddp", model=net)
    start = problem.optimizer.state_dict()
    for _ in range(9):
        problem.turn()
    if rank == 1:
        problem.optimizer.load_state_dict(start)
    return refused(problem, problem.turn)


def test_a_checkpoint_that_one_rank_loads_raises_on_all(two):
    (first, *_), (second, *_) = two(loaded_on_one)
    assert first == second
    assert "rank 1 the origin of search 1: " in first


def another_memory(rank, size):
    """The same probe of the same search, at another step."""
    problem = Trained(rank, size, kind="ddp", model=net)
    problem.optimizer.step(problem.closure)
    if rank == 1:
        driver = problem.optimizer._session.driver
        driver.state = driver.state._replace(memory=1.5 * driver.memory)
        problem.optimizer.refresh()
    else:
        problem.optimizer.refresh()
    return refused(problem, lambda: problem.optimizer.step(problem.closure))


def test_another_step_on_one_rank_raises_on_all(two):
    answers = two(another_memory)
    for message, unchanged in answers:
        assert message == answers[0][0]
        assert "rank 0 evaluates probe 1 of search 2 at step " in message
        assert ", rank 1 probe 1 of search 2 at step " in message
        assert unchanged


OTHERS = {
    "growth": ({"growth": 2.0}, {"growth": 3.0}, {}, "growth=3.0 instead of 2.0"),
    "reuse_gradient": ({}, {}, {"reuse_gradient": False}, "reuse_gradient=False instead of True"),
    "spread": ({}, {}, {"spread": True}, "spread=True instead of False"),
    "direction": ({}, {}, {"direction": torch.optim.Adam}, "direction=Adam instead of None"),
    "search": ({}, None, {}, "search=Angle instead of GolsI"),
}


def other_settings(rank, size, kind):
    mine, theirs, options, _ = OTHERS[kind]
    problem = Trained(rank, size, kind="ddp", model=net)
    chosen = theirs if rank == 1 else mine
    search = Angle() if chosen is None else GolsI(**chosen)
    problem.optimizer = gradline.LineSearchOptimizer(
        problem.model.parameters(), search, **(options if rank == 1 else {})
    )
    return refused(problem, lambda: problem.optimizer.step(problem.closure))


@pytest.mark.parametrize("kind", OTHERS)
def test_other_settings_on_one_rank_raise_on_all(two, kind):
    for message, unchanged in two(other_settings, kind):
        assert "all ranks must have the same settings" in message
        assert message.endswith(f"those of rank 1 are others than those of rank 0: {OTHERS[kind][3]}")
        assert unchanged


def other_decay(rank, size):
    """An option of one group, changed on the way; options of the implementation may differ."""
    problem = Trained(rank, size, kind="ddp", model=net)
    first, *others = problem.model.parameters()
    problem.optimizer = gradline.GOLSI(
        [{"params": [first], "foreach": rank == 1}, {"params": others}], direction=torch.optim.AdamW
    )
    for _ in range(3):
        problem.turn()
    if rank == 2:
        problem.optimizer.param_groups[1]["weight_decay"] = 0.5
    return refused(problem, problem.turn)


def test_an_option_of_one_group_on_one_of_three_ranks(three):
    for message, unchanged in three(other_decay):
        expected = "rank 2 are others than those of rank 0: weight_decay of group 1=0.5 instead of 0.01"
        assert message.endswith(expected)
        assert unchanged


def uneven(rank, size, closure, throw):
    """One rank has a batch less."""
    problem = Trained(rank, size, kind="ddp", model=net)
    step = problem.turn if not closure else lambda: problem.optimizer.step(problem.closure)
    taken = 0
    try:
        with problem.model.join(throw_on_early_termination=throw):
            for _ in range(6 - rank):
                step()
                taken += 1
    except RuntimeError as error:
        return taken, str(error)
    return taken, None


@pytest.mark.parametrize("closure", [False, True])
def test_uneven_inputs_are_refused_on_all_ranks(two, closure):
    for taken, message in two(uneven, closure, False):
        assert taken == 0
        assert "step() must not be called in `with model.join():`" in message


@pytest.mark.parametrize("closure", [False, True])
def test_uneven_inputs_may_end_training_where_the_first_rank_has_no_more(two, closure):
    (first, active), (second, exhausted) = two(uneven, closure, True)
    assert first == second == 5
    assert "exhausted inputs" in active
    assert exhausted == "Rank 1 exhausted all inputs."


def groups_of_the_host(rank, size):
    """As for parameters on accelerators, whose group carries no numbers of the host; rank 1 looks once more."""
    with mock.patch("torch.distributed.get_backend_config", return_value="cuda:nccl"):
        found = [_for_the_host(dist.group.WORLD) for _ in range(1 + rank)]
    total = torch.tensor(1)
    dist.all_reduce(total, group=found[-1])
    return len(set(found)), int(total)


def test_a_rank_that_looks_around_again_finds_the_group_it_made(two):
    assert two(groups_of_the_host) == [(1, 2), (1, 2)]
