"""Pictures of one search: their numbers, and that everything draws without a warning."""

import copy
import math
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import gradline
from gradline import plot
from gradline.plot import scales
from gradline.plot.inks import DARK, LIGHT
from gradline.protocol import Moments, Origin, Outcome, Pending, Slope, Stop, Value
from gradline.searches import (
    Angle,
    Armijo,
    Fixed,
    GoldenSection,
    GolsB,
    GolsBack,
    GolsI,
    GolsMax,
    Prls,
    PrlsMemory,
    StrongWolfe,
)
from gradline.testing import ZOO

NAN, INF = math.nan, math.inf
SEARCHES = [
    *(GolsI(), GolsI(max_probes=1), GolsB(), GolsBack(), GolsMax(), Fixed(0.1)),
    *(Armijo(), GoldenSection(), StrongWolfe()),
    *(Prls(), Prls(step_first=1.0), Prls(step_first=100.0, max_probes=20)),
]


@pytest.fixture(autouse=True)
def _no_windows():
    """Agg, and nothing left open."""
    with matplotlib.rc_context({"backend": "Agg"}):
        yield
        pyplot.close("all")


def bowl(bottom):
    """Of F(α) = (α - bottom)²/2."""
    return lambda step: Moments(step - bottom, (step - bottom) ** 2 / 2, value_var=1e-4, slope_var=4e-4)


def slope(bottom):
    return lambda step: step - bottom


def texts(axis):
    return [text.get_text() for text in axis.texts]


def rendered(figure):
    """The figure, after all of it was drawn: warnings are errors."""
    figure.canvas.draw()
    return figure


# ---- numbers


def test_the_numbers_of_a_growing_search():
    data = plot.search_data(gradline.solve(GolsI(), slope(0.3), memory=0.1))
    assert data.origin == plot.Point(0, 0.0, -0.3, None)
    assert [probe.step for probe in data.probes] == [0.1, 0.2, 0.4]
    assert [probe.slope for probe in data.probes] == pytest.approx([-0.2, -0.1, 0.1])
    assert data.accepted is data.probes[2]
    assert data.bracket == (0.2, 0.4)
    assert data.rule[:2] == (0.0, 0.9 * 0.3)
    assert data.headline == "GolsI: step 0.4 accepted after 3 probes"
    assert data.reason == "the slope changed sign between the last two steps"
    assert (data.panels, data.values, data.logarithmic, data.span) == (1, False, False, (0.1, 0.4))
    assert data.beliefs is data.acceptance is data.noise is data.decrease is data.asked is None


def test_the_bracket_of_a_shrinking_search():
    data = plot.search_data(gradline.solve(GolsI(), slope(0.3), memory=0.8))
    assert [probe.step for probe in data.probes] == [0.8, 0.4, 0.2]
    assert data.bracket == (0.2, 0.4)


def test_accepted_at_once_the_sign_changed_after_the_origin():
    data = plot.search_data(gradline.solve(GolsI(), slope(0.3), memory=0.4))
    assert data.bracket == (0.0, 0.4)
    assert data.headline == "GolsI: step 0.4 accepted after 1 probe"


def test_the_bracket_of_a_bisection_is_the_last_one():
    data = plot.search_data(gradline.solve(GolsB(tolerance=1e-3), slope(0.3)))
    low, high = data.bracket
    assert low < 0.3 <= high
    assert high - low <= 1e-3 * high
    assert data.logarithmic


def test_a_search_for_another_level_has_its_bracket_there():
    data = plot.search_data(gradline.solve(GolsMax(), slope(0.3), memory=0.1))
    assert data.level == pytest.approx(0.27)
    assert data.rule[:2] == (-INF, pytest.approx(0.27))
    assert data.bracket == (0.4, 0.8)  # slopes 0.1 and 0.5
    assert data.accepted.step == 0.4


def test_no_bracket_where_the_sign_never_changed():
    assert plot.search_data(gradline.solve(GolsI(), lambda step: -1.0)).bracket is None
    assert plot.search_data(gradline.solve(GolsI(), lambda step: 1.0)).bracket is None


