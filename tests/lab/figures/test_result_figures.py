"""Every figure of results, from a small store of real runs."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gradline
from gradline.lab import results, summary
from gradline.lab.figures import FIGURES, figure_8, figure_14, save, study_direction_vs_step, table_3
from gradline.lab.figures.curves import Curves
from gradline.lab.figures.traces import MissingRuns, traces
from gradline.lab.studies import available

RESULTS = [name for name, figure in FIGURES.items() if figure.NEEDS]


@pytest.fixture(scope="module")
def runs(store):
    return traces(store)


def test_every_figure_and_study_is_there():
    assert {f"figure_{number}" for number in range(8, 15)} | {"table_3"} <= set(RESULTS)
    assert {study for name in RESULTS for study in FIGURES[name].NEEDS} == set(available()) - {"compare"}


@pytest.mark.parametrize("name", RESULTS)
def test_it_is_drawn(name, runs, tmp_path):
    figure = FIGURES[name]
    drawn = figure.draw(figure.data(runs))
    for axis in drawn.axes:
        assert name in ("table_3", "study_direction_vs_step") or axis.lines, f"{name} has an empty panel"
    files = save(drawn, tmp_path / name)
    assert [path.suffix for path in files] == [".pdf", ".png"]
    assert all(path.stat().st_size > 5_000 for path in files)


@pytest.mark.parametrize("name", RESULTS)
def test_without_its_runs_it_says_which_study_makes_them(name):
    with pytest.raises(MissingRuns, match=re.escape(f"gradline run {FIGURES[name].NEEDS[0]}")):
        FIGURES[name].data([])


@pytest.mark.parametrize("name", RESULTS)
def test_its_data_are_columns_of_equal_length(name, runs):
    columns = FIGURES[name].data(runs).to_dict()
    assert len({len(column) for column in columns.values()}) == 1
    assert not pd.DataFrame(columns).empty


def test_the_shapes_of_figure_8(runs):
    data = figure_8.data(runs)
    assert data.values_of("problem") == ["bcwd-logr", "bcwd-netpi", "bcwd-netpii"]
    assert data.values_of("method") == ["gols-i", "prls"]
    assert sorted(data.values_of("batch_size")) == [10, 50]
    assert len(data.curves) == 4 * 3 * 2 * 2
    assert all(len(curve.seeds) == 2 for curve in data.curves)
    axes = figure_8.draw(data).axes
    assert len(axes) == 12 * 2
    assert {axis.get_yscale() for axis in axes} == {"log"}


def test_figure_8_has_what_the_store_has(store):
    table = results(store, problem="bcwd-netpi", method="gols-i", batch_size=10, seed=1, sampling="dynamic")
    with_angles = set(table[table["angle"].notna()]["key"])
    table = table[table["direction_batch_size"].isna() & ~table["key"].isin(with_angles)]
    assert table["key"].nunique() == 1
    (loss,) = figure_8.data(store).of(measure="train_loss", problem="bcwd-netpi", method="gols-i", batch_size=10)
    measured = table[table["train_loss"].notna() & (table["evaluations"] <= 60)]
    assert loss.runs[list(loss.seeds).index(1)][-1] == measured["train_loss"].iloc[-1]


@pytest.mark.parametrize(("name", "linear"), [("figure_10", 0), ("figure_12", 2), ("figure_13", 2)])
def test_errors_of_cifar_are_on_a_linear_scale(name, linear, runs):
    axes = FIGURES[name].draw(FIGURES[name].data(runs)).axes
    rows = len(axes) // 2
    assert [axis.get_yscale() for axis in axes].count("linear") == 2 * linear
    assert rows == len(FIGURES[name].MEASURES)


def test_figure_9_is_of_the_long_runs(runs):
    data = FIGURES["figure_9"].data(runs)
    assert data.values_of("method") == ["gols-i", "fixed-1", "fixed-10", "fixed-100"]
    assert {curve.x[-1] for curve in data.of(measure="train_loss")} == {120.0}
    (fixed,) = data.of(measure="step", method="fixed-10", batch_size=10)
    assert set(fixed.runs[~np.isnan(fixed.runs)]) == {10.0}


def test_figure_14_means_go_as_far_as_all_runs(runs):
    data = figure_14.data(runs)
    (_, steps, *_) = figure_14.draw(data).axes
    for curve, mean in zip(
        data.of(measure="step"), [line for line in steps.lines if not line.get_label().startswith("_")], strict=True
    ):
        shortest = min(np.flatnonzero(~np.isnan(row))[-1] for row in curve.runs)
        assert mean.get_xdata()[-1] == curve.x[shortest]


def test_table_3_counts_probes(store):
    data = table_3.data(store)
    table = summary(store, problem="bcwd-netpi-10")
    for place, method in enumerate(data.methods):
        rows = table[table["method"] == method]
        assert data.runs[place] == len(rows) == 2
        assert data.fewest[place] == rows["probes_min"].min()
        assert data.most[place] == rows["probes_max"].max()
        assert data.most_later[place] == rows["probes_max_later"].max()
        assert data.mean[place] == pytest.approx(rows["probes_mean"].mean())


def test_direction_vs_step_is_medians_at_the_end(runs):
    data = study_direction_vs_step.data(runs)
    assert data.train_loss.shape == (2, 2, 2)
    assert (data.runs == 2).all()
    ends = [
        run.values["train_loss"][-1]
        for run in runs
        if (run.method, run.direction_batch_size, run.batch_size) == ("prls", 50, 10)
    ]
    place = data.methods.index("prls"), list(data.direction_batch_sizes).index(50), list(data.batch_sizes).index(10)
    assert data.train_loss[place] == np.median(ends)


def test_direction_quality_with_all_samples_is_no_angle(runs):
    data = FIGURES["study_direction_quality"].data(runs)
    whole = np.concatenate([curve.runs.ravel() for curve in data.of(batch_size=400)])
    some = np.concatenate([curve.runs.ravel() for curve in data.of(batch_size=10)])
    assert np.nanmax(whole) < 1e-3 < np.nanmedian(some)


def test_static_vs_dynamic_has_both(runs):
    data = FIGURES["study_static_vs_dynamic"].data(runs)
    assert isinstance(data, Curves)
    assert set(data.values_of("sampling")) == {"static", "dynamic"}
    assert data.values_of("method") == ["gols-i", "prls", "armijo", "golden-section"]


def test_figures_import_neither_torch_nor_searches():
    folder = Path(gradline.__file__).parent / "lab" / "figures"
    for name in [*RESULTS, "curves", "traces", "panels", "words"]:
        text = (folder / f"{name}.py").read_text(encoding="utf-8")
        assert not re.search(r"^\s*(from|import) (torch|gradline\.(torch|searches))", text, re.MULTILINE), name
