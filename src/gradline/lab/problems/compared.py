"""Problems that optimizers are compared on by their training loss: those of the study `compare` beside the paper's."""

from __future__ import annotations

from gradline.lab.problems.problem import Built

_HERE = __name__.rpartition(".")[0]

COMPARED = (
    Built(
        name="cifar-conv",
        builder=f"{_HERE}.images:build_convolutional",
        about="convolutional net with BatchNorm on CIFAR10's first 10,000 images",
        data="cifar10",
        budget=300,
        batch_sizes=(16, 64, 256),
    ),
    Built(
        name="cifar-resnet",
        builder=f"{_HERE}.images:build_residual",
        about="small residual net on CIFAR10's first 10,000 images",
        data="cifar10",
        budget=250,
        batch_sizes=(16, 64, 256),
    ),
    Built(
        name="char-transformer",
        builder=f"{_HERE}.text:build",
        about="two-layer transformer on the characters of Unicode's character names",
        error="share of wrong next characters",
        budget=300,
        batch_sizes=(8, 32, 128),
    ),
    Built(
        name="vae-digits",
        builder=f"{_HERE}.digits:build",
        about="variational autoencoder on scikit-learn's 8 × 8 digits",
        error="test loss",
        batch_sizes=(10, 100, 1500),
    ),
    Built(
        name="regression",
        builder=f"{_HERE}.synthetic:build_regression",
        about="linear regression whose Hessian has a condition number of about 10,000",
        error="test loss",
        batch_sizes=(10, 100, 1000),
    ),
    Built(
        name="factorisation",
        builder=f"{_HERE}.synthetic:build_factorisation",
        about="a matrix of rank 4 from half of its entries",
        error="test loss",
        batch_sizes=(50, 500, 4800),
    ),
    Built(
        name="pinn",
        builder=f"{_HERE}.physics:build",
        about="physics-informed net for -u'' = f in one dimension",
        error="relative error of u",
        budget=750,
        batch_sizes=(16, 128, 512),
    ),
)
