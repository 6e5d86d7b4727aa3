"""GOLS-I against a second implementation: the algorithm written out line by line, sharing no code with the first."""

import math

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gradline.protocol import Origin, Pending, Slope
from gradline.searches import GolsI

NAN, INF = math.nan, math.inf


def gols_i_written_out(slope_at, slope_0, norm, guess, eta, c2, step_min, cap):
    """Returns every step probed, and the accepted step (None: nothing was accepted)."""
    step_max = cap if norm == 0 else min(1 / norm, cap)
    alpha = guess
    if alpha > step_max:
        alpha = step_max
    if alpha < step_min:
        alpha = step_min
    probed = [alpha]
    slope = slope_at(0)
    shrinking = not (slope < 0) or slope == -INF
    if math.isfinite(slope):
        if slope > 0 and slope < c2 * abs(slope_0):
            return probed, alpha
        if slope < 0 and alpha < step_max:
            while True:
                alpha = eta * alpha
                probed.append(alpha)
                slope = slope_at(len(probed) - 1)
                if not math.isfinite(slope):
                    shrinking = True
                    break
                if slope >= 0 or alpha > step_max / eta:
                    return probed, alpha
    if shrinking and alpha > step_min:
        while True:
            alpha = alpha / eta
            probed.append(alpha)
            slope = slope_at(len(probed) - 1)
            if math.isfinite(slope) and slope < 0:
                return probed, alpha
            if alpha < eta * step_min:
                break
    if not math.isfinite(slope):
        return probed, None
    return probed, alpha


slopes = st.one_of(
    st.floats(-10, 10),
    st.floats(allow_nan=False),
    st.sampled_from([0.0, -0.0, 0.9, 0.45, -1.0, 1.0, NAN, INF, -INF]),
)
runs = st.tuples(st.integers(1, 60), slopes).map(lambda run: [run[1]] * run[0])  # long climbs and descents
sequences = st.lists(runs, min_size=1, max_size=6).map(lambda parts: [slope for part in parts for slope in part])


@settings(max_examples=600, deadline=None)
@given(
    sequence=sequences,
    slope_0=st.one_of(st.floats(-10, 10), st.sampled_from([0.0, -1.0, 1.0, -0.5])),
    norm=st.one_of(st.sampled_from([0.0, 1.0, 1e-9, 1e9, 3.0]), st.floats(0.0, 1e12)),
    guess=st.one_of(st.sampled_from([0.0, -3.0, 1e-8, 1.0, 0.75, INF]), st.floats(1e-10, 1e10)),
    eta=st.sampled_from([2.0, 1.3, 3.0, 10.0]),
    c2=st.sampled_from([0.9, 0.5, 0.1]),
)
@example(sequence=[-1.0, -1.0, NAN, NAN, -1.0], slope_0=-1.0, norm=1.0, guess=1e-4, eta=2.0, c2=0.9)
@example(sequence=[-1.0, -INF] + [NAN] * 60, slope_0=-1.0, norm=1.0, guess=1e-8, eta=2.0, c2=0.9)
@example(sequence=[0.9], slope_0=-1.0, norm=1.0, guess=0.1, eta=2.0, c2=0.9)
@example(sequence=[NAN], slope_0=-1.0, norm=1.0, guess=1e-8, eta=2.0, c2=0.9)
def test_two_implementations_agree(sequence, slope_0, norm, guess, eta, c2):
    def slope_at(probe):
        return sequence[min(probe, len(sequence) - 1)]

    search = GolsI(growth=eta, overshoot=c2)
    pending = Pending(search, Origin(Slope(slope_0), norm), guess)
    while pending.outcome is None:
        pending.tell(Slope(slope_at(len(pending.transcript))))
    steps, accepted = gols_i_written_out(slope_at, slope_0, norm, guess, eta, c2, 1e-8, 1e7)
    assert [step for step, _ in pending.transcript] == steps
    if accepted is None:
        assert pending.outcome.probe is None
        assert pending.outcome.memory == guess
    else:
        assert (pending.outcome.step, pending.outcome.probe) == (accepted, len(steps) - 1)
        assert pending.outcome.memory == accepted
