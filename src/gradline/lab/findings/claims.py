"""What the paper claims, held against results: each claim in parts, each part with the figures that decide it.

The input is the table of `gradline.lab.summary`, one row a run. A part that no run can decide is not decided; where
runs were shorter or fewer than the paper's, the verdict says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

SMALL = 1.5e-8
"""A training loss below this, the square root of machine precision, counts as fitted to numerical accuracy."""
WORSE, BACK = 10.0, 0.1
"""A final loss so many times the lowest one, and at least this part of the one at the start, counts as diverged."""


SEEDS = 10
"""Runs of the paper that differ in nothing but chance."""


@dataclass(frozen=True)
class Part:
    """One statement that can be true or false, and what was seen."""

    statement: str
    holds: bool | None
    """`None`: nothing there to decide it."""
    seen: str


@dataclass(frozen=True)
class Verdict:
    """A claim and what became of it."""

    number: int
    claim: str
    parts: tuple[Part, ...]
    runs: str
    """Which runs it was held against."""
    short: bool = False
    """Whether they were shorter, or fewer, than the paper's."""

    @property
    def verdict(self) -> str:
        """In a few words."""
        return f"{self.word}, on few or short runs" if self.short and self.word != "not run" else self.word

    @property
    def word(self) -> str:
        """In a word or two."""
        decided = [part.holds for part in self.parts if part.holds is not None]
        if not decided:
            return "not run"
        if all(decided):
            return "reproduced" if len(decided) == len(self.parts) else "reproduced as far as run"
        return "partly reproduced" if any(decided) else "not reproduced"


def claims(runs: pd.DataFrame) -> list[Verdict]:
    """Hold every claim that training runs can decide (2 to 11) against a summary."""
    verdicts = []
    for number, claim, problems, budget, decide in _CLAIMS:
        relevant = _plain(runs)
        if problems:
            relevant = relevant[relevant["problem"].isin(problems)]
        short = bool(relevant["budget"].max() < budget or relevant["seed"].nunique() < SEEDS)
        verdicts.append(Verdict(number, claim, tuple(decide(relevant)), _which(relevant), short))
    return verdicts


def to_frame(verdicts: list[Verdict]) -> pd.DataFrame:
    """A row for each part."""
    words = {True: "yes", False: "no", None: "not run"}
    return pd.DataFrame(
        [
            {
                "claim": verdict.number,
                "text": verdict.claim,
                "verdict": verdict.verdict,
                "part": part.statement,
                "holds": words[part.holds],
                "seen": part.seen,
                "runs": verdict.runs,
            }
            for verdict in verdicts
            for part in verdict.parts
        ]
    )


