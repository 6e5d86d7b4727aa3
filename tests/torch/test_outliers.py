"""The usual length of gradients, and what is left of outliers."""

import contextlib
import copy
import itertools
import math
from functools import partial

import pytest
import torch
from helpers import plain_angle
from reference_angle import ReferenceAngle
from torch import nn

import gradline
from gradline.protocol import Stop
from gradline.torch.outliers import OutlierGuard


def after(*norms):
    usual = OutlierGuard()
    for norm in norms:
        usual = usual.after(norm)
    return usual


def test_it_is_the_mean_of_the_first_lengths():
    assert after(1.0, 2.0, 3.0, 6.0) == OutlierGuard(3.0, 4, 1.0)


def test_an_outlier_counts_as_one_of_the_usual_length():
    assert OutlierGuard().factor(1e9) == 1.0  # nothing is usual yet
    usual = after(*[2.0] * 200)
    assert usual.factor(20.0) == 1.0
    assert usual.factor(2000.0) == pytest.approx(1e-3)
    assert usual.factor(0.0) == usual.factor(1e-30) == 1.0


def test_outliers_hardly_change_what_is_usual_and_longer_gradients_for_good_do():
    usual = after(*([1.0] * 49 + [1000.0]) * 20)
    assert 0.9 < usual.length < 1.5
    for _ in range(150):
        usual = usual.after(1000.0)
    assert usual.factor(1000.0) == 1.0


def test_lengths_of_nothing_tell_nothing():
    assert after(0.0, math.nan, math.inf) == OutlierGuard()
    assert after(2.0, 0.0, math.nan, math.inf) == OutlierGuard(2.0, 1, 2.0)


