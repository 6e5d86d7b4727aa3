"""Variances of value and slope: every way against one backward pass per sample, on all sorts of models."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from gradline.torch.moments import Evaluated, mean_and_variance
from gradline.torch.moments.statistics import plain_mean_and_variance

BATCH = 7
LAYERS, SLOPES_ONLY, GRAPH = "layers", "slopes by layers", "graph"


class Residual(nn.Module):
    """Sums, products, a reshape and a scaled branch around linear layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 6), nn.Linear(6, 6, bias=False), nn.Linear(6, 3)

    def forward(self, x):
        hidden = torch.sigmoid(self.first(x))
        hidden = hidden + 0.5 * nn.functional.gelu(self.second(hidden)) * hidden
        return self.last(hidden.reshape(len(x), 2, 3).flatten(1))


class Tied(nn.Module):
    """A layer used twice and a decoder that is its encoder turned around."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 6)

    def forward(self, x):
        hidden = self.b(torch.tanh(self.a(torch.tanh(self.a(x)))))
        return nn.functional.linear(torch.relu(hidden), self.b.weight.t())


class Plain(nn.Module):
    """Matrices without nn.Linear: inputs × outputs."""

    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(4, 5)), nn.Parameter(torch.randn(5))
        self.v = nn.Parameter(torch.randn(5, 3))

    def forward(self, x):
        return torch.addmm(self.b, x, self.w).tanh() @ self.v


class Scaled(nn.Module):
    """A parameter outside any layer."""

    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Linear(4, 3), nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.layer(x) * self.scale


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(10, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(self.table((x.abs() * 3).long().clamp(max=9)).mean(1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.layer = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(self.attention(x, x, x, need_weights=False)[0].mean(1))


def convolutions(bias=True):
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=bias),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=bias),
        nn.MaxPool2d(2),
        nn.ConvTranspose2d(4, 2, 2, bias=bias),
        nn.Tanh(),
        nn.Flatten(),
        nn.LazyLinear(3, bias=bias),
    )


MODELS = {
    "logistic": (lambda: nn.Linear(4, 3), (4,), LAYERS),
    "mlp": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)),
        (4,),
        LAYERS,
    ),
    "mlp, wide": (
        lambda: nn.Sequential(nn.Linear(4, 64), nn.SiLU(), nn.Linear(64, 64), nn.ELU(), nn.Linear(64, 3)),
        (4,),
        LAYERS,
    ),
    "mlp, no bias": (
        lambda: nn.Sequential(nn.Linear(4, 8, bias=False), nn.Tanh(), nn.Linear(8, 3, bias=False)),
        (4,),
        LAYERS,
    ),
    "residual": (Residual, (4,), LAYERS),
    "plain matrices": (Plain, (4,), LAYERS),
    "tied": (Tied, (4,), GRAPH),
    "used twice": (
        lambda: nn.Sequential(l := nn.Linear(4, 4), nn.Tanh(), l, nn.Tanh(), nn.Linear(4, 3)),
        (4,),
        SLOPES_ONLY,
    ),
    "outside": (Scaled, (4,), GRAPH),
    "sequence": (lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Flatten(), nn.Linear(15, 3)), (3, 4), GRAPH),
    "convolutions": (convolutions, (2, 8, 8), SLOPES_ONLY),
    "convolutions, no bias": (lambda: convolutions(bias=False), (2, 8, 8), SLOPES_ONLY),
    "layer norm": (lambda: nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3)), (4,), GRAPH),
    "instance norm": (
        lambda: nn.Sequential(
            nn.Conv1d(2, 3, 2, bias=False), nn.InstanceNorm1d(3, affine=True), nn.Flatten(), nn.Linear(9, 3)
        ),
        (2, 4),
        GRAPH,
    ),
    "embedding": (Embedded, (4,), GRAPH),
    "attention": (Attention, (5, 4), GRAPH),
    "transformer": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), nn.Flatten(), nn.Linear(20, 3)
        ),
        (5, 4),
        GRAPH,
    ),
}

LOSSES = {
    "cross entropy": lambda out, y: nn.functional.cross_entropy(out, y, reduction="none"),
    "smoothed": lambda out, y: nn.functional.cross_entropy(out, y, reduction="none", label_smoothing=0.1),
    "squares": lambda out, y: (out - nn.functional.one_hot(y, 3)).square().mean(-1),
    "mse": lambda out, y: nn.functional.mse_loss(out, nn.functional.one_hot(y, 3).to(out), reduction="none").sum(1),
    "logistic": lambda out, y: nn.functional.binary_cross_entropy_with_logits(
        out[:, :1].squeeze(1), (y > 0).to(out), reduction="none"
    ),
    "gathered": lambda out, y: -out.log_softmax(1).gather(1, y[:, None]).squeeze(1),
    "masked": lambda out, y: torch.where(out > 0, out, out.exp() - 1).masked_fill(out > 1, 0.5).logsumexp(-1),
    "chosen": lambda out, y: out[:, 0].square() - out[..., 1],
    "cumulated": lambda out, y: out.cumsum(1).sin().sum(1),
    "value and gradient apart": lambda out, y: (s := (out * out.detach().sigmoid()).sum(1)) + (3.0 - s).detach(),
}


class Case:
    """A model, a batch, and what one backward pass per sample says about it."""

    def __init__(self, model, loss="cross entropy", dtype=torch.float64, batch=BATCH, frozen=()):
        build, shape, self.way = MODELS[model]
        torch.manual_seed(1)
        self.x = torch.randn(batch, *shape, dtype=dtype)
        self.y = torch.randint(3, (batch,))
        self.model = build().to(dtype)
        self.loss = LOSSES[loss]
        with torch.no_grad():
            self.model(self.x)
        self.parameters = list(self.model.parameters())
        for place in frozen:
            self.parameters[place].requires_grad_(False)
        self.directions = [torch.randn_like(p) for p in self.parameters]

    def losses(self):
        self.model.zero_grad()
        with sdpa_kernel(SDPBackend.MATH):
            return self.loss(self.model(self.x), self.y)

    def evaluated(self, **options):
        evaluated = Evaluated(self.losses(), self.parameters)
        evaluated.backward(**options)
        return evaluated

    def one_by_one(self):
        """Per-sample gradients by the plainest loop: each sample alone, forward and backward."""
        rows = []
        for x, y in zip(self.x, self.y, strict=True):
            loss = self.loss(self.model(x[None]), y[None]).sum()
            moving = [p for p in self.parameters if p.requires_grad]
            found = iter(torch.autograd.grad(loss, moving, allow_unused=True))
            rows.append(
                [
                    g if p.requires_grad and (g := next(found)) is not None else torch.zeros_like(p)
                    for p in self.parameters
                ]
            )
        return [torch.stack(part).detach() for part in zip(*rows, strict=True)]

    def reference(self, directions=None):
        """Mean gradient, per-sample slopes and components' variances."""
        rows = self.one_by_one()
        mean = [r.mean(0) for r in rows]
        slopes = sum(
            (r * d).reshape(len(r), -1).sum(1) for r, d in zip(rows, directions or self.directions, strict=True)
        )
        size = len(self.x)
        variances = [(r - r.mean(0)).square().sum(0) / (size * (size - 1)) for r in rows] if size > 1 else None
        return mean, slopes, variances


