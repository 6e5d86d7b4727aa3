"""What the variances refuse, what they remember when parameters move, and that nothing wrong passes for right."""

import gc
import weakref

import pytest
import torch
from torch import nn

from gradline.torch.moments import Evaluated, refuse_batch_norm


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(8, 4, generator=generator, dtype=torch.float64)


def build(*layers):
    torch.manual_seed(0)
    return nn.Sequential(*(layer() for layer in layers)).double()


def dense():
    return build(lambda: nn.Linear(4, 5), nn.Tanh, lambda: nn.Linear(5, 1))


def normed():
    return build(lambda: nn.Linear(4, 5), lambda: nn.LayerNorm(5), lambda: nn.Linear(5, 1))


def losses(model, x):
    model.zero_grad()
    return model(x).square().sum(1)


def evaluate(model, x, **options):
    evaluated = Evaluated(losses(model, x), list(model.parameters()))
    evaluated.backward(**options)
    return evaluated


def along(model, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in model.parameters()]


def reference(model, x, directions):
    return torch.stack(
        [
            sum(
                (g * d).sum() for g, d in zip(torch.autograd.grad(l, list(model.parameters())), directions, strict=True)
            )
            for l in (losses(model, row[None]).sum() for row in x)
        ]
    )


# BatchNorm


@pytest.mark.parametrize(
    "norm",
    [
        lambda: nn.BatchNorm1d(5),
        lambda: nn.BatchNorm1d(5, affine=False),
        lambda: nn.BatchNorm1d(5, track_running_stats=False),
    ],
)
def test_batch_norm_is_refused_while_it_trains(data, norm):
    model = build(lambda: nn.Linear(4, 5), norm, lambda: nn.Linear(5, 1))
    with pytest.raises(ValueError, match=r"without BatchNorm that is training.*each loss depend on the whole batch"):
        Evaluated(losses(model, data), list(model.parameters()))
    with pytest.raises(ValueError, match="but 1 is a BatchNorm1d"):
        refuse_batch_norm(model)


def test_batch_norm_may_be_allowed_and_its_mean_slope_is_right(data):
    model = build(lambda: nn.Linear(4, 5), lambda: nn.BatchNorm1d(5), lambda: nn.Linear(5, 1))
    evaluated = Evaluated(losses(model, data), list(model.parameters()), allow_batch_norm=True)
    evaluated.backward()
    directions = along(model)
    slope = sum((p.grad * d).sum() for p, d in zip(model.parameters(), directions, strict=True))
    assert evaluated.moments(directions).slope == pytest.approx(float(slope), rel=1e-10)


def test_batch_norm_in_eval_mode_keeps_samples_apart(data):
    model = build(lambda: nn.Linear(4, 5), lambda: nn.BatchNorm1d(5), lambda: nn.Linear(5, 1)).eval()
    refuse_batch_norm(model)
    directions = along(model)
    torch.testing.assert_close(evaluate(model, data).slopes(directions), reference(model, data, directions))


def test_instance_norm_is_not_batch_norm():
    x = torch.randn(6, 2, 5, dtype=torch.float64)
    model = build(lambda: nn.Conv1d(2, 3, 2), lambda: nn.InstanceNorm1d(3), nn.Flatten, lambda: nn.Linear(12, 1))
    refuse_batch_norm(model)
    assert evaluate(model, x).slopes(along(model)).shape == (6,)


# Samples that mix by hand are never read layer by layer


