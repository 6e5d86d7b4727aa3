"""From names on a command line to runs: problems, groups, batch sizes, methods; and which peers are not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gradline.lab.bench.runs import Run, interleaved
from gradline.lab.findings.measures import Grid
from gradline.lab.methods.peers import GROUPS, METHODS
from gradline.lab.problems.bench import HELD_OUT, PROBLEMS, TUNE, Problem
from gradline.lab.studies import MOST_SEEDS
from gradline.lab.studies.toml import unknown
from gradline.searches._arguments import require

PROBLEM_GROUPS: dict[str, tuple[str, ...]] = {"all": tuple(PROBLEMS), "tune": TUNE, "held-out": HELD_OUT}
"""Names that stand for several problems."""
QUICK_PROBLEMS = ("bcwd-netpi/50", "regression/100", "factorisation/500")
QUICK_METHODS = (*GROUPS["gradline"], *GROUPS["searches"], *GROUPS["learning-rate-free"], "sgd-0.1", "adam-0.01")
QUICK_BUDGET = 100
"""A smoke run of about a minute, on problems that are not held out: every peer, and one learning rate of each grid."""


@dataclass(frozen=True)
class Setting:
    """A problem with one of its batch sizes, a budget and a target."""

    problem: Problem
    batch_size: int
    budget: int
    target: float

    @property
    def name(self) -> str:
        """As on the command line."""
        return f"{self.problem.name}/{self.batch_size}"


@dataclass(frozen=True)
class Plan:
    """What is compared: the runs, and the methods that cannot take part, with the reasons."""

    settings: tuple[Setting, ...]
    methods: tuple[str, ...]
    seeds: int
    absent: Mapping[str, str]

    @property
    def runs(self) -> list[Run]:
        """In the order in which they are made."""
        found = [(s.problem.name, s.batch_size, s.budget, s.problem.revision) for s in self.settings]
        return interleaved(found, self.methods, range(self.seeds))

    @property
    def targets(self) -> dict[str, float]:
        """The training loss to be reached, of each setting."""
        return {setting.name: setting.target for setting in self.settings}


def plan(
    problems: Sequence[str], methods: Sequence[str], seeds: int, budget: int | None = None, *, installed: bool = True
) -> Plan:
    """The plan of some names.

    Args:
        problems: names of problems, of problems with a batch size ("regression/100"), or of groups; none: all.
        methods: names of methods or of groups; none: all.
        seeds: how many.
        budget: evaluations of each run, in place of the problems' own.
        installed: leave out the methods whose packages are not installed. What was run already can be read without.
    """
    settings = [
        Setting(PROBLEMS[name], size.batch_size, budget or size.budget, size.target)
        for name, wanted in _problems(problems or ("all",))
        for size in PROBLEMS[name].sizes
        if wanted is None or wanted == size.batch_size
    ]
    names = _methods(methods or ("all",))
    absent = {name: reason for name in names if installed and (reason := METHODS[name].unavailable()) is not None}
    present = tuple(name for name in names if name not in absent)
    require(seeds <= MOST_SEEDS, "seeds", f"at most {MOST_SEEDS:,}", "each is a run to be planned", seeds)
    return Plan(tuple(dict.fromkeys(settings)), present, seeds, absent)


def grids() -> dict[str, Grid]:
    """The methods that are points of a grid of learning rates."""
    return {
        name: Grid(method.family, method.rate)
        for name, method in METHODS.items()
        if method.family is not None and method.rate is not None
    }


def _problems(wanted: Iterable[str]) -> list[tuple[str, int | None]]:
    found: list[tuple[str, int | None]] = []
    for text in wanted:
        name, _, size = text.partition("/")
        if name not in PROBLEMS and name not in PROBLEM_GROUPS:
            raise ValueError(unknown("problem", name, [*PROBLEM_GROUPS, *PROBLEMS]))
        for known in PROBLEM_GROUPS.get(name, (name,)):
            if size and not size.isdecimal():
                raise ValueError(f"problem must be a name, or a name and a batch size as in {known}/10, got {text!r}")
            found.append((known, PROBLEMS[known].size(int(size)).batch_size if size else None))
    return found


def _methods(wanted: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in wanted:
        if name not in METHODS and name not in GROUPS:
            raise ValueError(unknown("method", name, [*GROUPS, *METHODS]))
        found |= dict.fromkeys(GROUPS.get(name, (name,)))
    return list(found)