def test_a_probe_that_is_not_finite_counts_as_uphill():
    record = gradline.solve(GolsI(), lambda step: -1.0 if step < 0.3 else NAN, memory=0.1)
    data = plot.search_data(record)
    assert [probe.step for probe in data.probes] == [0.1, 0.2, 0.4, 0.2]
    assert data.bracket == (0.2, 0.4)


def test_nothing_accepted():
    data = plot.search_data(gradline.solve(GolsI(), lambda step: NAN if step else -1.0, memory=0.1))
    assert data.accepted is None
    assert data.bracket is None
    assert data.headline.startswith("GolsI: no step accepted after ")
    assert data.reason == str(Stop.NON_FINITE)


def test_the_rules_of_searches_that_compare_values():
    data = plot.search_data(gradline.solve(Armijo(decrease=0.25), bowl(2.0)))
    assert data.decrease == -0.5
    assert data.rule is None
    assert (data.panels, data.bracket) == (2, None)
    assert data.origin.value == 2.0
    data = plot.search_data(gradline.solve(StrongWolfe(decrease=0.1, curvature=0.5), bowl(2.0)))
    assert data.decrease == pytest.approx(-0.2)
    assert data.rule[:2] == (-1.0, 1.0)


def test_an_earlier_probe_is_named():
    record = gradline.solve(GoldenSection(tolerance=0.1), bowl(2.0), norm=0.01)
    data = plot.search_data(record)
    assert record.outcome.probe < len(record.transcript) - 1
    assert data.accepted.number == record.outcome.probe + 1
    assert data.headline.endswith(f", the one numbered {data.accepted.number}")


def test_a_gradient_only_search_is_not_drawn_with_values_it_did_not_look_at():
    data = plot.search_data(gradline.solve(GolsI(), bowl(0.3), memory=0.1))
    assert data.panels == 1
    assert data.probes[0].value is None


def test_a_search_under_way():
    pending = Pending(GolsI(), Origin(Slope(-1.0), 1.0), 0.01)
    pending.tell(Slope(-0.9))
    data = plot.search_data(pending)
    assert (data.asked, data.accepted, data.span) == (0.02, None, (0.01, 0.02))
    assert data.headline == "GolsI: 1 probe so far"
    assert data.reason == "under way: the next probe is at step 0.02"
    while pending.outcome is None:
        pending.tell(Slope(1.0))
    ended, recorded = plot.search_data(pending), plot.search_data(pending.record)
    assert ended.asked is None
    assert (ended.headline, ended.bracket) == (recorded.headline, recorded.bracket)


def test_a_plain_transcript():
    transcript = [(0.1, Slope(-1.0)), (0.2, Slope(0.5))]
    data = plot.search_data(transcript)
    assert (data.origin, data.accepted, data.bracket) == (None, None, (0.1, 0.2))
    assert (data.headline, data.reason) == ("2 probes", "")
    data = plot.search_data(transcript, search=GolsI(), origin=Origin(Slope(-2.0), 1.0))
    assert data.headline == "GolsI: 2 probes"
    assert data.rule[:2] == (0.0, 1.8)
    values = [(step, Value(0.0, 1.0)) for step, _ in transcript]
    assert plot.search_data(values).panels == 2
    assert plot.search_data([*values, *transcript]).panels == 1  # not all have values


class Own:
    """A search from elsewhere."""

    def __init__(self, kind):
        self.observes = kind

    def start(self):
        return None

    def search(self, origin, memory):
        yield 1.0
        yield 3.0
        return Outcome(1.0, 0, Stop.FIXED, None)


@pytest.mark.parametrize(("kind", "panels"), [(Slope, 1), (Value, 2), (Moments, 2)])
def test_any_other_search_is_drawn_by_what_it_observes(kind, panels):
    record = gradline.solve(Own(kind), bowl(2.0))
    data = plot.search_data(record)
    assert data.panels == panels
    assert data.accepted.number == 1
    assert len(rendered(plot.search(record)).axes) == panels


# ---- the beliefs of PrLS


