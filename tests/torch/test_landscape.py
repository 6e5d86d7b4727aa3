"""Landscapes: numbers against hand-computed ones, all ways to give data and directions, and no trace left behind."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gradline
from gradline import landscape

CENTERS = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 4.0], [0.0, 0.0]], dtype=torch.float64)
STEPS = np.linspace(0.0, 2.0, 9)


class Bowl(nn.Module):
    """Of each sample c: |w - c|²/2. The gradient at 0 is minus the mean of the samples."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def samples(self, centers):
        return (self.w - centers).square().sum(dim=1) / 2

    def mean(self, centers):
        return self.samples(centers).mean()


def by_hand(direction, numbers, steps=STEPS):
    """Value and slope of a mini-batch at w = α d."""
    centers = CENTERS.numpy()[list(numbers)]
    places = np.outer(steps, direction)[:, None, :] - centers
    return (places**2).sum(axis=2).mean(axis=1) / 2, (places @ np.array(direction)).mean(axis=1)


def everything(result):
    """All arrays of a result, whatever it is made of."""
    if isinstance(result, np.ndarray):
        return [result]
    if dataclasses.is_dataclass(result):
        return [one for field in dataclasses.fields(result) for one in everything(getattr(result, field.name))]
    if isinstance(result, dict):
        return [one for part in result.values() for one in everything(part)]
    return []


def same(first, second):
    pairs = list(zip(everything(first), everything(second), strict=True))
    return bool(pairs) and all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


# ---- a line


@pytest.mark.parametrize("kind", ["samples", "mean"])
def test_a_line_has_the_numbers_of_a_quadratic(kind):
    model = Bowl()
    fixed = [[0, 1], [2], [0, 3, 3]]
    seen = landscape.line(model, getattr(model, kind), CENTERS, steps=STEPS, static=fixed)
    down = CENTERS.mean(dim=0).numpy()  # -∇L
    assert seen.norm == pytest.approx(np.hypot(*down))
    np.testing.assert_allclose((seen.full.values, seen.full.slopes), by_hand(down, [0, 1, 2, 3]), atol=1e-12)
    for row, numbers in enumerate(fixed):
        np.testing.assert_allclose(
            (seen.static.values[row], seen.static.slopes[row]), by_hand(down, numbers), atol=1e-12
        )
    assert seen.dynamic is None
    assert [batch.tolist() for batch in seen.batches] == fixed
    assert seen.full.found().steps_of_minima.tolist() == [1.0]  # the mean of all samples
    assert seen.full.found().ball() == (1.0, 1.25)  # the slope at 1 is 0


@pytest.mark.parametrize("kind", ["samples", "mean"])
@pytest.mark.parametrize("repetition", [False, True])
def test_every_dynamic_point_is_some_mini_batch(kind, repetition):
    model = Bowl()
    seen = landscape.line(
        *(model, getattr(model, kind), CENTERS),
        steps=STEPS,
        direction=torch.tensor([1.0, 0.5]),
        batch_size=2,
        dynamic=30,
        repetition=repetition,
        seed=1,
    )
    repeated = [(number, number) for number in range(4)] if repetition else []
    pairs = [(a, b) for a in range(4) for b in range(a)] + repeated
    possible = np.stack([by_hand((1.0, 0.5), pair) for pair in pairs])  # pairs, (value, slope), steps
    walks = np.stack([seen.dynamic.values, seen.dynamic.slopes], axis=1)
    which = np.isclose(walks[:, None], possible[None]).all(axis=2)  # walks, pairs, steps
    assert which.any(axis=1).all()
    # value and slope of one point are of one mini-batch, all mini-batches come, and no walk keeps its own
    assert which.any(axis=(0, 2)).all()
    assert not which.all(axis=2).any()


def test_both_kinds_of_losses_see_the_same_mini_batches():
    model = Bowl()
    options = {"steps": STEPS, "batch_size": 2, "static": 3, "dynamic": 2, "seed": 5}
    by_sample = landscape.line(model, model.samples, CENTERS, **options)
    by_batch = landscape.line(model, model.mean, CENTERS, **options)
    for part in ("static", "dynamic"):
        one, other = getattr(by_sample, part), getattr(by_batch, part)
        np.testing.assert_allclose(one.values, other.values, rtol=1e-12)
        np.testing.assert_allclose(one.slopes, other.slopes, rtol=1e-12, atol=1e-12)
    assert same(by_sample, landscape.line(model, model.samples, CENTERS, **options))
    assert not same(by_sample, landscape.line(model, model.samples, CENTERS, **{**options, "seed": 6}))


