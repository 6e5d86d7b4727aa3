"""Claims against summaries made for the purpose."""

import pandas as pd
import pytest

from gradline.lab import summary
from gradline.lab.findings.claims import Part, Verdict, claims, to_frame


def runs(**columns):
    """A summary with one row for each value of the longest column."""
    length = max(len(value) for value in columns.values() if isinstance(value, list))
    plain = {
        "problem": "cifar-net1",
        "method": "gols-i",
        "batch_size": 100,
        "seed": list(range(length)),
        "sampling": "dynamic",
        "direction_batch_size": pd.NA,
        "budget": 10_000,
        "repetition": False,
        "diagonal": True,
        "loss": "bce",
        "stalled": False,
        "step_min": 1e-8,
        "step_max": 1e7,
        "probes_min": 1,
        "probes_mean": 1.3,
        "probes_max": 28,
        "probes_max_later": 11,
        "start_train_loss": 2.0,
        "best_train_loss": 1e-3,
        "final_train_loss": 1e-3,
        "best_train_error": 0.05,
        "final_train_error": 0.05,
        "zero_error_at": pd.NA,
        "tenth_error_at": pd.NA,
        "best_test_loss_at": pd.NA,
    }
    table = pd.DataFrame({name: columns.get(name, value) for name, value in plain.items()}, index=range(length))
    for name in ("direction_batch_size", "zero_error_at", "tenth_error_at", "best_test_loss_at"):
        table[name] = table[name].astype("Int64")
    return table


def words(table, number):
    return verdict(table, number).word


def verdict(table, number):
    return next(verdict for verdict in claims(table) if verdict.number == number)


@pytest.mark.parametrize(
    ("holds", "word"),
    [
        ((True, True), "reproduced"),
        ((True, None), "reproduced as far as run"),
        ((True, False), "partly reproduced"),
        ((False, None), "not reproduced"),
        ((None, None), "not run"),
    ],
)
def test_verdicts(holds, word):
    assert Verdict(1, "", tuple(Part("", one, "") for one in holds), "").verdict == word


@pytest.mark.parametrize(
    ("reached", "holds"), [([100, 4999, pd.NA], True), ([100, pd.NA, pd.NA], False), ([pd.NA], False)]
)
def test_runs_that_never_got_there_count(reached, holds):
    part = verdict(runs(tenth_error_at=reached), 8).parts[0]
    assert part.holds is holds
    assert f"of {len(reached)} runs do" in part.seen


def test_a_run_that_two_studies_made_counts_once():
    table = runs(tenth_error_at=[100, 200])
    twice = pd.concat([table, table], ignore_index=True)
    assert verdict(twice, 8) == verdict(table, 8)


def test_other_samplings_do_not_count():
    table = runs(tenth_error_at=[100, 200])
    table["sampling"] = "static"
    assert words(table, 8) == "not run"
    assert verdict(table, 8).runs == "none"


def test_steps_span_orders_of_magnitude():
    assert words(runs(seed=[0]), 11) == "reproduced"
    assert words(runs(seed=[0], step_max=[1.0]), 11) == "not reproduced"


@pytest.mark.parametrize(
    ("final", "stalled", "broke"),
    [(1e-3, False, False), (5e-3, False, False), (0.1, False, False), (0.3, False, True), (1e5, False, True),
     (float("nan"), False, True), (1e-3, True, True)],
)  # fmt: skip
def test_what_breaking_down_is(final, stalled, broke):
    table = runs(
        problem=["bcwd-netpi"],
        method=["prls"],
        batch_size=[10],
        budget=[3000],
        final_train_loss=[final],
        stalled=[stalled],
    )
    part = verdict(table, 2).parts[1]
    assert part.holds is broke
    assert part.seen == f"{int(broke)} of 1 runs broke down"


def test_every_claim_can_be_held_against_real_runs(store):
    verdicts = claims(summary(store))
    assert [one.number for one in verdicts] == list(range(2, 12))
    # The long runs of claim 5 and the images of claims 6 to 9 are there under other numbers of samples or evaluations.
    assert {one.number for one in verdicts if one.verdict == "not run"} <= {5, 8}
    table = to_frame(verdicts)
    assert set(table["holds"]) <= {"yes", "no", "not run"}
    assert len(table) == sum(len(one.parts) for one in verdicts)


def test_no_runs_decide_nothing(store):
    empty = summary(store).iloc[:0]
    assert {one.verdict for one in claims(empty)} == {"not run"}


@pytest.mark.parametrize(
    ("reached", "holds", "seen"),
    [
        ([300, 900], True, "2 of 2 runs reach it, the last at 900, half of them by 600"),
        ([300, 400], False, "2 of 2 runs reach it, the last at 400, half of them by 350"),
        ([900, pd.NA], False, "1 of 2 runs reach it"),
    ],
)
def test_zero_errors_of_all_runs(reached, holds, seen):
    table = runs(problem=["bcwd-netpi"] * 2, batch_size=[50] * 2, budget=[3000] * 2, zero_error_at=reached)
    part = verdict(table, 3).parts[0]
    assert (part.holds, part.seen) == (holds, seen)


@pytest.mark.parametrize(("reached", "holds"), [([700, pd.NA], True), ([2000, 3000], False), ([pd.NA, pd.NA], False)])
def test_zero_errors_of_the_first_run(reached, holds):
    part = verdict(runs(problem=["mnist-net1"] * 2, zero_error_at=reached), 6).parts[3]
    assert part.holds is holds


def test_a_verdict_says_that_runs_were_short_or_few():
    assert verdict(runs(seed=list(range(10))), 11).verdict == "reproduced"
    assert verdict(runs(seed=list(range(3))), 11).verdict == "reproduced, on few or short runs"
    assert verdict(runs(seed=list(range(10)), budget=[100] * 10), 11).verdict == "reproduced, on few or short runs"
