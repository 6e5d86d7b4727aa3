"""Curves against numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from gradline.lab.figures.curves import (
    MEASURES,
    STEP,
    TRAIN_ERROR,
    TRAIN_LOSS,
    Curve,
    Curves,
    cloud,
    curves_of,
    gather,
    quantiles,
)
from gradline.lab.figures.traces import POINTS, MissingRuns, grid_of, held, missing, select, traces

NAN = float("nan")


def frame(seed=0, method="gols-i", problem="bcwd-logr", budget=10, batch_size=10, losses=(4.0, 1.0), **others):
    """The table of a run with two iterations, of 4 and 6 evaluations, measured at the start and after the first."""
    measured = {"train_loss": [*losses, NAN], "train_error": [0.5, 0.0, NAN], "test_loss": [5.0, 2.0, NAN]}
    settings = {
        "problem": problem,
        "method": method,
        "batch_size": batch_size,
        "seed": seed,
        "sampling": "dynamic",
        "direction_batch_size": pd.NA,
        "budget": budget,
        "repetition": False,
        "diagonal": True,
        "loss": "bce",
    } | others
    key = "_".join(str(value) for value in settings.values())
    columns = {
        "iteration": [0, 1, 2],
        "evaluations": [0, 4, 10],
        "probes": [0, 3, 6],
        "step": [0.0, 0.1, 10.0],
        "test_error": [0.5, 0.25, NAN],
        "angle": [NAN, NAN, NAN],
        **measured,
    }
    return pd.DataFrame(settings | {"key": key} | columns)


def curve(rows, measure="train_loss", x=None):
    rows = np.array(rows, dtype=float)
    x = np.arange(rows.shape[1], dtype=float) if x is None else np.array(x)
    return Curve(measure, "p", "m", 10, "dynamic", None, x=x, seeds=np.arange(len(rows)), runs=rows)


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
    (run,) = traces(frame())
    np.testing.assert_array_equal(run.evaluations, np.arange(11))
    np.testing.assert_array_equal(run.iterations, [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2])
    np.testing.assert_array_equal(run.values["train_loss"], [4, 4, 4, 4, 1, 1, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(run.values["step"], [NAN] * 4 + [0.1] * 6 + [10.0])
    np.testing.assert_array_equal(run.step_iterations, [1, 2])
    np.testing.assert_array_equal(run.steps, [0.1, 10.0])
    assert run.probes == (3, 6, 6, 4.5)
    assert run.direction_batch_size is None
    assert not run.angled


def test_steps_are_thinned_on_one_grid_for_all_runs_of_a_budget():
    rows = 4000
    table = pd.DataFrame(
        frame(budget=3000).iloc[[0]].loc[np.zeros(rows, dtype=int)].reset_index(drop=True).drop(columns=["iteration"])
    )
    table["iteration"] = np.arange(rows)
    table["evaluations"] = np.arange(rows)
    table["step"] = np.arange(rows, dtype=float)
    (run,) = traces(table)
    assert run.step_iterations[:3].tolist() == [1, 6, 11]
    np.testing.assert_array_equal(run.steps, run.step_iterations)


def test_a_directory_and_its_results_give_the_same_traces(store):
    from gradline.lab import results

    one, other = traces(store), traces(results(store))
    key = lambda run: (
        run.problem,
        run.method,
        run.batch_size,
        run.sampling,
        run.direction_batch_size or 0,
        run.budget,
        run.angled,
        run.seed,
    )
    assert len(one) == len(other) > 0
    for left, right in zip(sorted(one, key=key), sorted(other, key=key), strict=True):
        assert key(left) == key(right)
        assert left.probes == right.probes
        for name in ("evaluations", "iterations", "step_iterations", "steps"):
            np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
        for name in left.values:
            np.testing.assert_array_equal(left.values[name], right.values[name], err_msg=name)


def test_the_cloud_of_logarithms_by_hand():
    band = cloud(curve([[1.0, 1e-2], [1e2, 1e-4]]), TRAIN_LOSS)
    # logarithms 0 and 2: mean 1, deviation 1; -2 and -4: mean -3, deviation 1
    np.testing.assert_allclose(band.middle, [10.0, 1e-3])
    np.testing.assert_allclose(band.low, [1.0, 1e-4])
    np.testing.assert_allclose(band.high, [100.0, 1e-2])


def test_the_cloud_on_a_linear_scale_by_hand():
    band = cloud(curve([[1.0], [3.0]], "train_error"), TRAIN_ERROR.linear())
    assert (band.middle[0], band.low[0], band.high[0]) == (2.0, 1.0, 3.0)


def test_errors_of_zero_are_shown_at_the_nugget():
    band = cloud(curve([[0.0], [0.0]], "train_error"), TRAIN_ERROR)
    np.testing.assert_allclose([band.middle[0], band.low[0], band.high[0]], 1e-4)


def test_what_is_not_finite_is_left_out_of_the_mean():
    band = cloud(curve([[1.0, np.inf], [NAN, np.inf], [100.0, NAN]]), TRAIN_LOSS)
    np.testing.assert_allclose(band.middle, [10.0, NAN])


def test_steps_that_move_nothing_are_left_out():
    band = cloud(curve([[0.0, 1e-140], [10.0, 10.0]], "step"), STEP)
    np.testing.assert_allclose(band.middle, [10.0, 10.0])


def test_the_mean_of_steps_ends_with_the_shortest_run():
    steps = curve([[1.0, 1.0, 1.0], [100.0, 100.0, NAN]], "step", x=[1.0, 2.0, 3.0])
    np.testing.assert_array_equal(cloud(steps, STEP).x, [1, 2])
    np.testing.assert_allclose(cloud(steps, STEP).middle, [10.0, 10.0])
    losses = curve([[1.0, 1.0], [100.0, NAN]])
    np.testing.assert_allclose(cloud(losses, TRAIN_LOSS).middle, [10.0, 1.0])


def test_the_median_and_quantiles_by_hand():
    band = quantiles(curve([[1.0], [2.0], [3.0], [4.0], [NAN]]), TRAIN_LOSS)
    assert (band.middle[0], band.low[0], band.high[0]) == (2.5, 1.75, 3.25)
    assert np.isnan(quantiles(curve([[NAN], [NAN]]), TRAIN_LOSS).middle).all()


def test_runs_of_a_setting_come_together():
    runs = traces(pd.concat([frame(seed=1), frame(seed=0, losses=(2.0, 3.0)), frame(method="prls")]))
    chosen = select(runs, problems=["bcwd-logr"], methods=["prls", "gols-i"])
    assert [(run.method, run.seed) for run in chosen] == [("prls", 0), ("gols-i", 0), ("gols-i", 1)]
    curves = Curves(gather(chosen, [TRAIN_LOSS, STEP]))
    (loss,) = curves.of(method="gols-i", measure="train_loss")
    assert loss.seeds.tolist() == [0, 1]
    assert loss.runs[:, 0].tolist() == [2.0, 4.0]
    assert loss.runs[:, -1].tolist() == [3.0, 1.0]
    assert len(curves.of(method=("gols-i", "prls"))) == 4
    columns = curves.to_dict()
    assert {len(column) for column in columns.values()} == {3 * 11 + 3 * 2}
    table = pd.DataFrame(columns)
    row = table.query("measure == 'step' and method == 'prls' and x == 2")
    assert row["value"].tolist() == [10.0]


def test_of_several_budgets_the_usual_one_is_taken():
    runs = traces(pd.concat([frame(seed=0), frame(seed=1), frame(seed=0, budget=20)]))
    chosen = select(runs, problems=["bcwd-logr"], methods=["gols-i"])
    assert [(run.seed, run.budget) for run in chosen] == [(0, 10), (1, 10)]
    chosen = select(runs[1:], problems=["bcwd-logr"], methods=["gols-i"])
    assert {run.budget for run in chosen} == {20}, "of two budgets with as many runs, the larger"


def test_the_budget_of_the_rivals_counts():
    short = [frame(seed=seed) for seed in range(3)]
    runs = traces(pd.concat([*short, frame(budget=20), frame(budget=20, method="fixed-1")]))
    choice = {"problems": ["bcwd-logr"], "methods": ["gols-i", "fixed-1"], "any_of": ["fixed-1"]}
    assert {(run.method, run.budget) for run in select(runs, **choice)} == {("gols-i", 20), ("fixed-1", 20)}
    assert select(traces(pd.concat(short)), **choice) == []


def test_other_samplings_and_directions_are_other_runs():
    runs = traces(pd.concat([frame(), frame(sampling="static"), frame(direction_batch_size=50)]))
    assert [run.sampling for run in select(runs, problems=["bcwd-logr"], methods=["gols-i"])] == ["dynamic"]
    both = select(runs, problems=["bcwd-logr"], methods=["gols-i"], sampling=["static", "dynamic"])
    assert [run.sampling for run in both] == ["dynamic", "static"]
    (own,) = select(runs, problems=["bcwd-logr"], methods=["gols-i"], directions=True)
    assert own.direction_batch_size == 50


def test_a_figure_without_runs_says_how_to_make_them():
    with pytest.raises(MissingRuns, match=r"figure 9 is left out: it needs runs of the study bcwd-fixed"):
        curves_of(frame(problem="x"), [TRAIN_LOSS], what="figure 9", study="bcwd-fixed")
    assert "study s" in str(missing("figure 1", "s"))


def test_steps_are_against_iterations():
    assert {name: measure.against for name, measure in MEASURES.items() if measure.against == "iterations"} == {
        "step": "iterations"
    }