def close(left, right, dtype=torch.float64):
    tolerance = 1e-10 if dtype == torch.float64 else 2e-5
    scale = max(1e-12, float(right.abs().max()))
    assert left.shape == right.shape
    assert left.dtype == right.dtype
    assert float((left - right).abs().max()) <= tolerance * scale


def check(case, dtype=torch.float64):
    mean, slopes, variances = case.reference()
    evaluated = case.evaluated(variances=True)
    for parameter, expected in zip(case.parameters, mean, strict=True):
        if parameter.grad is not None:
            close(parameter.grad, expected, dtype)
    close(evaluated.slopes(case.directions), slopes, dtype)
    close(evaluated.own_slopes(), case.reference(mean)[1], dtype)
    for found, expected in zip(evaluated.gradient_variances(), variances, strict=True):
        close(found, expected, dtype)
    diagonal = sum((v * d * d).sum() for v, d in zip(variances, case.directions, strict=True))
    close(evaluated.diagonal(case.directions), diagonal, dtype)
    return evaluated


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("model", MODELS)
def test_it_agrees_with_one_backward_pass_per_sample(model, dtype):
    case = Case(model, dtype=dtype)
    evaluated = check(case, dtype)
    assert evaluated.by_layers == (case.way in (LAYERS, SLOPES_ONLY))
    assert evaluated.diagonal_by_layers == (case.way == LAYERS)


@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "cumulated"])
def test_losses_that_keep_the_fast_way(loss):
    assert check(Case("mlp", loss)).diagonal_by_layers


def test_an_unknown_operation_takes_the_general_way():
    assert not check(Case("mlp", "cumulated")).by_layers


@pytest.mark.parametrize("model", ["mlp", "convolutions", "layer norm", "plain matrices", "used twice"])
@pytest.mark.parametrize("frozen", [(0,), (1,), (0, 1), (2,)])
def test_frozen_parameters(model, frozen):
    case = Case(model, frozen=frozen)
    evaluated = check(case)
    for place in frozen:
        assert not evaluated.gradient_variances()[place].any()


@pytest.mark.parametrize("model", ["mlp", "convolutions", "layer norm"])
def test_only_some_of_the_parameters_move(model):
    case = Case(model)
    every, case.parameters = case.parameters, case.parameters[1:]
    case.directions = case.directions[1:]
    check(case)
    assert every[0].grad is not None


