"""The store: what goes in comes out, and no damaged or foreign file is used."""

import dataclasses
import json
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lab.fake_engine import result_of
from lab.helping import assert_same_tables, python, small

import gradline.lab
from gradline.lab.jobs.result import COLUMNS, LATER, Result
from gradline.lab.jobs.runs import Run
from gradline.lab.jobs.store import Store, StoreWarning
from gradline.lab.methods import METHODS, Absent, Direction
from gradline.lab.problems import PROBLEMS, Network
from gradline.lab.studies import plan
from gradline.searches import Angle


@pytest.fixture
def runs():
    return plan(small(methods=("gols-i", "prls"), batch_sizes=(10, 50)))


@pytest.fixture
def store(tmp_path, runs):
    store = Store(tmp_path)
    for run in runs:
        store.save(result_of(run))
    return store


def test_a_result_comes_back_as_it_was(tmp_path, runs):
    store = Store(tmp_path)
    result = Result(runs[0], 1.25, "lockstep", {"gradline": "0"}, columns=result_of(runs[0]).columns)
    result.columns["slope"][:3] = [-np.inf, -0.0, 5e-324]
    store.save(result)
    loaded = store.load(runs[0].key)
    assert_same_tables(loaded.columns, result.columns)
    assert {name: values.dtype for name, values in loaded.columns.items() if name != "stop"} == {
        name: np.dtype(kind) for name, kind in COLUMNS.items() if name != "stop"
    }
    assert np.signbit(loaded.columns["slope"][1])
    assert (loaded.run, loaded.seconds, loaded.engine) == (result.run, 1.25, "lockstep")
    assert loaded.versions == {"gradline": "0"}


def test_others_can_read_the_files(store, runs):
    table = pq.read_table(store.path(runs[0].key))
    assert pa.types.is_dictionary(table.schema.field("stop").type)
    assert table["angle"].null_count == len(table)  # not measured is null, not NaN
    assert table["train_loss"].null_count == sum(number % 3 != 0 for number in range(len(table)))
    assert table["step"].null_count == 0
    assert b'"budget": 40' in table.schema.metadata[b"gradline.run"]


def test_what_is_missing(tmp_path, runs):
    store = Store(tmp_path / "new")
    assert store.missing(runs) == runs
    assert store.keys() == []
    store.save(result_of(runs[1]))
    assert store.missing(runs) == [run for run in runs if run is not runs[1]]
    assert store.keys() == [runs[1].key]
    assert store.has(runs[1])
    assert not store.has(runs[0])
    with pytest.raises(KeyError, match="has no result"):
        store.load(runs[0].key)


@pytest.mark.parametrize("part", [0, 3, 0.1, 0.5, 0.9, -1])
def test_a_torn_file_counts_as_missing_and_is_made_again(store, runs, part):
    path = store.path(runs[0].key)
    content = path.read_bytes()
    path.write_bytes(content[: part if isinstance(part, int) else int(part * len(content))])
    with pytest.warns(StoreWarning, match="counts as missing"):
        assert store.missing(runs) == [runs[0]]
    with pytest.raises(KeyError, match="cannot be used"):
        store.load(runs[0].key)
    store.save(result_of(runs[0]))
    assert_same_tables(store.load(runs[0].key).columns, result_of(runs[0]).columns)
    assert path.with_suffix(".unreadable").exists()  # nothing is lost


def test_a_flipped_bit_is_seen(store, runs):
    path = store.path(runs[0].key)
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 1
    path.write_bytes(content)
    with pytest.raises(KeyError, match="cannot be used"):
        store.load(runs[0].key)
    with pytest.warns(StoreWarning, match="counts as missing"):
        assert set(gradline.lab.results(store.directory)["key"]) == {run.key for run in runs[1:]}


def test_a_flipped_bit_in_the_metadata_counts_as_missing_with_the_file_named(store, runs):
    path = store.path(runs[0].key)
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata)
    metadata[b"gradline.run"] = metadata[b"gradline.run"].replace(b"budget", b"b\xf5dget")  # no UTF-8 any more
    pq.write_table(table.replace_schema_metadata(metadata), path)
    said = []
    again = Store(store.directory, report=said.append)
    assert again.missing(runs) == [runs[0]]
    assert len(again.keys()) == len(runs) - 1
    assert len(gradline.lab.summary(store.directory, report=said.append)) == len(runs) - 1
    assert len(said) == 2
    assert all(text.startswith(f"{path} is not a usable result") for text in said)


@pytest.mark.parametrize("bad", ["[" * 100_000, "[]", "null", '{"method": {"search": 3}}'])
def test_a_configuration_that_is_none_counts_as_missing(store, runs, bad):
    path = store.path(runs[0].key)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"gradline.run": bad.encode()}), path)
    with pytest.warns(StoreWarning, match="configuration cannot be read"):
        assert store.missing(runs) == [runs[0]]