@pytest.fixture(scope="module")
def prls():
    """Three probes, the second one in a minimum of the surrogate, in units that are not 1."""

    def phi(step):
        return Moments(5.0 * (step - 0.3), 7.0 + 2.5 * (step - 0.3) ** 2, value_var=1e-4, slope_var=4e-4)

    return gradline.solve(Prls(step_first=0.1, curvature=0.1), phi)


def test_beliefs_are_in_the_units_of_the_caller(prls):
    data = plot.search_data(prls)
    surrogate = prls.search.surrogate(prls.origin, prls.memory, prls.transcript)
    guess, steep = 0.1, 1.5
    for index in range(0, len(data.beliefs.steps), 30):
        point = data.beliefs.steps[index] / guess
        there = surrogate.at(point)
        assert data.beliefs.mean[index] == pytest.approx(7.225 + guess * steep * there.mean)
        assert data.beliefs.deviation[index] == pytest.approx(guess * steep * math.sqrt(there.value_var))
        assert data.beliefs.slope[index] == pytest.approx(steep * there.slope, abs=1e-12)
        assert data.beliefs.slope_deviation[index] == pytest.approx(steep * math.sqrt(there.slope_var))
        chance = surrogate.wolfe_probability(point, curvature=0.1)
        assert data.beliefs.probability[index] == pytest.approx(chance, abs=1e-9)
    assert data.noise == pytest.approx((0.01, 0.02))
    assert data.acceptance == 0.3


def test_with_little_noise_the_belief_is_the_function(prls):
    beliefs = plot.search_data(prls).beliefs
    for step, seen in prls.transcript:
        mean, slope, _ = beliefs[step]
        assert mean == pytest.approx(seen.value, abs=0.03)
        assert slope == pytest.approx(seen.slope, abs=0.06)
    assert beliefs[prls.step][2] > 0.3
    within = beliefs.steps <= max(step for step, _ in prls.transcript)
    parabola = 7.0 + 2.5 * (beliefs.steps - 0.3) ** 2
    assert (np.abs(beliefs.mean - parabola) < 2.5 * beliefs.deviation)[within].all()


def test_the_last_choice_contains_the_last_probe(prls):
    data = plot.search_data(prls)
    assert prls.transcript[-1][0] in data.considered
    assert set(data.considered) <= set(data.beliefs.steps.tolist())
    assert list(data.considered) == prls.search.considered(prls.origin, prls.memory, prls.transcript[:-1])


def test_the_choice_of_a_search_under_way_contains_the_next_probe(prls):
    pending = Pending.replay(prls.search, prls.origin, prls.memory, prls.transcript[:-1])
    data = plot.search_data(pending)
    assert data.asked in data.considered
    assert data.asked == prls.transcript[-1][0]
    assert data.span[1] == max(*data.considered, *(step for step, _ in prls.transcript[:-1]))


def test_a_plain_transcript_of_prls_is_enough(prls):
    data = plot.search_data(list(prls.transcript), search=prls.search, origin=prls.origin)
    assert data.headline == plot.search_data(prls).headline  # its outcome is known
    np.testing.assert_array_equal(data.beliefs.mean, plot.search_data(prls).beliefs.mean)
    assert data.panels == 3
    assert plot.search_data([], search=prls.search, origin=prls.origin).panels == 3
    assert plot.search_data(list(prls.transcript), search=prls.search).panels == 2  # no origin, no surrogate


def test_without_a_surrogate_only_what_was_seen_is_drawn():
    record = gradline.solve(Prls(), lambda step: Moments(0.0, 1.0, 0.1, 0.1))
    data = plot.search_data(record)
    assert record.stop is Stop.SLOPE_VANISHED
    assert (data.beliefs, data.considered, data.panels) == (None, (), 2)
    assert data.headline == "Prls: no step probed"
    figure = rendered(plot.search(record))
    assert "vanished" in figure.axes[0].get_title(loc="left")


# ---- drawing


