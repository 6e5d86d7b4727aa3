"""What a summary says of a run, by hand."""

import numpy as np
import pytest

from gradline.lab.findings.query import stored, summary, summary_row
from gradline.lab.jobs.result import COLUMNS, Result
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import METHODS
from gradline.lab.problems import PROBLEMS

NAN = np.nan


def result(probes=(4, 1, 3), errors=(0.5, 0.1, NAN, 0.0), losses=(3.0, 2.0, NAN, 2.5)):
    rows = len(probes) + 1
    columns = {name: np.zeros(rows, kind) for name, kind in COLUMNS.items()}
    columns["stop"] = np.array(["", *["SIGN_CHANGE"] * len(probes)])
    columns["iteration"] = np.arange(rows)
    columns["probes"] = np.array([0, *probes])
    columns["evaluations"] = np.array([0, *(1 + np.cumsum(probes))])
    columns["step"] = np.array([0.0, *([1.0] * len(probes))])
    columns["train_error"] = np.array(errors, dtype=float)[:rows]
    columns["test_loss"] = np.array(losses, dtype=float)[:rows]
    run = Run(problem=PROBLEMS["bcwd-logr"], method=METHODS["gols-i"], batch_size=10, seed=0, budget=9)
    return Result(run, 1.0, "lockstep", columns=columns)


def test_probes():
    row = summary_row(result())
    assert (row["probes_min"], row["probes_max"], row["probes_max_later"]) == (1, 4, 3)
    assert row["probes_mean"] == pytest.approx(8 / 3)


def test_one_iteration_has_none_after_the_first():
    row = summary_row(result(probes=(4,)))
    assert (row["probes_max"], row["probes_max_later"]) == (4, 0)


def test_no_iteration_at_all():
    row = summary_row(result(probes=()))
    assert (row["probes_min"], row["probes_max"], row["probes_max_later"], row["tenth_error_at"]) == (0, 0, 0, None)


def test_when_errors_were_reached():
    row = summary_row(result())
    assert (row["tenth_error_at"], row["zero_error_at"]) == (5, 9)
    never = summary_row(result(errors=(0.5, 0.2, NAN, 0.11)))
    assert (never["tenth_error_at"], never["zero_error_at"]) == (None, None)


def test_when_the_test_loss_was_lowest():
    assert summary_row(result())["best_test_loss_at"] == 5
    assert summary_row(result(losses=(1.0, 2.0, NAN, 1.0)))["best_test_loss_at"] == 0, "the first of equal ones"
    assert summary_row(result(losses=(NAN,) * 4))["best_test_loss_at"] is None


def test_what_was_never_reached_is_missing_and_not_a_float(store):
    table = summary(store)
    for name in ("zero_error_at", "tenth_error_at", "best_test_loss_at"):
        assert str(table[name].dtype) == "Int64"


def test_runs_are_loaded_one_by_one(store):
    seen = [(result.run.key, len(result)) for result in stored(store)]
    assert len(seen) == len(summary(store))
    assert all(rows > 1 for _, rows in seen)