def test_static_mini_batches_share_no_sample_while_there_are_enough():
    model = Bowl()
    seen = landscape.line(model, model.samples, CENTERS, steps=STEPS, batch_size=2, static=2, seed=0, full=False)
    assert sorted(np.concatenate(seen.batches)) == [0, 1, 2, 3]
    assert seen.full is None


def test_only_samples_that_are_asked_for_are_evaluated():
    model, asked = Bowl(), []

    def loss(centers):
        asked.append(len(centers))
        return model.samples(centers)

    many = CENTERS.repeat(100, 1)
    options = {"steps": STEPS, "static": [[7, 399, 7]], "direction": torch.ones(2), "full": False}
    seen = landscape.line(model, loss, many, **options)
    assert asked[1:] == [2] * len(STEPS)
    np.testing.assert_allclose(seen.static.values[0], by_hand((1.0, 1.0), [3, 3, 3])[0])


@pytest.mark.parametrize("kind", ["samples", "mean"])
def test_chunks_change_nothing(kind):
    model = Bowl()
    options = {"steps": STEPS, "static": [[0, 1, 2]], "seed": 0}
    whole = landscape.line(model, getattr(model, kind), CENTERS, **options)
    parts = landscape.line(model, getattr(model, kind), CENTERS, chunk=3, **options)
    np.testing.assert_allclose(parts.full.values, whole.full.values)
    np.testing.assert_allclose(parts.full.slopes, whole.full.slopes, atol=1e-12)
    np.testing.assert_allclose(parts.static.values, whole.static.values)


def test_slopes_are_the_derivatives_of_values():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    x, y = torch.randn(30, 3).double(), torch.randint(2, (30,))
    loss = lambda x, y: nn.functional.cross_entropy(model(x), y, reduction="none")
    seen = landscape.line(model, loss, (x, y), steps=np.linspace(0, 1, 2001), batch_size=7, static=2, seed=0)
    for curves in (seen.full, seen.static):
        middle = (curves.values[..., 2:] - curves.values[..., :-2]) / (seen.steps[2] - seen.steps[0])
        np.testing.assert_allclose(curves.slopes[..., 1:-1], middle, atol=1e-6)


def test_steps_may_be_a_tensor():
    model = Bowl()
    seen = landscape.line(model, model.samples, CENTERS, steps=torch.linspace(0.0, 2.0, 9))
    assert same(seen, landscape.line(model, model.samples, CENTERS, steps=STEPS))


def test_a_line_becomes_a_table():
    model = Bowl()
    seen = landscape.line(model, model.samples, CENTERS, steps=STEPS, batch_size=1, static=2, dynamic=3, seed=0)
    table = seen.to_dict()
    assert {len(column) for column in table.values()} == {len(STEPS) * (1 + 2 + 3)}
    third = (table["sampling"] == "dynamic") & (table["number"] == 2)
    np.testing.assert_array_equal(table["slope"][third], seen.dynamic.slopes[2])
    np.testing.assert_array_equal(table["step"][third], STEPS)


# ---- where the data come from


def test_a_loader_is_read_in_one_order_and_left_as_it_was():
    model = Bowl()
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(TensorDataset(CENTERS), batch_size=2, shuffle=True, generator=generator)
    before = generator.get_state(), loader.sampler.generator
    seen = landscape.line(model, model.samples, loader, steps=STEPS, static=2, dynamic=1, seed=0)
    np.testing.assert_allclose(seen.full.values, by_hand(CENTERS.mean(dim=0).numpy(), [0, 1, 2, 3])[0])
    np.testing.assert_allclose(seen.static.values.mean(axis=0), seen.full.values)  # two halves
    curvature = np.diff(seen.static.values, n=2)  # the same samples at each step: smooth
    np.testing.assert_allclose(curvature, curvature[0, 0])
    assert torch.equal(generator.get_state(), before[0])
    assert loader.sampler.generator is before[1]


