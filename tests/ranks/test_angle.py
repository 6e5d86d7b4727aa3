"""`gradline.Angle` in several processes: equal steps, failures of one rank, evaluation and checkpoints."""

import contextlib
import copy

import pytest
import torch
from ranks.test_checkpoints import _load, _save
from ranks.test_failures import Broken, Fragile
from ranks.work import Trained, net
from torch import nn

TURNS = 26
LATER = 20  # more evaluations than the first search needs
AFTER = 16  # turns after a checkpoint
KINDS = ["ddp", "fsdp"]


def normed(inputs):
    """A net with running statistics, of layers that can be sharded one by one."""
    return nn.Sequential(nn.BatchNorm1d(inputs, affine=False), *net(inputs))


def trained(rank, size, kind, *, turns=TURNS, **options):
    problem = Trained(rank, size, kind=kind, search=None, **{"model": net, **options})
    for _ in range(turns):
        problem.turn()
    return problem


def numbers(problem):
    """All that must be equal on all ranks."""
    optimizer = problem.optimizer
    return (
        optimizer.last.step,
        optimizer.last.cosine,
        optimizer.evaluations,
        optimizer.iterations,
        optimizer._phase.name,
    )


def joined(problem):
    """All parameters where training continues, joined."""
    return [getattr(p, "full_tensor", lambda p=p: p)().detach().clone() for p in problem.model.parameters()]


