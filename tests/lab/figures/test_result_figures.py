"""Every figure of results, from a small store of real runs."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import gradline
from gradline.lab import results, summary
from gradline.lab.figures import FIGURES, save, study_direction_vs_step, table_3
from gradline.lab.figures.curves import STEP, TRAIN_LOSS, FigureRuns, MissingRuns, rows_of
from gradline.lab.findings.reading import traces
from gradline.lab.report.charts import figure_charts
from gradline.lab.studies import available
from gradline.plot.inks import DARK, LIGHT

PACKED = Path(__file__).parents[3] / "results" / "paper.json.gz"
RESULTS = [name for name, figure in FIGURES.items() if figure.needs and not figure.compares]


@pytest.fixture(scope="module")
def runs(store):
    return traces(store)


def runs_of(name, runs):
    """The runs of a figure; those of `today` need packages that may be missing, so they are the committed ones."""
    return runs if name != "study_today" else committed()


def some(data, **wanted):
    """The runs of a figure whose fields have these values."""
    return [run for run in data.runs if all(getattr(run, name) == value for name, value in wanted.items())]


@cache
def committed():
    return [run for run in traces(PACKED) if run.budget == 1000]


def test_every_figure_and_study_is_there():
    assert {f"figure_{number}" for number in range(8, 15)} | {"table_3"} <= set(RESULTS)
    assert {study for figure in FIGURES.values() for study in figure.needs} == set(available())


@pytest.mark.parametrize("name", RESULTS)
def test_it_is_drawn(name, runs, tmp_path):
    figure = FIGURES[name]
    data = figure.data(runs_of(name, runs))
    for inks in (LIGHT, DARK):
        for part, drawn in figure.drawings(data, inks=inks).items():
            for axis in drawn.axes:
                assert name in ("table_3", "study_direction_vs_step") or axis.lines, f"{name} has an empty panel"
            assert matplotlib.colors.to_hex(drawn.get_facecolor()) == inks.page
            files = save(drawn, tmp_path / part, files=[".png"])
            assert all(path.stat().st_size > 5_000 for path in files)


@pytest.mark.parametrize("name", RESULTS)
def test_without_its_runs_it_says_which_study_makes_them(name):
    with pytest.raises(MissingRuns, match=re.escape(f"gradline run {FIGURES[name].needs[0]}")):
        FIGURES[name].data([])


def test_the_shapes_of_figure_8(runs):
    data = FIGURES["figure_8"].data(runs)
    assert data.values_of("problem") == ["bcwd-logr", "bcwd-netpi", "bcwd-netpii"]
    assert data.values_of("method") == ["gols-i", "prls"]
    assert sorted(data.values_of("batch_size")) == [10, 50]
    assert len(data.runs) == 3 * 2 * 2 * 2
    drawings = FIGURES["figure_8"].drawings(data)
    assert list(drawings) == ["figure_8_logr", "figure_8_netpi", "figure_8_netpii"], "one a network"
    for drawn in drawings.values():
        assert len(drawn.axes) == 4 * 2
        assert {axis.get_yscale() for axis in drawn.axes} == {"log"}
        (legend,) = drawn.legends
        top = max(axis.get_position().y1 for axis in drawn.axes)
        assert legend.get_window_extent().y0 > top * drawn.bbox.height, "the legend is above the panels"


def test_figure_8_has_what_the_store_has(store):
    table = results(store, problem="bcwd-netpi", method="gols-i", batch_size=10, seed=1, sampling="dynamic")
    with_angles = set(table[table["angle"].notna()]["key"])
    table = table[table["direction_batch_size"].isna() & ~table["key"].isin(with_angles)]
    assert table["key"].nunique() == 1
    runs = some(FIGURES["figure_8"].data(store), problem="bcwd-netpi", method="gols-i", batch_size=10, seed=1)
    _, (loss,) = rows_of(runs, TRAIN_LOSS)
    measured = table[table["train_loss"].notna() & (table["evaluations"] <= 60)]
    assert loss[-1] == measured["train_loss"].iloc[-1]


@pytest.mark.parametrize(("name", "linear"), [("figure_10", 0), ("figure_12", 2), ("figure_13", 2)])
def test_errors_of_cifar_are_on_a_linear_scale(name, linear, runs):
    axes = FIGURES[name].draw(FIGURES[name].data(runs)).axes
    rows = len(axes) // 2
    assert [axis.get_yscale() for axis in axes].count("linear") == 2 * linear
    assert rows == len(FIGURES[name].measures)


def test_figure_9_is_of_the_long_runs(runs):
    data = FIGURES["figure_9"].data(runs)
    assert data.values_of("method") == ["gols-i", "fixed-1", "fixed-10", "fixed-100"]
    assert {run.budget for run in data.runs} == {120}
    _, steps = rows_of(some(data, method="fixed-10", batch_size=10), STEP)
    assert set(steps[~np.isnan(steps)]) == {10.0}


def test_figure_14_means_go_as_far_as_all_runs(runs):
    data = FIGURES["figure_14"].data(runs)
    (_, steps, *_) = FIGURES["figure_14"].draw(data).axes
    means = [line for line in steps.lines if not line.get_label().startswith("_")]
    for method, mean in zip(data.values_of("method"), means, strict=True):
        x, rows = rows_of(some(data, method=method), STEP)
        assert mean.get_xdata()[-1] == x[min(np.flatnonzero(~np.isnan(row))[-1] for row in rows)]


def test_table_3_counts_probes(store):
    data = table_3.data(store)
    table = summary(store, problem="bcwd-netpi-10")
    for row in data.itertuples():
        rows = table[table["method"] == row.Index]
        assert row.runs == len(rows) == 2
        assert row.fewest == rows["probes_min"].min()
        assert row.most == rows["probes_max"].max()
        assert row.most_later == rows["probes_max_later"].max()
        assert row.mean == pytest.approx(rows["probes_mean"].mean())
    cells = table_3.cells(data)
    assert [line[0] for line in cells] == ["GOLS-I", "in the paper", "PrLS", "in the paper"]
    assert cells[1] == ["in the paper", "10", "1", "28", "11", "1.3"]


def test_direction_vs_step_is_medians_at_the_end(runs):
    data = study_direction_vs_step.data(runs)
    assert len(data) == 2 * 2 * 2
    ends = [
        run.on_grid("train_loss")[-1]
        for run in runs
        if (run.method, run.direction_batch_size, run.batch_size) == ("prls", 50, 10)
    ]
    assert data.loc["prls", 50, 10]["train_loss"] == np.median(ends)


def test_direction_quality_with_all_samples_is_no_angle(runs):
    data = FIGURES["study_direction_quality"].data(runs)
    whole, small = (np.concatenate([run.on_grid("angle") for run in some(data, batch_size=size)]) for size in (400, 10))
    assert np.nanmax(whole) < 1e-3 < np.nanmedian(small)


def test_static_vs_dynamic_has_both(runs):
    data = FIGURES["study_static_vs_dynamic"].data(runs)
    assert isinstance(data, FigureRuns)
    assert set(data.values_of("sampling")) == {"static", "dynamic"}
    assert data.values_of("method") == ["gols-i", "prls", "armijo", "golden-section"]


def test_figures_import_neither_torch_nor_searches():
    folder = Path(gradline.__file__).parent / "lab" / "figures"
    for path in folder.glob("*.py"):
        name, text = path.stem, path.read_text(encoding="utf-8")
        if re.fullmatch(r"figure_\d|iris", name):
            continue  # illustrations compute with torch
        assert not re.search(r"^\s*(from|import) (torch|gradline\.(torch|searches))", text, re.MULTILINE), name


def said(drawn):
    return " ".join(text.get_text().replace("\n", " ") for text in drawn.texts)


def test_a_figure_says_what_it_lacks_of_its_study(runs):
    figure = FIGURES["figure_10"]
    data = figure.data([run for run in runs if run.method == "gols-i" and run.batch_size == 10])
    assert data.notes() == ["no runs of PrLS", "none at B = 100 and 200", "2 of 10 seeds", "60 of 40,000 evaluations"]
    assert "Not the whole study: no runs of PrLS; none at B = 100 and 200;" in said(figure.draw(data))
    few = [run for run in runs if (run.method, run.batch_size) != ("prls", 10) or run.problem != "bcwd-netpi"]
    notes = FIGURES["figure_8"].data(few).notes()
    assert "none of PrLS at NetPI, B = 10" in notes
    (part,) = [
        part for name, part in FIGURES["figure_8"].parts(FIGURES["figure_8"].data(few)).items() if name == "netpi"
    ]
    assert "none of PrLS at B = 10" in part.notes()


def test_a_whole_study_has_nothing_to_say(runs):
    made = [run for run in runs if (run.problem, run.method, run.batch_size) == ("bcwd-logr", "prls", 10)]
    made = [run for run in made if run.budget == 60 and run.sampling == "dynamic" and not run.angled]
    assert FigureRuns(tuple(made), {("bcwd-logr", "prls", 10): (2, 60)}).notes() == []
    assert FigureRuns(tuple(made), {("bcwd-logr", "prls", 10): (2, 61)}).notes() == ["60 of 61 evaluations"]


def test_no_middle_line_is_covered_by_runs_and_solid_ones_are_below(runs):
    figure = FIGURES["figure_12"].draw(FIGURES["figure_12"].data(runs))
    for axis in figure.axes:
        middles = {line.get_label(): line for line in axis.lines if not line.get_label().startswith("_")}
        others = [line for line in axis.lines if line.get_label().startswith("_")]
        assert max(line.zorder for line in others) < min(line.zorder for line in middles.values())
        assert middles["GOLS-I"].get_linestyle() == "-"
        assert middles["GOLS-I"].zorder < middles["PrLS"].zorder
        colour = middles["GOLS-I"].get_color()
        above = {line.get_color() == colour: line.zorder for line in others}
        assert above[True] > above[False], "of single runs, those of GOLS-I cover the others"


def test_a_method_has_one_stroke_in_every_figure(runs):
    strokes = {}
    for name in ("figure_8", "figure_9", "figure_10", "figure_14"):
        figure = FIGURES[name]
        for drawn in figure.drawings(figure.data(runs)).values():
            for line in drawn.axes[0].lines:
                if not line.get_label().startswith("_"):
                    found = (line.get_color(), line.get_linestyle(), line.get_marker())
                    strokes.setdefault(line.get_label(), set()).add(found)
    assert all(len(found) == 1 for found in strokes.values())
    assert len({found for one in strokes.values() for found in one}) == len(strokes) == 5


def test_losses_are_compared_network_by_network(runs):
    one = next(run for run in runs if (run.problem, run.method) == ("bcwd-logr", "prls"))
    names = ("bcwd-logr", "bcwd-logr-published-loss", "cifar-net1", "cifar-net1-published-loss", "mnist-net1")
    problems = [replace(one.run.problem, name=name) for name in names]
    data = FIGURES["study_prls_losses"].data([replace(one, run=replace(one.run, problem=some)) for some in problems])
    assert data.values_of("problem") == list(names[:4]), "MNIST has one of the losses only"
    drawings = FIGURES["study_prls_losses"].drawings(data)
    assert list(drawings) == ["study_prls_losses_logr", "study_prls_losses_cifar10_neti"]
    for drawn in drawings.values():
        assert len(drawn.legends[0].get_texts()) == 2
        width, box = drawn.bbox.width, drawn.legends[0].get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= width


def test_scales_are_compared_network_by_network(runs):
    figure = FIGURES["study_net2_scales"]
    drawings = figure.drawings(figure.data(runs))
    assert list(drawings) == ["study_net2_scales_mnist_netii", "study_net2_scales_cifar10_netii"]
    for drawn in drawings.values():
        assert [text.get_text() for text in drawn.legends[0].get_texts()] == [
            "GOLS-I, σ of Table 2",
            "PrLS, σ of Table 2",
            "GOLS-I, σ = 0.01",
            "PrLS, σ = 0.01",
        ]
        box = drawn.legends[0].get_window_extent()
        assert 0 <= box.x0 < box.x1 <= drawn.bbox.width


def test_today_has_adam_with_the_best_learning_rate_of_its_grid_and_says_what_is_lacking():
    figure = FIGURES["study_today"]
    data = figure.data(runs_of("study_today", []))
    (chart,) = [chart for chart in figure_charts(runs_of("study_today", []))[0] if chart["id"] == "study_today"]
    (drawn,) = figure.drawings(data).values()
    names = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert sorted(names) == sorted(line["label"] for line in chart["lines"])
    assert sorted(names) == [
        "Adam, best learning rate",
        "Angle",
        "GOLS-I",
        "GOLS-I along Adam",
        "Prodigy",
        "Schedule-Free",
    ]
    for problem in data.values_of("problem"):
        (adam,) = {run.method for run in some(data, problem=problem) if run.method.startswith("adam-")}
        frame = summary(PACKED, problem=problem)
        grid = frame[(frame["budget"] == 1000) & frame["method"].astype(str).str.startswith("adam-")]
        assert adam == grid.groupby("method", observed=True)["final_train_loss"].median().idxmin()
    others = [replace(run, run=replace(run.run, batch_size=10)) for run in runs_of("study_today", [])]
    with pytest.raises(MissingRuns, match="needs runs of the study today"):
        figure.data(others)
    one_seed = figure.data([run for run in runs_of("study_today", []) if run.seed == 0])
    assert one_seed.notes() == ["1 of 5 seeds"]
    (drawn,) = figure.drawings(one_seed).values()
    note = next(text for text in drawn.texts if "of 5 seeds" in text.get_text())
    assert note.get_window_extent().y1 <= drawn.legends[0].get_window_extent().y0, "the legend is over the note"