@pytest.mark.parametrize(
    "mix",
    [
        lambda z: z - z.mean(0),
        lambda z: z - z.mean(0, keepdim=True),
        lambda z: z.flip(0),
        lambda z: z[torch.arange(len(z)).roll(1)],
        lambda z: z.t(),
        lambda z: z.transpose(0, 1).reshape(len(z), -1),
        lambda z: z.cumsum(0),
        lambda z: z.softmax(0),
        lambda z: z.softmax(-2),
        lambda z: z.log_softmax(0),
        lambda z: z * z.sum(1),
        lambda z: z + z.sum(),
        lambda z: z @ z.t(),
        lambda z: z.roll(1, 0),
        lambda z: torch.cat((z[1:], z[:1])),
        lambda z: z.sum(1) + z.sum(0),
    ],
)
def test_operations_that_mix_samples_are_seen(mix):
    x = torch.randn(5, 5, dtype=torch.float64)  # as many features as samples: shapes alone give nothing away
    model = build(lambda: nn.Linear(5, 5))
    mixed = mix(torch.tanh(model(x)))
    row = (mixed if mixed.ndim == 2 else mixed[:, None]).square().sum(1)
    evaluated = Evaluated(row, list(model.parameters()))
    assert not evaluated.by_layers
    evaluated.backward()
    directions = along(model)
    expected = []
    for place in range(5):
        mixed = mix(torch.tanh(model(x)))
        loss = (mixed if mixed.ndim == 2 else mixed[:, None]).square().sum(1)[place]
        found = torch.autograd.grad(loss, list(model.parameters()))
        expected.append(sum((g * d).sum() for g, d in zip(found, directions, strict=True)))
    torch.testing.assert_close(evaluated.slopes(directions), torch.stack(expected))


# Parameters move on


def shift(model, directions, step):
    with torch.no_grad():
        for parameter, direction in zip(model.parameters(), directions, strict=True):
            torch.add(parameter, direction, alpha=step, out=parameter)


@pytest.mark.parametrize("model", [dense, normed])
def test_an_earlier_evaluation_serves_a_new_direction_once_the_parameters_are_back(model, data):
    model, start = model(), None
    start = [p.detach().clone() for p in model.parameters()]
    directions = along(model)
    expected = reference(model, data, directions)
    evaluated = evaluate(model, data, variances=True)
    variances = evaluated.gradient_variances()
    evaluated.keep()
    shift(model, along(model, 2), 0.3)
    evaluate(model, data.flip(0) * 2)
    with torch.no_grad():
        torch._foreach_copy_(list(model.parameters()), start)
    versions = [p._version for p in model.parameters()]
    torch.testing.assert_close(evaluated.slopes(directions), expected)
    for found, before in zip(evaluated.gradient_variances(), variances, strict=True):
        torch.testing.assert_close(found, before)
    assert [p._version for p in model.parameters()] == versions


def test_layer_by_layer_the_parameters_may_be_anywhere(data):
    model = dense()
    directions = along(model)
    expected = reference(model, data, directions)
    evaluated = evaluate(model, data)
    shift(model, directions, 0.3)
    torch.testing.assert_close(evaluated.slopes(directions), expected)


def test_from_the_graph_the_parameters_must_be_back(data):
    model = normed()
    directions = along(model)
    evaluated = evaluate(model, data)
    shift(model, directions, 0.3)
    with pytest.raises(RuntimeError, match=r"changed after this evaluation.*keep"):
        evaluated.slopes(directions)
    evaluated = evaluate(model, data)
    evaluated.keep()
    shift(model, directions, 0.3)
    with pytest.raises(RuntimeError, match="not where they were"):
        evaluated.slopes(directions)


def test_a_batch_that_is_overwritten_is_noticed_unless_it_was_kept(data):
    model = dense()
    directions = along(model)
    expected = reference(model, data, directions)
    evaluated, kept = evaluate(model, data), evaluate(model, data)
    kept.keep()
    data.zero_()
    torch.testing.assert_close(kept.slopes(directions), expected)
    with pytest.raises(RuntimeError, match="changed in place"):
        evaluated.slopes(directions)


def test_layer_by_layer_the_graph_is_freed(data):
    model = dense()
    row = losses(model, data)
    hidden = weakref.ref(row)
    evaluated = Evaluated(row, list(model.parameters()))
    evaluated.backward()
    with pytest.raises(RuntimeError, match="second time"):
        row.sum().backward()
    del row
    gc.collect()
    assert hidden() is None
    assert evaluated.slopes(along(model)).shape == (8,)


# Gradients that are not only the evaluation's own


