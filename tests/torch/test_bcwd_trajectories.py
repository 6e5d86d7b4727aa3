"""The authors' own training runs on the breast-cancer data, evaluation by evaluation, by our optimizers.

They start from the authors' weights, see their mini-batches and use their losses as their programs had them: for the
binary cross-entropy a value and a gradient that do not belong together. Where the last digits decide (the authors'
program then also leaves its own path, if its start is changed by one part in 1e14) the comparison ends.
"""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import gradline
from gradline.lab.problems import PROBLEMS
from gradline.lab.problems.networks import criterion
from gradline.protocol import Stop

GOLDEN = Path(__file__).parent.parent / "golden"
RUNS = json.loads((GOLDEN / "bcwd_traj.json").read_text())["runs"]
EXITS = {
    "wolfe_last": Stop.PROBABLY_WOLFE,
    "wolfe_among_evaluated": Stop.PROBABLY_WOLFE_EARLIER,
    "wolfe_at_limit": Stop.PROBABLY_WOLFE_AT_LAST,
    "limit_best_mean": Stop.LOWEST_MEAN,
    "steep": Stop.BELIEVED_UPHILL,
    "zero_gradient": Stop.ALMOST_FLAT,
}


def published_bce(z, y):
    """The programs' losses of all samples: log10 and a mean over outputs as value, natural and a sum as gradient."""
    q = torch.sigmoid(z)
    value = -(y * torch.log10(q + 1e-12) + (1.0 - y) * torch.log10(1.0 + 1e-12 - q)).mean(dim=1)
    delta = (q - y) / (q - q.square() + 1e-15) * torch.exp(-z) / (1.0 + torch.exp(-z)).square()
    shape = (z * delta.detach()).sum(dim=1)  # has the gradient that is wanted
    return shape + (value - shape).detach()


def mse(z, y):
    """Proben1's squared error in percent."""
    return 100.0 * (torch.sigmoid(z) - y).square().mean(dim=1)


class Training:
    """One of the authors' runs, ready to be made again."""

    def __init__(self, run):
        data = np.load(GOLDEN / "bcwd.npz")
        self.batches = torch.tensor(data["perms"][:, : run["B"]].astype(np.int64))
        self.inputs, self.targets = torch.tensor(data["X_train"]), torch.tensor(data["Y_train"])
        sizes = [30, 2] if run["net"] == "LogR" else [30, 32, 2]
        layers = [nn.Linear(*pair, dtype=torch.float64) for pair in itertools.pairwise(sizes)]
        self.model = nn.Sequential(layers[0], *(part for layer in layers[1:] for part in (nn.Sigmoid(), layer)))
        start = 0
        weights = torch.tensor(data[f"X0_{run['net']}"])
        for layer in layers:
            rows, columns = layer.in_features + 1, layer.out_features
            block = weights[start : start + rows * columns].reshape(columns, rows)
            start += rows * columns
            with torch.no_grad():
                layer.weight.copy_(block[:, :-1])
                layer.bias.copy_(block[:, -1])
        self.loss_of = mse if run["net"] == "NetPII" else published_bce
        self.seen = []

    def losses(self):
        """Of the next mini-batch, as the authors drew it."""
        batch = self.batches[len(self.seen)]
        losses = self.loss_of(self.model(self.inputs[batch]), self.targets[batch])
        self.seen.append(float(losses.detach().mean()))
        return losses


def before_rounding(run):
    return len(run["loss"]) if run["rounding"] is None else run["rounding"]


def compare(run, training, records, lengths):
    """Losses and gradients of all evaluations and steps of all iterations, before rounding decides."""
    end = min(before_rounding(run), len(training.seen))
    np.testing.assert_allclose(training.seen[:end], run["loss"][:end], rtol=1e-6)
    np.testing.assert_allclose(lengths[:end], run["gnorm"][:end], rtol=1e-6)
    compared = 0
    for record, evaluations, step in zip(records, run["fe"], run["alpha"], strict=False):
        if evaluations >= end:
            break
        assert record.step == pytest.approx(step, rel=1e-6)
        compared += 1
    return compared


def named(run):
    return f"{run['net']}-{run['B']}"


@pytest.mark.parametrize("run", [run for run in RUNS if run["method"] == "GOLS-I"], ids=named)
def test_gols_i(run):
    training = Training(run)
    parameters = list(training.model.parameters())
    optimizer = gradline.GOLSI(parameters)
    lengths, records = [], []

    def closure():
        optimizer.zero_grad()
        here = [p.detach().clone() for p in parameters]
        if not training.seen:  # the programs take the very first gradient at zero weights
            for parameter in parameters:
                parameter.data.zero_()
        training.losses().mean().backward()
        for parameter, values in zip(parameters, here, strict=True):
            parameter.data.copy_(values)
        lengths.append(math.sqrt(sum(float(p.grad.square().sum()) for p in parameters)))

    while len(training.seen) < before_rounding(run):
        optimizer.step(closure)
        records.append(optimizer.last)
        assert optimizer.evaluations == len(training.seen)
        if len(training.seen) <= before_rounding(run):
            assert optimizer.evaluations == run["fe"][len(records) - 1]
    assert compare(run, training, records, lengths) > 10


@pytest.mark.parametrize("run", [run for run in RUNS if run["method"] == "PrLS"], ids=named)
def test_prls(run):
    training = Training(run)
    parameters = list(training.model.parameters())
    optimizer = gradline.PrLS(parameters, diagonal=True)
    lengths, records = [], []
    for parameter in parameters:  # the gradients come after the closure has returned
        parameter.register_post_accumulate_grad_hook(lambda p: pieces.update({p: float(p.grad.square().sum())}))
    pieces = {}

    def closure():
        if training.seen:
            lengths.append(math.sqrt(sum(pieces.values())))
        return training.losses()

    while len(training.seen) < before_rounding(run):
        optimizer.step(closure)
        records.append(optimizer.last)
        place = len(records) - 1
        if len(training.seen) < before_rounding(run):
            assert optimizer.evaluations == run["fe"][place]
            assert records[-1].stop is EXITS[run["exit"][place]]
            assert records[-1].evaluations == run["probes"][place]
    lengths.append(math.sqrt(sum(pieces.values())))
    assert compare(run, training, records, lengths) > 10


@pytest.mark.parametrize(("problem", "loss_of"), [("bcwd-netpi-as-published", published_bce), ("bcwd-netpii", mse)])
def test_the_studys_losses_are_these(problem, loss_of):
    draws = torch.Generator().manual_seed(0)
    z = (20.0 * torch.randn(200, 2, generator=draws, dtype=torch.float64)).requires_grad_()
    y = torch.nn.functional.one_hot(torch.randint(2, (200,), generator=draws), 2).double()
    losses, theirs = loss_of(z, y), criterion(PROBLEMS[problem])(z, y)
    torch.testing.assert_close(theirs, losses, rtol=1e-9, atol=1e-12)
    gradients = [torch.autograd.grad(each.sum(), z)[0] for each in (losses, theirs)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-9, atol=1e-12)
