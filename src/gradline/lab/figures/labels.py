"""What problems, methods and measures are called where people read them."""

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
}


def problem(name: str) -> str:
    """A problem's name in the paper; of one that is not in the paper, its own."""
    plain = name.removesuffix("-published-loss")
    known = PROBLEMS.get(plain, plain)
    return known if plain == name else f"{known} with the published loss"


def method(name: str) -> str:
    """A method's name in the paper; of one that is not in the paper, its own."""
    return METHODS.get(name, name)


def batch(size: int) -> str:
    """A batch size as a title."""
    return f"B = {size}"


def plain(text: str) -> str:
    """Text as matplotlib shows it unchanged: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")
