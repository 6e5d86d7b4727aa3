"""`eval()` of `gradline.Angle`: the average of the iterates, and back."""

import pytest
import torch
from helpers import Problem, equal
from torch import nn

import gradline
from gradline.torch import angle_state


def normed(inputs):
    return nn.Sequential(
        nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.BatchNorm1d(8, affine=False), nn.Linear(8, 1)
    )


def lazy(inputs):
    return nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.Tanh(), nn.LazyLinear(1))


def problem_of(model=None, given=False, **options):
    problem = Problem(model=model)
    if model is lazy:
        problem.model(problem.inputs[:2].double())
        problem.model.double()
    more = {"model": problem.model} if given else {}
    problem.optimizer = gradline.Angle(problem.model.parameters(), **more, **options)
    return problem


def everything(problem):
    """Parameters and buffers."""
    return [value.detach().clone() for value in problem.model.state_dict().values()]


def weighted_mean(points):
    """The k-th has a weight proportional to the third power of k."""
    weights = [float(number) ** 3 for number in range(1, len(points) + 1)]
    return sum(weight * point.double() for weight, point in zip(weights, points, strict=True)) / sum(weights)


@pytest.mark.parametrize(
    ("model", "closure", "turns"),
    [
        (None, False, 60),
        (None, True, 140),
        (normed, False, 130),
        (normed, True, 60),
        (lazy, False, 60),
        (lazy, True, 60),
    ],
)
def test_the_average_is_the_weighted_mean_of_the_iterates(model, closure, turns):
    """The first of these is the first accepted point."""
    problem = problem_of(model)
    accepted, iterates = [], []
    for _ in range(turns):
        taken = problem.optimizer.iterations
        if closure:
            points = []
            problem.optimizer.step(lambda points=points: [problem.closure(), points.append(everything(problem))][0])
            (point,) = points
        else:
            problem.closure()
            point = everything(problem)
            problem.optimizer.step()
        if problem.optimizer.iterations > taken:
            accepted.append(point)
            names = [name for name, _ in problem.model.named_parameters()]
            first = dict(zip(problem.model.state_dict(), point, strict=True))
            iterates += [] if iterates else [[first[name] for name in names]]
            states = [problem.optimizer.state[parameter] for parameter in problem.model.parameters()]
            iterates.append([held["iterate"].clone() for held in states])
    assert len(accepted) > turns - 25
    training = everything(problem)
    with problem.optimizer.eval():
        for value, *points in zip(problem.parameters(), *iterates, strict=True):
            torch.testing.assert_close(value, weighted_mean(points), rtol=1e-9, atol=1e-12)
        for name, value, point in zip(problem.model.state_dict(), everything(problem), accepted[-1], strict=True):
            assert name in names or torch.equal(value, point), "running statistics are those of training"
    assert equal(training, everything(problem))


def test_eval_and_train_may_be_called_repeatedly_and_nested():
    problem = problem_of(normed)
    for _ in range(50):
        problem.turn()
    optimizer, training = problem.optimizer, everything(problem)
    assert optimizer.probing
    optimizer.eval()
    average = everything(problem)
    assert not equal(average, training)
    optimizer.eval()
    assert equal(average, everything(problem))
    assert not optimizer.probing
    with optimizer.eval():
        with optimizer.eval():
            assert equal(average, everything(problem))
        assert equal(average, everything(problem))
    assert equal(average, everything(problem))  # as before the context
    with pytest.raises(RuntimeError, match=r"call optimizer\.train\(\) before step\(\)"):
        optimizer.step()
    optimizer.train()
    optimizer.train()
    assert equal(training, everything(problem))
    with pytest.raises(OSError, match="disk"), optimizer.eval():
        raise OSError("disk")
    assert equal(training, everything(problem))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_evaluation_that_does_not_find_enough_memory_changes_nothing(dtype, monkeypatch):
    problem = Problem(dtype=dtype)
    problem.optimizer = gradline.Angle(problem.model.parameters())
    for _ in range(40):
        problem.turn()
    training, local, failures = everything(problem), angle_state.local, 0
    for enough in range(100):
        found = iter(range(enough))

        def limited(*arguments, found=found):
            if next(found, None) is None:
                monkeypatch.undo()
                raise MemoryError
            return local(*arguments)

        monkeypatch.setattr(angle_state, "local", limited)
        try:
            problem.optimizer.eval()
            break
        except MemoryError:
            failures += 1
            assert equal(training, everything(problem))
    monkeypatch.undo()
    assert failures > 4
    problem.optimizer.train()
    problem.turn()
    training = everything(problem)
    with problem.optimizer.eval():
        assert not equal(training, everything(problem))
    assert equal(training, everything(problem))


