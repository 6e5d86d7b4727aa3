"""Hold the paper's claims against results.

A claim has parts, each a statement that can be true or false. A part is decided by the runs of its own settings: those
with the paper's budget, or else the longest there are, and methods are compared at equal budgets. It says the paper's
figure, ours with the spread over seeds, and which runs it was decided by; where these are shorter or fewer than the
paper's, it says that too. The statements are in `gradline.lab.findings.statements`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from gradline.lab.tools.formatting import plural

SEEDS = 10
"""Runs of the paper that differ in nothing but chance."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One statement of the paper, the paper's figure, and ours."""

    statement: str
    paper: str
    """The paper's own figure or words."""
    holds: bool | None
    """`None`: no run decides it."""
    seen: str
    """Our figure: a count, or the median over seeds with its range."""
    runs: str = "no runs"
    """The number of seeds and evaluations of the runs that decide it."""
    short: bool = False
    """Whether they are fewer, or shorter, than the paper's."""


@dataclass(frozen=True)
class Verdict:
    """A claim and what became of it."""

    number: int
    claim: str
    parts: tuple[Part, ...]

    @property
    def short(self) -> bool:
        """Whether some part was decided by fewer or shorter runs than the paper's."""
        return any(part.short for part in self.parts)

    @property
    def runs(self) -> str:
        """The number of seeds and evaluations of the runs it was held against."""
        return "; ".join(dict.fromkeys(part.runs for part in self.parts if part.holds is not None)) or "none"

    def evidence(self, part: Part) -> str:
        """Return our figure, the runs it comes from if the parts of the claim have different ones, and the paper's."""
        runs = f" ({part.runs})" if part.holds is not None and self.runs != part.runs else ""
        return f"{part.seen}{runs}; paper: {part.paper}"

    @property
    def verdict(self) -> str:
        """The verdict in a few words, with what is missing of the paper's runs."""
        missing = sum(part.holds is None for part in self.parts)
        partial = f", {missing} of {len(self.parts)} parts not run" if 0 < missing < len(self.parts) else ""
        return f"{self.word}{', on few or short runs' if self.short else ''}{partial}"

    @property
    def word(self) -> str:
        """The verdict without a remark on the runs."""
        decided = [part.holds for part in self.parts if part.holds is not None]
        if not decided:
            return "not run"
        if all(decided):
            return "reproduced" if len(decided) == len(self.parts) else "reproduced as far as run"
        return "partly reproduced" if any(decided) else "not reproduced"


class Selection(NamedTuple):
    """Some runs of the paper: their method, and what they are restricted to."""

    method: str
    batch_size: int | None = None
    problem: str | None = None


Decide: TypeAlias = Callable[..., tuple[bool, str]]
"""Returns whether a statement holds and our figure, from one table of runs for each setting."""


class Evidence:
    """The runs that one claim is held against.

    Args:
        runs: the table of `gradline.lab.summary`, of the claim's problems.
        budget: evaluations of the paper's runs.
    """

    def __init__(self, runs: pd.DataFrame, budget: int) -> None:
        self._runs, self._budget = runs, budget

    def part(self, statement: str, paper: str, settings: Sequence[Selection], decide: Decide) -> Part:
        """Decide a statement by the runs of some settings, all of one budget; without any of them it is not decided."""
        found = [self._of(setting) for setting in settings]
        budgets = set.intersection(*(set(runs["budget"]) for runs in found))
        if not budgets:
            return Part(statement=statement, paper=paper, holds=None, seen="not run")
        budget = self._budget if self._budget in budgets else max(budgets)
        found = [runs[runs["budget"] == budget] for runs in found]
        holds, seen = decide(*found)
        by = ["problem", "batch_size"]
        seeds = min(int(runs.groupby(by, observed=True)["seed"].nunique().min()) for runs in found)
        return Part(
            statement=statement,
            paper=paper,
            holds=bool(holds),
            seen=seen,
            runs=f"{plural(seeds, 'seed')}, {budget:,} evaluations",
            short=budget < self._budget or seeds < SEEDS,
        )

    def _of(self, setting: Selection) -> pd.DataFrame:
        chosen = self._runs
        for name, value in setting._asdict().items():
            chosen = chosen if value is None else chosen[chosen[name] == value]
        return chosen


class Claim(NamedTuple):
    """A claim of the paper: which problems it is about, their budget, and its statements."""

    number: int
    text: str
    problems: tuple[str, ...]
    budget: int
    statements: Callable[[Evidence], Iterator[Part]]


def claims(runs: pd.DataFrame) -> list[Verdict]:
    """Hold every claim that training runs can decide (2 to 11) against a table of `gradline.lab.summary`."""
    from gradline.lab.findings.statements import CLAIMS

    plain = _plain(runs)
    verdicts = []
    for claim in CLAIMS:
        evidence = Evidence(plain[plain["problem"].isin(claim.problems)], claim.budget)
        verdicts.append(Verdict(claim.number, claim.text, tuple(claim.statements(evidence))))
    return verdicts


def spread(values: pd.Series) -> str:
    """Return the median of some numbers and, of several, their range, as text."""
    numbers = values.astype("float64").to_numpy()
    text = f"{np.median(numbers):.3g}"
    return text if len(numbers) < 2 else f"{text} ({np.min(numbers):.3g} to {np.max(numbers):.3g})"


def _plain(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of the paper's kind: dynamic sampling, one batch size for everything, diagonal variances.

    Two studies may have made the same run, one of them with angles beside it: it counts once.
    """
    kind = (
        (runs["sampling"] == "dynamic") & runs["direction_batch_size"].isna() & ~runs["repetition"] & runs["diagonal"]
    )
    return runs[kind.astype(bool)].drop_duplicates(["problem", "method", "batch_size", "seed", "budget", "loss"])