def test_a_parameter_that_is_not_used():
    for name in ("mlp", "layer norm"):
        case = Case(name)
        case.parameters.append(nn.Parameter(torch.randn(3, dtype=torch.float64)))
        case.directions.append(torch.randn(3, dtype=torch.float64))
        evaluated = check(case)
        assert not evaluated.gradient_variances()[-1].any()


@pytest.mark.parametrize("model", ["mlp", "convolutions", "layer norm", "transformer"])
def test_a_zero_direction_has_slopes_of_zero(model):
    case = Case(model)
    evaluated = case.evaluated(variances=True)
    nowhere = [torch.zeros_like(p) for p in case.parameters]
    assert not evaluated.slopes(nowhere).any()
    assert evaluated.diagonal(nowhere) == 0
    assert evaluated.moments(nowhere).slope_var == 0


@pytest.mark.parametrize("model", ["mlp", "layer norm"])
def test_one_sample_has_slopes_but_no_variance(model):
    case = Case(model, batch=1)
    evaluated = case.evaluated(variances=True)
    close(evaluated.slopes(case.directions), case.reference()[1])
    for ask in (evaluated.moments, evaluated.diagonal):
        with pytest.raises(ValueError, match="at least 2 samples"):
            ask(case.directions)


@pytest.mark.parametrize("model", MODELS)
def test_the_moments_that_a_search_is_told(model):
    case = Case(model)
    losses = case.losses().detach()
    _, slopes, variances = case.reference()
    for diagonal in (False, True):
        seen = case.evaluated(variances=True).moments(case.directions, diagonal=diagonal)
        size = len(losses)
        assert seen.value == pytest.approx(float(losses.mean()), rel=1e-12)
        expected = float((losses.square().mean() - losses.mean() ** 2) / (size - 1))
        assert seen.value_var == pytest.approx(expected, rel=1e-9)
        assert seen.slope == pytest.approx(float(slopes.mean()), rel=1e-9)
        exact = (slopes - slopes.mean()).square().sum() / (size * (size - 1))
        independent = sum((v * d * d).sum() for v, d in zip(variances, case.directions, strict=True))
        assert seen.slope_var == pytest.approx(float(independent if diagonal else exact), rel=1e-9)


def test_mean_and_variance_are_centred():
    numbers = 1e8 + torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)
    mean, variance = mean_and_variance(numbers)
    assert (float(mean), float(variance)) == (1e8 + 0.5, 0.0625 / 3)
    same = torch.full((50,), 0.1)
    assert mean_and_variance(same)[1] >= 0
    assert mean_and_variance(torch.ones(4, dtype=torch.bfloat16))[0].dtype == torch.float64
    assert float(mean_and_variance(torch.tensor([1e30, -1e30]))[1]) == pytest.approx(1e60)
    assert float(mean_and_variance(torch.tensor([1e-30, -1e-30]))[1]) == pytest.approx(1e-60)


def test_variances_by_layers_are_never_negative():
    case = Case("mlp", dtype=torch.float32)
    case.x[:], case.y[:] = case.x[0].clone(), 1
    evaluated = case.evaluated()
    squares = [g.square() for g in (p.grad for p in case.parameters)]
    for variance, square in zip(evaluated.gradient_variances(), squares, strict=True):
        assert (variance >= 0).all()
        assert (variance <= 1e-6 * square.max()).all()


def test_evaluated_models_are_left_as_they_were():
    case = Case("mlp")
    before = copy.deepcopy(case.model.state_dict())
    case.evaluated().moments(case.directions)
    assert all(torch.equal(case.model.state_dict()[name], before[name]) for name in before)
    assert not any(module._forward_hooks or module._backward_hooks for module in case.model.modules())


@pytest.mark.parametrize("frozen", [(), (0,)])
@pytest.mark.parametrize("model", MODELS)
def test_gradients_can_be_kept_aside(model, frozen):
    case = Case(model, frozen=frozen)
    mean, slopes, variances = case.reference()
    evaluated = case.evaluated(variances=True, accumulate=False)
    assert all(parameter.grad is None for parameter in case.parameters)
    close(evaluated.slopes(case.directions), slopes)
    close(evaluated.own_slopes(), case.reference(mean)[1])
    for found, expected in zip(evaluated.gradient_variances(), variances, strict=True):
        close(found, expected)
    assert all(parameter.grad is None for parameter in case.parameters)


@pytest.mark.parametrize("count", [2, 50, 256, 257, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_mean_and_variance_as_plain_numbers(count, dtype):
    vector = torch.randn(count, generator=torch.Generator().manual_seed(count)).to(dtype)
    mean, variance = map(float, mean_and_variance(vector))
    assert plain_mean_and_variance(vector) == pytest.approx((mean, variance), rel=1e-9)
    vector[1] = float("inf")
    assert not math.isfinite(plain_mean_and_variance(vector)[0])
    assert math.isnan(plain_mean_and_variance(vector)[1])


def test_one_number_has_no_variance_in_plain_numbers_either():
    with pytest.raises(ValueError, match="at least 2 samples"):
        plain_mean_and_variance(torch.ones(1))