@pytest.mark.parametrize("search", [GolsI(), StrongWolfe(), Prls(step_first=1.0)], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("function", ZOO, ids=str)
def test_every_function_can_be_drawn(search, function):
    """The zoo has functions that are huge, tiny, steep, noisy and not finite."""
    record = gradline.solve(search, function.phi(), norm=function.norm)
    figure = plot.search(record)
    assert len(figure.axes) == plot.search_data(record).panels
    for axis in figure.axes:
        assert all(map(math.isfinite, (*axis.get_xlim(), *axis.get_ylim())))
        assert axis.get_ylabel()
    assert figure.axes[-1].get_xlabel().startswith("step α")
    title = figure.axes[0].get_title(loc="left").replace("\n", " ")
    assert str(record.stop) in title


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_every_search_can_be_rendered(search):
    rendered(plot.search(gradline.solve(search, bowl(0.3))))
    rendered(
        plot.search(gradline.solve(search, lambda step: bowl(2.0)(step) if step < 0.5 else Moments(NAN, INF, 1.0, 1.0)))
    )


def test_a_search_that_looks_at_its_way_can_be_rendered():
    first = gradline.solve(Angle(), slope(0.3))
    rendered(plot.search(first))
    rendered(plot.search(gradline.solve(Angle(), slope(0.3), memory=first.outcome.memory)))


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e160, 1e300])
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_numbers_of_any_size(scale, size):
    transcript = [(size * 3.0**n, Value(scale * (n - 3.5), scale * (n - 3.5) ** 2)) for n in range(8)]
    origin = Origin(Value(-4.0 * scale, 16.0 * scale), 1.0)
    rendered(plot.search(transcript, search=StrongWolfe(), origin=origin))
    rendered(plot.search(transcript))


def test_one_probe_and_thirty():
    for count in (1, 30):
        figure = rendered(plot.search([(0.01 * 2**n, Slope(-1.0)) for n in range(count)]))
        assert texts(figure.axes[0]).count("1") == 1
        assert str(count) in texts(figure.axes[0])


def test_the_axis_of_steps_shows_zero_and_is_logarithmic_beyond_a_decade():
    axis = plot.search(gradline.solve(GolsI(), slope(0.3))).axes[0]
    assert axis.get_xscale() == "symlog"
    assert axis.get_xlim()[0] < 0.0
    assert axis.get_xticks()[0] == 0.0
    assert axis.get_xlabel() == "step α (logarithmic above 1e-08)"
    axis = plot.search([(1e-3, Slope(-1.0)), (1.0, Slope(1.0))]).axes[0]
    assert axis.get_xscale() == "log"
    assert plot.search([(0.1, Slope(-1.0)), (1.0, Slope(1.0))]).axes[0].get_xscale() == "linear"
    assert plot.search([(0.0, Slope(-1.0)), (1e-3, Slope(1.0)), (1.0, Slope(1.0))]).axes[0].get_xscale() == "symlog"


def test_what_is_not_finite_or_far_off_is_named_at_the_edge():
    transcript = [(1.0, Value(NAN, NAN)), (0.5, Value(3.0, -INF)), (0.2, Value(1.0, 1e9)), (0.1, Value(0.1, 0.5))]
    values, slopes = rendered(plot.search(transcript, origin=Origin(Value(-1.0, 1.0), 1.0))).axes
    assert {"1\nnan", "2\n-inf", "3\n1e+09", "4"} <= set(texts(values))
    assert {"1\nnan", "2", "3", "4"} <= set(texts(slopes))
    labels = values.get_legend_handles_labels()[1]
    assert {"not finite", "off the scale"} <= set(labels)


def test_steep_slopes_do_not_hide_the_others():
    axis = plot.search(gradline.solve(GolsI(), lambda step: -1.0 if step < 0.3 else 1e6, memory=0.1)).axes[0]
    assert axis.get_yscale() == "symlog"
    assert axis.get_ylim()[1] > 1e6


def test_the_picture_names_what_it_shows():
    axis = plot.search(gradline.solve(GolsI(), slope(0.3), memory=0.1)).axes[0]
    assert set(axis.get_legend_handles_labels()[1]) >= {"origin", "downhill", "uphill", "accepted", "sign change"}
    assert texts(axis) == ["3", "1", "2"]  # the accepted one first: it gets its place for sure
    assert axis.get_title(loc="left").splitlines() == [
        "GolsI: step 0.4 accepted after 3 probes",
        "the slope changed sign between the last two steps",
    ]


