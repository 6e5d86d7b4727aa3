"""Curves against numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from gradline.lab.figures.curves import (
    MEASURES,
    STEP,
    TRAIN_ERROR,
    TRAIN_LOSS,
    MissingRuns,
    cloud,
    figure_runs,
    missing,
    quantiles,
    rows_of,
    select,
)
from gradline.lab.findings.traces import POINTS, grid_of, thin
from gradline.lab.jobs.result import COLUMNS, Result, held
from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.methods import METHODS
from gradline.lab.problems import PROBLEMS

NAN = float("nan")


def result(seed=0, method="gols-i", problem="bcwd-logr", budget=10, batch_size=10, losses=(4.0, 1.0), **others):
    """A run with two iterations, of 4 and 6 evaluations, measured at the start and after the first."""
    run = Run(
        problem=replace(PROBLEMS["bcwd-logr"], name=problem),
        method=METHODS[method],
        batch_size=batch_size,
        seed=seed,
        budget=budget,
        **others,
    )
    columns = dict.fromkeys(COLUMNS, [NAN] * 3) | {
        "iteration": [0, 1, 2],
        "evaluations": [0, 4, 10],
        "probes": [0, 3, 6],
        "step": [0.0, 0.1, 10.0],
        "train_loss": [*losses, NAN],
        "train_error": [0.5, 0.0, NAN],
        "test_loss": [5.0, 2.0, NAN],
        "test_error": [0.5, 0.25, NAN],
        "stop": ["", "SIGN_CHANGE", "SIGN_CHANGE"],
    }
    return Result(run, 1.0, "ordinary", columns={name: np.array(values) for name, values in columns.items()})


def trace(**options):
    return thin(result(**options))


def curve(rows, x=None):
    rows = np.array(rows, dtype=float)
    return np.arange(rows.shape[1], dtype=float) if x is None else np.array(x), rows


def test_a_value_is_held_until_the_next_one():
    at, values = np.array([2.0, 5.0]), np.array([7.0, 8.0])
    np.testing.assert_array_equal(held(at, values, np.array([1.0, 2.0, 4.9, 5.0, 9.0])), [NAN, 7, 7, 8, 8])
    np.testing.assert_array_equal(held(at[:0], values[:0], np.array([1.0])), [NAN])


def test_the_grid_ends_with_the_budget_and_is_thin():
    np.testing.assert_array_equal(grid_of(4), [0, 1, 2, 3, 4])
    assert grid_of(3000)[[0, 1, -1]].tolist() == [0, 10, 3000]
    assert len(grid_of(100_000)) == POINTS + 1
    assert grid_of(100_000)[-1] == 100_000


def test_a_trace_of_a_table():
    run = trace()
    np.testing.assert_array_equal(run.evaluations, [0, 4])
    np.testing.assert_array_equal(run.grid, np.arange(11))
    np.testing.assert_array_equal(run.on_grid("iterations"), [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(run.on_grid("train_loss"), [4, 4, 4, 4, 1, 1, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(run.on_grid("step"), [NAN] * 4 + [0.1] * 7)
    assert [run.summary[f"probes_{name}"] for name in ("min", "max", "max_later", "mean")] == [3, 6, 6, 4.5]
    assert run.direction_batch_size is None
    assert not run.angled


def test_steps_are_against_iterations_as_far_as_each_run_goes():
    short, long = trace(), trace(seed=1)
    columns = {name: np.append(values, np.nan) for name, values in long.columns.items()}
    columns |= {
        "iterations": np.array([0, 1, 3]),
        "evaluations": np.array([0, 4, 9]),
        "step": np.array([NAN, 0.1, 10.0]),
    }
    long = replace(long, columns=columns)
    at, steps = rows_of([short, long], STEP)
    np.testing.assert_array_equal(at, [0, 1, 2, 3])
    np.testing.assert_array_equal(steps, [[NAN, 0.1, NAN, NAN], [NAN, 0.1, 0.1, 10.0]])


def test_the_cloud_of_logarithms_by_hand():
    band = cloud(*curve([[1.0, 1e-2], [1e2, 1e-4]]), TRAIN_LOSS)
    # logarithms 0 and 2: mean 1, deviation 1; -2 and -4: mean -3, deviation 1
    np.testing.assert_allclose(band.middle, [10.0, 1e-3])
    np.testing.assert_allclose(band.low, [1.0, 1e-4])
    np.testing.assert_allclose(band.high, [100.0, 1e-2])


def test_the_cloud_on_a_linear_scale_by_hand():
    band = cloud(*curve([[1.0], [3.0]]), TRAIN_ERROR.linear())
    assert (band.middle[0], band.low[0], band.high[0]) == (2.0, 1.0, 3.0)


def test_errors_of_zero_are_shown_at_the_nugget():
    band = cloud(*curve([[0.0], [0.0]]), TRAIN_ERROR)
    np.testing.assert_allclose([band.middle[0], band.low[0], band.high[0]], 1e-4)


def test_what_is_not_finite_is_left_out_of_the_mean():
    band = cloud(*curve([[1.0, np.inf], [NAN, np.inf], [100.0, NAN]]), TRAIN_LOSS)
    np.testing.assert_allclose(band.middle, [10.0, NAN])


def test_steps_that_move_nothing_are_left_out():
    band = cloud(*curve([[0.0, 1e-140], [10.0, 10.0]]), STEP)
    np.testing.assert_allclose(band.middle, [10.0, 10.0])


def test_the_mean_of_steps_ends_with_the_shortest_run():
    steps = curve([[1.0, 1.0, 1.0], [100.0, 100.0, NAN]], x=[1.0, 2.0, 3.0])
    np.testing.assert_array_equal(cloud(*steps, STEP).x, [1, 2])
    np.testing.assert_allclose(cloud(*steps, STEP).middle, [10.0, 10.0])
    losses = curve([[1.0, 1.0], [100.0, NAN]])
    np.testing.assert_allclose(cloud(*losses, TRAIN_LOSS).middle, [10.0, 1.0])


def test_the_median_and_quantiles_by_hand():
    band = quantiles(*curve([[1.0], [2.0], [3.0], [4.0], [NAN]]), TRAIN_LOSS)
    assert (band.middle[0], band.low[0], band.high[0]) == (2.5, 1.75, 3.25)
    assert np.isnan(quantiles(*curve([[NAN], [NAN]]), TRAIN_LOSS).middle).all()


def test_runs_of_a_setting_come_together():
    runs = [trace(seed=1), trace(seed=0, losses=(2.0, 3.0)), trace(method="prls")]
    chosen = select(runs, problems=["bcwd-logr"], methods=["prls", "gols-i"])
    assert [(run.method, run.seed) for run in chosen] == [("prls", 0), ("gols-i", 0), ("gols-i", 1)]
    at, losses = rows_of(chosen[1:], TRAIN_LOSS)
    assert at.tolist() == list(range(11))
    assert losses[:, 0].tolist() == [2.0, 4.0]
    assert losses[:, -1].tolist() == [3.0, 1.0]
    at, steps = rows_of(chosen[:1], STEP)
    assert at.tolist() == [0.0, 1.0]
    np.testing.assert_array_equal(steps, [[NAN, 0.1]])


def test_of_several_budgets_the_usual_one_is_taken():
    runs = [trace(seed=0), trace(seed=1), trace(seed=0, budget=20)]
    chosen = select(runs, problems=["bcwd-logr"], methods=["gols-i"])
    assert [(run.seed, run.budget) for run in chosen] == [(0, 10), (1, 10)]
    chosen = select(runs[1:], problems=["bcwd-logr"], methods=["gols-i"])
    assert {run.budget for run in chosen} == {20}, "of two budgets with as many runs, the larger"


def test_the_budget_of_the_rivals_counts():
    short = [trace(seed=seed) for seed in range(3)]
    runs = [*short, trace(budget=20), trace(budget=20, method="fixed-1")]
    choice = {"problems": ["bcwd-logr"], "methods": ["gols-i", "fixed-1"], "any_of": ["fixed-1"]}
    assert {(run.method, run.budget) for run in select(runs, **choice)} == {("gols-i", 20), ("fixed-1", 20)}
    assert select(short, **choice) == []


def test_runs_of_comparisons_are_left_out():
    runs = [trace(seed=seed, benchmark=seed > 0) for seed in range(3)]
    assert [run.seed for run in select(runs, problems=["bcwd-logr"], methods=["gols-i"])] == [0]


def test_other_samplings_and_directions_are_other_runs():
    runs = [trace(), trace(sampling=Sampling.STATIC), trace(direction_batch_size=50)]
    assert [run.sampling for run in select(runs, problems=["bcwd-logr"], methods=["gols-i"])] == ["dynamic"]
    both = select(runs, problems=["bcwd-logr"], methods=["gols-i"], sampling=["static", "dynamic"])
    assert [run.sampling for run in both] == ["dynamic", "static"]
    (own,) = select(runs, problems=["bcwd-logr"], methods=["gols-i"], directions=True)
    assert own.direction_batch_size == 50


def test_a_figure_without_runs_says_how_to_make_them():
    with pytest.raises(MissingRuns, match=r"it needs runs of the study bcwd-fixed \(gradline run bcwd-fixed\)"):
        figure_runs([trace(problem="x")], "bcwd-fixed")
    assert "study s" in str(missing("s"))


def test_steps_are_against_iterations():
    assert {name: measure.against for name, measure in MEASURES.items() if measure.against == "iterations"} == {
        "step": "iterations"
    }
