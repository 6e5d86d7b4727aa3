"""Runs of studies in a packed file: summaries, curves and configurations as from the directory, and what is refused."""

import functools
import gzip
import json

import numpy as np
import pandas as pd
import pytest

from gradline.lab import results, summary
from gradline.lab.cli import main
from gradline.lab.findings import bounded
from gradline.lab.findings.packed import Damaged, Packed, pack, unpack
from gradline.lab.findings.reading import pack_runs, read, traces
from gradline.lab.findings.traces import PACKED_POINTS
from gradline.lab.jobs.result import held


@pytest.fixture(scope="module")
def file(store, tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "runs.json.gz"
    pack_runs(store, path)
    return path


def test_summaries_are_those_of_the_directory(store, file):
    whole, packed = summary(store), summary(file)
    assert list(whole) == list(packed)
    order = ["key"]
    whole, packed = (frame.sort_values(order, ignore_index=True) for frame in (whole, packed))
    pd.testing.assert_frame_equal(whole, packed, rtol=1e-8, check_dtype=False, check_categorical=False)
    one = summary(file, problem="bcwd-logr", method="gols-i", batch_size=[10])
    assert set(one["method"]) == {"gols-i"}
    assert len(one) == len(summary(store, problem="bcwd-logr", method="gols-i", batch_size=[10])) > 0


def test_curves_are_those_of_the_directory_to_three_digits(store, file):
    found = {trace.key: trace for trace in traces(file)}
    whole = {trace.key: trace for trace in read(store, points=PACKED_POINTS).runs}
    assert set(found) == set(whole)
    for key, one in found.items():
        other = whole[key]
        for name in ("run", "versions", "points", "place", "variant", "angled"):
            assert getattr(one, name) == getattr(other, name)
        for name in ("evaluations", "grid"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for name, values in other.columns.items():
            np.testing.assert_allclose(one.columns[name], values, rtol=3e-3)
            np.testing.assert_allclose(one.on_grid(name), other.on_grid(name), rtol=3e-3)


def test_long_runs_are_thinned(tmp_path, store):
    pack(Packed(tuple(read(store, points=20).runs)), tmp_path / "a.json.gz")
    fine = {trace.key: trace for trace in read(store, points=10**6).runs}
    for one, whole in zip(unpack(tmp_path / "a.json.gz").runs, read(store, points=20).runs, strict=True):
        assert len(one.grid) == 21 >= one.rows - 2
        np.testing.assert_array_equal(one.evaluations, whole.evaluations)
        every = fine[one.key]
        for name in ("train_loss", "test_error", "iterations"):
            known = ~np.isnan(every.columns[name])
            last = held(every.evaluations[known], every.columns[name][known], one.grid)
            np.testing.assert_array_equal(whole.on_grid(name), last)


def test_the_same_runs_give_the_same_bytes(store, file, tmp_path):
    pack_runs(store, tmp_path / "again.json.gz")
    assert (tmp_path / "again.json.gz").read_bytes() == file.read_bytes()


def test_a_file_has_no_iterations(file):
    with pytest.raises(NotADirectoryError, match="a packed file has no iterations"):
        results(file)


def test_a_file_whose_numbers_are_cut_is_refused(file, tmp_path):
    values = json.loads(gzip.decompress(file.read_bytes()))
    values["digests"]["runs"][0]["rows"] += 10**6
    broken = tmp_path / "broken.json.gz"
    broken.write_bytes(gzip.compress(json.dumps(values).encode()))
    with pytest.raises(Damaged, match="pack it again"):
        unpack(broken)


def test_the_verbs_read_it(store, file, tmp_path, capsys, monkeypatch):
    quick = functools.partial(bounded.first_claim, starts=1, repeats=5)  # claim 1 does not read it
    monkeypatch.setattr(bounded, "first_claim", quick)
    assert main(["results", str(store), "--pack", str(tmp_path / "a.json.gz")]) == 0
    assert "runs," in capsys.readouterr().err
    assert (tmp_path / "a.json.gz").read_bytes() == file.read_bytes()
    assert main(["results", str(file), "--problem", "bcwd-netpi-10"]) == 0
    from_file = capsys.readouterr().out
    assert main(["results", str(store), "--problem", "bcwd-netpi-10"]) == 0
    assert capsys.readouterr().out == from_file
    assert main(["claims", str(file)]) == 0
    claimed = capsys.readouterr().out
    assert main(["claims", str(store)]) == 0
    assert capsys.readouterr().out == claimed


def test_packing_adds_to_a_file_and_its_runs_are_not_made_again(tmp_path):
    from gradline.lab import plan, run_study, studies
    from gradline.lab.findings.reading import known_runs

    file = tmp_path / "packed.json.gz"

    def study(seeds):
        return studies.load(
            "bcwd", problems=["bcwd-logr"], methods=["gols-i"], batch_sizes=[10], seeds=seeds, budget=20
        )

    run_study(study(1), tmp_path / "first", backend="inline")
    pack_runs(tmp_path / "first", file)
    made = run_study(study(2), tmp_path / "second", backend="inline", known=known_runs(file, study(2)))
    assert (made.runs, made.made) == (1, 1)
    assert len(pack_runs(tmp_path / "second", file).runs) == 2
    assert set(known_runs(file, study(2))) == {run.key for run in plan(study(2))}
    chosen = ["--problem", "bcwd-logr", "--method", "gols-i", "--batch-size", "10", "--seeds", "2", "--budget", "20"]
    where = ["--known", str(file), "--out", str(tmp_path / "third"), "--backend", "inline"]
    assert main(["run", "bcwd", *chosen, *where]) == 0
    assert not list((tmp_path / "third").glob("runs/*.parquet"))


def test_packing_drops_runs_of_an_earlier_revision_of_a_method(tmp_path, monkeypatch):
    from gradline.lab import run_study, studies
    from gradline.searches import Angle

    file = tmp_path / "packed.json.gz"

    told = []

    def packed(seeds, methods):
        where = tmp_path / f"{Angle.revision}-{seeds}"
        chosen = {"problems": ["bcwd-logr", "bcwd-netpi"], "methods": methods, "batch_sizes": [100]}
        run_study(studies.load("today", **chosen, seeds=seeds, budget=20), where, backend="inline")
        runs = pack_runs(where, file, report=told.append).runs
        return [(one.problem, one.method, one.seed, one.revision) for one in runs]

    revision = Angle.revision
    assert len(packed(2, ["angle", "gols-i"])) == 8
    monkeypatch.setattr(Angle, "revision", revision + 1)
    found = packed(1, ["angle"])
    assert {one for one in found if one[1] == "angle"} == {
        ("bcwd-logr", "angle", 0, revision + 1),
        ("bcwd-netpi", "angle", 0, revision + 1),
    }
    assert sum(one[1] == "gols-i" for one in found) == 4
    monkeypatch.setattr(Angle, "revision", revision)
    assert set(packed(3, ["angle"])) == set(found), "runs of an earlier revision are not added to those of a later one"
    assert [line.rpartition(": ")[2] for line in told] == ["4 runs", "6 runs"]


def test_sampling_and_repetition_are_options_of_the_command(tmp_path):
    common = ["--problem", "bcwd-logr", "--method", "gols-i", "--batch-size", "10", "--seeds", "1", "--budget", "20"]
    options = ["--sampling", "static", "--sampling", "dynamic", "--repetition", "--backend", "inline"]
    assert main(["run", "bcwd", *common, *options, "--out", str(tmp_path)]) == 0
    found = summary(tmp_path)
    assert set(found["sampling"]) == {"static", "dynamic"}
    assert found["repetition"].all()