def test_a_loader_gives_its_own_batches_to_a_loss_that_is_one_number():
    model = Bowl()
    loader = DataLoader(TensorDataset(CENTERS), batch_size=3)  # batches of 3 and of 1
    seen = landscape.line(model, model.mean, loader, steps=STEPS, static=2, dynamic=2, seed=0)
    down = CENTERS.mean(dim=0).numpy()
    np.testing.assert_allclose(seen.full.slopes, by_hand(down, [0, 1, 2, 3])[1], atol=1e-12)
    np.testing.assert_allclose(seen.static.values[0], by_hand(down, [0, 1, 2])[0])
    np.testing.assert_allclose(seen.static.values[1], by_hand(down, [3])[0], atol=1e-12)
    assert seen.dynamic.values.shape == (2, len(STEPS))
    with pytest.raises(ValueError, match="batch_size must not be given with a DataLoader"):
        landscape.line(model, model.mean, loader, steps=STEPS, static=1, batch_size=2)
    with pytest.raises(ValueError, match="static must be a number with a DataLoader"):
        landscape.line(model, model.mean, loader, steps=STEPS, static=[[0]])


def test_the_batches_of_training_give_their_data_and_size():
    model = Bowl()
    draws = gradline.batches.dynamic(CENTERS, batch_size=2, seed=0)
    position = draws.state_dict()
    seen = landscape.line(model, model.samples, draws, steps=STEPS, static=2, seed=4)
    assert seen.batch_size == 2
    assert draws.state_dict() == position
    assert same(seen, landscape.line(model, model.samples, CENTERS, steps=STEPS, static=2, batch_size=2, seed=4))


# ---- directions


def test_a_direction_can_be_given_in_many_ways():
    model = nn.Linear(2, 1).double()
    loss = lambda x: model(x).square().sum(dim=1)
    parts = [torch.tensor([[0.0, 1.0]]), torch.tensor([0.0])]
    flat = torch.tensor([0.0, 1.0, 0.0])
    ways = [
        parts,
        flat,
        flat.numpy(),
        {"weight": parts[0]},
        landscape.weight("weight", 0, 1),
        landscape.weight(model.weight, 0, -1),
    ]
    first, *others = [landscape.line(model, loss, CENTERS, steps=STEPS, direction=way) for way in ways]
    assert first.norm == 1.0
    for other in others:
        assert same(first, other)
    as_parameters = landscape.line(model.parameters(), loss, CENTERS, steps=STEPS, direction=parts)
    assert same(first, as_parameters)


def test_frozen_parameters_do_not_move():
    model = nn.Linear(2, 1).double()
    model.bias.requires_grad_(False)
    seen = landscape.line(model, lambda x: model(x).square().sum(dim=1), CENTERS, steps=STEPS, direction=torch.ones(2))
    assert seen.norm == pytest.approx(np.sqrt(2))


def test_random_directions_are_perpendicular_and_of_length_1():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    vectors = [torch.cat([part.flatten() for part in one]) for one in landscape.random_directions(model, 3, seed=2)]
    gram = torch.stack(vectors) @ torch.stack(vectors).T
    torch.testing.assert_close(gram, torch.eye(3), atol=1e-6, rtol=0.0)
    with torch.device("meta"):  # the default of new tensors
        again = landscape.random_directions(model, 3, seed=2)
    assert torch.equal(vectors[0], torch.cat([part.flatten() for part in again[0]]))


# ---- a plane


def test_a_plane_has_the_numbers_of_a_quadratic():
    model = Bowl()
    with torch.no_grad():
        model.w.copy_(torch.tensor([0.5, -1.0]))
    pair = landscape.weight("w", 0), landscape.weight("w", 1)
    x, y = np.linspace(-1, 1, 3), np.linspace(-2, 2, 5)
    seen = landscape.plane(
        model, model.samples, CENTERS, directions=pair, x=x, y=y, batch_size=1, static=[[2]], dynamic=2, seed=0
    )
    assert seen.center == (0.5, -1.0)
    a, b = np.meshgrid(x + 0.5, y - 1.0)
    np.testing.assert_allclose(seen.static.values[0], (a**2 + (b - 4) ** 2) / 2)
    np.testing.assert_allclose(seen.static.slopes[0], (a + b - 4) / np.sqrt(2))  # halfway between the axes
    np.testing.assert_allclose(seen.full.slopes, (a - 1 + b - 1) / np.sqrt(2), atol=1e-12)
    assert seen.dynamic.values.shape == (2, 5, 3)
    along = landscape.plane(model, model.mean, CENTERS, directions=pair, x=x, y=y, along=landscape.weight("w", 1))
    np.testing.assert_allclose(along.full.slopes, b - 1, atol=1e-12)
    table = seen.to_dict()
    assert {len(column) for column in table.values()} == {15 * (1 + 1 + 2)}
    row = (table["sampling"] == "static") & (table["x"] == 1.0) & (table["y"] == -2.0)
    assert table["value"][row] == seen.static.values[0, 0, 2]