def test_no_legend_repeats_another(prls):
    legends = [axis.get_legend() for axis in plot.search(prls).axes]
    names = [text.get_text() for legend in legends if legend for text in legend.get_texts()]
    assert len(names) == len(set(names))
    assert {"expected value", "expected slope", "probability", "accepted above 0.3", "±2σ", "noise, ±1σ"} <= set(names)


def test_it_leaves_the_record_as_it_was(prls):
    before = copy.deepcopy(prls)
    plot.search(prls)
    assert prls == before


def test_a_new_figure_belongs_to_no_window(prls):
    assert isinstance(plot.search(prls), Figure)
    assert pyplot.get_fignums() == []


def test_it_draws_where_it_is_told(prls):
    figure, axis = pyplot.subplots()
    assert plot.search(gradline.solve(GolsI(), slope(0.3)), axes=axis) is figure
    assert axis.get_ylabel() == "slope F'(α)"
    rendered(figure)
    figure, axis = pyplot.subplots()
    assert plot.search(prls, axes=axis) is figure  # the first panel alone
    assert axis.get_ylabel() == "value F(α)"
    assert axis.get_xlabel()
    figure, axes = pyplot.subplots(3, 1)
    plot.search(prls, axes=axes)
    assert [axis.get_ylabel() for axis in axes] == ["value F(α)", "slope F'(α)", "P(Wolfe)"]
    rendered(figure)
    left, right = Figure(layout="constrained").subfigures(1, 2)
    assert plot.search(prls, axes=left.subplots(3, 1)) is left
    assert plot.search(prls, axes=list(right.subplots(2, 1))) is right


@pytest.mark.parametrize(
    ("style", "inks"), [("default", LIGHT), ("dark_background", DARK), ("grayscale", LIGHT), ("ggplot", LIGHT)]
)
def test_it_keeps_to_the_style(style, inks, prls):
    with pyplot.style.context(style):
        figure = rendered(plot.search(prls))
        text = to_hex(matplotlib.rcParams["axes.labelcolor"])
    for axis in figure.axes:
        for written in (*axis.texts, *(axis.get_legend().get_texts() if axis.get_legend() else ())):
            assert to_hex(written.get_color()) == text
    assert to_hex(figure.axes[0].get_title(loc="left") and figure.axes[0]._left_title.get_color()) == text
    curves = {to_hex(line.get_color()) for line in figure.axes[0].lines}
    assert inks.blue in curves


def test_a_dark_axes_made_elsewhere_keeps_its_inks():
    with pyplot.style.context("dark_background"):
        _, axis = pyplot.subplots()
    plot.search(gradline.solve(GolsI(), slope(0.3), memory=0.1), axes=axis)
    assert {to_hex(text.get_color()) for text in axis.texts} == {"#ffffff"}


# ---- what is refused


