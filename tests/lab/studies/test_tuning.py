"""Studies that tune: candidates on one seed, the chosen ones on the others, and nothing is made twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lab.compare_cases import TINY

from gradline.lab import studies
from gradline.lab.jobs.store import Store
from gradline.lab.methods import METHODS
from gradline.lab.methods.peers import ADAMW_RATES
from gradline.lab.problems.catalogue import TRAINED
from gradline.lab.studies import Setting, Study, Tuned, plan, plan_tuned
from gradline.lab.studies.running import choices, final_loss, lowest, run_study

DIABETES = next(problem for problem in TRAINED if problem.name == "diabetes-mlp")
RATES = tuple(METHODS[f"momentum-cosine-{rate}"] for rate in ("0.001", "0.03", "0.3"))


def small(**others):
    settings = tuple(Setting(problem=DIABETES, batch_size=16, budget=budget, record_every=10) for budget in (10, 40))
    fields = {
        "name": "small",
        "problems": (DIABETES,),
        "methods": (METHODS["adam-0.001"],),
        "seeds": (0, 1),
        "settings": settings,
        "tuned": (Tuned("momentum-tuned", RATES),),
        "benchmark": True,
    }
    return Study(**fields | others)


def test_candidates_run_on_the_tuning_seed_and_others_on_all_seeds():
    runs = plan(small())
    assert len(runs) == 2 * (2 + len(RATES))
    assert {run.seed for run in runs if run.method in RATES} == {1000}
    assert {run.seed for run in runs if run.method not in RATES} == {0, 1}


def test_the_chosen_one_runs_on_all_seeds_of_each_setting():
    chosen = {10: RATES[2], 40: RATES[1]}
    runs = plan_tuned(small(), lambda setting, tuned: chosen[setting.budget])
    assert {(run.budget, run.method, run.seed) for run in runs} == {
        (10, RATES[2], 0),
        (10, RATES[2], 1),
        (40, RATES[1], 0),
        (40, RATES[1], 1),
    }
    assert plan_tuned(small(), lambda setting, tuned: None) == []


def test_the_tuning_seed_is_not_reported():
    with pytest.raises(ValueError, match=r"tuning_seed must be none of seeds \(what is chosen on a seed .* got 1"):
        small(tuning_seed=1)


def test_the_lowest_finite_loss_is_chosen():
    assert lowest({"a": 2.0, "b": 1.0, "c": float("inf")}) == "b"
    assert lowest({"a": float("inf"), "b": float("nan")}) is None
    assert lowest({}) is None


def test_a_study_chooses_runs_and_goes_on(tmp_path):
    study = small()
    first = run_study(study, tmp_path, backend="inline")
    assert (first.runs, first.made, first.before) == (14, 14, 0)
    store = Store(tmp_path)
    choose = choices(tmp_path, study)
    for setting in study.settings:
        found = {
            run.method: final_loss(store.load(run.key))
            for run in plan(study)
            if run.seed == 1000 and run.budget == setting.budget
        }
        assert choose(setting, study.tuned[0]) is min(found, key=found.get)
    again = run_study(study, tmp_path, backend="inline")
    assert (again.runs, again.made, again.before) == (14, 0, 14)


def test_candidates_that_are_not_run_now_count_where_they_were_run(tmp_path):
    run_study(small(seeds=(0,)), tmp_path, backend="inline")
    best = choices(tmp_path, small())(small().settings[1], small().tuned[0])
    others = tuple(method for method in RATES if method is not best)
    part = small(methods=(), tuned=(Tuned("momentum-tuned", others, (best,)),))
    assert {run.method for run in plan(part)} == set(others)
    assert choices(tmp_path, part)(part.settings[1], part.tuned[0]) is best
    without = small(methods=(), tuned=(Tuned("momentum-tuned", others),))
    assert choices(tmp_path, without)(without.settings[1], without.tuned[0]) in others


def test_a_candidate_without_validation_samples_is_never_chosen(tmp_path):
    setting = Setting(problem=TINY, batch_size=5, budget=10)
    study = small(problems=(TINY,), settings=(setting,))
    done = run_study(study, tmp_path, backend="inline")
    assert done.made == 2 + len(RATES)
    assert choices(tmp_path, study)(setting, study.tuned[0]) is None


def test_names_choose_among_candidates():
    study = studies.load("train", methods=["adamw-cosine", "angle"], problems=["digits-mlp/16"])
    assert [method.name for method in study.methods] == ["angle"]
    (tuned,) = study.tuned
    assert tuned.name == "adamw-tuned"
    assert len(tuned.candidates) == len(ADAMW_RATES)
    assert len(tuned.others) == 2 * len(ADAMW_RATES)
    assert {setting.budget for setting in study.settings} == {2000, 500}
    assert studies.load("train").tuned[0].others == ()


@pytest.mark.parametrize(
    ("name", "budget"), [("text-lstm/16", 750), ("cifar-groupnorm/32", 625), ("paper-bcwd/20", 500)]
)
def test_a_budget_of_the_study_is_the_case_of_the_study(name, budget):
    (setting,) = studies.load("train", problems=[name], budget=budget).settings
    assert setting in studies.load("train").settings


def test_a_budget_of_the_caller_leaves_one_case():
    study = studies.load("train", problems=["digits-mlp/16"], budget=500)
    whole = studies.load("train", problems=["digits-mlp/16"])
    assert study.settings == (replace(whole.settings[0], budget=500, record_every=whole.settings[1].record_every),)
    assert study.settings[0] in whole.settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('tuned = ["adamw"]', r"line 2: tuned: there is no group of methods 'adamw'; did you mean"),
        ('tuned = "adamw-tuned"', "tuned: must be a list in brackets"),
        ("shares = [0.5, 2]\n[[setting]]\nproblem = 'digits-mlp'", r"shares: must be above 0 and at most 1 .* got 2"),
        ("tuning_seed = -1", "tuning_seed: must be whole, and at least 0"),
    ],
)
def test_what_is_wrong_in_a_file_is_told(tmp_path, text, message):
    file = tmp_path / "mine.toml"
    rest = "" if "[[setting]]" in text else "\nproblems = ['digits-mlp']"
    file.write_text(f'methods = ["angle"]\n{text}{rest}\n', encoding="utf-8")
    with pytest.raises(studies.StudyError, match=message):
        studies.load(file)