def test_columns_of_another_type_count_as_missing(store, runs):
    path = store.path(runs[0].key)
    table = pq.read_table(path)
    place = table.schema.get_field_index("step")
    pq.write_table(table.set_column(place, "step", table["step"].cast(pa.float32())), path)
    with pytest.warns(StoreWarning, match="step: float"):
        assert store.missing(runs) == [runs[0]]


@pytest.mark.parametrize("lacking", [LATER, LATER[1:]])
def test_results_of_before_a_column_was_added_are_read(store, runs, lacking):
    path = store.path(runs[0].key)
    pq.write_table(pq.read_table(path).drop_columns(list(lacking)), path)
    assert store.has(runs[0])
    columns = store.load(runs[0].key).columns
    assert list(columns) == list(COLUMNS)
    assert all(np.isnan(columns[name]).all() for name in lacking)


def test_a_foreign_file_is_not_used(store, runs):
    pq.write_table(pa.table({"step": [1.0]}), store.path(runs[0].key))
    store.path(runs[1].key).replace(store.path(runs[2].key))  # a whole file under another run's name
    with pytest.warns(StoreWarning) as seen:
        assert store.missing(runs) == runs[:3]
    assert "not written by gradline" in str(seen[0].message)
    assert f"it holds the run {runs[1].key}" in str(seen[1].message)
    assert store.missing(runs) == runs[:3]  # reported once


def test_reading_imports_no_code_of_others(tmp_path):
    (tmp_path / "theirs.py").write_text(
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Theirs:\n    size: float = 1.0\n"
        "    def start(self): ...\n    def search(self, origin, memory): ...\n",
        encoding="utf-8",
    )
    program = """
        import sys
        sys.path.insert(0, sys.argv[1])
        from dataclasses import replace
        from lab.fake_engine import result_of
        from lab.helping import small
        from gradline.lab.methods import SearchMethod
        from gradline.lab.jobs.store import Store
        from gradline.lab.studies import plan
        from theirs import Theirs

        run = replace(plan(small())[0], method=SearchMethod("theirs", Theirs(2.0)))
        Store(sys.argv[1]).save(result_of(run))
        assert Store(sys.argv[1]).load(run.key).run == run
    """
    made = python(program, tmp_path)
    assert made.communicate()[1] == ""
    frame = gradline.lab.results(tmp_path, method="theirs")
    assert len(frame) > 10
    (key,) = set(frame["key"])
    run = Store(tmp_path).load(key).run
    assert run.key == key
    described = run.method.to_dict()
    assert (described["search"], described["options"]) == ("theirs:Theirs", {"size": 2.0})
    with pytest.raises(RuntimeError, match="can be read but not made"):
        run.method.build(None)


def test_a_failed_write_leaves_nothing(store, runs, monkeypatch):
    before = sorted(store.folder.iterdir())
    content = store.path(runs[0].key).read_bytes()
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        store.save(result_of(runs[0]))
    assert sorted(store.folder.iterdir()) == before
    assert store.path(runs[0].key).read_bytes() == content


def test_results_in_one_call(store, runs):
    frame = gradline.lab.results(store.directory)
    assert len(frame) == sum(len(result_of(run)) for run in runs)
    some = gradline.lab.results(store.directory, method="prls", batch_size=50, seed=[0, 2])
    assert set(some["key"]) == {
        run.key for run in runs if run.method.name == "prls" and run.batch_size == 50 and run.seed != 1
    }
    one = some[some.seed == 2]
    run = next(run for run in runs if run.key == one.key.iloc[0])
    for name, values in result_of(run).columns.items():
        np.testing.assert_array_equal(one[name].to_numpy(), values)
    assert one["direction_batch_size"].isna().all()
    assert gradline.lab.results(store.directory, problem="iris").empty
    with pytest.raises(FileNotFoundError, match="does not exist"):
        gradline.lab.results(store.directory / "nowhere")


def test_summary_counts_what_the_tables_say(store, runs):
    frame = gradline.lab.summary(store.directory).set_index("key")
    assert len(frame) == len(runs)
    for run in runs:
        table, row = pd.DataFrame(result_of(run).columns), frame.loc[run.key]
        searched = table[table.iteration > 0]
        assert row.iterations == len(searched)
        assert row.evaluations == table.evaluations.iloc[-1]
        assert row.probes_mean == pytest.approx(searched.probes.mean())
        assert row.probes_max == searched.probes.max()
        assert (row.step_min, row.step_max) == (searched.step.min(), searched.step.max())
        assert row.final_train_loss == table.train_loss.dropna().iloc[-1]
        assert row.best_test_error == table.test_error.min()
        assert row["stop.SIGN_CHANGE"] == (table.stop == "SIGN_CHANGE").sum()
        assert not row.stalled
        assert row.seconds == 0.5