def _plain(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of the paper: dynamic sampling, one batch size for everything.

    Two studies may have made the same run, one of them with angles beside it: it counts once.
    """
    plain = runs[(runs["sampling"] == "dynamic") & runs["direction_batch_size"].isna()]
    return plain.drop_duplicates(
        ["problem", "method", "batch_size", "seed", "budget", "repetition", "diagonal", "loss"]
    )


def _which(runs: pd.DataFrame) -> str:
    if runs.empty:
        return "none"
    counted = runs.groupby(["problem", "budget"], observed=True)["seed"].nunique().reset_index()
    rows = zip(counted["problem"], counted["budget"], counted["seed"], strict=True)
    return "; ".join(f"{name}: {seeds} seeds, {budget:,} evaluations" for name, budget, seeds in rows)


# ---- what is asked of runs


def _of(runs: pd.DataFrame, method: str, batch: int | None = None, problem: str | None = None) -> pd.DataFrame:
    chosen = runs[runs["method"] == method]
    if batch is not None:
        chosen = chosen[chosen["batch_size"] == batch]
    return chosen if problem is None else chosen[chosen["problem"] == problem]


def _broken(runs: pd.DataFrame) -> pd.Series:
    """Stalled, diverged, or without a finite loss at the end."""
    broken: pd.Series = runs["stalled"] | ~np.isfinite(runs["final_train_loss"]) | _diverged(runs)
    return broken


def _diverged(runs: pd.DataFrame) -> pd.Series:
    return (runs["final_train_loss"] > WORSE * runs["best_train_loss"]) & (
        runs["final_train_loss"] > BACK * runs["start_train_loss"]
    )


def _at(runs: pd.DataFrame, column: str) -> pd.Series:
    """Evaluations until something was so; NaN, which is not below anything, where it never was."""
    return runs[column].astype("float64")


def _share(flags: pd.Series) -> str:
    return f"{int(flags.sum())} of {len(flags)} runs"


def _decided(statement: str, runs: pd.DataFrame, decide: Callable[[pd.DataFrame], tuple[bool, str]]) -> Part:
    return Part(statement, *((None, "no runs") if runs.empty else decide(runs)))


def _better(runs: pd.DataFrame, column: str, winner: str, loser: str, batch: int, statement: str) -> Part:
    """Whether the median over seeds of one method is below the other's."""
    ours, theirs = (_of(runs, name, batch)[column] for name in (winner, loser))
    if ours.empty or theirs.empty:
        return Part(statement, None, "no runs")
    a, b = float(ours.median()), float(theirs.median())
    return Part(statement, a < b, f"median {column.replace('_', ' ')} {a:.3g} ({winner}) and {b:.3g} ({loser})")


def _all_zero(runs: pd.DataFrame, low: float, high: float, statement: str) -> Part:
    """Whether the last run comes to a training error of zero within a range: the paper looks at the mean of all."""
    if runs.empty:
        return Part(statement, None, "no runs")
    reached = runs["zero_error_at"].dropna()
    seen = f"{len(reached)} of {len(runs)} runs reach it"
    if len(reached) < len(runs):
        return Part(statement, False, seen)
    last = float(reached.max())
    return Part(
        statement, low <= last <= high, f"{seen}, the last at {last:,.0f}, half of them by {reached.median():,.0f}"
    )


def _some_zero(runs: pd.DataFrame, high: float, statement: str) -> Part:
    """Whether the first run comes to a training error of zero early enough."""
    if runs.empty:
        return Part(statement, None, "no runs")
    reached = runs["zero_error_at"].dropna()
    seen = f"{len(reached)} of {len(runs)} runs reach it"
    if reached.empty:
        return Part(statement, False, seen)
    return Part(statement, bool(reached.min() <= high), f"{seen}, the first at {reached.min():,.0f}")


# ---- the claims


def _small_batches(runs: pd.DataFrame) -> Iterator[Part]:
    runs = runs[runs["budget"] <= 3000]
    yield _decided(
        "all GOLS-I runs at B = 10 complete",
        _of(runs, "gols-i", 10),
        lambda some: (not _broken(some).any(), f"{_share(_broken(some))} broke down"),
    )
    yield _decided(
        "PrLS breaks down at B = 10 (most runs)",
        _of(runs, "prls", 10),
        lambda some: (bool(_broken(some).mean() > 0.5), f"{_share(_broken(some))} broke down"),
    )
    late = _of(runs[runs["problem"].isin(["bcwd-netpi", "bcwd-netpii"])], "prls", 400)
    yield _decided(
        "PrLS diverges late at M = 400 (most runs of the networks)",
        late,
        lambda some: (bool(_broken(some).mean() > 0.5), f"{_share(_broken(some))} did"),
    )


def _zero_errors(runs: pd.DataFrame) -> Iterator[Part]:
    for problem in ("bcwd-netpi", "bcwd-netpii"):
        name = problem.removeprefix("bcwd-")
        for method, batch, low, high, when in (
            ("gols-i", 50, 500, 1500, "near 1,000 evaluations at B = 50"),
            ("gols-i", 100, 300, 1200, "at 500 to 800 evaluations at B = 100"),
            ("prls", 100, 600, 1800, "near 1,200 evaluations at B = 100"),
        ):
            statement = f"{name}: {method} reaches zero training error {when}"
            yield _all_zero(_of(runs, method, batch, problem), low, high, statement)
        yield _decided(
            f"{name}: prls does not at B = 50 (not all runs)",
            _of(runs, "prls", 50, problem),
            lambda some: (bool(some["zero_error_at"].isna().any()), f"{_share(some['zero_error_at'].notna())} do"),
        )


def _logistic_evaluations(runs: pd.DataFrame) -> Iterator[Part]:
    chosen = _of(runs, "gols-i", problem="bcwd-logr")
    chosen = chosen[chosen["budget"] <= 3000]
    yield _decided(
        "about 2 evaluations per iteration on average",
        chosen,
        lambda some: (bool(1.5 <= some["probes_mean"].mean() <= 2.5), f"mean {some['probes_mean'].mean():.2f}"),
    )
    yield _decided(
        "up to 17 in one iteration",
        chosen,
        lambda some: (bool(some["probes_max"].max() <= 17), f"up to {some['probes_max'].max()}"),
    )


def _long_logistic(runs: pd.DataFrame) -> Iterator[Part]:
    long = runs[(runs["problem"] == "bcwd-logr") & runs["method"].isin(["gols-i", "fixed-1", "fixed-10", "fixed-100"])]
    long = long[long["budget"] > 3000]
    for batch in (50, 100, 400):
        yield _decided(
            f"GOLS-I fits the training data to numerical accuracy (B = {batch})",
            _of(long, "gols-i", batch),
            lambda some: (
                bool((some["best_train_loss"] < SMALL).mean() > 0.5),
                f"{_share(some['best_train_loss'] < SMALL)} below {SMALL:g}, "
                f"median {some['best_train_loss'].median():.2g}",
            ),
        )
    for batch in (50, 100, 400, 10):
        ends = {
            name: _of(long, name, batch)["final_train_loss"] for name in ("gols-i", "fixed-1", "fixed-10", "fixed-100")
        }
        wins = batch != 10
        statement = f"GOLS-I {'beats' if wins else 'does not beat'} fixed steps 1, 10 and 100 (B = {batch})"
        if any(losses.empty for losses in ends.values()):
            yield Part(statement, None, "no runs")
            continue
        medians = {name: float(losses.fillna(np.inf).median()) for name, losses in ends.items()}
        best = min(medians, key=medians.__getitem__)
        shown = ", ".join(f"{name} {value:.2g}" for name, value in medians.items())
        yield Part(statement, (best == "gols-i") == wins, f"median final loss: {shown}")


def _mnist_one(runs: pd.DataFrame) -> Iterator[Part]:
    for batch in (10, 100, 200):
        yield _better(runs, "best_train_error", "gols-i", "prls", batch, f"GOLS-I beats PrLS (B = {batch})")
    yield _some_zero(_of(runs, "gols-i", 100), 1600, "first zero training errors near 800 evaluations (B = 100)")
    yield _some_zero(_of(runs, "gols-i", 200), 1000, "and near 500 (B = 200)")
    yield _decided(
        "PrLS stays near 1e-2",
        _of(runs, "prls"),
        lambda some: (
            bool(3e-3 <= some.groupby("batch_size")["best_train_error"].median().min() <= 5e-2),
            f"lowest median training error {some.groupby('batch_size')['best_train_error'].median().min():.3g}",
        ),
    )


def _second_net(runs: pd.DataFrame, column: str) -> Iterator[Part]:
    yield _better(runs, column, "prls", "gols-i", 10, "PrLS beats GOLS-I at B = 10")
    for batch in (100, 200):
        yield _better(runs, column, "gols-i", "prls", batch, f"GOLS-I wins at B = {batch}")


def _mnist_two(runs: pd.DataFrame) -> Iterator[Part]:
    yield from _second_net(runs, "best_train_error")


def _cifar_one(runs: pd.DataFrame) -> Iterator[Part]:
    yield _decided(
        "GOLS-I falls below 10% training error within 5,000 evaluations (B = 100)",
        _of(runs, "gols-i", 100),
        lambda some: (
            bool((_at(some, "tenth_error_at") <= 5000).mean() > 0.5),
            f"{_share(_at(some, 'tenth_error_at') <= 5000)} do, median lowest error "
            f"{some['best_train_error'].median():.3g}",
        ),
    )
    yield _decided(
        "PrLS reaches 50% at best after 10,000",
        _of(runs, "prls", 100),
        lambda some: (
            bool(some["best_train_error"].median() >= 0.4),
            f"median lowest error {some['best_train_error'].median():.3g}",
        ),
    )


def _cifar_two(runs: pd.DataFrame) -> Iterator[Part]:
    yield _better(runs, "best_train_error", "prls", "gols-i", 10, "PrLS beats GOLS-I at B = 10")
    for batch in (100, 200):
        yield _decided(
            f"the test loss is lowest within the first 1,000 evaluations (B = {batch})",
            _of(runs, "gols-i", batch),
            lambda some: (
                bool((_at(some, "best_test_loss_at") <= 1000).mean() > 0.5),
                f"median at {_at(some, 'best_test_loss_at').median():,.0f}",
            ),
        )


def _ten_layers(runs: pd.DataFrame) -> Iterator[Part]:
    gols, prls = _of(runs, "gols-i"), _of(runs, "prls")
    yield _decided(
        "Table 3, GOLS-I: 1 to 28 evaluations an iteration (11 after the first), mean 1.3",
        gols,
        lambda some: (
            bool(some["probes_max"].max() <= 30 and some["probes_max_later"].max() <= 13 and _near(some, 1.3)),
            f"{some['probes_min'].min()} to {some['probes_max'].max()} "
            f"({some['probes_max_later'].max()} after the first), mean {some['probes_mean'].mean():.2f}",
        ),
    )
    yield _decided(
        "Table 3, PrLS: 1 to 7, mean 2.7",
        prls,
        lambda some: (
            bool(some["probes_max"].max() == 7 and _near(some, 2.7)),
            f"{some['probes_min'].min()} to {some['probes_max'].max()}, mean {some['probes_mean'].mean():.2f}",
        ),
    )
    yield _decided(
        "isolated GOLS-I runs reach a loss of 1e-10",
        gols,
        lambda some: (bool((some["best_train_loss"] <= 1e-10).any()), f"lowest {some['best_train_loss'].min():.2g}"),
    )
    yield _decided(
        "PrLS diverges after about 1,500 evaluations (most runs)",
        prls,
        lambda some: (bool(_broken(some).mean() > 0.5), f"{_share(_broken(some))} did"),
    )


def _near(runs: pd.DataFrame, mean: float) -> bool:
    return bool(abs(runs["probes_mean"].mean() - mean) <= 0.25 * mean)


def _orders(runs: pd.DataFrame) -> Iterator[Part]:
    yield _decided(
        "steps span up to 15 orders of magnitude with no parameter tuned",
        _of(runs, "gols-i"),
        lambda some: (
            bool(np.log10(some["step_max"].max() / some["step_min"].min()) >= 14.0),
            f"{some['step_min'].min():.2g} to {some['step_max'].max():.2g}, in one run up to "
            f"{np.log10(some['step_max'] / some['step_min']).max():.1f} orders",
        ),
    )


_BCWD = ("bcwd-logr", "bcwd-netpi", "bcwd-netpii")
_CLAIMS: list[tuple[int, str, tuple[str, ...], int, Callable[[pd.DataFrame], Iterator[Part]]]] = [
    (2, "BCWD: GOLS-I completes at B = 10; PrLS breaks down there, and late at M = 400", _BCWD, 3_000, _small_batches),
    (3, "BCWD networks: when zero training error is reached", _BCWD[1:], 3_000, _zero_errors),
    (4, "BCWD LogR: evaluations per iteration", _BCWD[:1], 3_000, _logistic_evaluations),
    (5, "BCWD LogR over 100,000 evaluations: GOLS-I against fixed steps", _BCWD[:1], 100_000, _long_logistic),
    (6, "MNIST NetI: GOLS-I beats PrLS at every B", ("mnist-net1",), 40_000, _mnist_one),
    (7, "MNIST NetII: PrLS wins at B = 10, GOLS-I at 100 and 200", ("mnist-net2",), 40_000, _mnist_two),
    (8, "CIFAR NetI, B = 100", ("cifar-net1",), 10_000, _cifar_one),
    (9, "CIFAR NetII: PrLS wins at B = 10; early minimum of the test loss", ("cifar-net2",), 10_000, _cifar_two),
    (10, "NetPI with ten hidden layers", ("bcwd-netpi-10",), 3_000, _ten_layers),
    (11, "The range of the steps", (), 3_000, _orders),
]
