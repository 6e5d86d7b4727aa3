"""Bring the tables of docs/claims.md in step with results/paper.json.gz: `python docs/claims.py`.

Each table stands between two comments, `<!-- name -->` and `<!-- end -->`.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pandas as pd

from gradline.lab import summary
from gradline.lab.cli.verbs.claims import table_of
from gradline.lab.findings.bounded import first_claim
from gradline.lab.findings.claims import claims, spread
from gradline.lab.findings.statements import broken
from gradline.lab.report.tables import markdown

HERE = Path(__file__).parent
PACKED = HERE.parent / "results" / "paper.json.gz"
PUBLISHED = "-published-loss"


def losses(runs: pd.DataFrame) -> str:
    """Return PrLS with the consistent and with the published loss, on the same seeds."""
    header = ["problem", "B", "seeds, evaluations", "consistent: broke down", "training error"]
    rows = []
    prls = runs[(runs["method"] == "prls") & (runs["sampling"] == "dynamic") & runs["direction_batch_size"].isna()]
    pairs = prls[prls["problem"].astype(str).str.endswith(PUBLISHED)]
    for (problem, size, budget), theirs in pairs.groupby(["problem", "batch_size", "budget"], observed=True):
        plain = str(problem).removesuffix(PUBLISHED)
        ours = prls[(prls["problem"] == plain) & (prls["batch_size"] == size) & (prls["budget"] == budget)]
        seeds = set(ours["seed"]) & set(theirs["seed"])
        ours, theirs = (some[some["seed"].isin(seeds)].drop_duplicates("seed") for some in (ours, theirs))
        row = [plain, size, f"{len(seeds)}, {budget:,}"]
        for some in (ours, theirs):
            row += [f"{int(broken(some).sum())} of {len(some)}", spread(some["final_train_error"])]
        rows.append(row)
    return _table([*header, "as published: broke down", "training error"], rows)


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
    tables = {
        "claims": table_of([first_claim(), *claims(runs)]),
        "losses": losses(runs),
        "sampling": static_and_dynamic(runs),
        "directions": direction_and_step(runs),
        "count": f"{len(runs):,} runs, {int(runs['evaluations'].sum()):,} evaluations",
    }
    page = HERE / "claims.md"
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        text, found = re.subn(
            pattern, lambda match, table=table: f"{match[1]}\n{table}\n\n{match[2]}", text, flags=re.S
        )
        assert found == 1, f"claims.md has no place for {name}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
