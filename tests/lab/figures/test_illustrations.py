"""Figures 1 to 7: their numbers, that each draws without a warning, and how they are found and saved."""

import inspect

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from gradline import landscape
from gradline.lab import figures
from gradline.lab.figures import FIGURES, figure_1, figure_2, figure_3, figure_4, figure_5, figure_6, figure_7
from gradline.lab.figures.iris import iris
from gradline.plot.inks import DARK, LIGHT, stroke
from gradline.protocol import Stop

SMALL = {
    "figure_1": {"points": 9, "training": 60, "updates": 3},
    "figure_2": {"points": 9, "training": 60},
    "figure_3": {"points": 50, "spacing": 0.004},
    "figure_4": {"points": 400},
    "figure_5": {"points": 9},
    "figure_6": {"batch_sizes": (10, 50, 150), "repeats": 8, "points": 50, "spacing": 0.004},
    "figure_7": {},
}


@pytest.fixture(scope="module")
def small():
    """The data of all illustrations, at sizes that take no time."""
    return {name: FIGURES[name].data(**options) for name, options in SMALL.items()}


def rendered(figure):
    """The figure, after all of it was drawn: warnings are errors. (A bare figure's own canvas draws nothing.)"""
    FigureCanvasAgg(figure).draw()
    return figure


# ---- all of them


def test_every_figure_is_found_in_the_order_of_the_paper():
    numbers = [int(name.split("_")[1]) for name in FIGURES if name.startswith("figure_")]
    assert numbers[:7] == [1, 2, 3, 4, 5, 6, 7]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("name", SMALL)
def test_every_figure_says_what_there_is_to_see(name):
    figure = FIGURES[name]
    assert figure.title
    assert not figure.title.endswith(".")
    assert figure.caption.endswith(".")
    assert figure.caption.count(". ") + 1 == 2  # two sentences
    assert figure.needs == ()
    for option in inspect.signature(figure.data).parameters.values():
        assert option.kind is option.KEYWORD_ONLY
        assert option.default is not option.empty


@pytest.mark.parametrize("name", SMALL)
def test_every_figure_draws_without_a_warning_and_nothing_is_cut_off(name, small):
    data = small[name]
    before = dict(matplotlib.rcParams)
    figure = FIGURES[name].draw(data)
    assert isinstance(figure, Figure)
    rendered(figure)
    assert dict(matplotlib.rcParams) == before
    for axis in figure.axes:
        if axis.get_label() == "<colorbar>":
            assert axis.get_ylabel() or axis.get_xlabel()
        elif axis.get_subplotspec().is_last_row():
            assert axis.get_xlabel()
        if axis.get_label() != "<colorbar>" and axis.get_subplotspec().is_first_col():
            assert axis.get_ylabel()
    page = figure.bbox
    parts = [*figure.legends, *(axis.title for axis in figure.axes), *(axis.xaxis.label for axis in figure.axes)]
    parts += [axis._left_title for axis in figure.axes]
    for part in parts:
        if isinstance(part, Text) and not part.get_text():
            continue
        box = part.get_window_extent()
        assert box.x0 >= page.x0 - 1.0, part
        assert box.x1 <= page.x1 + 1.0, part
        assert box.y0 >= page.y0 - 1.0, part
        assert box.y1 <= page.y1 + 1.0, part


def test_the_same_seed_gives_the_same_data(small):
    again = figure_6.data(**SMALL["figure_6"])
    other = figure_6.data(**SMALL["figure_6"], order=1)
    first, second, third = (one[10].sign_changes for one in (small["figure_6"], again, other))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)


def test_a_figure_is_saved_twice_and_the_same_each_time(small, tmp_path):
    figure = figure_4.draw(small["figure_4"])
    paths = figures.save(figure, tmp_path / "new" / "figure_4")
    assert [path.name for path in paths] == ["figure_4.pdf", "figure_4.png"]
    assert paths[0].read_bytes().startswith(b"%PDF")
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    before = [path.read_bytes() for path in paths]
    assert figures.save(figure, tmp_path / "new" / "figure_4.png") == paths
    assert [path.read_bytes() for path in paths] == before
    assert len(list((tmp_path / "new").iterdir())) == 2


def test_a_figure_that_cannot_be_saved_leaves_nothing(small, tmp_path):
    figure = figure_4.draw(small["figure_4"])
    with pytest.raises(ValueError, match="nonsense"):
        figures.save(figure, tmp_path / "a", files=[".nonsense"])
    assert not list(tmp_path.iterdir())


