"""Figures 8 to 14 of the paper: whose runs, what is measured, how runs are drawn, and what the paper says."""

from __future__ import annotations

from gradline.lab.figures.curves import STEP, TEST_ERROR, TEST_LOSS, TRAIN_ERROR, TRAIN_LOSS
from gradline.lab.figures.panels import ZERO, Look, grid

FIXED = ("fixed-1", "fixed-10", "fixed-100")
_FOUR = "Training error, training loss, test error and step"
_LINEAR = "Training error, test error (both on linear scales)"

ENTRIES = (
    grid(
        "figure_8",
        "bcwd",
        "BCWD: GOLS-I against PrLS over batch sizes",
        f"{_FOUR} of three networks on the breast-cancer data (BCWD)",
        "GOLS-I completes all runs at every batch size; PrLS breaks down at B = 10 and diverges late with all 400 "
        "samples. On NetPI and NetPII GOLS-I reaches zero training error near 1,000 evaluations at B = 50 and within "
        "500 to 800 at B = 100, PrLS not at B = 50 and near 1,200 at B = 100.",
        look=Look.CLOUD,
        remark=" Means and deviations are of logarithms." + ZERO,
        height=1.3,
    ),
    grid(
        "figure_9",
        "bcwd-fixed",
        "BCWD, logistic regression for long: GOLS-I against fixed steps",
        "Training loss and step of logistic regression on the breast-cancer data with GOLS-I and three fixed steps",
        "From B = 50 on GOLS-I fits the training data to numerical accuracy and is better than the fixed steps 1, 10 "
        "and 100; at B = 10 it is not. A fixed step of 100 often diverges.",
        measures=(TRAIN_LOSS, STEP),
        remark="",
        height=1.9,
        any_of=FIXED,
    ),
    grid(
        "figure_10",
        "mnist-net1",
        "MNIST, NetI: GOLS-I against PrLS over batch sizes",
        f"{_FOUR} of a network with one hidden layer of 800 units on MNIST",
        "GOLS-I is better than PrLS at every batch size; its first training errors of zero come near 800 evaluations "
        "at B = 100 and near 500 at B = 200, while PrLS stays near 1e-2.",
    ),
    grid(
        "figure_11",
        "mnist-net2",
        "MNIST, NetII: GOLS-I against PrLS over batch sizes",
        f"{_FOUR} of a network with three hidden layers on MNIST",
        "PrLS is better than GOLS-I at B = 10; GOLS-I is better at B = 100 and B = 200.",
    ),
    grid(
        "figure_12",
        "cifar-net1",
        "CIFAR10, NetI: GOLS-I against PrLS over batch sizes",
        f"{_LINEAR} and step of a network with one hidden layer of 800 units on CIFAR10",
        "At B = 100 GOLS-I is below 10% training error within 5,000 evaluations; PrLS is at best at 50% after 10,000.",
        measures=(TRAIN_ERROR.linear(), TEST_ERROR.linear(), STEP),
        remark="",
    ),
    grid(
        "figure_13",
        "cifar-net2",
        "CIFAR10, NetII: GOLS-I against PrLS over batch sizes",
        f"{_LINEAR}, test loss and step of a network with three hidden layers on CIFAR10",
        "PrLS is better than GOLS-I at B = 10. The test loss has its minimum within the first 1,000 evaluations at "
        "B = 100 and B = 200.",
        measures=(TRAIN_ERROR.linear(), TEST_ERROR.linear(), TEST_LOSS, STEP),
        remark="",
    ),
    grid(
        "figure_14",
        "netpi-10",
        "BCWD, ten hidden layers: GOLS-I against PrLS",
        "Training loss, step, training error and test error of NetPI with ten hidden layers",
        "Isolated runs of GOLS-I reach a training loss of 1e-10; PrLS diverges after about 1,500 evaluations.",
        measures=(TRAIN_LOSS, STEP, TRAIN_ERROR, TEST_ERROR),
        look=Look.DOTTED,
        remark=" Means are of logarithms, of steps over the lowest common number of iterations." + ZERO,
        by_measure=True,
    ),
)