@pytest.mark.parametrize(
    ("steps", "spent", "stalled"),
    [
        ([0.5] * 12, True, False),
        ([0.5] + [0.0] * 9, True, False),
        ([0.5] + [0.0] * 10, True, True),
        ([0.5, 0.0], False, True),  # ended before its budget was spent
        ([0.0] * 12 + [0.5], True, False),
    ],
)
def test_stalls(tmp_path, runs, steps, spent, stalled):
    count = len(steps) + 1
    columns = {name: np.zeros(count, kind) for name, kind in COLUMNS.items()}
    columns["iteration"] = np.arange(count)
    columns["evaluations"] = np.arange(count) + (runs[0].budget if spent else 1)
    columns["step"] = np.array([0.0, *steps])
    columns["train_error"][:] = 0.25
    columns["train_error"][2] = 0.0
    Store(tmp_path).save(Result(runs[0], 1.0, "lockstep", columns=columns))
    row = gradline.lab.summary(tmp_path).iloc[0]
    assert row.stalled == stalled
    assert row.zero_error_at == columns["evaluations"][2]


def test_pages_that_were_damaged_count_as_missing_for_those_who_make_them_too(store, runs):
    path = store.path(runs[0].key)
    assert store.has(runs[0])
    content = bytearray(path.read_bytes())
    content[200:400] = bytes(200)  # the description at the end stays whole
    path.write_bytes(content)
    fresh = Store(store.directory, report=lambda text: None)
    assert fresh.missing(runs) == [runs[0]]
    fresh.save(result_of(runs[0]))
    assert fresh.missing(runs) == []


def test_what_a_problem_would_take_by_itself_is_no_part_of_a_run(runs):
    other = dataclasses.replace(runs[0].problem, batch_sizes=(7,), budget=123)
    assert dataclasses.replace(runs[0], problem=other).key == runs[0].key
    other = dataclasses.replace(runs[0].problem, hidden=(7,))
    assert dataclasses.replace(runs[0], problem=other).key != runs[0].key


def test_results_of_another_version_are_read_and_told_once(tmp_path, monkeypatch):
    runs = plan(small(seeds=3))
    for run in runs:
        Store(tmp_path).save(replace(result_of(run), versions={"gradline": "0.0.9"}))
    told = []
    store = Store(tmp_path, report=told.append)
    assert store.missing(runs) == []
    assert store.keys() == sorted(run.key for run in runs)
    assert len(told) == 1
    assert "results of gradline 0.0.9; this is" in told[0]


def test_a_store_of_an_older_format_is_refused_with_its_version(tmp_path):
    run = plan(small())[0]
    path = Store(tmp_path).save(result_of(run))
    table = pq.read_table(path)
    old = table.replace_schema_metadata({**table.schema.metadata, b"gradline.format": b"1"})
    pq.write_table(old, path)
    told = []
    store = Store(tmp_path, report=told.append)
    assert store.missing([run]) == [run]
    assert "its format is 1, of another version of gradline; this one reads 2" in told[0]


@pytest.mark.parametrize(
    "key",
    [
        "bcwd-netpi_gols-i_b50_s0_4c3dc64a1e6d",
        "mnist-net2_prls_b100_s0_87bc6d2db6bb",
        "regression_prodigy_b10_s0_78d6b6042bce",
        "digits-mlp_adamw-cosine-0.001_b16_s0_602c0f55376d",
        "pinn_gols-i-adam_b16_s0_d7492fc35cf5",
    ],
)
def test_stored_results_keep_their_keys(key):
    names = key.split("_")
    problem, method, size = PROBLEMS[names[0]], METHODS[names[1]], int(names[2][1:])
    benchmark = not isinstance(problem, Network)
    run = Run(problem=problem, method=method, batch_size=size, seed=0, budget=1000, benchmark=benchmark)
    assert run.key == key
    assert Run.from_dict(json.loads(json.dumps(run.to_dict()))) == run


@pytest.mark.parametrize("changed", ["a constant of the search", "its revision", "the problem's", "the direction"])
def test_a_key_covers_what_decides_a_runs_numbers(changed, monkeypatch):
    run = plan(small())[0]
    key = run.key
    if changed == "a constant of the search":
        other = replace(run, method=replace(METHODS["angle"], name="gols-i", search=Angle(climb=0.5)))
        run = replace(run, method=replace(METHODS["angle"], name="gols-i"))
        key = run.key
    elif changed == "its revision":
        monkeypatch.setattr(type(run.method.search), "revision", 2, raising=False)
        other = replace(run)
    elif changed == "the problem's":
        other = replace(run, problem=replace(run.problem, revision=2))
    else:
        other = replace(run, method=replace(run.method, direction=Direction("adam")))
    assert other.key != key
    assert other.key.rpartition("_")[0] == key.rpartition("_")[0]


def test_a_result_of_another_revision_of_a_search_can_be_read_but_is_not_taken_for_this_one(tmp_path, monkeypatch):
    run = plan(small())[0]
    Store(tmp_path).save(result_of(run))
    monkeypatch.setattr(type(run.method.search), "revision", 2, raising=False)
    now = replace(run)
    assert Store(tmp_path).missing([now]) == [now]
    (key,) = Store(tmp_path).keys()
    read = Store(tmp_path).load(key).run
    assert read.key == key
    assert isinstance(read.method, Absent)