@pytest.mark.parametrize("calls", [4, 40])
def test_evaluation_may_begin_in_inference_mode(calls):
    problem = problem_of()
    for _ in range(calls):
        problem.turn()
    training = everything(problem)
    with torch.inference_mode():
        problem.optimizer.eval()
        state = problem.optimizer.state_dict()
    problem.optimizer.train()
    assert equal(training, everything(problem))
    problem.turn()
    problem.optimizer.load_state_dict(state)
    assert equal(training, everything(problem))
    problem.turn()


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("model", [None, normed])
def test_evaluation_does_not_change_training(model, average):
    plain, evaluated = problem_of(model, average=average), problem_of(model, average=average)
    for _ in range(50):
        plain.turn()
        evaluated.turn()
        with evaluated.optimizer.eval():
            evaluated.model.eval()
            evaluated.loss()
            evaluated.model.train()
        assert equal(everything(plain), everything(evaluated))


def test_without_an_average_it_evaluates_the_last_accepted_point():
    problem = problem_of(normed, average=False)
    accepted = everything(problem)
    for _ in range(50):
        taken = problem.optimizer.iterations
        problem.closure()
        point = everything(problem)
        problem.optimizer.step()
        accepted = point if problem.optimizer.iterations > taken else accepted
        with problem.optimizer.eval():
            assert equal(accepted, everything(problem))
    assert problem.optimizer.averaged_from == 0
    assert all("average" not in held for held in problem.optimizer.state.values())


@pytest.mark.parametrize("average", [True, False])
def test_before_the_first_step_it_evaluates_the_start(average):
    problem = problem_of(normed, average=average)
    start = everything(problem)
    with problem.optimizer.eval():
        assert equal(start, everything(problem))
    while problem.optimizer.iterations == 0:
        with problem.optimizer.eval():
            assert equal(start, everything(problem))
        problem.turn()


def test_averaged_from_has_ninety_percent_of_the_weight():
    problem = problem_of()
    for _ in range(150):
        problem.turn()
    steps, since = problem.optimizer.iterations, problem.optimizer.averaged_from
    weights = torch.arange(1.0, steps + 1) ** 3
    shares = weights.flip(0).cumsum(0).flip(0) / weights.sum()
    assert float(shares[since - 1]) == pytest.approx(0.9, abs=0.02)


def test_the_average_restarts_with_the_optimizer():
    problem = problem_of(normed)
    for _ in range(50):
        problem.turn()
    here = everything(problem)
    problem.optimizer.restart()
    assert equal(here, everything(problem))
    with problem.optimizer.eval():
        assert equal(here, everything(problem))
    problem.turn()  # the first search begins here
    with problem.optimizer.eval():
        assert equal(here, everything(problem))


def gated(inputs):
    return nn.ModuleList([nn.Linear(inputs, 1), nn.Linear(inputs, 1)])


class Gated(Problem):
    """A mixture of two experts, of which each batch uses one or both."""

    uses = (0, 1)

    def loss(self, chosen=slice(None)):
        outputs = sum(self.model[expert](self.inputs[chosen]) for expert in self.uses)
        return nn.functional.binary_cross_entropy_with_logits(outputs, self.targets[chosen])


def averages(problem):
    with problem.optimizer.eval():
        return problem.parameters()


