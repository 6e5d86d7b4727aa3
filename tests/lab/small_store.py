"""A small store with runs of every study, made by real runs of a few evaluations."""

from dataclasses import replace

from gradline.lab import run_study
from gradline.lab.jobs.runs import Sampling
from gradline.lab.methods import METHODS
from gradline.lab.problems import PROBLEMS, Loss
from gradline.lab.studies import Study

BUDGET = 60
LONG = 120


def study(problems, methods=("gols-i", "prls"), batch_sizes=(10, 50), seeds=2, budget=BUDGET, **others):
    return Study(
        name="small",
        problems=tuple(problems),
        methods=tuple(METHODS[name] for name in methods),
        batch_sizes=batch_sizes,
        seeds=tuple(range(seeds)),
        budget=budget,
        **others,
    )


def like_images(name):
    """A problem with the name of one on MNIST or CIFAR10, but with data that are always there."""
    return replace(PROBLEMS[name], data="bcwd", hidden=(3,), error_samples=None, dtype="float64")


def studies():
    bcwd = [PROBLEMS[f"bcwd-{net}"] for net in ("logr", "netpi", "netpii")]
    published = [
        replace(problem, name=f"{problem.name}-published-loss", loss=Loss.BCE_AS_PUBLISHED) for problem in bcwd[:2]
    ]
    yield study(bcwd)
    yield study(bcwd[:1], ("gols-i", "fixed-1", "fixed-10", "fixed-100"), budget=LONG)
    yield study([PROBLEMS["bcwd-netpi-10"]], batch_sizes=(100,))
    yield study([like_images(f"{data}-net{net}") for data in ("mnist", "cifar") for net in (1, 2)])
    both = (Sampling.STATIC, Sampling.DYNAMIC)
    yield study(bcwd[1:2], ("gols-i", "prls", "armijo", "golden-section"), sampling=both)
    yield study(bcwd[1:2], direction_batch_sizes=(10, 50))
    yield study(bcwd, ("gols-i",), batch_sizes=(10, 400), angle=True)
    yield study(published)
    yield study([like_images(f"{data}-net2-as-published") for data in ("mnist", "cifar")])


def make(directory):
    for one in studies():
        done = run_study(one, directory, backend="inline")
        assert not done.failures
