"""GOLS-I against traces of the authors' own program, number for number (see `tests/golden/gols_i_1d.json`).

Where slopes are not finite that program may accept them. Ours does not: those cases are written out below.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from gradline.protocol import Origin, Pending, Slope, Stop
from gradline.searches import GolsI

CASES = json.loads((Path(__file__).parents[1] / "golden" / "gols_i_1d.json").read_text())["cases"]
NON_FINITE = {case["name"]: case for case in CASES if case["name"].startswith(("nan_", "inf_", "neginf_"))}
FINITE = [case for case in CASES if case["name"] not in NON_FINITE]


def begin(case):
    search = GolsI(growth=case["eta"], overshoot=case["p"], step_max=case["max_step"])
    return Pending(search, Origin(Slope(case["dirD0"]), case["norm_dir"]), case["init_guess"])


def check(pending, case):
    steps = [step for step, _ in pending.transcript]
    assert steps == [evaluation["alpha"] for evaluation in case["evals"]]
    assert pending.record.evaluations == case["n_evals"]
    assert pending.outcome.step == pending.outcome.memory == case["alpha_final"]
    assert pending.outcome.probe == case["n_evals"] - 1


def test_the_file_is_whole():
    assert len(CASES) == 60
    assert len(NON_FINITE) == 5
    assert all(math.isfinite(evaluation["dirD"]) for case in FINITE for evaluation in case["evals"])


@pytest.mark.parametrize("case", FINITE, ids=lambda case: case["name"])
def test_told_the_recorded_slopes(case):
    pending = begin(case)
    for evaluation in case["evals"]:
        assert pending.outcome is None, f"it ended after {pending.transcript}"
        assert pending.step == evaluation["alpha"]
        pending.tell(Slope(evaluation["dirD"]))
    check(pending, case)


def formula(spec, step, n):
    """F'(α) by the case's formula, at the n-th evaluation (from 0)."""
    kind = spec["kind"]
    if kind == "quad":
        slope = spec["s"] * (step / spec["astar"] - 1.0)
    elif kind == "const":
        slope = spec["c"]
    elif kind == "list":
        values = np.atleast_1d(spec["list"])
        slope = values[min(n, len(values) - 1)]
    elif kind == "sign_flip":
        slope = spec["hi"] if step >= spec["th"] else spec["lo"]
    elif kind == "cubic":
        a, b, c = spec["r"]
        slope = spec["s"] * (step - a) * (step - b) * (step - c) / (a * b * c)
    noise = np.atleast_1d(spec.get("noise", []))
    slope = slope + noise[n % len(noise)] if len(noise) else slope
    return float(np.dot(slope * np.atleast_1d(spec["gvec"]), np.atleast_1d(spec["dir"])))


@pytest.mark.parametrize("case", FINITE, ids=lambda case: case["name"])
def test_in_closed_loop(case):
    pending = begin(case)
    while pending.outcome is None:
        slope = formula(case["spec"], pending.step, len(pending.transcript))
        pending.tell(Slope(slope))
        assert slope == pytest.approx(case["evals"][len(pending.transcript) - 1]["dirD"], rel=1e-9)
    check(pending, case)


def told(name, *slopes):
    """Start as in the case, tell the slopes, and give the steps asked for with the outcome."""
    case = NON_FINITE[name]
    pending = begin(case)
    for slope in slopes:
        pending.tell(Slope(slope))
    assert pending.outcome is not None, f"it asks for {pending.step}"
    return [step for step, _ in pending.transcript], pending.outcome


def test_nan_at_first():
    """Their program accepts NaN. Ours shrinks away from it."""
    steps, outcome = told("nan_at_first", math.nan, -1.0)
    assert steps == [0.1, 0.05]
    assert (outcome.step, outcome.stop) == (0.05, Stop.SIGN_CHANGE)


def test_nan_in_increase_loop():
    """Theirs grows on through NaN. Ours ends growth there and goes back."""
    steps, outcome = told("nan_in_increase_loop", -1.0, -1.0, math.nan, -1.0)
    assert steps == [0.0001, 0.0002, 0.0004, 0.0002]
    assert (outcome.step, outcome.stop) == (0.0002, Stop.SIGN_CHANGE)


def test_nan_in_decrease_loop():
    """Both shrink on through NaN."""
    steps, outcome = told("nan_in_decrease_loop", 3.0, 3.0, math.nan, 3.0, -1.0)
    assert steps == [evaluation["alpha"] for evaluation in NON_FINITE["nan_in_decrease_loop"]["evals"]]
    assert (outcome.step, outcome.stop) == (0.000625, Stop.SIGN_CHANGE)


def test_inf_at_first():
    """Both take +inf for uphill."""
    steps, outcome = told("inf_at_first", math.inf, math.inf, -1.0)
    assert steps == [evaluation["alpha"] for evaluation in NON_FINITE["inf_at_first"]["evals"]]
    assert (outcome.step, outcome.stop) == (0.025, Stop.SIGN_CHANGE)


def test_neginf_at_first():
    """Theirs takes -inf for downhill, and then accepts +inf. Ours takes both for uphill, down to the last step."""
    steps, outcome = told("neginf_at_first", -math.inf, *[math.inf] * 23)
    assert steps == [0.1 / 2**k for k in range(24)]
    assert steps[-1] < 2e-8 <= steps[-2]
    assert (outcome.step, outcome.probe, outcome.stop) == (0.0, None, Stop.NON_FINITE)
    assert outcome.memory == 0.1, "the step was not the cause, so the next search begins at the same one"