@pytest.mark.parametrize(
    ("transcript", "options", "error", "message"),
    [
        (3.0, {}, TypeError, r"transcript must be a Record, a Pending or a list of \(step, seen\), got 3.0"),
        ([(0.1, -1.0)], {}, TypeError, r"seen being a Slope, a Value or Moments; got \(0.1, -1.0\) as probe 0"),
        ([0.1], {}, TypeError, "got 0.1 as probe 0"),
        ([(-0.1, Slope(1.0))], {}, ValueError, "finite steps of 0 or more .* got -0.1 at probe 0"),
        ([(0.1, Slope(1.0)), (NAN, Slope(1.0))], {}, ValueError, "got nan at probe 1"),
        ([("a", Slope(1.0))], {}, ValueError, "got 'a' at probe 0"),
        ([], {}, ValueError, "transcript must have a probe, or origin be given"),
        ([(0.1, Slope(1.0))], {"origin": Slope(1.0)}, TypeError, "origin must be an Origin"),
        (
            gradline.solve(GolsI(), slope(0.3)),
            {"search": GolsI()},
            ValueError,
            "search must be left out .a Record carries its own., got GolsI",
        ),
        (
            Pending(GolsI(), Origin(Slope(-1.0), 1.0), 0.1),
            {"origin": Origin(Slope(-1.0), 1.0)},
            ValueError,
            "origin must be left out .a Pending carries",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(transcript, options, error, message):
    with pytest.raises(error, match=message):
        plot.search(transcript, **options)


def test_a_transcript_of_another_search_is_refused(prls):
    with pytest.raises(ValueError, match="transcript must be one of Prls"):
        plot.search([*prls.transcript, (0.123, Value(1.0, 1.0))], search=prls.search, origin=prls.origin)


def test_axes_that_are_none_are_refused():
    record = gradline.solve(GolsI(), slope(0.3))
    for wrong in (3, "here", [], Figure()):
        with pytest.raises(TypeError, match="axes must be an Axes of matplotlib or several of them"):
            plot.search(record, axes=wrong)
    with pytest.raises(ValueError, match=r"axes must be at most 1 .* got 2"):
        plot.search(record, axes=Figure().subplots(2, 1))


def test_without_matplotlib_the_numbers_are_there_and_the_drawing_says_what_it_needs():
    program = """
import sys
sys.modules["matplotlib"] = None
import gradline
from gradline.searches import GolsI
record = gradline.solve(GolsI(), lambda step: step - 0.3)
assert gradline.plot.search_data(record).accepted
try:
    gradline.plot.search(record)
except ModuleNotFoundError as error:
    print(error, error.name)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == (
        "gradline.plot.search needs matplotlib, which is not installed: "
        "pip install '.[plot]' in a clone of gradline matplotlib"
    )


# ---- arithmetic of pictures


def test_a_window_holds_what_must_be_seen_and_what_is_near():
    assert scales.window([0.0, 1.0], margin=0.0) == (0.0, 1.0)
    assert scales.window([0.0, 1.0], [5.0, 100.0], margin=0.0) == (0.0, 5.0)
    assert scales.window([0.0, 1.0], [NAN, INF, 1e200], margin=0.1) == pytest.approx((-0.1, 1.1))
    for alone in ([2.0], [0.0], [], [-3.0, -3.0]):
        low, high = scales.window(alone)
        assert low < (alone or [0.0])[0] < high


def test_a_range_grows_only_so_far():
    assert scales.extended(0.0, 1.0, [1.5, NAN], room=1.0) == (0.0, 1.5)
    assert scales.extended(0.0, 1.0, [-7.0, 9.0], room=2.0) == (-2.0, 3.0)
    assert scales.extended(0.0, 1.0, [INF], room=2.0) == (0.0, 1.0)


def test_where_an_axis_of_slopes_becomes_logarithmic():
    assert scales.threshold([-1.0, 2.0, 5.0], -1.0) is None
    assert scales.threshold([-1.0, 2.0, 500.0], -2.0) == 2.0
    assert scales.threshold([-1.0, 2.0, 500.0], NAN) == 2.0
    assert scales.threshold([0.0, NAN], 0.0) is None


def test_axes_are_those_of_matplotlib():
    assert all(isinstance(axis, Axes) for axis in plot.search([(0.1, Slope(1.0))]).axes)


def test_memory_of_another_guess_moves_the_units():
    phi = bowl(0.3)
    record = gradline.solve(Prls(), phi, memory=PrlsMemory(2.0, 1.0))
    data = plot.search_data(record)
    assert data.probes[0].step == 2.0
    assert data.beliefs[0.0][0] == pytest.approx(phi(0.0).value, abs=0.03)


def test_a_notebook_shows_a_new_figure_without_a_magic_command():
    figure = gradline.plot.search(gradline.solve(GolsI(), lambda step: step - 0.3))
    shell = pytest.importorskip("IPython.core.formatters", reason="IPython is not installed")
    shown, _ = shell.DisplayFormatter().format(figure)
    assert shown["image/png"].startswith(b"\x89PNG")
