"""What is read from runs with tuning: choices by validation on the tuning seed, ratios, intervals, costs."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from lab.compare_cases import run as case
from lab.compare_cases import traced

from gradline.lab import studies
from gradline.lab.figures.train_questions import (
    compute_data,
    draw_compute,
    draw_limits,
    draw_quality,
    limits_data,
    quality_data,
)
from gradline.lab.findings.cases import WORST
from gradline.lab.findings.packed import Packed, pack, unpack
from gradline.lab.findings.reading import known_runs
from gradline.lab.findings.training import interval, trained
from gradline.lab.jobs.result import Status
from gradline.lab.methods import METHODS, Absent
from gradline.lab.problems import PROBLEMS

STUDY = studies.load("train")
LONG, SHORT = 2000, 500


def run(method, validation, *, seed=0, budget=LONG, test=None, seconds=10.0, problem="digits-mlp", status=Status.DONE):
    """A run whose validation losses were measured one after another, at equal times."""
    count = len(validation)
    shares = np.arange(1, count + 1) / count
    planned = {"problem": PROBLEMS[problem], "batch_size": 16, "record_every": 125 if budget == LONG else 31}
    return traced(
        case(METHODS[method], seed=seed, budget=budget, **planned),
        status=status,
        evaluations=budget * shares,
        seconds=seconds * shares,
        cpu_seconds=seconds * shares,
        train_loss=np.array(validation) / 2,
        test_loss=[*[math.nan] * (count - 1), test or validation[-1]],
        validation_loss=np.array(validation),
    )


def runs(angle=(1.0, 1.2, 1.1), tuned=(1.0, 1.0, 1.0), **others):
    """Angle, AdamW with the better of two learning rates, and Adam."""
    return [
        run("adamw-cosine-0.001", [3.0, 0.9], seed=1000, **others),
        run("adamw-cosine-0.003", [3.0, 0.8], seed=1000, **others),
        run("adamw-cosine-0.01", [3.0, 2.0], seed=1000, **others),
        *(run("adamw-cosine-0.003", [3.0, loss], seed=seed, **others) for seed, loss in enumerate(tuned)),
        # Better, but on seeds that nothing is chosen by.
        *(run("adamw-cosine-0.001", [3.0, 0.1], seed=seed, **others) for seed in range(3)),
        *(run("angle", [3.0, loss], seed=seed, **others) for seed, loss in enumerate(angle)),
        *(run("adam-0.001", [3.0, 2.0], seed=seed, **others) for seed in range(3)),
    ]


def test_what_is_reported_is_what_the_tuning_seed_chose():
    (case,) = trained(runs(), STUDY).cases
    entry = case.entries["adamw-tuned"]
    assert case.tuned is entry
    assert entry.chosen == "adamw-cosine-0.003"
    assert entry.validation_loss == (1.0, 1.0, 1.0)
    assert len(entry.candidates) == 3
    assert entry.tuning_evaluations == 3 * LONG
    assert case.entries["angle"].tuning_evaluations == 0
    assert set(case.entries) == {"angle", "adam-0.001", "adamw-tuned"}


def test_the_better_of_two_tuned_methods_is_that_of_the_tuning_seed():
    momentum = [run("momentum-cosine-0.1", [0.5], seed=1000), run("momentum-cosine-0.1", [5.0])]
    (case,) = trained([*runs(), *momentum], STUDY).cases
    assert case.tuned.method == "momentum-tuned"


def test_ratios_are_of_medians_with_the_range_of_paired_seeds():
    (case,) = trained(runs(tuned=(1.0, 2.0, 1.0)), STUDY).cases
    ratio = case.ratio("angle", "adamw-tuned")
    assert ratio.median == pytest.approx(1.1)
    assert (ratio.best, ratio.worst) == (pytest.approx(0.6), pytest.approx(1.1))


def test_a_ratio_without_a_common_seed_is_that_of_medians():
    unfinished = [one for one in runs() if one.seed == (1 if one.method == "angle" else 0) or one.seed == 1000]
    (case,) = trained(unfinished, STUDY).cases
    assert case.ratio("angle", "adamw-tuned") == (1.2, 1.2, 1.2)


def test_a_method_against_another_over_cases():
    training = trained([*runs(), *runs(angle=(0.5, 0.5, 0.5), budget=SHORT)], STUDY)
    assert [case.short for case in training.cases] == [False, True]
    found = training.versus("angle")
    assert found.ratio == pytest.approx(math.sqrt(1.1 * 0.5))
    assert found.middle == pytest.approx(found.ratio)
    assert found.close == 1
    assert (found.better, found.pairs, found.cases) == (3, 6, 2)
    assert found.always_worse == 0
    assert found.low == found.high == pytest.approx(found.ratio)  # one problem: there is nothing to resample
    assert training.part(short=True).versus("angle").ratio == pytest.approx(0.5)
    assert training.versus("adamw-tuned") is None
    assert training.versus("adam-0.001").always_worse == 2
    assert training.part(held_out=True).cases == ()


def test_test_losses_are_told_and_decide_nothing():
    same = [replace(one, columns={**one.columns, "test_loss": np.full(one.rows, 7.0)}) for one in runs()]
    assert trained(same, STUDY).versus("angle").ratio == trained(runs(), STUDY).versus("angle").ratio
    assert trained(same, STUDY).versus("angle").test == 1.0


def test_a_failure_counts_as_the_worst():
    broken = [replace(one, status=Status.FAILED) if one.method == "angle" else one for one in runs()]
    (case,) = trained(broken, STUDY).cases
    assert case.entries["angle"].failures == ("diverged",) * 3
    assert case.ratio("angle", "adamw-tuned").median == WORST


def test_an_interval_resamples_problems_and_not_their_cases():
    values = np.log([1.0, 1.0, 4.0, 4.0])
    assert interval(values, ["a", "a", "b", "b"]) == (pytest.approx(1.0), pytest.approx(4.0))
    narrow = interval(values, ["a", "b", "c", "d"])
    assert 1.0 <= narrow[0] < 2.0 < narrow[1] <= 4.0
    assert interval(values, list("abcd")) == narrow


def test_compute_counts_all_candidates():
    (spent,) = compute_data(trained(runs(angle=(1.01, 1.01, 1.01)), STUDY))
    assert spent.reached
    assert spent.ours == LONG
    assert spent.tuned == 3 * LONG + LONG
    assert spent.candidates == 3
    (early,) = compute_data(trained([*runs(angle=()), *(run("angle", [1.0, 0.9], seed=s) for s in range(3))], STUDY))
    assert early.ours == LONG / 2
    (never,) = compute_data(trained(runs(angle=(2.0, 2.0, 2.0)), STUDY))
    assert not never.reached


def test_limits_name_the_best_other_method_without_tuning():
    other = [run("prodigy", [0.9], seed=seed) for seed in range(3)]
    training = trained([*runs(), *other, *runs(angle=(9.0,) * 3, budget=SHORT)], STUDY)
    worst, first = limits_data(training)
    assert (worst.note, worst.ratios["angle"].median) == ("adam-0.001", pytest.approx(4.5))
    assert (first.note, first.ratios["angle"].median) == ("prodigy", pytest.approx(1.1 / 0.9))


def test_figures_show_what_there_is():
    training = trained([*runs(), *runs(budget=SHORT), *runs(problem="diabetes-mlp", budget=600)], STUDY)
    quality = quality_data(training)
    assert [row.case.setting.held_out for row in quality] == [False, False, True]
    assert set(quality[0].ratios) == {"angle", "adam-0.001"}
    for draw, data in (
        (draw_quality, quality),
        (draw_compute, compute_data(training)),
        (draw_limits, limits_data(training)),
    ):
        figure = draw(data)
        labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
        assert len(labels) == 3
        assert any(label.startswith("digits-mlp/16, 500") for label in labels)


def test_runs_with_another_budget_than_the_study_are_read_at_the_largest():
    training = trained([*runs(budget=60), *runs(budget=40)], STUDY)
    assert [case.setting.budget for case in training.cases] == [60]


def test_a_packed_file_tells_the_same(tmp_path):
    path = pack(Packed(tuple(runs())), tmp_path / "a.json.gz")
    found = trained(unpack(path).runs, STUDY)
    assert found.versus("angle") == trained(runs(), STUDY).versus("angle")
    assert [spent[1:] for spent in compute_data(found)] == [spent[1:] for spent in compute_data(trained(runs(), STUDY))]


def revised(one, revision):
    """The run as it was when its method had another revision."""
    values = one.run.method.to_dict() | {"revision": revision}
    return replace(one, run=replace(one.run, method=Absent(json.dumps(values))))


def test_runs_of_a_method_that_was_revised_are_shown_but_made_again(tmp_path):
    planned = {one.key for one in studies.plan(STUDY)}
    old = [revised(one, 1) if one.method == "angle" else one for one in runs()]
    file = pack(Packed(tuple(old)), tmp_path / "old.json.gz")
    known = known_runs(file, STUDY)
    assert len(known) == len(old)
    assert {one.key for one in old if one.method == "adam-0.001"} <= planned & known.keys()
    assert not {one.key for one in runs() if one.method == "angle"} & known.keys()
    (case,) = trained(unpack(file).runs, STUDY).cases
    assert len(case.entries["angle"].runs) == 3
    assert {one.revision for one in case.entries["angle"].runs} == {1}


def test_runs_of_two_revisions_are_not_mixed():
    both = [*runs(), *(revised(one, 1) for one in runs(angle=(9.0, 9.0, 9.0)) if one.method == "angle")]
    assert trained(both, STUDY).versus("angle") == trained(runs(), STUDY).versus("angle")
    elsewhere = [revised(one, 1) for one in runs(budget=SHORT) if one.method == "angle"]
    assert len(trained([*both, *elsewhere], STUDY).cases) == 2, "of another setting there are no later ones"
