"""Each bad argument gets a sentence: which argument, what it must be, why, and what it was."""

import math
from dataclasses import FrozenInstanceError

import pytest

from gradline.searches import Angle, Armijo, Fixed, GoldenSection, GolsB, GolsBack, GolsI, GolsMax, StrongWolfe

NAN, INF = math.nan, math.inf
ALL = (Armijo, GoldenSection, GolsB, GolsBack, GolsI, GolsMax, StrongWolfe)


def refused(search, name, rule, reason, *values):
    return [pytest.param(search, name, rule, reason, value, id=f"{search.__name__}-{name}={value}") for value in values]


BAD = [
    *(
        case
        for search in (GolsI, GolsMax)
        for case in refused(
            search,
            "growth",
            "above 1 and at most 1e6",
            "each probe multiplies or divides the step by it",
            1.0,
            0.5,
            -2.0,
            INF,
            NAN,
        )
    ),
    *refused(
        Armijo, "growth", "at least 1 and finite", "the next search begins at the last step times it", 0.99, INF, NAN
    ),
    *refused(
        GolsI,
        "overshoot",
        "positive and finite",
        "it scales the slope at which a guess is accepted at once",
        0.0,
        -1.0,
        INF,
        NAN,
    ),
    *(
        case
        for search in (GolsMax, GolsBack)
        for case in refused(search, "overshoot", "between 0 and 1", "the slope must shrink", 0.0, 1.0, -1.0, NAN)
    ),
    *(
        case
        for search in (Armijo, GolsBack)
        for case in refused(
            search, "shrink", "at least 1e-6 and below 1", "a rejected step is multiplied by it", 0.0, 1.0, 2.0, NAN
        )
    ),
    *(
        case
        for search in (Armijo, StrongWolfe)
        for case in refused(
            search, "decrease", "between 0 and 1", "it is a part of the decrease promised by the slope", 0.0, 1.0, NAN
        )
    ),
    *refused(
        StrongWolfe,
        "curvature",
        "between decrease = 0.0001 and 1",
        "otherwise no step may satisfy both conditions",
        1e-4,
        1.0,
        0.0,
        NAN,
    ),
    *(
        case
        for search in (GolsB, GoldenSection, StrongWolfe)
        for case in refused(
            search,
            "tolerance",
            "between 1e-14 and 1",
            "it is a part of the step, and floating-point numbers are hardly closer to each other",
            0.0,
            1e-15,
            1.0,
            NAN,
        )
    ),
    *(
        case
        for search in (Armijo, GoldenSection, StrongWolfe)
        for case in refused(
            search,
            "step_first",
            "between step_min = 1e-08 and step_max = 10000000.0",
            "it is the first step probed",
            1e-9,
            1e8,
            NAN,
        )
    ),
    *(
        case
        for search in ALL
        for case in [
            *refused(search, "step_min", "positive and finite", "it is the smallest step", 0.0, -1.0, INF, NAN),
            *refused(
                search, "step_max", "finite and at least step_min = 1e-08", "it is the largest step", 1e-9, INF, NAN
            ),
            *refused(
                search,
                "max_probes",
                "a whole number of at least 1, or None",
                "a search needs at least one probe",
                0,
                -1,
                2.5,
                True,
            ),
        ]
    ),
    *refused(Angle, "gain", "positive and finite", "it scales the feedback", 0.0, -1.0, INF, NAN),
    *refused(Angle, "climb", "0 or more and finite", "it is a rate of growth", -1.0, INF, NAN),
    *refused(Angle, "guard", "None, or 1 or more and finite", "it bounds steps in units of the first", 0.5, INF, NAN),
    *refused(
        Angle,
        "step_first",
        "between step_min = 1e-12 and step_max = 10000000.0",
        "it is the first step probed",
        1e-13,
        1e8,
        NAN,
    ),
    *refused(Fixed, "step", "positive and finite", "it is the step taken", 0.0, -0.1, INF, NAN),
]


@pytest.mark.parametrize(("search", "name", "rule", "reason", "value"), BAD)
def test_a_bad_argument_gets_its_sentence(search, name, rule, reason, value):
    with pytest.raises(ValueError) as caught:
        search(**{name: value})
    assert str(caught.value) == f"{name} must be {rule} ({reason}), got {value!r}"


@pytest.mark.parametrize("search", ALL)
def test_settings_are_named_and_fixed(search):
    with pytest.raises(TypeError):
        search(0.5)
    with pytest.raises(FrozenInstanceError):
        search().step_min = 1.0
    assert search() == search()
    assert search(max_probes=7) != search()
    assert hash(search()) == hash(search())


@pytest.mark.parametrize("search", ALL)
def test_bounds_may_meet(search):
    one = {"step_first": 0.5} if hasattr(search(), "step_first") else {}
    assert search(step_min=0.5, step_max=0.5, **one).step_max == 0.5