def test_strokes_differ_by_more_than_colour():
    for inks in (LIGHT, DARK):
        first = [stroke(number, inks) for number in range(6)]
        for field in ("color", "linestyle", "marker"):
            assert len({str(getattr(one, field)) for one in first}) == 6
        assert len({str(stroke(number, inks)) for number in range(24)}) == 24


@pytest.mark.parametrize("name", SMALL)
def test_every_figure_can_be_drawn_for_a_dark_page(name, small):
    figure = rendered(FIGURES[name].draw(small[name], DARK))
    assert matplotlib.colors.to_hex(figure.get_facecolor()) == DARK.page
    for axis in figure.axes:
        assert matplotlib.colors.to_hex(axis.xaxis.label.get_color()) == DARK.text


def test_figure_2_has_a_colour_scale_for_each_panel(small):
    figure = figure_2.draw(small["figure_2"])
    bars = [axis for axis in figure.axes if axis.get_label() == "<colorbar>"]
    assert len(bars) == 3
    assert len({axis.get_xlim() for axis in bars}) == 3


# ---- their numbers


def test_figure_1_shows_what_it_says():
    data = figure_1.data(points=5)
    assert data.small.values[-1] > 0.7 * data.small.values[0]  # hardly anywhere
    assert (np.diff(data.small.values) < 0.0).all()
    assert data.large.values[-1] > data.large.values[0]  # up
    assert data.searched.values[-1] < 0.4 * data.searched.values[0]  # down
    assert data.searched.evaluations > len(data.searched.x) - 1 == 12
    assert np.hypot(np.diff(data.small.x), np.diff(data.small.y)).max() < 0.1 * 7.0


def test_figure_2_counts_minima():
    values = np.array([[5.0, 5.0, 5.0, 5.0], [5.0, 1.0, 2.0, 5.0], [5.0, 2.0, 0.5, 5.0], [5.0, 5.0, 5.0, 0.0]])
    slopes = np.tile([-1.0, 0.0, 2.0, -1.0], (4, 1))
    surface = figure_2._surface(values, slopes)
    assert not surface.minima.any()  # 1 has 0.5 beside it, 0.5 has 0, and 0 is at the edge
    assert np.argwhere(surface.sign_changes).tolist() == [[row, 2] for row in range(4)]
    values[3, 3] = 5.0
    assert np.argwhere(figure_2._surface(values, slopes).minima).tolist() == [[2, 2]]


def test_figure_2_has_many_minima_only_where_mini_batches_change():
    data = figure_2.data(points=21)
    (full,), static, (dynamic,) = data.surfaces
    assert full.minima.sum() == 1
    assert [surface.minima.sum() for surface in static] == [1, 1]
    assert dynamic.minima.sum() > 20
    columns = np.nonzero(dynamic.sign_changes)[1]
    assert np.abs(data.x[columns]).mean() < np.abs(data.x[np.nonzero(dynamic.minima)[1]]).mean()


def test_figure_3_jumps_between_the_four_and_changes_sign_in_the_ball_only(small):
    data = figure_3.data()
    line, sizes = data.line, np.array([len(batch) for batch in data.line.batches])
    assert sizes.sum() == 150
    assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(data.dynamic.slopes, line.static.slopes[data.jumps, np.arange(len(line.steps))])
    np.testing.assert_allclose(sizes / 150 @ line.static.values, line.full.values)
    np.testing.assert_allclose(sizes / 150 @ line.static.slopes, line.full.slopes, atol=1e-9)
    low, high = data.ball
    assert low == data.optima.min() < data.optimum < data.optima.max() == high
    spacing = line.steps[1]
    assert ((data.sign_changes >= low) & (data.sign_changes <= high)).all()
    for change in data.sign_changes:  # between a step downhill and the next one, uphill
        after = np.searchsorted(line.steps, change)
        assert data.dynamic.slopes[after - 1] <= 0.0 < data.dynamic.slopes[after]
        assert line.steps[after] - change <= spacing
    assert data.sign_changes.size > 1
    minima = data.dynamic.found().steps_of_minima
    assert minima.min() < 0.1 * line.steps[-1] < 0.9 * line.steps[-1] < minima.max()


def test_figure_3_interpolates_a_root():
    assert figure_3._root(np.array([0.0, 1.0, 2.0]), np.array([-3.0, -1.0, 3.0])) == 1.25
    assert np.isnan(figure_3._root(np.array([0.0, 1.0]), np.array([1.0, -1.0])))