# ---- optima


def test_minima_and_sign_changes_of_known_rows():
    steps = np.arange(6.0)
    values = np.array([[3.0, 1.0, 2.0, 0.0, 5.0, 4.0], [1.0, 1.0, 1.0, np.nan, 0.0, 1.0]])
    slopes = np.array([[-1.0, 0.0, 2.0, -1.0, -1.0, 3.0], [1.0, 2.0, np.nan, 1.0, -np.inf, 1.0]])
    found = landscape.Found.of(steps, values, slopes)
    assert [np.flatnonzero(row).tolist() for row in found.minima] == [[1, 3], []]
    assert [np.flatnonzero(row).tolist() for row in found.sign_changes] == [[2, 5], []]
    assert found.minima_per_walk.tolist() == [0, 0.5, 0, 0.5, 0, 0]
    assert found.ball() == (1.0, 5.0)
    spread = found.spread_of_sign_changes
    assert (spread.count, spread.low, spread.high, spread.range, spread.mean) == (2, 2.0, 5.0, 3.0, 3.5)
    assert spread.deviation == 1.5


def test_a_ball_can_leave_out_the_rarest_and_may_not_be_there():
    steps = np.arange(12.0)
    slopes = np.where(np.arange(12)[None, :] >= np.arange(1, 11)[:, None], 1.0, -1.0)  # changes at 1 ... 10
    found = landscape.Found.of(steps, slopes, slopes)
    assert found.ball() == (0.0, 10.0)
    assert found.ball(coverage=0.8) == (1.0, 9.0)
    assert found.ball().width == 10.0
    assert landscape.Found.of(steps, slopes, -np.abs(slopes)).ball() is None
    assert landscape.Found.of(steps, slopes, -np.abs(slopes)).spread_of_sign_changes.count == 0
    with pytest.raises(ValueError, match="coverage must be above 0 and at most 1"):
        found.ball(coverage=0.0)


@pytest.mark.parametrize("kind", ["samples", "mean"])
def test_sign_changes_are_in_the_ball_of_all_mini_batches_and_minima_everywhere(kind):
    torch.manual_seed(0)
    model = Bowl()
    centers = torch.tensor([[2.0, 0.0]], dtype=torch.float64) + torch.randn(20, 2, dtype=torch.float64)
    steps = np.linspace(0.02, 2.02, 41)
    found = landscape.optima(model, getattr(model, kind), centers, steps=steps, batch_sizes=[5, 20], repeats=12, seed=0)
    down = centers.mean(dim=0)
    roots = (centers @ down / (down @ down)).sort().values.numpy()
    for size in (5, 20):
        low, high = roots[:size].mean(), roots[-size:].mean()  # the extreme mini-batches
        ball = found[size].ball()
        assert low - 0.05 <= ball.low <= 1.0 <= ball.high <= high + 0.05
    assert found[20].ball().width == pytest.approx(0.05)
    assert found[5].spread_of_minima.range > found[5].spread_of_sign_changes.range
    assert found.samples == 20
    alone = landscape.optima(model, getattr(model, kind), centers, steps=steps, batch_sizes=[5], repeats=12, seed=0)
    assert same(alone[5], found[5])  # whatever other sizes there are


def test_static_walks_have_one_optimum_each():
    model = Bowl()
    options = {"steps": np.linspace(-0.05, 3.95, 41), "batch_sizes": [1, 2], "direction": torch.tensor([1.0, 0.0])}
    found = landscape.optima(model, model.samples, CENTERS, **options, repeats=8, dynamic=False, seed=0)
    assert (found[1].sign_changes.sum(axis=1) == 1).all()
    assert set(found[1].steps_of_sign_changes.round(2)) == {0.05, 1.05, 3.05}
    table, spreads = found.to_dict(), found.spreads()
    assert {len(column) for column in table.values()} == {2 * 41}
    assert spreads["batch_size"].tolist() == [1, 2]
    assert spreads["sign_changes_count"].tolist() == [8, 8]


# ---- no trace


