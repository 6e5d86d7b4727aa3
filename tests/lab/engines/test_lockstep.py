"""Lock-step against the torch optimizer, run by run: the same probes, steps and stops, up to rounding."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from lab.study_runs import blobs, identical, lockstep, ordinary, run, same_so_far

from gradline.lab.engines import lockstep_accepts
from gradline.lab.engines.lockstep import Lockstep, engine, layers, measures
from gradline.lab.jobs.result import COLUMNS
from gradline.lab.jobs.runs import Sampling
from gradline.lab.methods import SearchMethod
from gradline.protocol import Outcome, Stop
from gradline.searches import Fixed, GolsI, Prls

DYNAMIC, STATIC, FULL = Sampling.DYNAMIC, Sampling.STATIC, Sampling.FULL
WAYS = [(sampling, size) for sampling in Sampling for size in (None, 35)]
METHODS = ["gols-i", "prls", "armijo", "fixed-1", "golden-section", "strong-wolfe", "gols-b", "gols-back", "gols-max"]


def compare(runs, *, data=None, iterations=15, tolerance=1e-7):
    together, alone = lockstep(runs, data), ordinary(runs, data)
    assert together.keys() == alone.keys() == {one.key for one in runs}
    for key, result in together.items():
        same_so_far(result, alone[key], iterations=iterations, tolerance=tolerance)
    return together


@pytest.mark.parametrize("method", METHODS)
def test_every_method_and_sampling(method):
    compare([run(method=method, sampling=sampling, direction_batch_size=size) for sampling, size in WAYS])


@pytest.mark.parametrize("problem", ["bcwd-logr", "bcwd-netpii", "bcwd-netpi-as-published", "mnist-net2"])
def test_every_network_and_loss(problem):
    options = {"dtype": "float64", "error_samples": None}
    if problem == "mnist-net2":
        options |= {"hidden": (9, 6, 5)}
    compare(
        [
            run(problem, method, sampling=sampling, problem_options=options)
            for method in ("gols-i", "prls", "armijo")
            for sampling in Sampling
        ]
    )


def test_ten_hidden_layers():
    runs = [run("bcwd-netpi-10", method, seed=seed, budget=40) for method in ("gols-i", "prls") for seed in (0, 1)]
    compare(runs, iterations=8)


@pytest.mark.parametrize("problem", ["bcwd-netpi", "bcwd-netpi-as-published"])
def test_single_precision(problem):
    runs = [
        run(problem, method, sampling=sampling, problem_options={"dtype": "float32"})
        for method in ("gols-i", "prls", "fixed-1")
        for sampling in Sampling
    ]
    compare(runs, data=blobs(dtype=np.float32), iterations=4, tolerance=2e-3)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_large_network_row_by_row(monkeypatch, dtype):
    monkeypatch.setattr(layers, "LARGE", 0)
    runs = [
        run(method=method, sampling=sampling, direction_batch_size=size, problem_options={"dtype": dtype})
        for method in ("gols-i", "prls")
        for sampling, size in WAYS
    ]
    if dtype == "float64":
        compare(runs)
    else:
        compare(runs, data=blobs(dtype=np.float32), iterations=4, tolerance=2e-3)


@pytest.mark.parametrize("size", [3, 20])
@pytest.mark.parametrize("method", ["gols-i", "prls"])
def test_gradients_as_factors_and_as_vectors(monkeypatch, method, size):
    monkeypatch.setattr(layers, "LARGE", 0)
    runs = [
        run("mnist-net2", method, batch_size=size, direction_batch_size=of, angle=True,
            problem_options={"dtype": "float64", "error_samples": None, "hidden": (9, 6, 5)})
        for of in (None, 7)
    ]  # fmt: skip
    factored = lockstep(runs)
    monkeypatch.setattr(engine, "RANK", 0)
    for key, result in lockstep(runs).items():
        same_so_far(factored[key], result, iterations=15, tolerance=1e-7)
        np.testing.assert_allclose(factored[key].columns["angle"], result.columns["angle"], rtol=1e-5)


def test_variances_from_pairs_of_samples_are_those_of_the_gradient():
    source = torch.Generator().manual_seed(0)
    a, delta = (torch.randn(1, units, 4, generator=source, dtype=torch.float64) for units in (30, 20))
    squares = (delta @ a.mT).square()
    expected = 4 * (squares * (delta.square() @ a.mT.square())).sum() - squares.square().sum()
    torch.testing.assert_close(layers._fourth_powers(a, delta), expected[None])


def test_an_earlier_probe_of_prls_is_evaluated_once_more_and_not_counted():
    # Short: later gradients are nothing but rounding, no search begins from some, and starts are evaluated anew.
    runs = [
        run("bcwd-netpii", "prls", seed=seed, budget=80, sampling=s) for seed in range(4) for s in (DYNAMIC, STATIC)
    ]
    results = lockstep(runs)
    stops = np.concatenate([result.columns["stop"] for result in results.values()])
    assert (stops == "PROBABLY_WOLFE_EARLIER").sum() + (stops == "LOWEST_MEAN").sum() > 5
    for result in results.values():
        columns = result.columns
        assert columns["norm"][1:].min() > 0.1
        starts = columns["iteration"] if result.run.sampling is STATIC else 1
        np.testing.assert_array_equal(columns["evaluations"][1:], (columns["probes"].cumsum() + starts)[1:])
    compare(runs, iterations=10)


def test_rows_of_different_batch_sizes_and_methods_share_an_engine():
    runs = [
        run(method=method, batch_size=size, seed=seed, direction_batch_size=direction)
        for method in ("gols-i", "prls", "fixed-1")
        for size, direction in ((5, None), (20, None), (20, 5), (120, None), (7, 20))
        for seed in (0, 1)
    ]
    compare(runs, iterations=10)


def test_with_repetition():
    sizes = (20, 120, 150)
    compare([run(method="gols-i", batch_size=size, repetition=True) for size in sizes])
    compare([run(batch_size=120, repetition=repetition) for repetition in (False, True)])
    one = lockstep([run(batch_size=120, repetition=True)]).popitem()[1]
    other = lockstep([run(batch_size=120)]).popitem()[1]
    assert not np.array_equal(one.columns["step"], other.columns["step"])


def alone_and_among_others(problem, method, size, **options):
    """Each of some runs by itself, and among others that come and go, in two orders."""
    runs = [run(problem, method, batch_size=size, seed=seed, budget=50 + 9 * seed, **options) for seed in range(3)]
    others = [run(problem, other, batch_size=size, seed=9, **options) for other in ("armijo", "prls", "fixed-1")]
    data = blobs(dtype=np.dtype(options.get("problem_options", {}).get("dtype", "float64")).type)
    together, reversed_ = lockstep(runs + others, data), lockstep([*others, *reversed(runs)], data)
    for one in runs:
        alone = lockstep([one], data)[one.key]
        yield alone, together[one.key]
        yield alone, reversed_[one.key]


@pytest.mark.skipif(
    not torch.backends.mkl.is_available(), reason="other libraries may choose a batched product by the number of rows"
)
@pytest.mark.parametrize("size", [7, 20, 120])
@pytest.mark.parametrize("method", ["gols-i", "prls"])
@pytest.mark.parametrize("problem", ["bcwd-logr", "bcwd-netpi", "bcwd-netpii", "bcwd-netpi-as-published"])
def test_a_run_has_the_same_bits_alone_and_among_others(problem, method, size):
    for alone, among in alone_and_among_others(problem, method, size):
        identical(alone, among)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", ["gols-i", "prls"])
def test_a_run_is_the_same_alone_and_among_others_up_to_rounding(method, dtype):
    # In single precision rounding decides where a search ends after a few iterations.
    bound = {"iterations": 15} if dtype == "float64" else {"iterations": 4, "tolerance": 2e-3}
    for alone, among in alone_and_among_others("bcwd-netpi", method, 20, problem_options={"dtype": dtype}):
        same_so_far(alone, among, **bound)


@pytest.mark.parametrize("sampling", [FULL, DYNAMIC])
def test_a_run_that_cannot_move_any_more_on_full_batches_ends(sampling):
    options = {"scale": 1e4}  # the published gradient of such outputs is zero
    made = run("bcwd-logr-as-published", "prls", batch_size=120, sampling=sampling, problem_options=options)
    result = compare([made])[made.key]
    assert result.columns["evaluations"].tolist() == [0.0, 1.0]
    assert result.columns["stop"][-1] == "ZERO_DIRECTION"
    assert np.isfinite(result.columns["train_loss"][-1])


def test_a_search_that_has_something_new_to_try_goes_on_from_a_step_of_zero():
    @dataclass(frozen=True)
    class Patient:
        """Takes no step twice, and a small one then."""

        def start(self):
            return 0

        def search(self, origin, memory):
            yield 1e-3
            return Outcome(1e-3, 0, Stop.FIXED, 2) if memory == 2 else Outcome(0.0, None, Stop.NON_FINITE, memory + 1)

    made = run(method=SearchMethod("patient", Patient()), sampling=FULL, budget=10)
    result = compare([made])[made.key]
    assert result.columns["step"].tolist()[:4] == [0.0, 0.0, 0.0, 1e-3]
    assert result.columns["evaluations"][-1] == 10


def test_small_groups_give_the_same(monkeypatch):
    runs = [run(seed=seed, method=method) for seed in range(5) for method in ("gols-i", "prls")]
    together = lockstep(runs)
    monkeypatch.setattr(engine, "CACHE", 2 * 4 * 8 * 400)
    assert len(Lockstep(runs, blobs())._groups) > 1
    for key, result in lockstep(runs).items():
        same_so_far(result, together[key], iterations=10)


@pytest.mark.parametrize("most", [1, 3])
def test_what_an_evaluation_left_is_not_overwritten_before_it_is_used(monkeypatch, most):
    # Variances are found after points were measured: on as many samples, of as many rows, and at angles.
    monkeypatch.setattr(measures, "MOST", most)
    compare([run(method="prls", sampling=FULL, seed=seed, record_every=1) for seed in range(3)])
    compare([run(method="prls", sampling=FULL, record_every=1, angle=True)])
    sizes = [(120, False), (120, True)]
    compare([run(method="prls", batch_size=20, direction_batch_size=s, repetition=r, seed=int(r)) for s, r in sizes])


def test_methods_of_one_seed_start_at_the_same_weights():
    results = list(lockstep([run(method=method, seed=4) for method in ("gols-i", "prls", "fixed-10")]).values())
    for result in results[1:]:
        assert result.columns["train_loss"][0] == pytest.approx(results[0].columns["train_loss"][0], rel=1e-12)
        assert result.columns["slope"][1] == pytest.approx(results[0].columns["slope"][1], rel=1e-12)


def test_points_that_are_not_finite_disturb_no_other_row():
    wild = SearchMethod("wild", Fixed(1e308))
    good = [run("bcwd-netpii", seed=seed, method=method) for seed in range(3) for method in ("gols-i", "prls")]
    bad = [run("bcwd-netpii", wild, seed=seed, sampling=sampling) for seed in (0, 1) for sampling in Sampling]
    mixed = lockstep([*good, *bad])
    for one in good:
        same_so_far(mixed[one.key], lockstep([one])[one.key], iterations=12)
    for one in bad:
        columns = mixed[one.key].columns
        assert (columns["stop"][1:] == "NON_FINITE").all()
        assert (columns["step"] == 0.0).all()
        assert np.nanmin(columns["train_loss"]) == np.nanmax(columns["train_loss"])
        if one.sampling is FULL:  # nothing can change any more
            assert columns["evaluations"][-1] == 2
            continue
        assert columns["evaluations"][-1] == one.budget
        # After a refused search the origin is evaluated anew: its gradient may be what was at fault.
        assert (np.diff(columns["evaluations"])[1:] == 2).all()
    compare([*good, *bad], iterations=12)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_step_beyond_single_precision_ends_nothing_but_its_search(rows):
    huge = SearchMethod("huge", Fixed(1e60))
    options = {"dtype": "float32"}
    runs = [run("bcwd-netpii", huge, seed=seed, problem_options=options, budget=6) for seed in range(rows)]
    for result in lockstep(runs, blobs(dtype=np.float32)).values():
        assert set(result.columns["stop"][1:]) == {"NON_FINITE"}


def test_where_nothing_can_begin_each_iteration_costs_its_evaluation():
    options = {"scale": 1e4}  # the published gradient of such outputs is zero
    runs = [
        run("bcwd-logr-as-published", method, sampling=sampling, budget=20, problem_options=options)
        for method in ("gols-i", "prls")
        for sampling in (DYNAMIC, STATIC)
    ]
    for result in compare(runs).values():
        columns = result.columns
        assert columns["evaluations"].tolist() == list(range(21))
        assert set(columns["stop"][1:]) == {"ZERO_DIRECTION"}
        assert (columns["norm"][1:] == 0.0).all()
        assert (columns["step"] == 0.0).all()


@dataclass(frozen=True)
class Sulking:
    """Finds nothing finite, and the next time does not even look."""

    def start(self):
        return 0

    def search(self, origin, memory):
        if memory == 0:
            yield 1.0
            return Outcome(0.0, None, Stop.NON_FINITE, 1)
        return Outcome(0.0, None, Stop.SLOPE_VANISHED, 0)


def test_a_search_that_ends_where_it_would_go_on_does_not_hang():
    runs = [run(method=SearchMethod("sulking", Sulking()), sampling=s, budget=12) for s in Sampling]
    for result in compare(runs).values():
        assert {"NON_FINITE", "SLOPE_VANISHED"} == set(result.columns["stop"][1:])
        assert result.columns["evaluations"][-1] >= 12


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_an_origin_that_is_not_finite_is_said(bad):
    # In one column only: what a sum of several infinite terms is depends on the order and on fused multiply-adds, so on
    # the processor. Here an infinite input saturates the hidden units, and its weights' gradient is 0 times infinity.
    data = blobs()
    broken = data.train_inputs.copy()
    broken[:, 3] = bad
    runs = [run("bcwd-netpii", method, budget=5) for method in ("gols-i", "armijo")]
    for result in compare(runs, data=replace(data, train_inputs=broken)).values():
        assert set(result.columns["stop"][1:]) == {"NON_FINITE_ORIGIN"}
        assert (result.columns["step"] == 0.0).all()
        assert np.isfinite(result.columns["train_loss"][0]) == np.isinf(bad)


def test_squares_that_underflow_in_single_precision_are_looked_at_closer():
    options = {"dtype": "float32", "hidden": ()}
    data = blobs(dtype=np.float32)
    tiny = replace(data, train_inputs=data.train_inputs * np.float32(1e-30))
    runs = [run("bcwd-netpii", method=SearchMethod("once", Fixed(1.0)), problem_options=options, budget=4)]
    result = compare(runs, data=tiny, tolerance=1e-4).popitem()[1]
    assert (result.columns["norm"][1:] > 0.0).all()


@pytest.mark.parametrize("sampling", Sampling)
@pytest.mark.parametrize("method", ["gols-i", "prls"])
def test_a_budget_ends_a_run_at_the_end_of_the_search_under_way(method, sampling):
    for budget in (1, 2, 30):
        columns = lockstep([run(method=method, sampling=sampling, budget=budget)]).popitem()[1].columns
        before = columns["evaluations"][-2]
        assert before < budget <= columns["evaluations"][-1]
        if sampling is not STATIC:
            assert columns["evaluations"][-1] == 1 + columns["probes"].sum()


def test_budgets_may_differ_and_finished_rows_leave():
    runs = [run(seed=seed, budget=20 * (seed + 1)) for seed in range(4)]
    running = Lockstep(runs, blobs())
    active, seen = [], []
    while running.active:
        running.advance()
        active.append(running.active)
        seen += running.finished()
    assert active == sorted(active, reverse=True)
    assert set(active) >= {3, 2, 1, 0}
    assert [result.run.budget for result in seen] == [20, 40, 60, 80]
    assert running.evaluations == sum(result.columns["evaluations"][-1] for result in seen)
    for result in seen:
        same_so_far(result, lockstep([result.run])[result.run.key], iterations=12)


@pytest.mark.parametrize("every", [1, 7, 25, 1000])
def test_points_are_measured_at_the_start_at_the_end_and_when_due(every):
    columns = lockstep([run(record_every=every, budget=60)]).popitem()[1].columns
    measured = ~np.isnan(columns["train_loss"])
    evaluations = columns["evaluations"]
    expected = [True] + [(evaluations[n] // every) > (evaluations[n - 1] // every) for n in range(1, len(evaluations))]
    expected[-1] = True
    assert measured.tolist() == expected
    for name in ("train_error", "test_loss", "test_error"):
        np.testing.assert_array_equal(~np.isnan(columns[name]), measured)
    assert np.isnan(columns["angle"]).all()


def test_angles_are_measured_where_asked():
    runs = [run(sampling=sampling, direction_batch_size=size, angle=True, record_every=5) for sampling, size in WAYS]
    for result in compare(runs).values():
        angle = result.columns["angle"]
        np.testing.assert_array_equal(np.isnan(angle[1:]), np.isnan(result.columns["train_loss"][1:]))
        assert math.isnan(angle[0])
        if result.run.sampling is FULL and result.run.direction_batch_size is None:
            assert np.nanmax(angle) < 1e-7
        else:
            assert np.nanmax(angle) > 0.05


def test_errors_on_chosen_samples_and_without_test_samples():
    runs = [run(seed=seed, problem_options={"error_samples": 25}) for seed in (0, 1)]
    for result in compare(runs).values():
        errors = result.columns["train_error"]
        np.testing.assert_allclose(errors * 25, np.round(errors * 25))
    data = blobs()
    untested = replace(data, test_inputs=data.test_inputs[:0], test_targets=data.test_targets[:0])
    for result in compare([run()], data=untested).values():
        assert np.isnan(result.columns["test_loss"]).all()
        assert np.isfinite(result.columns["train_loss"][0])


def test_the_measured_losses_are_those_of_all_samples():
    result = lockstep([run("bcwd-logr", method=SearchMethod("small", Fixed(1e-9)), seed=2)]).popitem()[1]
    data = blobs()
    from gradline.lab.problems.networks import criterion, network

    model = network(result.run.problem, data, seed=2)
    with torch.no_grad():
        outputs, targets = model(torch.tensor(data.test_inputs)), torch.tensor(data.test_targets)
        loss = criterion(result.run.problem)(outputs, targets).mean().item()
        error = (outputs.argmax(dim=1) != targets.argmax(dim=1)).double().mean().item()
    assert result.columns["test_loss"][0] == pytest.approx(loss, rel=1e-12)
    assert result.columns["test_error"][0] == pytest.approx(error)


def test_static_searches_see_one_batch():
    # On one batch and a smooth loss Armijo's sufficient decrease holds between the values it compared.
    result = lockstep([run("bcwd-logr", "armijo", sampling=STATIC, budget=100)]).popitem()[1]
    assert set(result.columns["stop"][1:]) == {"DECREASE"}


def test_a_result_says_how_it_was_made():
    result = lockstep([run()]).popitem()[1]
    assert result.engine == "lockstep"
    assert {"gradline", "torch", "numpy", "python"} == set(result.versions)
    assert 0.0 < result.seconds < 60.0
    assert result.columns["stop"][0] == ""
    assert len(result) == len(result.columns["step"])
    assert {name: column.dtype.kind for name, column in result.columns.items()} == {
        **dict.fromkeys(COLUMNS, "f"),
        "iteration": "i",
        "stop": "U",
    }


def test_the_same_runs_give_the_same_bits():
    runs = [run(method=method, seed=seed) for method in ("gols-i", "prls") for seed in range(3)]
    first, second = lockstep(runs), lockstep(runs)
    for key in first:
        identical(first[key], second[key])


def test_a_search_that_needs_variances_of_its_probes_is_declined():
    assert not lockstep_accepts(run(method=SearchMethod("curious", Curious())))


class Curious(Prls):
    observes_at_probes = Prls.observes


def test_other_settings_of_a_search_are_used():
    eager = lockstep([run(method=SearchMethod("eager", GolsI(growth=4.0)), sampling=FULL)]).popitem()[1].columns
    plain = lockstep([run(sampling=FULL)]).popitem()[1].columns
    assert eager["probes"][1] == pytest.approx(plain["probes"][1] / 2, abs=1)
