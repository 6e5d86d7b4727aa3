"""Problems that are trained to the end, with validation and test samples: those of the study `train`."""

from __future__ import annotations

from gradline.lab.problems.problem import Built

_HERE = __name__.rpartition(".")[0]

TRAINING = (
    Built(
        name="mnist-dropout",
        builder=f"{_HERE}.vision:build_dropout",
        about="convolutional net with dropout on MNIST",
        data="mnist-60000",
        budget=4000,
        batch_sizes=(32, 128),
    ),
    Built(
        name="mnist-autoencoder",
        builder=f"{_HERE}.vision:build_autoencoder",
        about="autoencoder of MNIST's images with a code of 16 numbers",
        data="mnist-60000",
        error="test loss",
        budget=4000,
        batch_sizes=(32, 256),
    ),
    Built(
        name="cifar-batchnorm",
        builder=f"{_HERE}.vision:build_batch_norm",
        about="convolutional net with BatchNorm on 9,000 images of CIFAR10, flipped and shifted",
        data="cifar10",
        budget=2500,
        batch_sizes=(32, 128),
    ),
    Built(
        name="cifar-groupnorm",
        builder=f"{_HERE}.vision:build_group_norm",
        about="convolutional net with GroupNorm on 9,000 images of CIFAR10, flipped and shifted",
        data="cifar10",
        budget=2500,
        batch_sizes=(32, 128),
    ),
    Built(
        name="text-transformer",
        builder=f"{_HERE}.text:build_transformer",
        about="two-layer transformer on the characters of Unicode's character names",
        error="share of wrong next characters",
        budget=2000,
        batch_sizes=(16, 64),
    ),
    Built(
        name="text-lstm",
        builder=f"{_HERE}.text:build_lstm",
        about="LSTM on the characters of Unicode's character names",
        error="share of wrong next characters",
        budget=3000,
        batch_sizes=(16, 64),
    ),
    Built(
        name="digits-mlp",
        builder=f"{_HERE}.tabular:build_digits",
        about="perceptron on scikit-learn's digits",
        budget=2000,
        batch_sizes=(16, 128),
    ),
    Built(
        name="diabetes-mlp",
        builder=f"{_HERE}.tabular:build_diabetes",
        about="perceptron on scikit-learn's diabetes data",
        error="test loss",
        budget=600,
        batch_sizes=(16, 100),
    ),
    Built(
        name="friedman-mlp",
        builder=f"{_HERE}.tabular:build_friedman",
        about="perceptron on 400 rows of Friedman's regression",
        error="test loss",
        budget=2000,
        batch_sizes=(20, 100),
    ),
    Built(
        name="finetune-head",
        builder=f"{_HERE}.vision:build_head",
        about="new last layer on a net that was pre-trained on five of MNIST's digits, for 1,000 images of the others",
        data="mnist-60000",
        budget=1000,
        batch_sizes=(32, 128),
    ),
    Built(
        name="finetune-body",
        builder=f"{_HERE}.vision:build_body",
        about="all layers of a net that was pre-trained on five of MNIST's digits, for 1,000 images of the others",
        data="mnist-60000",
        budget=800,
        batch_sizes=(32, 128),
    ),
    Built(
        name="digits-vae",
        builder=f"{_HERE}.digits:build_split",
        about="variational autoencoder on scikit-learn's digits",
        error="test loss",
        budget=3000,
        batch_sizes=(16, 128),
    ),
    Built(
        name="poisson-pinn",
        builder=f"{_HERE}.physics:build_split",
        about="physics-informed net for -u'' = f in one dimension",
        error="squared relative error of u",
        budget=3000,
        batch_sizes=(32, 256),
    ),
    Built(
        name="matrix-factors",
        builder=f"{_HERE}.synthetic:build_split_factorisation",
        about="a matrix of rank 4 from half of its entries",
        error="test loss",
        budget=3000,
        batch_sizes=(64, 512),
    ),
    Built(
        name="paper-bcwd",
        builder=f"{_HERE}.paper:build_bcwd",
        about="the paper's NetPI on BCWD",
        data="bcwd",
        budget=2000,
        batch_sizes=(20, 100),
    ),
    Built(
        name="paper-mnist",
        builder=f"{_HERE}.paper:build_mnist",
        about="the paper's NetI on MNIST",
        data="mnist",
        budget=2000,
        batch_sizes=(50, 200),
    ),
)
"""Budgets are those of the smaller batch size."""