def test_parameters_without_a_gradient_stay_and_so_does_their_average():
    problem = Gated(model=gated)
    problem.optimizer = gradline.Angle(problem.model.parameters(), weight_decay=0.1)
    for call in range(60):
        problem.uses = ((0, 1), (0,), (1,))[call % 3] if call > 30 else (0, 1)
        problem.closure()
        point, average = problem.parameters(), averages(problem)
        problem.optimizer.step()
        if call > 30:
            for place, (before, now) in enumerate(zip(average, averages(problem), strict=True)):
                assert torch.equal(before, now) == (place // 2 not in problem.uses)
        for place, (before, now) in enumerate(zip(point, problem.parameters(), strict=True)):
            assert torch.equal(before, now) == (place // 2 not in problem.uses)
    ages = {float(held["step"]) for held in problem.optimizer.state.values()}
    assert len(ages) == 2 or ages == {max(ages)}


def test_parameters_without_a_gradient_may_change_their_precision():
    problem = Gated(model=gated)
    problem.optimizer = gradline.Angle(problem.model.parameters())
    for call in range(40):
        problem.uses = (0, 1) if call < 30 else (0,)
        problem.turn()
    kept = problem.optimizer._buckets
    problem.turn()
    assert problem.optimizer._buckets is kept  # they are made anew only where something has changed
    problem.model[1].float()
    problem.turn()
    for parameter in problem.model[1].parameters():
        held = problem.optimizer.state[parameter]
        assert {held[name].dtype for name in ("origin", "iterate", "displacement", "exp_avg_sq")} == {torch.float32}


def test_averages_follow_a_change_of_precision():
    problem = problem_of(normed)
    for _ in range(40):
        problem.turn()
    problem.model.float()
    problem.inputs, problem.targets = problem.inputs.float(), problem.targets.float()
    for _ in range(5):
        problem.turn()
    training = everything(problem)
    with problem.optimizer.eval():
        assert {value.dtype for value in everything(problem) if value.is_floating_point()} == {torch.float32}
        assert all(bool(value.isfinite().all()) for value in everything(problem))
    assert equal(training, everything(problem))


@pytest.mark.parametrize("then", ["change of precision", "continuing from there"])
def test_nothing_of_an_evaluation_in_half_precision_is_left_over(then):
    problem = Problem(dtype=torch.float32 if then == "change of precision" else torch.bfloat16)
    problem.optimizer = gradline.Angle(problem.model.parameters())
    for _ in range(40):
        problem.turn()
    with problem.optimizer.eval():
        if then == "change of precision":
            problem.model.bfloat16()
            problem.inputs, problem.targets = problem.inputs.bfloat16(), problem.targets.bfloat16()
        else:
            problem.optimizer.continue_from_here()
    for _ in range(40):
        problem.turn()
    training = everything(problem)
    with problem.optimizer.eval():
        assert not equal(training, everything(problem))
    assert equal(training, everything(problem))


def test_without_an_average_parameters_without_a_gradient_are_evaluated_where_they_are():
    problem = Gated(model=gated)
    problem.optimizer = gradline.Angle(problem.model.parameters(), average=False)
    for call in range(60):
        problem.uses = ((0, 1), (0,), (1,))[call % 3]
        problem.closure()
        taken, point = problem.optimizer.iterations, problem.parameters()
        problem.optimizer.step()
        if problem.optimizer.iterations > taken:
            with problem.optimizer.eval():
                assert equal(point, problem.parameters())
    assert problem.optimizer.iterations > 30


def test_frozen_after_a_restart_parameters_are_evaluated_where_they_are():
    problem = problem_of()
    for _ in range(40):
        problem.turn()
    problem.optimizer.restart()
    problem.model[0].requires_grad_(False)
    here = problem.parameters()
    problem.turn()
    with problem.optimizer.eval():
        assert equal(here, problem.parameters())
    for _ in range(20):
        problem.turn()
        assert equal(here[:2], problem.parameters()[:2])


def test_frozen_parameters_stay_and_move_again():
    problem = problem_of()
    first = problem.model[0].weight
    for call in range(60):
        first.requires_grad_(not 25 <= call < 40)
        before = first.detach().clone()
        problem.turn()
        assert torch.equal(before, first) == (25 <= call < 40)
    assert problem.optimizer.last.step > 0.0


def test_a_group_added_later_moves_from_then_on():
    problem = Problem()
    *firsts, last = problem.model.parameters()
    problem.optimizer = gradline.Angle(firsts, weight_decay=0.1)
    last.requires_grad_(False)
    for _ in range(40):
        problem.turn()
    last.requires_grad_(True)
    problem.optimizer.eval()
    problem.optimizer.add_param_group({"params": [last], "lr_scale": 0.5})
    problem.optimizer.train()
    before, averages = last.detach().clone(), []
    for _ in range(20):
        averages.append(last.detach().clone())
        problem.turn()
        assert not torch.equal(before, last)
        assert problem.optimizer.param_groups[1]["lr"] == 0.5 * problem.optimizer.last.step
    assert problem.optimizer.param_groups[1]["weight_decay"] == 0.1
    with problem.optimizer.eval():
        assert float(min(averages)) <= last.item() <= float(max(averages))


def test_a_parameter_replaced_in_its_group_moves_from_then_on():
    problem = problem_of()
    for _ in range(40):
        problem.turn()
    old, layer = problem.model[0].weight, problem.model[0]
    layer.weight = nn.Parameter(0.5 * old.detach())
    problem.optimizer.param_groups[0]["params"][0] = layer.weight
    gone, before = old.detach().clone(), layer.weight.detach().clone()
    for _ in range(3):
        problem.turn()
    assert torch.equal(gone, old)
    with problem.optimizer.eval():
        assert not torch.equal(before, layer.weight)


@pytest.mark.parametrize("given", [False, True])
def test_layers_frozen_between_eval_and_train_keep_their_statistics(given):
    problem = problem_of(normed, given)
    for _ in range(50):
        problem.turn()
    training = everything(problem)
    problem.optimizer.eval()
    for parameter in problem.model[1].parameters():
        parameter.requires_grad_(False)
    problem.optimizer.refresh()
    problem.model.eval()
    problem.loss()
    problem.model.train()
    problem.optimizer.train()
    assert equal(training, everything(problem))
    for _ in range(5):
        problem.turn()
    with problem.optimizer.eval():
        assert all(bool(value.isfinite().all()) for value in everything(problem))


def test_training_continues_from_parameters_set_in_eval():
    """As trainers need that load the best model at the end, or set averages of their own."""
    problem = Problem(model=lambda inputs: nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)))
    problem.optimizer = gradline.Angle(problem.model.parameters())
    for _ in range(30):
        problem.turn()
    problem.optimizer.eval()
    with torch.no_grad():
        for parameter in problem.model.parameters():
            parameter.mul_(0.5)
    point = problem.parameters()
    expected = [tensor.clone() for tensor in problem.model.state_dict().values()]
    problem.optimizer.continue_from_here()
    problem.optimizer.train()
    assert equal(list(problem.model.state_dict().values()), expected)
    problem.turn()
    with problem.optimizer.eval():  # the first search began there
        assert equal(problem.parameters(), point)
    before = problem.loss().item()
    for _ in range(60):
        problem.turn()
    with problem.optimizer.eval():
        assert problem.loss().item() < before