def test_figure_4_of_a_function_known_by_hand():
    pieces = [figure_4.Piece(1.0, 0.0, 1.0, 2.0), figure_4.Piece(3.0, 5.0, 1.0, 2.0)]
    data = figure_4.data(pieces=pieces, points=3000)
    assert data.minimiser == pytest.approx(1.0, abs=1e-3)  # lower than the bottom of the second piece
    assert data.nngpp == pytest.approx(2.0, abs=1e-3)
    np.testing.assert_allclose(data.continuous - data.continuous[0], ((data.steps - 2) ** 2 - 4) / 2, atol=3e-3)


def test_figure_4_has_a_false_minimiser(small):
    data = figure_4.data()
    lowest = np.argmin(data.values)
    assert (data.slopes[lowest - 5 : lowest + 6] < 0.0).all()
    assert data.minimiser != pytest.approx(data.nngpp, abs=0.5)
    assert data.steps[np.argmin(data.continuous)] == pytest.approx(data.nngpp, abs=0.01)
    assert ((data.slopes[:-1] <= 0.0) & (data.slopes[1:] > 0.0)).sum() == 1


def test_figure_5_slopes_keep_their_shape_and_values_do_not():
    data = figure_5.data(points=21)
    full, dynamic = data.full, data.dynamic
    slopes, values = (
        np.corrcoef(one.ravel(), other.ravel())[0, 1]
        for one, other in ((full.slopes, dynamic.slopes), (full.values, dynamic.values))
    )
    assert slopes > 0.8 > 0.6 > values
    assert 0.5 < np.mean(np.sign(full.slopes) == np.sign(dynamic.slopes[0])) < 1.0
    noise = np.abs(dynamic.slopes[0] - full.slopes)
    edge = np.ones(noise.shape, dtype=bool)
    edge[3:-3, 3:-3] = False
    assert noise[edge].mean() < noise[~edge].mean()


def test_figure_5_slopes_are_along_both_weights():
    data = figure_5.data(points=41, reach=1.0, batch_size=150, repetition=False)
    by_x, by_y = np.gradient(data.full.values, data.y, data.x)
    inside = (slice(1, -1), slice(1, -1))
    np.testing.assert_allclose(data.full.slopes[inside], ((by_x + by_y) / np.sqrt(2))[inside], atol=1e-3)
    np.testing.assert_allclose(data.dynamic.values[0], data.full.values)  # all samples


def test_figure_6_lets_one_check_the_claim():
    data = figure_6.data(batch_sizes=(10, 50, 100, 150), repeats=30)
    line = landscape.line(*iris(), steps=data.steps)
    (optimum,) = line.full.found().steps_of_sign_changes
    table, even = data.spreads(), data.steps[1:-1].std()
    assert {len(column) for column in table.values()} == {4}
    # minima spread over the whole range, as if evenly; sign changes around the optimum, and less so as B grows
    np.testing.assert_allclose(table["minima_deviation"][:3], even, rtol=0.05)
    assert (table["minima_range"][:3] > 0.9 * data.steps[-1]).all()
    assert (np.diff(table["sign_changes_deviation"]) < 0.0).all()
    assert table["sign_changes_deviation"][1] < 0.25 * even
    assert (np.abs(table["sign_changes_mean"][1:] - optimum) < 0.005).all()
    # all samples: the optimum itself
    assert table["minima_mean"][-1] == pytest.approx(optimum, abs=0.002)
    assert table["sign_changes_mean"][-1] == pytest.approx(optimum)
    assert table["sign_changes_range"][-1] == 0.0
    assert data[150].ball() == pytest.approx((optimum - 0.002, optimum))


def test_figure_7_has_a_real_search_of_each_kind(small):
    at_once, grow, shrink = small["figure_7"]
    assert at_once.record.stop is Stop.ACCEPTED_AT_ONCE
    assert at_once.record.evaluations == 1
    for one, factor in ((grow, 2.0), (shrink, 0.5)):
        steps = [step for step, _ in one.record.transcript]
        assert one.record.stop is Stop.SIGN_CHANGE
        assert len(steps) >= 3
        np.testing.assert_allclose(np.divide(steps[1:], steps[:-1]), factor)
    assert [one.kind for one in (at_once, grow, shrink)] == list(figure_7.KINDS)
    for one in (at_once, grow, shrink):
        assert one.steps[0] == 0.0
        assert one.steps[-1] > one.record.step
        assert one.slopes[0] < 0.0


def test_figure_7_looks_along_the_line_that_was_searched():
    data = figure_7.data(batch_size=150)  # all samples: the slopes seen are the full-batch slopes
    assert data
    for one in data:
        seen = np.array([(step, observed.slope) for step, observed in one.record.transcript]).T
        expected = np.interp(seen[0], one.steps, one.slopes)
        scale = np.abs(one.slopes).max()
        np.testing.assert_allclose(seen[1], expected, atol=0.01 * scale)
