"""Scores over settings, against numbers computed by hand; and how they are drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from lab.compare_cases import cases_of, trace

from gradline.lab import studies
from gradline.lab.figures import compare_heat
from gradline.lab.figures.compare_profile import apart
from gradline.lab.figures.line_styles import styles
from gradline.lab.findings.comparison import FLOOR, OWN, compare, decades
from gradline.lab.jobs.result import Status
from gradline.plot.inks import DARK

LOSSES = {
    "gols-i": {"small": 0.005, "medium": 0.02, "large": 4.0},
    "prodigy": {"small": 0.05, "medium": 0.01, "large": 4.0},
}


def load(problems, methods, seeds):
    return studies.load("compare", problems=problems, methods=methods, seeds=seeds)


@pytest.fixture
def chosen():
    return load(["regression", "pinn/16"], ["gols-i", "prodigy", "sgd"], 1)


@pytest.fixture
def known(chosen):
    """On regression as above, on pinn/16 prodigy fails; SGD ends at 8, its learning rate of 100 diverges."""
    made = []
    whole = studies.load("compare")
    sizes = {f"regression/{size}": name for size, name in zip((10, 100, 1000), LOSSES["gols-i"], strict=True)}
    for run in studies.plan(chosen):
        method = run.method.name
        last = LOSSES.get(method, {}).get(sizes.get(run.setting, "small"), 8.0)
        failed = (method, run.setting) == ("prodigy", "pinn/16")
        status = Status.FAILED if failed else Status.DIVERGED if method == "sgd-100" else Status.DONE
        made.append(replace(trace("x", [9.0, last], status=status, reason="no" if failed else ""), run=run))
    first = made[0].run
    changes = (
        {"budget": 7},
        {"problem": replace(first.problem, revision=2)},
        {"method": replace(first.method, name="of-old")},
    )
    others = [replace(made[0], run=replace(first, **change)) for change in changes]
    return compare([*made, *others], whole)


def test_only_what_is_planned_is_compared(known, chosen):
    assert len(known.runs) == 4 * 7
    names = {(one.setting, one.method.name, one.seed, one.budget) for one in studies.plan(chosen)}
    assert {(one.setting, one.method, one.seed, one.budget) for one in known.runs} == names
    assert [setting.name for setting in known.settings] == [
        "regression/10",
        "regression/100",
        "regression/1000",
        "pinn/16",
    ]


def test_scores_are_geometric_means_with_a_limit(known):
    scores = {score.method: score for score in known.scores()}
    assert list(scores)[:2] == ["gols-i", "prodigy"]
    assert scores["gols-i"].behind == pytest.approx((1 * 2 * 1 * 1) ** 0.25)
    assert scores["prodigy"].behind == pytest.approx((10 * 1 * 1 * 100) ** 0.25)  # a failure counts as a hundredfold
    assert scores["sgd best"].behind == pytest.approx((100 * 100 * 2 * 800 / 8) ** 0.25)
    (small,) = [score for score in known.scores(["regression/100"]) if score.method == "prodigy"]
    assert small.behind == 1.0
    assert scores["gols-i"].best == scores["gols-i"].reached == 0.75  # regression/1000 has nobody at its target
    assert scores["prodigy"].reached == 0.5
    assert scores["prodigy"].near == scores["prodigy"].far == scores["prodigy"].always == 0.5


def test_a_loss_below_the_floor_is_as_good_as_any_other_there():
    losses = {"a": FLOOR / 1e9, "b": FLOOR, "c": 100 * FLOOR}
    elsewhere = trace("d", [1.0, 1.0], problem="other")
    cases = cases_of([*(trace(name, [1.0, loss]) for name, loss in losses.items()), elsewhere])
    np.testing.assert_allclose(decades(cases)["tiny/5"], [0.0, 0.0, 2.0, math.nan])


def test_where_all_fail_nobody_is_the_best():
    cases = cases_of([trace("a", [1.0], status=Status.FAILED), trace("b", [1.0], status=Status.FAILED)])
    assert decades(cases)["tiny/5"].tolist() == [math.inf, math.inf]


def test_the_heat_map_has_a_mark_for_each_best_one_and_each_failure(known):
    behind = decades(known.cases)
    assert behind.shape == (4, 4)
    axis = compare_heat.draw(known, DARK).axes[0]
    crosses, dots = (line for line in axis.lines if line.get_marker() in "xo")
    assert (crosses.get_marker(), len(crosses.get_xdata())) == ("x", int(np.isposinf(behind).sum().sum()))
    assert (dots.get_marker(), len(dots.get_xdata())) == ("o", 5)  # two share the best loss of regression/1000
    assert [label.get_text() for label in axis.get_yticklabels()] == [score.method for score in known.scores()]
    assert [label.get_fontweight() for label in axis.get_yticklabels()][:2] == ["bold", "normal"]


def test_methods_of_gradline_stand_out_and_no_two_look_alike():
    names = [*OWN, "sgd best", "adam best", *(f"other-{place}" for place in range(12))]
    found = styles(names)
    assert min(found[name].width for name in OWN) > max(look.width for name, look in found.items() if name not in OWN)
    assert len(set(found.values())) == len(names)


def test_labels_keep_their_order_and_distance_below_the_top():
    moved = apart([0.1, 0.5, 0.5, 0.98, 1.0], 0.05, 1.02)
    assert moved == pytest.approx([0.1, 0.475, 0.525, 0.965, 1.015])
    assert apart([0.99, 1.0, 1.0], 0.05, 1.0) == pytest.approx([0.9, 0.95, 1.0])
    assert apart([0.0, 0.0], 0.05, 1.0) == pytest.approx([0.0, 0.05])
    assert apart([], 0.05, 1.0) == []
