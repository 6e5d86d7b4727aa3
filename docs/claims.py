"""Bring the tables of docs/claims.md in step with results/paper.json.gz: `python docs/claims.py`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from marks import fill

from gradline.lab import summary
from gradline.lab.cli.verbs.claims import table_of
from gradline.lab.findings.bounded import first_claim
from gradline.lab.findings.claims import claims, spread
from gradline.lab.findings.statements import broken
from gradline.lab.report.tables import markdown

HERE = Path(__file__).parent
PACKED = HERE.parent / "results" / "paper.json.gz"
PROGRAMS = "-as-published"
"""What the names of problems end with that are as the authors' programs had them."""


def pairs(runs: pd.DataFrame, suffix: str) -> Iterator[tuple[list[object], pd.DataFrame, pd.DataFrame]]:
    """Yield the runs of a problem and of its variant, on the same seeds, with the first cells of their row.

    Args:
        runs: the summary of all runs.
        suffix: what the names of variants end with.
    """
    runs = runs[(runs["sampling"] == "dynamic") & runs["direction_batch_size"].isna()]
    runs = runs.astype({"problem": str, "method": str})
    variants = runs[runs["problem"].str.endswith(suffix)]
    for (problem, size, method, budget), theirs in variants.groupby(["problem", "batch_size", "method", "budget"]):
        plain = problem.removesuffix(suffix)
        ours = runs[
            (runs["problem"] == plain)
            & (runs["batch_size"] == size)
            & (runs["method"] == method)
            & (runs["budget"] == budget)
        ]
        seeds = set(ours["seed"]) & set(theirs["seed"])
        if seeds:
            both = (some[some["seed"].isin(seeds)].drop_duplicates("seed") for some in (ours, theirs))
            yield [plain, size, method, f"{len(seeds)}, {budget:,}"], *both


def losses(runs: pd.DataFrame) -> str:
    """Return PrLS with the consistent and with the published loss, on the same seeds."""
    header = ["problem", "B", "seeds, evaluations", "consistent: broke down", "training error"]
    rows = []
    for (problem, size, _, count), ours, theirs in pairs(runs[runs["method"] == "prls"], "-published-loss"):
        row = [problem, size, count]
        for some in (ours, theirs):
            row += [f"{int(broken(some).sum())} of {len(some)}", spread(some["final_train_error"])]
        rows.append(row)
    return _table([*header, "as published: broke down", "training error"], rows)


def scales(runs: pd.DataFrame) -> str:
    """Return NetII from initial weights of Table 2's scale and of the programs' scale, on the same seeds."""
    header = ["problem", "B", "method", "seeds, evaluations", "Table 2's scale: training error", "test error"]
    chosen = runs[runs["problem"].isin([f"{data}-net2{end}" for data in ("mnist", "cifar") for end in ("", PROGRAMS)])]
    rows = [
        [*row, *(spread(some[f"final_{part}_error"]) for some in (ours, theirs) for part in ("train", "test"))]
        for row, ours, theirs in pairs(chosen, PROGRAMS)
    ]
    if not rows:
        return "No runs with the programs' scale are kept here yet; `gradline run net2-scales` makes them."
    return _table([*header, "the programs' scale: training error", "test error"], rows)


def static_and_dynamic(runs: pd.DataFrame) -> str:
    """Median final training loss of each search with each kind of sampling."""
    chosen = runs[(runs["problem"] == "bcwd-netpi") & (runs["budget"] == 3000) & runs["direction_batch_size"].isna()]
    methods = [name for name in ("gols-i", "prls", "armijo", "golden-section") if name in set(chosen["method"])]
    return _table(
        ["method", "B", "static", "dynamic"],
        [
            [
                name,
                size,
                *(_median(chosen, method=name, batch_size=size, sampling=kind) for kind in ("static", "dynamic")),
            ]
            for name in methods
            for size in (10, 50, 100, 400)
        ],
    )


def direction_and_step(runs: pd.DataFrame) -> str:
    """Median final training loss by the batch sizes of directions and of steps."""
    chosen = runs[(runs["problem"] == "bcwd-netpi") & (runs["budget"] == 3000) & (runs["sampling"] == "dynamic")]
    sizes = (10, 50, 100, 400)
    return _table(
        ["method", "B of the direction", "B of the step: 10", "50", "100", "400"],
        [
            [name, of, *(_median(chosen, method=name, direction_batch_size=of, batch_size=size) for size in sizes)]
            for name in ("gols-i", "prls")
            for of in sizes
        ],
    )


def _median(runs: pd.DataFrame, **where: object) -> str:
    for name, value in where.items():
        runs = runs[(runs[name] == value).fillna(False).astype(bool)]
    value = float(runs["final_train_loss"].median())
    return "not run" if math.isnan(value) else f"{value:.2g}"


def _table(header: list[str], rows: list[list[object]]) -> str:
    return markdown(header, rows, words=range(len(header)))


def main() -> None:
    """Write the page."""
    runs = summary(PACKED)
    verdicts = [first_claim(), *claims(runs)]
    counts = Counter(verdict.word for verdict in verdicts)
    tables = {
        "claims": table_of(verdicts),
        "losses": losses(runs),
        "scales": scales(runs),
        "sampling": static_and_dynamic(runs),
        "directions": direction_and_step(runs),
        "count": f"{len(runs):,} runs, {int(runs['evaluations'].sum()):,} evaluations. Of {len(verdicts)} claims, "
        + " and ".join(f"{count} {'is' if count == 1 else 'are'} {word}" for word, count in sorted(counts.items()))
        + ".",
    }
    page = HERE / "claims.md"
    page.write_text(fill(page.read_text(encoding="utf-8"), "claims.py", tables), encoding="utf-8")


if __name__ == "__main__":
    main()