def of_training(rank, size, kind, options):
    problem = trained(rank, size, kind, **options)
    return numbers(problem), joined(problem), problem.whole(), joined(problem)


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1, "average": False}], ids=["average", "last point"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", ["two", "three"])
def test_ranks_take_the_steps_of_one_process_on_the_joined_batch(request, world, kind, options):
    (step, cosine, *counts), points, averages, _ = of_training(0, 1, None, options)
    answers = request.getfixturevalue(world)(of_training, kind, options)
    assert counts[-1] == "STEPS"
    for mine, rank_points, rank_averages, after in answers:
        assert mine == answers[0][0]  # bit for bit
        assert mine[2:] == tuple(counts)
        assert mine[0] == pytest.approx(step, rel=1e-7)
        assert mine[1] == pytest.approx(cosine, rel=1e-6, abs=1e-9)
        assert all(map(torch.equal, rank_points, answers[0][1]))
        assert all(map(torch.equal, rank_averages, answers[0][2]))
        assert all(map(torch.equal, rank_points, after))  # eval() and train() are exact
        torch.testing.assert_close(rank_points, points, rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(rank_averages, averages, rtol=1e-7, atol=1e-9)


def overshot(rank, size, kind):
    """Train; the loss of two evaluations, of one mini-batch, is steep and increases along the last step."""
    problem = Trained(rank, size, kind=kind, search=None, model=net)
    optimizer, steps, batch = problem.optimizer, [], None
    for turn in range(TURNS):
        optimizer.zero_grad()
        batch = batch if turn == LATER + 1 else problem.draw()
        (problem.loss(batch) * (-1e4 if turn in (LATER, LATER + 1) else 1.0)).backward()
        optimizer.step()
        steps.append(optimizer.last.step)
    return steps, joined(problem)


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_reject_the_same_steps(two, kind):
    steps, points = overshot(0, 1, None)
    assert steps[LATER] == steps[LATER - 1]  # evaluated again
    assert steps[LATER + 1] == steps[LATER - 1] / 2.0 > 0.0
    answers = two(overshot, kind)
    for its_steps, its_points in answers:
        assert its_steps == answers[0][0]
        assert its_steps == pytest.approx(steps, rel=1e-7)
        torch.testing.assert_close(its_points, points, rtol=1e-7, atol=1e-9)


def with_closure(rank, size, kind):
    problem = Trained(rank, size, kind=kind, search=None, model=net)
    for _ in range(TURNS):
        problem.optimizer.step(problem.closure)
    return numbers(problem), joined(problem), problem.whole()


@pytest.mark.parametrize("kind", KINDS)
def test_a_closure_takes_the_same_steps(two, kind):
    for (mine, points, averages), (plain, its_points, its_averages, _) in zip(
        two(with_closure, kind), two(of_training, kind, {}), strict=True
    ):
        assert mine == plain
        assert all(map(torch.equal, [*points, *averages], [*its_points, *its_averages]))


def here(problem):
    """What this rank has of parameters and buffers."""
    return [getattr(t, "_local_tensor", t).detach().clone() for t in problem.model.state_dict().values()]


def failing(rank, size, kind, place, at):
    """Train; in call `at` the closure of rank 1 fails; go on."""
    model = Fragile if kind == "ddp" else normed
    problem = Trained(rank, size, kind=kind, search=None, model=model, given=at == 1 and place == "before")
    errors = []
    for turn in range(1, TURNS + 1):
        broken = rank == 1 and turn == at

        def closure(broken=broken):
            problem.optimizer.zero_grad()
            if broken and place == "before":
                raise Broken("before forward")
            loss = problem.loss(problem.draw())
            if broken and place == "loss":
                raise Broken("in the loss")
            loss.backward()
            if broken and place == "after":
                raise Broken("after backward")
            return loss

        before = here(problem)
        try:
            problem.optimizer.step(closure)
        except (Broken, RuntimeError) as error:
            errors.append(f"{type(error).__name__}: {error}")
            if at > 1:  # the layers with running statistics are known
                assert all(map(torch.equal, before, here(problem)))
    return errors, numbers(problem), problem.whole()


@pytest.mark.parametrize("at", [1, 4, TURNS - 2], ids=["first", "in the first search", "later"])
@pytest.mark.parametrize(
    ("kind", "place"), [("ddp", "before"), ("ddp", "loss"), ("ddp", "after"), ("fsdp", "loss"), ("fsdp", "after")]
)
def test_a_closure_that_fails_on_one_rank_raises_on_all(two, kind, place, at):
    (first, mine, averages), (second, its, its_averages) = two(failing, kind, place, at)
    assert len(first) == len(second) == 1
    assert "the step was not taken, because it failed elsewhere" in first[0]
    assert "rank 1: Broken: " in first[0]
    assert second[0].startswith("Broken: ")
    assert mine == its
    assert mine[2] == TURNS - 1
    assert all(map(torch.equal, averages, its_averages))


def skipping(rank, size):
    """The closure of rank 1 fails before its forward pass, in which rank 0 waits for it; rank 1 goes on alone."""
    problem = Trained(rank, size, kind="fsdp", search=None, model=normed)
    for _ in range(TURNS):
        problem.optimizer.step(problem.closure)
    if rank == 1:

        def closure():
            raise Broken("before forward")

        before, counts = here(problem), numbers(problem)
        with pytest.raises(Broken, match="before forward"):
            problem.optimizer.step(closure)
        assert all(map(torch.equal, before, here(problem)))
        assert numbers(problem) == counts
    problem.optimizer.step(problem.closure)
    return numbers(problem), problem.whole()


def test_a_failure_before_the_forward_pass_of_sharded_parameters_loses_nothing(two):
    (mine, averages), (its, its_averages) = two(skipping)
    assert mine == its
    assert mine[2] == TURNS + 1
    assert all(map(torch.equal, averages, its_averages))


def one_without_gradient(rank, size):
    problem = trained(rank, size, "ddp")
    problem.closure()
    if rank == 1:
        problem.optimizer.zero_grad()
    problem.optimizer.step()


def test_a_rank_without_gradients_reports_it_to_all(two):
    first, second = two.run(one_without_gradient)
    assert "rank 1: RuntimeError: no parameter has a gradient" in first
    assert "no parameter has a gradient" in second


def not_finite(rank, size, kind, first, times, factor):
    """The loss of rank 1 is multiplied by a number in some calls."""
    problem = Trained(rank, size, kind=kind, search=None, model=net, dtype=torch.float32)
    for turn in range(TURNS):
        problem.optimizer.zero_grad()
        loss = problem.loss(problem.draw())
        if rank == 1 and first <= turn < first + times:
            loss = loss * factor
        loss.backward()
        problem.optimizer.step()
    return numbers(problem), joined(problem), problem.whole()


@pytest.mark.parametrize("factor", [float("nan"), 1e30], ids=["nan", "overflowing squares"])
@pytest.mark.parametrize(("first", "times"), [(3, 2), (LATER, 1), (LATER, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_that_is_not_finite_on_one_rank_is_so_for_all(two, kind, first, times, factor):
    (mine, points, averages), (its, its_points, its_averages) = two(not_finite, kind, first, times, factor)
    assert mine == its
    assert all(map(torch.equal, [*points, *averages], [*its_points, *its_averages]))
    assert all(tensor.isfinite().all() for tensor in [*points, *averages])


def overflowing_shard(rank, size, what):
    """Train; one rank's shard overflows: its squared gradients, or its parameters in the first search."""
    problem = Trained(rank, size, kind="fsdp", search=None, model=net, dtype=torch.float32)
    for turn in range(TURNS):
        problem.closure()
        for parameter in problem.model.parameters():
            if what == "gradients" and turn in (LATER, LATER + 1):
                parameter.grad.to_local().fill_(1e25 if rank else 1.0)
            elif what == "parameters" and turn == 3 and rank:
                parameter.detach().to_local().fill_(float("inf"))
        problem.optimizer.step()
    return numbers(problem), joined(problem)


@pytest.mark.parametrize("what", ["gradients", "parameters"])
def test_a_shard_that_overflows_is_rejected_on_all_ranks(two, what):
    (mine, points), (its, its_points) = two(overflowing_shard, what)
    assert mine == its
    assert all(map(torch.equal, points, its_points))
    assert all(tensor.isfinite().all() for tensor in points)


def evaluated(rank, size):
    """Predictions with averaged parameters, whether statistics differ, and whether training continues where it was."""
    problem = trained(rank, size, "ddp", model=Fragile)
    before = [*problem.parameters(), *(buffer.clone() for buffer in problem.model.buffers())]
    with problem.optimizer.eval(), torch.no_grad():
        problem.model.eval()
        predictions = problem.model(problem.inputs)
        buffers = [buffer.clone() for buffer in problem.model.buffers()]
        problem.model.train()
    after = [*problem.parameters(), *problem.model.buffers()]
    differ = any(not torch.equal(one, other) for one, other in zip(buffers, problem.model.buffers(), strict=True))
    return predictions, differ, all(map(torch.equal, before, after))


def test_evaluation_is_the_same_on_all_ranks_and_leaves_running_statistics_alone(two):
    (first, differ, same), (second, its_differ, _) = two(evaluated)  # DDP sets buffers to those of rank 0
    assert torch.equal(first, second)
    assert not differ
    assert not its_differ
    assert same


def evaluated_on_one_rank(rank, size):
    """As many do with DDP: only rank 0 evaluates and saves."""
    problem = trained(rank, size, "ddp")
    if rank == 0:
        with problem.optimizer.eval():
            [parameter.sum() for parameter in problem.model.parameters()]
    for _ in range(3):
        problem.turn()
    return numbers(problem), problem.whole()


def test_with_ddp_one_rank_may_evaluate_alone(two):
    (mine, averages), (its, its_averages) = two(evaluated_on_one_rank)
    assert mine == its
    assert all(map(torch.equal, averages, its_averages))


def save(rank, size, folder, kind, turns, flat, evaluating):
    problem = trained(rank, size, kind, turns=turns)
    if evaluating:
        with problem.optimizer.eval():
            _save(problem, folder, flat)
    else:
        _save(problem, folder, flat)
    for _ in range(AFTER):
        problem.turn()
    return numbers(problem), joined(problem), problem.whole()


def resume(rank, size, folder, kind, turns, flat):
    problem = Trained(rank, size, kind=kind, search=None, model=net)
    _load(problem, folder, flat)
    for _ in range(turns):
        problem.draw()
    for _ in range(AFTER):
        problem.turn()
    return numbers(problem), joined(problem), problem.whole()


@pytest.mark.parametrize(
    ("kind", "turns", "flat"), [("ddp", 4, False), ("ddp", LATER, True), ("fsdp", 4, True), ("fsdp", LATER, False)]
)
def test_training_resumes_bit_for_bit(two, tmp_path, kind, turns, flat):
    saved = two(save, str(tmp_path), kind, turns, flat, False)
    for before, after in zip(saved, two(resume, str(tmp_path), kind, turns, flat), strict=True):
        assert after[0] == before[0]
        assert all(map(torch.equal, [*after[1], *after[2]], [*before[1], *before[2]]))


def resume_with_closure(rank, size, folder, kind, turns, flat):
    problem = Trained(rank, size, kind=kind, search=None, model=net)
    _load(problem, folder, flat)
    for _ in range(turns):
        problem.draw()
    for _ in range(AFTER):
        problem.optimizer.step(problem.closure)
    return numbers(problem), joined(problem), problem.whole()


@pytest.mark.parametrize(("kind", "turns", "flat"), [("ddp", 4, True), ("ddp", LATER, False), ("fsdp", LATER, True)])
def test_a_checkpoint_of_eval_loses_nothing(two, tmp_path, kind, turns, flat):
    """Torch may load only tensors that a new optimizer has too; the point is then computed from the average."""
    saved = two(save, str(tmp_path), kind, turns, flat, True)
    for before, after in zip(saved, two(resume_with_closure, str(tmp_path), kind, turns, flat), strict=True):
        assert after[0][:2] == pytest.approx(before[0][:2], rel=1e-9)
        assert after[0][2:] == before[0][2:]
        torch.testing.assert_close([*after[1], *after[2]], [*before[1], *before[2]], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("more", "flat"), [(True, True), (False, False)])
def test_another_number_of_processes_resumes(two, three, tmp_path, more, flat):
    before, after = (two, three) if more else (three, two)
    (step, _, *counts), points, averages = before(save, str(tmp_path), "fsdp", LATER, flat, False)[0]
    for mine, its_points, its_averages in after(resume, str(tmp_path), "fsdp", LATER, flat):
        assert mine[0] == pytest.approx(step, rel=1e-6)
        assert mine[2:] == tuple(counts)
        torch.testing.assert_close(its_points, points, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(its_averages, averages, rtol=1e-6, atol=1e-9)


def narrow(inputs):
    """A net of which all shards of all ranks but the first are empty."""
    return nn.Sequential(nn.Linear(inputs, 1), nn.Tanh(), nn.Linear(1, 1))


def mixed(rank, size, model, dtype, scale, turns, evaluating):
    """Resume from parameters or averages, with a state saved outside of `eval()`."""
    problem = trained(rank, size, "fsdp", model=model, dtype=dtype, turns=turns, lr_scale=scale)
    state = copy.deepcopy(problem.optimizer.state_dict())
    with problem.optimizer.eval() if evaluating else contextlib.nullcontext():
        weights = copy.deepcopy(problem.model.state_dict())
    other = Trained(rank, size, kind="fsdp", search=None, model=model, dtype=dtype, lr_scale=scale)
    other.model.load_state_dict(weights)
    other.optimizer.load_state_dict(state)
    for _ in range(AFTER):
        other.turn()
    return problem.optimizer.evaluations, numbers(other), joined(other)


@pytest.mark.parametrize("evaluating", [False, True], ids=["points", "averages"])
@pytest.mark.parametrize("turns", [4, LATER])
@pytest.mark.parametrize(
    ("model", "dtype", "scale"),
    [(narrow, torch.float64, 1.0), (narrow, torch.bfloat16, 1.0), (net, torch.bfloat16, 0.01)],
    ids=["empty shards", "empty shards in half precision", "half precision"],
)
def test_ranks_agree_whether_they_were_set_back_to_the_point_of_training(two, model, dtype, scale, turns, evaluating):
    (before, mine, points), (_, its, its_points) = two(mixed, model, dtype, scale, turns, evaluating)
    assert str(mine) == str(its)  # the cosine may be NaN
    assert mine[2] == before + AFTER - evaluating or dtype is torch.bfloat16
    assert all(map(torch.equal, points, its_points))
