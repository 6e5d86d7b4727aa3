"""The paper's statements about its training runs, each with the rule that decides it (claims 2 to 11).

"Near" a number of evaluations is between half of it and one and a half times it. Which of two methods is better is
decided by medians over seeds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from gradline.lab.findings.claims import Claim, Decide, Evidence, Part, Selection, spread

SMALL = 1.5e-8
"""A training loss below this, the square root of machine precision, counts as fitted to numerical accuracy."""
WORSE, BACK = 10.0, 0.1
"""A final loss so many times the lowest one, and at least this part of the one at the start, counts as diverged."""
STEP_MAX = 1e7
"""α_max of GOLS-I."""
NETWORKS = ("bcwd-netpi", "bcwd-netpii")
FIXED = ("fixed-1", "fixed-10", "fixed-100")


def broken(runs: pd.DataFrame) -> pd.Series:
    """Return which runs stalled, diverged, or have no finite loss at the end."""
    final = runs["final_train_loss"]
    back = (final > WORSE * runs["best_train_loss"]) & (final > BACK * runs["start_train_loss"])
    found: pd.Series = runs["stalled"] | ~np.isfinite(final) | back
    return found


# ---- rules


def _none_broken(runs: pd.DataFrame) -> tuple[bool, str]:
    return not broken(runs).any(), f"{_share(broken(runs))} broke down"


def _most_broken(runs: pd.DataFrame) -> tuple[bool, str]:
    return bool(broken(runs).mean() > 0.5), f"{_share(broken(runs))} broke down"


def _lower(column: str) -> Decide:
    """Return a rule: the first of two methods has the lower median."""

    def decide(first: pd.DataFrame, second: pd.DataFrame) -> tuple[bool, str]:
        values = [runs[column].astype("float64").fillna(np.inf) for runs in (first, second)]
        names = [str(runs["method"].iloc[0]) for runs in (first, second)]
        shown = " and ".join(f"{spread(value)} ({name})" for name, value in zip(names, values, strict=True))
        return values[0].median() < values[1].median(), f"{column.replace('_', ' ')} {shown}"

    return decide


def _reach(column: str, low: float, high: float) -> Decide:
    """Return a rule: most runs reach something, and the median of all is within a range of evaluations."""

    def decide(runs: pd.DataFrame) -> tuple[bool, str]:
        at = runs[column].astype("float64")
        median = at.fillna(np.inf).median()
        text = f"{_share(at.notna())}"
        return low <= median <= high, text if at.isna().all() else f"{text}, at {_counts(at.dropna())}"

    return decide


def _first_reach(column: str, high: float) -> Decide:
    """Return a rule: some run reaches something within a number of evaluations."""

    def decide(runs: pd.DataFrame) -> tuple[bool, str]:
        at = runs[column].astype("float64").dropna()
        text = f"{len(at)} of {len(runs)} runs"
        return bool((at <= high).any()), text if at.empty else f"{text}, the first at {at.min():,.0f}"

    return decide


def _share(flags: pd.Series) -> str:
    return f"{int(flags.sum())} of {len(flags)} runs"


def _counts(at: pd.Series) -> str:
    text = f"{at.median():,.0f} evaluations"
    return text if len(at) < 2 else f"{text} ({at.min():,.0f} to {at.max():,.0f})"


def _near(low: float, high: float, column: str, what: str) -> Decide:
    """Return a rule: the median of a column is within a range."""

    def decide(runs: pd.DataFrame) -> tuple[bool, str]:
        return low <= runs[column].astype("float64").median() <= high, f"{what} {spread(runs[column])}"

    return decide


# ---- the claims


def _small_batches(runs: Evidence) -> Iterator[Part]:
    yield runs.part("all GOLS-I runs at B = 10 complete", "all complete", [Selection("gols-i", 10)], _none_broken)
    yield runs.part(
        "PrLS breaks down at B = 10 (most runs)",
        "early termination on all three networks",
        [Selection("prls", 10)],
        _most_broken,
    )
    for problem in NETWORKS:
        yield runs.part(
            f"PrLS diverges late at M = 400 (most runs of {_short(problem)})",
            "after 1,200 evaluations at the latest",
            [Selection("prls", 400, problem)],
            _most_broken,
        )
        yield runs.part(
            f"GOLS-I reaches α_max at M = 400 and PrLS grows its steps beyond ({_short(problem)})",
            "α_max = 1e7, PrLS continues to grow",
            [Selection("gols-i", 400, problem), Selection("prls", 400, problem)],
            _beyond_max,
        )
    for problem in NETWORKS:
        yield runs.part(
            f"LogR's test error is above that of {_short(problem)} in later training (GOLS-I, B = 100)",
            "higher",
            [Selection("gols-i", 100, problem), Selection("gols-i", 100, "bcwd-logr")],
            _higher_test_error,
        )


def _beyond_max(gols: pd.DataFrame, prls: pd.DataFrame) -> tuple[bool, str]:
    reach, beyond = gols["step_max"] >= STEP_MAX, prls["step_max"] > STEP_MAX
    seen = f"largest steps {spread(gols['step_max'])} (gols-i) and {spread(prls['step_max'])} (prls)"
    return bool(reach.mean() > 0.5 and beyond.mean() > 0.5), seen


def _higher_test_error(network: pd.DataFrame, logistic: pd.DataFrame) -> tuple[bool, str]:
    one, other = (runs["final_test_error"] for runs in (network, logistic))
    return one.median() < other.median(), f"final test error {spread(other)} (LogR) and {spread(one)}"


def _zero_errors(runs: Evidence) -> Iterator[Part]:
    for problem in NETWORKS:
        for method, size, low, high, paper in (
            ("gols-i", 50, 500, 1500, "most runs near 1,000 evaluations"),
            ("gols-i", 100, 300, 1200, "500 to 800 evaluations"),
            ("prls", 100, 600, 1800, "near 1,200 evaluations"),
        ):
            statement = f"{_short(problem)}: {method} reaches zero training error at B = {size} when the paper's does"
            yield runs.part(statement, paper, [Selection(method, size, problem)], _reach("zero_error_at", low, high))
        yield runs.part(
            f"{_short(problem)}: PrLS does not reach zero training error at B = 50 (not all runs)",
            "no perfect training results",
            [Selection("prls", 50, problem)],
            lambda some: (bool(some["zero_error_at"].isna().any()), f"{_share(some['zero_error_at'].notna())} do"),
        )


def _logistic_evaluations(runs: Evidence) -> Iterator[Part]:
    setting = [Selection("gols-i", problem="bcwd-logr")]
    yield runs.part(
        "about 2 evaluations per iteration on average", "low 2s", setting, _near(1.5, 2.5, "probes_mean", "mean")
    )
    yield runs.part(
        "up to 17 evaluations in one iteration",
        "17",
        setting,
        lambda some: (bool(some["probes_max"].max() <= 17), f"the most in a run {spread(some['probes_max'])}"),
    )


def _long_logistic(runs: Evidence) -> Iterator[Part]:
    for size in (50, 100, 400):
        yield runs.part(
            f"GOLS-I fits the training data to numerical accuracy (B = {size})",
            "within 100,000 evaluations",
            [Selection("gols-i", size)],
            lambda some: (
                bool((some["best_train_loss"] < SMALL).mean() > 0.5),
                f"{_share(some['best_train_loss'] < SMALL)} below {SMALL:g}, {spread(some['best_train_loss'])}",
            ),
        )
    for size in (50, 100, 400, 10):
        wins = size != 10
        yield runs.part(
            f"GOLS-I {'beats' if wins else 'does not beat'} fixed steps {'1, 10 and 100' if wins else '1 and 10'} "
            f"(B = {size})",
            "lowest loss" if wins else "hindered by the variance of the gradient",
            [Selection("gols-i", size), *(Selection(name, size) for name in (FIXED if wins else FIXED[:2]))],
            _lowest if wins else _not_lowest,
        )
    for size in (10, 50, 100, 400):
        yield runs.part(
            f"a fixed step of 100 often diverges (B = {size})",
            "often",
            [Selection("fixed-100", size)],
            lambda some: (bool(broken(some).mean() > 0.2), f"{_share(broken(some))} broke down"),
        )


def _lowest(*runs: pd.DataFrame) -> tuple[bool, str]:
    medians = {str(some["method"].iloc[0]): some["final_train_loss"].fillna(np.inf).median() for some in runs}
    shown = ", ".join(f"{some['method'].iloc[0]} {spread(some['final_train_loss'])}" for some in runs)
    return min(medians, key=medians.__getitem__) == "gols-i", f"final loss: {shown}"


def _not_lowest(*runs: pd.DataFrame) -> tuple[bool, str]:
    lowest, seen = _lowest(*runs)
    return not lowest, seen


def _mnist_one(runs: Evidence) -> Iterator[Part]:
    for size in (10, 100, 200):
        pair = [Selection("gols-i", size), Selection("prls", size)]
        yield runs.part(f"GOLS-I beats PrLS (B = {size})", "convincingly", pair, _lower("best_train_error"))
    for size, at in ((100, 800), (200, 500)):
        yield runs.part(
            f"first runs of GOLS-I with zero training error (B = {size})",
            f"near {at} evaluations",
            [Selection("gols-i", size)],
            _first_reach("zero_error_at", 2 * at),
        )
    for size in (100, 200):
        yield runs.part(
            f"the training error of PrLS stays near 1e-2 (B = {size})",
            "1e-2",
            [Selection("prls", size)],
            _near(3e-3, 5e-2, "best_train_error", "lowest training error"),
        )
    yield runs.part("PrLS diverges at B = 10", "divergent", [Selection("prls", 10)], _most_broken)
    yield runs.part("GOLS-I remains stable at B = 10", "stable", [Selection("gols-i", 10)], _none_broken)
    for size in (10, 100, 200):
        pair = [Selection("gols-i", size), Selection("prls", size)]
        yield runs.part(
            f"GOLS-I makes fewer iterations than PrLS (B = {size})", "visibly fewer", pair, _lower("iterations")
        )


def _mnist_two(runs: Evidence) -> Iterator[Part]:
    pair = [Selection("prls", 10), Selection("gols-i", 10)]
    yield runs.part("PrLS beats GOLS-I at B = 10", "superior", pair, _lower("best_train_error"))
    for size in (100, 200):
        pair = [Selection("gols-i", size), Selection("prls", size)]
        yield runs.part(f"GOLS-I beats PrLS (B = {size})", "convincingly", pair, _lower("best_train_error"))


def _cifar_one(runs: Evidence) -> Iterator[Part]:
    yield runs.part(
        "GOLS-I falls below 10% training error within 5,000 evaluations (B = 100)",
        "within 5,000 evaluations",
        [Selection("gols-i", 100)],
        _reach("tenth_error_at", 0, 5000),
    )
    yield runs.part(
        "PrLS reaches a training error of 50% at best (B = 100)",
        "0.5 after 10,000 evaluations",
        [Selection("prls", 100)],
        lambda some: (some["best_train_error"].median() >= 0.4, f"lowest {spread(some['best_train_error'])}"),
    )


def _cifar_two(runs: Evidence) -> Iterator[Part]:
    pair = [Selection("prls", 10), Selection("gols-i", 10)]
    yield runs.part("PrLS beats GOLS-I at B = 10", "outperforms", pair, _lower("best_train_error"))
    for size in (100, 200):
        yield runs.part(
            f"GOLS-I's test loss is lowest within the first 1,000 evaluations (B = {size})",
            "within 1,000",
            [Selection("gols-i", size)],
            _reach("best_test_loss_at", 0, 1000),
        )
    for size in (100, 200):
        yield runs.part(
            f"the first steps of PrLS are near 0.1 (B = {size})",
            "0.1, falling to 1e-4",
            [Selection("prls", size)],
            lambda some: (
                0.03 <= some["step_early"].median() <= 0.3,
                f"{spread(some['step_early'])} in the first tenth, {spread(some['step_late'])} in the last",
            ),
        )


def _ten_layers(runs: Evidence) -> Iterator[Part]:
    gols, prls = [Selection("gols-i")], [Selection("prls")]
    yield runs.part(
        "GOLS-I: evaluations per iteration (Table 3)",
        "1 to 28 (11 after the first), mean 1.3",
        gols,
        lambda some: (
            some["probes_max"].max() <= 30 and some["probes_max_later"].max() <= 13 and _mean_near(some, 1.3),
            _table_3(some),
        ),
    )
    yield runs.part(
        "PrLS: evaluations per iteration (Table 3)",
        "1 to 7, mean 2.7",
        prls,
        lambda some: (some["probes_max"].max() == 7 and _mean_near(some, 2.7), _table_3(some)),
    )
    yield runs.part(
        "isolated GOLS-I runs reach a loss of 1e-10",
        "1e-10",
        gols,
        lambda some: (bool((some["best_train_loss"] <= 1e-10).any()), f"lowest {some['best_train_loss'].min():.2g}"),
    )
    yield runs.part("PrLS diverges (most runs)", "after 1,500 evaluations on average", prls, _most_broken)


def _mean_near(runs: pd.DataFrame, mean: float) -> bool:
    return bool(abs(runs["probes_mean"].mean() - mean) <= 0.25 * mean)


def _table_3(runs: pd.DataFrame) -> str:
    return (
        f"{runs['probes_min'].min()} to {runs['probes_max'].max()} ({runs['probes_max_later'].max()} after the first), "
        f"mean {spread(runs['probes_mean'])}"
    )


def _orders(runs: Evidence) -> Iterator[Part]:
    yield runs.part(
        "the steps of GOLS-I span up to 15 orders of magnitude with no parameter tuned",
        "15 orders available",
        [Selection("gols-i", problem="bcwd-logr")],
        lambda some: (
            bool(np.log10(some["step_max"].max() / some["step_min"].min()) >= 14.0),
            f"{some['step_min'].min():.2g} to {some['step_max'].max():.2g}; in one run "
            f"{spread(np.log10(some['step_max'] / some['step_min']))} orders",
        ),
    )


def _short(problem: str) -> str:
    return {"bcwd-netpi": "NetPI", "bcwd-netpii": "NetPII"}[problem]


_BCWD = ("bcwd-logr", *NETWORKS)
CLAIMS = (
    Claim(
        2, "BCWD: GOLS-I completes at B = 10; PrLS breaks down there, and late at M = 400", _BCWD, 3_000, _small_batches
    ),
    Claim(3, "BCWD networks: when zero training error is reached", NETWORKS, 3_000, _zero_errors),
    Claim(4, "BCWD LogR: evaluations per iteration", _BCWD[:1], 3_000, _logistic_evaluations),
    Claim(5, "LogR over 100,000 evaluations: GOLS-I against fixed steps", _BCWD[:1], 100_000, _long_logistic),
    Claim(6, "MNIST NetI: GOLS-I beats PrLS at every B", ("mnist-net1",), 40_000, _mnist_one),
    Claim(7, "MNIST NetII: PrLS wins at B = 10, GOLS-I at 100 and 200", ("mnist-net2",), 40_000, _mnist_two),
    Claim(8, "CIFAR NetI, B = 100", ("cifar-net1",), 10_000, _cifar_one),
    Claim(9, "CIFAR NetII: PrLS wins at B = 10; early minimum of the test loss", ("cifar-net2",), 10_000, _cifar_two),
    Claim(10, "NetPI with ten hidden layers", ("bcwd-netpi-10",), 3_000, _ten_layers),
    Claim(11, "The range of the steps", _BCWD[:1], 3_000, _orders),
)
"""Every claim that training runs can decide."""