class Moody(nn.Module):
    """BatchNorm and dropout that are training."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x)


def snapshot(model):
    return (
        {name: tensor.clone() for name, tensor in model.state_dict().items()},
        [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        [module.training for module in model.modules()],
        torch.get_rng_state(),
    )


def assert_unchanged(model, before):
    state, gradients, modes, rng = snapshot(model)
    assert all(torch.equal(state[name], before[0][name]) for name in before[0])
    for now, then in zip(gradients, before[1], strict=True):
        assert (now is None) == (then is None)
        assert now is None or torch.equal(now, then)
    assert modes == before[2]
    assert torch.equal(rng, before[3])


def test_a_scan_leaves_no_trace():
    torch.manual_seed(0)
    model, x = Moody(), torch.randn(40, 3)
    model(x).sum().backward()
    model.layers[0].bias.grad = None
    waiting = model(x).square().mean()  # its backward pass is still to come
    before = snapshot(model)
    calls = []
    handle = model.layers[4].weight.register_post_accumulate_grad_hook(calls.append)
    loss = lambda x: model(x).square().mean()
    pair = landscape.random_directions(model, seed=0)
    options = {"batch_size": 10, "static": 1, "dynamic": 1, "seed": 0}
    first = landscape.line(model, loss, x, steps=[0, 1], **options)
    with torch.no_grad():
        assert same(first, landscape.line(model, loss, x, steps=[0, 1], **options))  # dropout is seeded too
    landscape.plane(model, loss, x, directions=pair, x=[0, 1], y=[0, 1], **options)
    landscape.optima(model, loss, x, steps=[0, 1, 2], batch_sizes=[5], repeats=2, seed=0)
    assert_unchanged(model, before)
    model.eval()
    before = snapshot(model)
    landscape.line(model, lambda x: model(x).square().sum(dim=1), x, steps=[0, 1], **options)
    assert_unchanged(model, before)
    assert not calls
    handle.remove()
    waiting.backward()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("after", range(1, 7))
def test_a_scan_that_is_interrupted_leaves_no_trace(error, after):
    torch.manual_seed(0)
    model, x = Moody(), torch.randn(20, 3)
    before, calls = snapshot(model), []

    def loss(x):
        value = model(x).square().mean()
        calls.append(None)
        if len(calls) == after:
            raise error
        return value

    with pytest.raises(error):
        landscape.line(model, loss, x, steps=[0.0, 1.0, 2.0], batch_size=5, dynamic=1, seed=0)
    assert_unchanged(model, before)


def test_without_a_seed_scans_differ_and_follow_the_global_one():
    model = Bowl()
    scan = lambda: landscape.line(model, model.samples, CENTERS, steps=STEPS, batch_size=2, dynamic=3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first, second = scan(), scan()
        torch.manual_seed(0)
        again = scan()
    assert same(first, again)
    assert not same(first, second)


def test_a_bar_shows_the_points(capsys):
    model = Bowl()
    landscape.line(model, model.samples, CENTERS, steps=STEPS, progress=True)
    assert "9/9" in capsys.readouterr().err


# ---- mistakes


def scan(**changes):
    model = changes.pop("model", None) or Bowl()
    loss = changes.pop("loss", getattr(model, "samples", None))
    arguments = {"steps": STEPS, **changes}
    return landscape.line(model, loss, arguments.pop("data", CENTERS), **arguments)


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({"steps": []}, ValueError, "steps must be finite numbers in ascending order"),
        ({"steps": [0.0, np.nan]}, ValueError, "steps must be finite"),
        ({"steps": [1.0, 0.0]}, ValueError, "ascending"),
        ({"steps": "fast"}, TypeError, "steps must be numbers, got 'fast'"),
        ({"full": False}, ValueError, "full, static or dynamic must be asked for"),
        ({"static": -1}, ValueError, "static must be a whole number of 0 or more"),
        ({"dynamic": 1}, ValueError, "batch_size must be between 1 and the number of samples, 4, got None"),
        ({"dynamic": 1, "batch_size": 5}, ValueError, "number of samples, 4, got 5"),
        ({"static": [[4]]}, ValueError, r"static\[0\] must be between 0 and 3"),
        ({"static": [[0.5]]}, TypeError, r"static\[0\] must be numbers of samples"),
        ({"seed": -1}, ValueError, "seed must be a whole number of 0 or more"),
        ({"chunk": 0}, ValueError, "chunk must be a whole number of 1 or more"),
        ({"data": np.zeros((3, 2))}, TypeError, "data must be tensors of samples, one DataLoader or gradline.batches"),
        ({"data": (CENTERS, CENTERS[:2])}, ValueError, "tensors of equal length"),
        ({"loss": 3}, TypeError, "loss must be a function of a batch, got 3"),
        ({"loss": lambda c: 1.0}, TypeError, "loss must return one number, the mean over its samples, or a vector"),
        ({"loss": lambda c: c}, TypeError, r"got a tensor of shape \(4, 2\) for 4 samples"),
        ({"loss": lambda c: c.mean()}, ValueError, "loss must depend on a parameter"),
        ({"loss": lambda c: c.mean(dim=1)}, ValueError, "loss must depend on a parameter"),
        ({"direction": torch.zeros(2)}, ValueError, "direction must be finite and not zero"),
        ({"direction": torch.ones(3)}, ValueError, "one number for each of the 2 weights"),
        ({"direction": [torch.ones(3)]}, ValueError, r"for w it has \(3,\) in place of \(2,\)"),
        ({"direction": []}, ValueError, "one tensor for each of the 1 parameters"),
        ({"direction": "down"}, TypeError, "direction must be tensors"),
        ({"direction": {"v": torch.ones(2)}}, ValueError, "got 'v'; there are w"),
        ({"direction": landscape.weight("v", 0)}, ValueError, "got 'v'; there are w"),
        ({"direction": landscape.weight("w", 2)}, ValueError, r"an index of one weight in w of \(2,\), got \(2,\)"),
        ({"direction": landscape.weight("w")}, ValueError, "an index of one weight"),
        ({"direction": landscape.weight(torch.ones(2), 0)}, ValueError, "a weight of the model"),
        ({"model": nn.ReLU(), "loss": torch.sum}, ValueError, "model must have a parameter that requires a gradient"),
        ({"model": 3, "loss": torch.sum}, TypeError, "model must be a module or its parameters, got int"),
        ({"model": [3], "loss": torch.sum}, TypeError, "got a int among them"),
    ],
)
def test_mistakes_are_named(changes, kind, says):
    with pytest.raises(kind, match=says):
        scan(**changes)


def test_one_tensor_is_no_list_of_parameters():
    with pytest.raises(TypeError, match=r"got one tensor: write \[parameter\]"):
        landscape.line(torch.ones(2, requires_grad=True), torch.sum, CENTERS, steps=STEPS)


def test_at_an_optimum_there_is_no_steepest_descent():
    model = Bowl()
    with torch.no_grad():
        model.w.copy_(CENTERS.mean(dim=0))
    with pytest.raises(ValueError, match="the gradient of all the data must be finite and not zero"):
        scan(model=model)


def test_per_sample_losses_with_batch_norm_are_refused():
    model, x = Moody(), torch.randn(20, 3)
    with pytest.raises(ValueError, match="loss must return one number, the mean, where BatchNorm is training"):
        landscape.line(model, lambda x: model(x).squeeze(1), x, steps=[0.0, 1.0])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"repeats": 0}, "repeats must be a whole number of 1 or more"),
        ({"batch_sizes": []}, "batch_sizes must be one or more different sizes"),
        ({"batch_sizes": [2, 2]}, "batch_sizes must be one or more different sizes"),
        ({"batch_sizes": [9]}, "batch_size must be between 1 and the number of samples, 4, got 9"),
        ({"steps": [0.0, 1.0]}, "steps must be at least 3"),
    ],
)
def test_mistakes_in_asking_for_optima_are_named(changes, says):
    model = Bowl()
    with pytest.raises(ValueError, match=says):
        landscape.optima(model, model.samples, CENTERS, **{"steps": STEPS, "batch_sizes": [1], **changes})


def test_optima_of_a_loader_need_per_sample_losses():
    model = Bowl()
    loader = DataLoader(TensorDataset(CENTERS), batch_size=2)
    with pytest.raises(ValueError, match="loss must return per-sample losses with a DataLoader"):
        landscape.optima(model, model.mean, loader, steps=STEPS, batch_sizes=[1])
    found = landscape.optima(model, model.samples, loader, steps=STEPS, batch_sizes=[1, 3], repeats=2, seed=0)
    assert found.samples == 4


def test_a_plane_has_two_directions_with_something_between_them():
    model = Bowl()
    grid = {"x": [0.0, 1.0], "y": [0.0, 1.0]}
    with pytest.raises(ValueError, match="directions must be two"):
        landscape.plane(model, model.samples, CENTERS, directions=(torch.ones(2),), **grid)
    with pytest.raises(ValueError, match="along must be given where the two directions are opposite"):
        landscape.plane(model, model.samples, CENTERS, directions=(torch.ones(2), -torch.ones(2)), **grid)
