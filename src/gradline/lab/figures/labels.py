"""The names of problems and methods in figures and tables."""

from __future__ import annotations

PROBLEMS = {
    "bcwd-logr": "LogR",
    "bcwd-netpi": "NetPI",
    "bcwd-netpii": "NetPII",
    "bcwd-netpi-10": "NetPI, ten hidden layers",
    "mnist-net1": "MNIST, NetI",
    "mnist-net2": "MNIST, NetII",
    "cifar-net1": "CIFAR10, NetI",
    "cifar-net2": "CIFAR10, NetII",
}
METHODS = {
    "gols-i": "GOLS-I",
    "prls": "PrLS",
    "gols-b": "GOLS-B",
    "gols-back": "GOLS-Back",
    "gols-max": "GOLS-Max",
    "armijo": "Armijo",
    "golden-section": "golden section",
    "strong-wolfe": "strong Wolfe",
    "fixed-1": "fixed step 1",
    "fixed-10": "fixed step 10",
    "fixed-100": "fixed step 100",
    "angle": "Angle",
    "gols-i-adam": "GOLS-I along Adam",
    "schedule-free": "Schedule-Free",
    "prodigy": "Prodigy",
}
VARIANTS = {"-published-loss": "with the published loss", "-as-published": "as published"}
"""Endings of names of problems, and what they mean."""


def problem(name: str) -> str:
    """Return a problem's name in the paper, or its own if it is not in the paper."""
    for suffix, words in VARIANTS.items():
        if name.endswith(suffix):
            return f"{problem(name.removesuffix(suffix))} {words}"
    return PROBLEMS.get(name, name)


def method(name: str) -> str:
    """Return a method's name in the paper, or its own if it is not in the paper."""
    return METHODS.get(name, name)


def order(problem: str, method: str) -> tuple[int | str, ...]:
    """Return a key that sorts problems, then methods, as the paper does, and others after them by name."""
    problems, methods = list(PROBLEMS), list(METHODS)
    return (
        problems.index(problem) if problem in problems else len(problems),
        methods.index(method) if method in methods else len(methods),
        *(problem, method),
    )


def batch(size: int) -> str:
    """Return a batch size as a title."""
    return f"B = {size}"


def plain(text: str) -> str:
    """Return text as matplotlib shows it unchanged: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")