def test_hooks_accumulation_and_clipping_do_not_reach_the_variances(data):
    model = dense()
    plain = evaluate(model, data)
    expected, slopes = plain.gradient_variances(), plain.own_slopes()
    diagonal = plain.moments(along(model), diagonal=True)

    def same(evaluated):
        for found, before in zip(evaluated.gradient_variances(), expected, strict=True):
            torch.testing.assert_close(found, before)
        torch.testing.assert_close(evaluated.own_slopes(), slopes)
        again = evaluated.moments(along(model), diagonal=True)
        assert again.slope == pytest.approx(diagonal.slope, rel=1e-10)
        assert again.slope_var == pytest.approx(diagonal.slope_var, rel=1e-10)

    row = losses(model, data)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    evaluated = Evaluated(row, list(model.parameters()))
    evaluated.backward()
    assert all(p.grad.mean() > 0.1 for p in model.parameters())
    same(evaluated)
    evaluated = evaluate(model, data)
    nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    same(evaluated)
    hooks = [p.register_hook(lambda gradient: gradient * 2) for p in model.parameters()]
    same(evaluate(model, data))
    for hook in hooks:
        hook.remove()

    def double(parameter):
        parameter.grad.mul_(2)

    hooks = [p.register_post_accumulate_grad_hook(double) for p in model.parameters()]
    same(evaluate(model, data))


# Arguments


@pytest.mark.parametrize("wrong", [3.0, torch.ones(()), torch.ones(3, 1), torch.ones(0)])
def test_losses_must_be_a_vector(wrong):
    with pytest.raises(TypeError, match=r"losses must be a tensor of shape \(B,\)"):
        Evaluated(wrong, [])


def test_losses_must_have_a_graph():
    with pytest.raises(ValueError, match="losses must have a graph"):
        Evaluated(torch.ones(3), [])


@pytest.mark.parametrize("model", [dense, normed])
def test_a_closure_that_calls_backward_is_told(model, data):
    model = model()
    row = losses(model, data)
    row.mean().backward()
    with pytest.raises(RuntimeError, match="remove backward"):
        Evaluated(row, list(model.parameters())).backward()


def test_the_order_of_calls_is_explained(data):
    model = dense()
    evaluated = Evaluated(losses(model, data), list(model.parameters()))
    for ask in (evaluated.slopes, evaluated.diagonal, evaluated.moments):
        with pytest.raises(RuntimeError, match=r"call backward\(\) first"):
            ask(along(model))
    evaluated.backward()
    with pytest.raises(RuntimeError, match="already run"):
        evaluated.backward()
    for ask in (evaluated.slopes, evaluated.diagonal):
        with pytest.raises(ValueError, match="one tensor for each of the 4 parameters, got 1"):
            ask(along(model)[:1])


def test_variances_of_convolutions_need_the_graph():
    model = build(lambda: nn.Conv1d(2, 3, 2), nn.Flatten, lambda: nn.Linear(12, 1))
    x = torch.randn(6, 2, 5, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"backward\(variances=True\)"):
        evaluate(model, x).gradient_variances()


# Operators that cannot be differentiated twice


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].exp()


class Stubborn(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Linear(4, 1), nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        return Once.apply(torch.tanh(self.layer(x)) * self.scale)


def test_without_a_second_derivative_samples_are_taken_one_by_one(data):
    model = build(Stubborn)
    directions = along(model)
    evaluated = evaluate(model, data)
    own = [p.grad.clone() for p in model.parameters()]
    for ask, wanted in ((lambda: evaluated.slopes(directions), directions), (evaluated.own_slopes, own)):
        with pytest.warns(RuntimeWarning, match="cannot be differentiated"):
            found = ask()
        torch.testing.assert_close(found, reference(model, data, wanted))


@pytest.mark.filterwarnings("ignore:gradline.*cannot be differentiated:RuntimeWarning")
def test_attention_kernels_of_torchs_choice():
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).double()
    x = torch.randn(3, 5, 4, dtype=torch.float64)

    def rows(x):
        return nn.functional.smooth_l1_loss(model(x), torch.ones_like(x), reduction="none").mean((1, 2))

    evaluated = Evaluated(rows(x), list(model.parameters()))
    evaluated.backward()
    directions = along(model)
    expected = []
    for row in x:
        gradients = torch.autograd.grad(rows(row[None]).sum(), list(model.parameters()))
        expected.append(sum((g * d).sum() for g, d in zip(gradients, directions, strict=True)))
    torch.testing.assert_close(evaluated.slopes(directions), torch.stack(expected))
