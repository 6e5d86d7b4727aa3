"""What is read from runs, against numbers computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from lab.compare_cases import cases_of, comparison_of, trace

from gradline.lab.figures import compare_profile
from gradline.lab.figures.compare_losses import bands_of, draw_losses
from gradline.lab.figures.compare_profile import FARTHEST, corners
from gradline.lab.figures.curves import TEST_ERROR, TRAIN_LOSS
from gradline.lab.findings.cases import spread
from gradline.lab.findings.comparison import costs, leading, ratios
from gradline.lab.jobs.result import Status

# Evaluations to a target of 1 on problems p, q and r: a needs 2, 4 and nothing gets it there; b needs 4, 1 and 3; c 2.
COSTS = {
    "a": {"p": [9, 9, 1], "q": [9, 9, 9, 9, 1], "r": [9, 9]},
    "b": {"p": [9, 9, 9, 9, 1], "q": [9, 1], "r": [9, 9, 9, 1]},
    "c": {"p": [9, 9, 1], "q": [9, 9], "r": [9, 9]},
}


@pytest.fixture
def known():
    found = (trace(method, losses, problem=problem) for method, of in COSTS.items() for problem, losses in of.items())
    return comparison_of(found, 1.0)


@pytest.fixture
def cases(known):
    return known.cases


def test_evaluations_to_a_target_are_those_of_the_first_measurement_at_or_below_it():
    made = trace("x", [5.0, 2.0, 1.0, 3.0, 0.5], thirds=[0, 4, 7, 9, 12], seconds=0.5)
    assert made.first("train_loss", 1.0, "evaluations", counted=True) == 7 / 3
    assert made.first("train_loss", 0.9, "evaluations", counted=True) == 4.0
    assert made.first("train_loss", 0.1, "evaluations", counted=True) == math.inf
    assert made.first("train_loss", 1.0, "seconds", counted=True) == 1.0


def test_what_comes_after_the_budget_does_not_count():
    made = trace("x", [5.0, 1.0, 0.1], thirds=[0, 30, 31])  # the budget is 10 evaluations
    assert made.at_budget("train_loss") == 1.0
    assert made.first("train_loss", 0.5, "evaluations", counted=True) == math.inf


def test_a_run_that_failed_has_an_infinite_loss_but_may_have_reached_its_target():
    made = trace("x", [5.0, 0.5], status=Status.FAILED)
    assert made.at_budget("train_loss") == math.inf
    assert made.first("train_loss", 1.0, "evaluations", counted=True) == 1.0


def test_nan_counts_as_infinite():
    made = trace("x", [5.0, math.nan])
    assert made.at_budget("train_loss") == made.at_budget("test_error") == math.inf


def test_the_median_of_an_even_number_is_one_of_them():
    assert spread([1.0, math.inf]) == (math.inf, 1.0, math.inf)
    assert spread([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)


def test_the_profile_is_as_computed_by_hand(cases):
    found = costs(cases)
    assert list(found.index) == ["a", "b", "c"]
    assert list(found) == ["p/5", "q/5", "r/5"]
    np.testing.assert_array_equal(found, [[2, 4, np.inf], [4, 1, 3], [2, np.inf, np.inf]])
    np.testing.assert_array_equal(ratios(found), [[1, 4, np.inf], [2, 1, 1], [1, np.inf, np.inf]])


def test_a_problem_that_nobody_solves_counts_for_nobody():
    found = pd.DataFrame({"p": [1.0, 2.0], "q": [np.inf, np.inf]}, index=["a", "b"])
    np.testing.assert_array_equal(ratios(found), [[1.0, np.inf], [2.0, np.inf]])


def test_a_target_reached_at_the_start_makes_all_of_them_the_best():
    found = pd.DataFrame({"p": [0.0, 0.0, 3.0]}, index=["a", "b", "c"])
    np.testing.assert_array_equal(ratios(found), [[1.0], [1.0], [np.inf]])


def test_only_problems_that_all_methods_ran_on_count(cases):
    del cases[1].entries["c"]
    assert list(costs(cases)) == ["p/5", "r/5"]


def test_the_worst_seed_decides_where_it_is_asked_for():
    both = cases_of([trace("a", [9, 1]), trace("a", [9, 9, 1], seed=1), trace("a", [9, 1], seed=2)], 1.0)
    assert costs(both).to_numpy().tolist() == [[1.0]]
    assert costs(both, worst=True).to_numpy().tolist() == [[2.0]]


def test_best_and_median_of_a_grid_are_chosen_for_each_setting_by_the_median_seed():
    finals = {"sgd-0.1": [3.0, 3.0, 0.1], "sgd-1": [1.0, 1.0, 9.0], "sgd-10": [2.0, 2.0, 2.0]}
    made = [trace(name, [9.0, last], seed=seed) for name, lasts in finals.items() for seed, last in enumerate(lasts)]
    (case,) = cases_of([*made, trace("other", [9.0, 5.0])])
    assert set(case.entries) == {"other", "sgd best", "sgd median"}
    assert {one.method for one in case.entries["sgd best"].runs} == {"sgd-1"}
    assert {one.method for one in case.entries["sgd median"].runs} == {"sgd-10"}


def test_costs_are_over_those_of_sgd():
    made = [trace("sgd-1", [3.0, 2.0]), trace("x", [3.0, 2.0], thirds=[0, 6], seconds=4.0)]
    (case,) = cases_of(made, 2.5)
    sgd, other = case.entries["sgd best"], case.entries["x"]
    assert case.cost(sgd, "iterations") == case.cost(sgd, "evaluations") == 1.0
    assert (case.cost(other, "iterations"), case.cost(other, "evaluations")) == (4.0, 2.0)
    assert case.to_target(other) == (2.0, 2.0, 2.0)
    (case,) = cases_of(made[1:])
    assert math.isnan(case.cost(case.entries["x"], "iterations"))


def test_methods_are_in_order_of_the_training_loss_and_tell_failures():
    (case,) = cases_of([trace("x", [3.0], status=Status.FAILED, reason="no"), trace("y", [3.0, 1.0])])
    assert [entry.method for entry in case.ranked] == ["y", "x"]
    assert [entry.failures for entry in case.ranked] == [(), ("no",)]


def test_some_are_always_shown_and_then_those_that_are_most_often_near_the_best(cases):
    found = ratios(costs(cases))
    assert leading(found, ["c", "unknown"], 2) == ["c", "b"]
    assert leading(found, [], 9) == ["b", "a", "c"]


def test_the_best_of_a_setting_is_the_best_of_all_whoever_is_drawn(cases):
    ((x, _),) = corners(cases, ["a"]).values()
    np.testing.assert_array_equal(x, [1, 1, 4, FARTHEST])  # on q it needs four times as many as b


def test_the_figure_of_profiles_has_the_profiles(known, cases):
    x, shares = corners(cases, ["a", "b", "c"])["a"]
    np.testing.assert_array_equal(x, [1, 1, 4, FARTHEST])
    np.testing.assert_allclose(shares, [0, 1 / 3, 2 / 3, 2 / 3])
    figure = compare_profile.draw(known)
    steps = [line.get_label() for line in figure.axes[0].lines if line.get_drawstyle() == "steps-post"]
    assert steps == ["b", "a", "c"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["c", "a", "b"]  # from below, as high as they get


def test_the_figure_of_losses_has_medians_and_ranges():
    made = cases_of(
        [
            trace("a", [8.0, 4.0, 2.0]),
            trace("a", [8.0, 6.0, 1.0], seed=1),
            trace("a", [8.0, 5.0], seed=2, status=Status.DIVERGED),
        ]
    )
    band = bands_of(made[0].entries, TRAIN_LOSS, "evaluations", 300)["a"]
    np.testing.assert_array_equal(band.x, np.arange(11.0))
    np.testing.assert_array_equal(band.middle[:3], [8.0, 5.0, 2.0])
    np.testing.assert_array_equal(band.low[:3], [8.0, 4.0, 1.0])
    np.testing.assert_array_equal(band.high[:3], [8.0, 6.0, np.inf])
    figure = draw_losses(made, ["a"])
    assert figure.axes[0].get_title() == "tiny, B = 5"


def test_no_two_of_twenty_lines_look_the_same():
    names = [f"method-{place}" for place in range(20)]
    made = cases_of(trace(name, [8.0, 4.0]) for name in names)
    figure = draw_losses(made, names)
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in figure.axes[0].lines}
    assert len(looks) == 20


def test_test_errors_against_seconds_share_the_time_of_the_slowest():
    made = cases_of([trace("a", [8.0, 4.0], seconds=1.0), trace("b", [8.0, 6.0], seconds=3.0)])
    quick, slow = bands_of(made[0].entries, TEST_ERROR, "seconds", 300).values()
    assert quick.x[-1] == slow.x[-1] == 3.0
    assert quick.middle[np.searchsorted(quick.x, 1.0)] == 8.0  # twice the loss
    assert slow.middle[np.searchsorted(slow.x, 1.0)] == 16.0
    figure = draw_losses(made, ["a", "b"], measures=[TEST_ERROR], against="seconds")
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("seconds", "test error")
