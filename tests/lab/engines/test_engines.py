"""What both engines promise: exact resumption, errors that say what is wrong, and the choice between them."""

import io
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from lab.study_runs import Arrays, begin, blobs, finish, identical, lockstep, ordinary, run, trained_on

from gradline import searches
from gradline.lab.engines import group_key, lockstep_accepts, make
from gradline.lab.engines.lockstep import Lockstep, layers
from gradline.lab.engines.ordinary import Ordinary
from gradline.lab.jobs.runs import Sampling
from gradline.lab.methods import METHODS, SearchMethod
from gradline.lab.problems import PROBLEMS, Network

CUSTOM = {"model": "lab.study_runs:tiny_model"}
RUNS = [
    run(method=method, seed=seed, sampling=sampling, direction_batch_size=size, budget=budget, angle=size is not None)
    for method in ("gols-i", "prls", "armijo")
    for seed, sampling, size, budget in (
        (0, Sampling.DYNAMIC, None, 45),
        (1, Sampling.STATIC, None, 30),
        (2, Sampling.FULL, None, 37),
        (3, Sampling.DYNAMIC, 30, 41),
    )
]


def saved_and_loaded(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def interrupted(kind, runs, rounds):
    """Run to the end, saved and made anew after each of these numbers of rounds."""
    results, running = {}, begin(kind, runs)
    for number in rounds:
        for _ in range(number):
            if running.active:
                running.advance()
                results |= {result.run.key: result for result in running.finished()}
        if running.active:
            running = begin(kind, runs, state=saved_and_loaded(running.state_dict()))
    return results | finish(running)


@cache
def uninterrupted(make_all, *variant):
    """The results of `RUNS`, made once for each engine and variant of it or of the runs."""
    return make_all(custom_runs() if variant == ("custom",) else RUNS)


def made(runs, data=None):
    with trained_on(data or blobs()):
        return make(runs)


def custom_runs():
    return [replace(one, problem=replace(one.problem, **CUSTOM)) for one in RUNS]


@pytest.mark.parametrize("rounds", [[0], [1], [17], [3, 9, 1, 1, 5, 20], [38, 2, 2]])
@pytest.mark.parametrize("large", [False, True])
def test_lock_step_goes_on_bit_for_bit(monkeypatch, rounds, large):
    if large:
        monkeypatch.setattr(layers, "LARGE", 0)
    whole = uninterrupted(lockstep, "large" if large else "small")
    resumed = interrupted(Lockstep, RUNS, rounds)
    assert whole.keys() == resumed.keys()
    for key in whole:
        identical(whole[key], resumed[key])


@pytest.mark.parametrize("rounds", [[0], [5], [1, 2, 40, 60]])
@pytest.mark.parametrize("custom", [False, True])
def test_the_ordinary_engine_goes_on_bit_for_bit(rounds, custom):
    whole = uninterrupted(ordinary, *["custom"] * custom)
    for one in custom_runs() if custom else RUNS:
        identical(whole[one.key], interrupted(Ordinary, [one], rounds)[one.key])


@pytest.mark.parametrize("kind", [Lockstep, Ordinary])
def test_saving_changes_nothing_and_the_state_stands_apart(kind):
    running = begin(kind, RUNS[:4])
    for _ in range(5):
        running.advance()
    state = running.state_dict()
    kept = saved_and_loaded(state)
    rest = finish(running)
    for once in (state, kept):  # what the engine did since has not changed the state
        again = finish(begin(kind, RUNS[:4], state=once))
        for key in rest:
            identical(rest[key], again[key])


def test_a_finished_run_need_not_be_given_again():
    running = Lockstep(RUNS[:3], blobs())
    done = []
    while not done:
        running.advance()
        done = running.finished()
    assert running.finished() == []
    left = [one for one in RUNS[:3] if one.key not in {result.run.key for result in done}]
    expected, resumed = running.state_dict(), Lockstep(left, blobs(), state=running.state_dict())
    assert resumed.active == len(left)
    assert resumed.evaluations == running.evaluations
    with pytest.raises(KeyError):
        Lockstep([result.run for result in done], blobs(), state=expected)


def test_a_state_of_another_run_is_refused():
    state = begin(Ordinary, RUNS).state_dict()
    with pytest.raises(KeyError, match=RUNS[0].key):
        begin(Ordinary, RUNS[1:], state=state)


def test_a_state_of_another_engine_is_refused():
    state = begin(Ordinary, RUNS).state_dict()
    with pytest.raises(ValueError, match="state must be of lockstep runs, version 5"):
        Lockstep(RUNS[:1], blobs(), state=state)
    with pytest.raises(ValueError, match="state must be of ordinary runs"):
        begin(Ordinary, RUNS, state=Lockstep(RUNS[:1], blobs()).state_dict())


def test_the_engine_follows_from_the_problem():
    assert isinstance(made([run()]), Lockstep)
    custom = run(problem_options=CUSTOM)
    assert isinstance(made([custom]), Ordinary)
    assert not lockstep_accepts(custom)
    networks = [one for one in PROBLEMS.values() if isinstance(one, Network)]
    assert all(lockstep_accepts(replace(run(), problem=one)) for one in networks)


DECLINED = {
    "a search that looks at the way": {"method": SearchMethod("angle", searches.Angle())},
    "a direction": {"method": METHODS["gols-i-adam"]},
    "an average": {"method": SearchMethod("averaged", searches.GolsI(), average=True)},
    "a peer": {"method": METHODS["sgd-0.1"]},
    "a run of a comparison": {"benchmark": True},
    "a problem of another kind": {"problem": PROBLEMS["regression"]},
}


@pytest.mark.parametrize("what", DECLINED)
def test_what_lockstep_declines_the_ordinary_engine_runs(what):
    declined = replace(run(budget=12), **DECLINED[what])
    assert not lockstep_accepts(declined)
    assert group_key(declined) == declined.key
    (result,) = finish(made([declined])).values()
    assert result.engine == "ordinary"
    assert result.columns["evaluations"][-1] >= 12
    assert np.isnan(result.columns["step"][1:]).all() == (what == "a peer")


def test_runs_that_share_no_network_share_no_engine():
    one = run(batch_size=10, seed=0)
    assert group_key(one) == group_key(run(method="prls", batch_size=20, seed=3, budget=7, sampling=Sampling.FULL))
    assert hash(group_key(one)) == hash(group_key(run(seed=1)))
    for other in (run("bcwd-netpii"), run("bcwd-logr"), run(problem_options={"dtype": "float32"})):
        assert group_key(one) != group_key(other)
        with pytest.raises(ValueError, match="runs must have equal group keys"):
            made([one, other])


def test_problems_of_one_network_may_start_at_different_scales():
    runs = [run(problem_options={"scale": scale, "name": f"at-{scale}"}) for scale in (0.1, 1.0)]
    results = finish(made(runs))
    losses = [results[one.key].columns["train_loss"][0] for one in runs]
    assert losses[0] < losses[1]


@pytest.mark.parametrize("kind", [Lockstep, Ordinary])
def test_a_batch_larger_than_the_data_is_refused(kind):
    def go():
        return finish(begin(kind, [run(batch_size=121)]))

    with pytest.raises(ValueError, match="size must be at most the number of samples, 120"):
        go()


@pytest.mark.parametrize("kind", [Lockstep, Ordinary])
def test_one_sample_has_no_variance(kind):
    with pytest.raises(ValueError, match="batch_size must be at least 2 with prls"):
        begin(kind, [run(method="prls", batch_size=1)])


@pytest.mark.parametrize("method", ["gols-i", "prls", "armijo"])
def test_any_module_trains(method):
    results = ordinary(
        [run(method=method, budget=200, batch_size=40, sampling=Sampling.STATIC, problem_options=CUSTOM)]
    )
    columns = results.popitem()[1].columns
    assert columns["train_loss"][-1] < 0.5 * columns["train_loss"][0]
    assert columns["evaluations"][-1] >= 200


def test_the_ordinary_engine_counts_as_it_goes():
    running = begin(Ordinary, RUNS)
    assert (running.active, running.evaluations, running.finished()) == (1, 0, [])
    running.advance()
    assert running.active == 1
    assert running.evaluations > 1
    (result,) = finish(running).values()
    assert running.evaluations == result.columns["evaluations"][-1]
    assert result.engine == "ordinary"
    assert running.finished() == []


def test_arrays_of_any_layout_will_do():
    data = blobs()
    turned = Arrays(
        *(np.asfortranarray(part) for part in (data.train_inputs, data.train_targets)),
        *(data.test_inputs, data.test_targets),
    )
    plain, other = finish(made([run()], data)), finish(made([run()], turned))
    identical(*(results.popitem()[1] for results in (plain, other)))


def test_no_runs_are_refused():
    with pytest.raises(ValueError, match="runs must have at least one run"):
        make([])