def trained(optimizer_of, factor, *, steps=300, seed=0):
    """A noisy least-squares problem, one batch in 25 of which is of other targets and `factor` times the loss."""
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.randn(256, 5, generator=draws)
    targets = inputs @ torch.arange(1.0, 6.0).reshape(5, 1)
    model = nn.Linear(5, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimizer = optimizer_of(model.parameters())
    for step in range(steps):
        batch = torch.randint(256, (8,), generator=draws)
        bad = step % 25 == 20 and factor
        wanted = -targets[batch] if bad else targets[batch]
        optimizer.zero_grad()
        (nn.functional.mse_loss(model(inputs[batch]), wanted) * (factor if bad else 1.0)).backward()
        optimizer.step()
    with optimizer.eval():
        return nn.functional.mse_loss(model(inputs), targets).item(), optimizer


@pytest.mark.parametrize("direction", [torch.optim.Adam, partial(torch.optim.SGD, momentum=0.9), None], ids=str)
def test_rare_outliers_do_not_end_the_training(direction):
    """The loss is 55 at first. Without a guard, Adam's moments are those of the outliers."""
    loss, _ = trained(partial(plain_angle, direction=direction), 1000.0)
    assert loss < 3.0


def test_gradients_stay_as_they_were_computed_and_slopes_are_theirs():
    x = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = plain_angle([x])
    scale = 1.0

    def closure():
        loss = scale * x.square().sum()
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    usual = optimizer._session.sensor.guard
    scale = 1e4
    optimizer.refresh()
    optimizer.step(closure)
    record = optimizer.last
    assert usual.factor(1e4) < 0.01
    direction = optimizer._session.line.directions[0]
    torch.testing.assert_close(x.grad, 2.0 * scale * x.detach())
    assert record.origin.at_zero.slope < -1e3  # of the whole gradient
    assert direction.isfinite().all()


def test_it_is_saved_and_training_goes_on_exactly():
    _, optimizer = trained(plain_angle, 1000.0, steps=60)
    saved = copy.deepcopy(optimizer.state_dict())
    twin = plain_angle([nn.Parameter(p.detach().clone()) for p in optimizer.param_groups[0]["params"]])
    twin.load_state_dict(saved)
    assert twin._session.sensor.guard == optimizer._session.sensor.guard
    assert twin._session.sensor.guard.seen > 30
    for each in (optimizer, twin):
        each.train()
        for step in range(30):
            weight, bias = each.param_groups[0]["params"]
            each.zero_grad()
            ((weight.square().sum() + bias.square().sum()) * (1e4 if step % 10 == 5 else 1.0)).backward()
            each.step()
    assert all(map(torch.equal, optimizer.param_groups[0]["params"], twin.param_groups[0]["params"]))


def test_other_searches_see_the_gradients_whole():
    x = nn.Parameter(torch.tensor([1.0]))
    optimizer = gradline.GOLSI([x])
    for scale in (1.0, 1.0, 1e4, 1.0):
        optimizer.zero_grad()
        (scale * x.square()).sum().backward()
        optimizer.step()
        assert optimizer._session.sensor.gradient_factor(1e9) == 1.0


def steep(optimizer_of, bad, calls=60):
    """A bowl; evaluations in `bad` are of another one, far steeper, whose minimum is where the last step began."""
    point = nn.Parameter(torch.linspace(1.0, 2.0, 4, dtype=torch.float64))
    optimizer = optimizer_of([point])
    points, steps, start = [point.detach().clone()], [], point.detach().clone()
    for call in range(calls):
        optimizer.zero_grad()
        loss = 1e5 * (point - start).abs() if call in bad else torch.cosh(point / 2)
        loss.sum().backward()
        optimizer.step()
        start = start if torch.equal(point, points[-1]) else points[-1]
        points.append(point.detach().clone())
        steps.append(optimizer.last.step if isinstance(optimizer, gradline.Angle) else 0.0)
    return optimizer, points[1:], steps


def test_a_step_after_which_the_loss_rises_steeply_is_looked_at_twice_then_halved_once():
    _, usual, sizes = steep(gradline.Angle, ())
    _, once, kept = steep(gradline.Angle, (40,))
    assert torch.equal(once[40], usual[39])  # no step is taken
    assert torch.equal(once[41], usual[40])  # and the next mini-batch decides
    assert kept[41:] == sizes[40:-1]
    _, twice, halved = steep(gradline.Angle, (40, 41))
    torch.testing.assert_close(twice[41], (usual[38] + usual[39]) / 2.0)
    assert halved[41] == sizes[39] / 2.0
    _, thrice, _ = steep(gradline.Angle, (40, 41, 42))
    assert not torch.equal(thrice[42], thrice[41])  # longer gradients for good are not the step's fault


def test_a_step_too_short_to_be_halved_is_undone_and_called_uphill():
    """Everything is finite: the loss increases along the shortest step allowed."""
    point = nn.Parameter(torch.ones(4, dtype=torch.float64))
    optimizer = gradline.Angle([point], step_first=1e-3, step_min=1e-3, step_max=1.5e-3)
    points = []
    for call in range(12):
        points.append(point.detach().clone())
        point.grad = torch.full_like(point, -1e5 if call > 9 else 1.0)
        optimizer.step()
    assert optimizer.last.stop is Stop.STEP_MIN
    assert optimizer.last.step == 0.0
    assert torch.equal(point, points[-3])
    point.grad = torch.full_like(point, 1.0)
    optimizer.step()  # a first search begins
    assert torch.equal(optimizer.state[point]["origin"], points[-3])


def cliff(optimizer_of, *, height=1000.0, at=0.05, calls=16):
    """A loss that always falls to the right, and from somewhere on far more steeply, or hardly at all."""
    point = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = optimizer_of([point])
    points = []
    for _ in range(calls):
        optimizer.zero_grad()
        (-point * (height if point.item() > at else 1.0)).sum().backward()
        optimizer.step()
        points.append(point.item())
    return optimizer, points


@pytest.mark.parametrize(
    ("height", "at"), [(29.0, 0.05), (1000.0, 0.05), (1 / 29, 0.05), (0.001, 0.05), (1000.0, 0.0), (0.001, 0.0)]
)
def test_a_gradient_that_is_far_longer_or_shorter_ends_the_first_search(height, at):
    options = {"step_max": 1.0, "weight_decay": 0.0}
    optimizer, points = cliff(partial(gradline.Angle, **options), height=height, at=at)
    _, others = cliff(partial(ReferenceAngle, **options), height=height, at=at)
    assert points == pytest.approx(others, rel=1e-9)
    assert optimizer._driver.taken > 1, "gradients that stay longer end no training"
    if 1 / 30 < height < 30.0:
        assert max(points) > 0.5, "slopes alone decide, and all are negative"
    elif at == 0.05:
        probes = [1e-4 * 2**k for k in range(10)]
        assert points[:10] == pytest.approx(probes)
        assert points[10] == pytest.approx(math.sqrt(probes[-2] * probes[-1]) / 32.0)
    else:  # the first probe does not count: its gradient may be usual, and that of the start may be not
        assert points[:2] == pytest.approx([1e-4, 2e-4])
        assert points[2] == pytest.approx(2e-4 / 16.0 / 32.0), "one slope tells no signal from noise"


def test_a_restart_forgets_how_long_gradients_were():
    """With data whose gradients are ten thousand times as long, their length does not end the first search after it."""
    point = nn.Parameter(torch.linspace(1.0, 2.0, 4, dtype=torch.float64))
    optimizer = gradline.Angle([point])

    def evaluations_of_first_search(scale):
        before, taken = optimizer.evaluations, optimizer.iterations
        while optimizer.iterations == taken:
            optimizer.zero_grad()
            (scale * point.square()).sum().backward()
            optimizer.step()
        return optimizer.evaluations - before

    assert evaluations_of_first_search(1.0) > 8
    optimizer.restart()
    assert evaluations_of_first_search(1e4) > 8


def test_a_first_search_with_a_far_longer_gradient_is_saved_and_resumed_bit_for_bit():
    for kind in (gradline.Angle, partial(plain_angle, step_max=1.0)):
        for calls in range(1, 8):
            _, whole = cliff(kind, at=0.0005, calls=calls + 6)
            saved, _ = cliff(kind, at=0.0005, calls=calls)
            state = copy.deepcopy(saved.state_dict())
            (point,) = saved.param_groups[0]["params"]
            again = nn.Parameter(point.detach().clone())
            optimizer = kind([again])
            optimizer.load_state_dict(state)
            points = []
            for _ in range(6):
                optimizer.zero_grad()
                (-again * (1000.0 if again.item() > 0.0005 else 1.0)).sum().backward()
                optimizer.step()
                points.append(again.item())
            assert points == whole[calls:]


@pytest.mark.parametrize("bad", [(40,), (40, 41), (40, 41, 42), range(40, 60), (5, 6, 7)])
def test_the_reference_rejects_the_same_steps(bad):
    mine, points, _ = steep(gradline.Angle, bad)
    other, others, _ = steep(ReferenceAngle, bad)
    for one, reference in zip(points, others, strict=True):
        torch.testing.assert_close(one, reference, rtol=1e-9, atol=1e-12)
    assert mine.evaluations == other.evaluations


def test_a_rejected_evaluation_is_saved_and_resumed_bit_for_bit():
    for build in (gradline.Angle, partial(plain_angle, direction=torch.optim.AdamW)):
        _, whole, _ = steep(build, (40, 41))
        first, points, _ = steep(build, (40, 41), calls=41)
        state = copy.deepcopy(first.state_dict())
        point = nn.Parameter(points[-1].clone())
        second = build([point])
        second.load_state_dict(state)
        second.zero_grad()
        (1e5 * (point - points[38]).abs()).sum().backward()
        second.step()
        assert torch.equal(point, whole[41])
        assert not torch.equal(point, points[-1])


def test_a_closure_that_fails_after_a_rejected_evaluation_changes_no_later_step():
    def searched(kind_of, steps=40):
        """Train with whole searches; evaluations are steep, fail or are as usual."""
        point = nn.Parameter(torch.linspace(1.0, 2.0, 4, dtype=torch.float64))
        optimizer = plain_angle([point], direction=torch.optim.AdamW)
        calls = itertools.count()

        def closure():
            kind = kind_of.get(next(calls))
            if kind == "fails":
                raise ZeroDivisionError
            loss = (1e5 * (point + 1.0).abs() if kind == "steep" else torch.cosh(point / 2)).sum()
            loss.backward()
            return loss

        while optimizer.iterations < steps:
            with contextlib.suppress(ZeroDivisionError):
                optimizer.step(closure)
        return point.detach(), next(calls)

    usual, _ = searched({})
    halved, calls = searched({40: "steep", 41: "steep"})
    again, more = searched({40: "steep", 41: "fails", 42: "steep", 43: "steep"})
    assert not torch.equal(halved, usual)
    assert torch.equal(again, halved)
    assert more == calls + 2


def downhill(scale, calls=80):
    """A loss that falls for ever once the first search has found its step, with gradients of another length then."""
    point = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    optimizer, steps = gradline.Angle([point], weight_decay=0.0), []
    for _ in range(calls):
        uphill = not optimizer.iterations and point[0] > 0.05
        point.grad = torch.full_like(point, 1.0 if uphill else -scale if optimizer.iterations else -1.0)
        optimizer.step()
        steps.append(optimizer.last.step)
    return steps, 32.0 * next(step for step in steps if step > 0.0)


def test_gradients_that_have_faded_lengthen_steps_beyond_the_first_searchs_only_slowly():
    usual, found = downhill(0.02)
    faded, same = downhill(0.005)
    assert found == same
    beyond = sum(step <= found for step in usual)
    assert faded[:beyond] == pytest.approx(usual[:beyond], rel=1e-6)
    assert usual[-1] > 100.0 * found
    assert found < faded[-1] < 60.0 * found  # 13 times the logarithm of the number of steps
