"""Problems of the studies `compare` and `train` beside the paper's networks.

Module and function of a builder are part of the keys of results: results of a builder that is renamed are not found.
"""

from __future__ import annotations

from typing import Any

from gradline.lab.problems.problem import Built


def _built(name: str, builder: str, budget: int, batch_sizes: tuple[int, ...], **others: Any) -> Built:
    module = __name__.rpartition(".")[0]
    return Built(name=name, builder=f"{module}.{builder}", budget=budget, batch_sizes=batch_sizes, **others)


# fmt: off
COMPARED = (
    _built("cifar-conv", "images:build_convolutional", 300, (16, 64, 256), data="cifar10",
        about="convolutional net with BatchNorm on CIFAR10's first 10,000 images"),
    _built("cifar-resnet", "images:build_residual", 250, (16, 64, 256), data="cifar10",
        about="small residual net on CIFAR10's first 10,000 images"),
    _built("char-transformer", "text:build", 300, (8, 32, 128), error="share of wrong next characters",
        about="two-layer transformer on the characters of Unicode's character names"),
    _built("vae-digits", "digits:build", 1000, (10, 100, 1500), error="test loss",
        about="variational autoencoder on scikit-learn's 8 × 8 digits"),
    _built("regression", "synthetic:build_regression", 1000, (10, 100, 1000), error="test loss",
        about="linear regression whose Hessian has a condition number of about 10,000"),
    _built("factorisation", "synthetic:build_factorisation", 1000, (50, 500, 4800), error="test loss",
        about="a matrix of rank 4 from half of its entries"),
    _built("pinn", "physics:build", 750, (16, 128, 512), error="relative error of u",
        about="physics-informed net for -u'' = f in one dimension"),
)
"""Problems on which optimizers are compared by their training loss."""

TRAINED = (
    _built("mnist-dropout", "vision:build_dropout", 4000, (32, 128), data="mnist-60000",
        about="convolutional net with dropout on MNIST"),
    _built("mnist-autoencoder", "vision:build_autoencoder", 4000, (32, 256), data="mnist-60000", error="test loss",
        about="autoencoder of MNIST's images with a code of 16 numbers"),
    _built("cifar-batchnorm", "vision:build_batch_norm", 2500, (32, 128), data="cifar10",
        about="convolutional net with BatchNorm on 9,000 images of CIFAR10, flipped and shifted"),
    _built("cifar-groupnorm", "vision:build_group_norm", 2500, (32, 128), data="cifar10",
        about="convolutional net with GroupNorm on 9,000 images of CIFAR10, flipped and shifted"),
    _built("text-transformer", "text:build_transformer", 2000, (16, 64), error="share of wrong next characters",
        about="two-layer transformer on the characters of Unicode's character names"),
    _built("text-lstm", "text:build_lstm", 3000, (16, 64), error="share of wrong next characters",
        about="LSTM on the characters of Unicode's character names"),
    _built("digits-mlp", "tabular:build_digits", 2000, (16, 128),
        about="perceptron on scikit-learn's digits"),
    _built("diabetes-mlp", "tabular:build_diabetes", 600, (16, 100), error="test loss",
        about="perceptron on scikit-learn's diabetes data"),
    _built("friedman-mlp", "tabular:build_friedman", 2000, (20, 100), error="test loss",
        about="perceptron on 400 rows of Friedman's regression"),
    _built("finetune-head", "vision:build_head", 1000, (32, 128), data="mnist-60000",
        about="new last layer on a net that was pre-trained on five of MNIST's digits, for 1,000 images of the others"),
    _built("finetune-body", "vision:build_body", 800, (32, 128), data="mnist-60000",
        about="all layers of a net that was pre-trained on five of MNIST's digits, for 1,000 images of the others"),
    _built("digits-vae", "digits:build_split", 3000, (16, 128), error="test loss",
        about="variational autoencoder on scikit-learn's digits"),
    _built("poisson-pinn", "physics:build_split", 3000, (32, 256), error="squared relative error of u",
        about="physics-informed net for -u'' = f in one dimension"),
    _built("matrix-factors", "synthetic:build_split_factorisation", 3000, (64, 512), error="test loss",
        about="a matrix of rank 4 from half of its entries"),
    _built("paper-bcwd", "paper:build_bcwd", 2000, (20, 100), data="bcwd",
        about="the paper's NetPI on BCWD"),
    _built("paper-mnist", "paper:build_mnist", 2000, (50, 200), data="mnist",
        about="the paper's NetI on MNIST"),
)
"""Problems that are trained to the end, with validation and test samples; budgets are those of the smaller batches."""
