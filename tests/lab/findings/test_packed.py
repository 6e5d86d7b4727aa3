"""A packed file: the same measures as the store's, the same bytes for the same runs, and what is refused."""

from __future__ import annotations

import gzip
import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from lab.compare_cases import cases_of, trace

from gradline.lab.findings.memory import copies
from gradline.lab.findings.packed import Damaged, Packed, add, pack, portable, unpack
from gradline.lab.findings.traces import COLUMNS
from gradline.lab.jobs.result import Status
from gradline.lab.tools.packing import plain_number

TARGET = 0.1


def long_run(method="sgd-1", seed=0, **options):
    """A run whose times and losses have nine digits, with a last row beyond the budget of 10."""
    source = random.Random(f"{method} {seed}")
    losses = [source.uniform(0.9, 1.1) * 3.0**-place for place in range(61)]
    thirds = [place // 2 for place in range(60)] + [47]
    made = trace(method, losses, seed=seed, thirds=thirds, seconds=source.uniform(0.1, 1.0) / 3, **options)
    short = {name: np.array([float(f"{value:.9g}") for value in values]) for name, values in made.columns.items()}
    return replace(made, columns=short | {"evaluations": made.evaluations})


@pytest.fixture
def runs():
    return (
        *(long_run(method, seed) for method in ("sgd-1", "gols-i") for seed in range(3)),
        trace("prls", [3.0, math.nan, math.inf], status=Status.DIVERGED),
        trace("prls", [3.0], seed=1, status=Status.FAILED, reason="ValueError: “no”"),
        trace("prls", [], seed=2, status=Status.FAILED, reason="other", versions={"torch": "3"}),
    )


def test_measures_are_the_same_from_a_packed_file(tmp_path, runs):
    found = unpack(pack(Packed(runs, {"tiny/5": TARGET}), tmp_path / "a.json.gz"))
    (case,), (again,) = (cases_of(some, TARGET) for some in (runs, found.runs))
    assert len(case.entries) == 4
    for name, entry in case.entries.items():
        read = again.entries[name]
        assert read.failures == entry.failures
        assert (again.to_target(read), again.to_target(read, "seconds")) == (
            case.to_target(entry),
            case.to_target(entry, "seconds"),
        )
        for measure in ("train_loss", "test_error"):
            assert read.at_budget(measure) == entry.at_budget(measure)
        for counted in ("iterations", "evaluations"):
            assert repr(again.cost(read, counted)) == repr(case.cost(entry, counted))  # NaN is not equal to itself


def test_what_is_no_number_of_a_curve_is_read_as_it_was_written(tmp_path, runs):
    commands, memory = ("gradline run compare",), {"sgd": 1.0, "lbfgs": "failed: RuntimeError"}
    found = unpack(pack(Packed(runs, {"tiny/5": TARGET}, commands, memory), tmp_path / "a.json.gz"))
    assert (found.targets, found.commands, found.memory) == ({"tiny/5": TARGET}, commands, memory)
    read = {one.key: one for one in found.runs}
    assert set(read) == {one.key for one in runs}
    for one in runs:
        assert read[one.key].run.to_dict() == one.run.to_dict()
        kept = ("seconds", "engine", "versions", "status", "reason", "points", "rows")
        assert [getattr(read[one.key], name) for name in kept] == [getattr(one, name) for name in kept]
        short = {name: plain_number(value, 9) for name, value in one.summary.items()}
        assert {name: plain_number(value, 9) for name, value in read[one.key].summary.items()} == short


def test_rows_that_measures_are_read_from_have_nine_digits_and_others_three(tmp_path):
    whole = long_run()
    (read,) = unpack(pack(Packed((whole,), {"tiny/5": TARGET}), tmp_path / "a.json.gz")).runs
    exact = sorted(whole.read_rows(TARGET))
    assert exact == [3, 59, 60]  # the first at the target, the last within the budget, the last
    np.testing.assert_array_equal(read.evaluations, whole.evaluations)
    for name in COLUMNS:
        np.testing.assert_array_equal(read.columns[name][exact], whole.columns[name][exact])
        np.testing.assert_allclose(read.columns[name], whole.columns[name], rtol=1e-2)
    np.testing.assert_allclose(read.columns["cpu_seconds"], whole.columns["cpu_seconds"], rtol=5e-5)
    assert (read.columns["train_loss"] != whole.columns["train_loss"]).any()


@pytest.mark.parametrize("loss", [0.0100000001, 0.01000001, 0.010001, 0.0100004, 0.01001])
def test_no_rounding_takes_a_loss_to_the_other_side_of_its_target(tmp_path, loss):
    whole = trace("sgd", [1.0, loss, 0.009999999, 0.001])
    (read,) = unpack(pack(Packed((whole,), {"tiny/5": 0.01}), tmp_path / "a.json.gz")).runs
    assert read.first("train_loss", 0.01, "evaluations") == 2.0


def test_the_same_runs_give_the_same_bytes_in_whatever_order(tmp_path, runs):
    one = pack(Packed(runs, {"tiny/5": TARGET}), tmp_path / "one.json.gz").read_bytes()
    two = pack(Packed(runs[::-1], {"tiny/5": TARGET}), tmp_path / "folder" / "two.json.gz").read_bytes()
    assert one == two
    assert pack(unpack(tmp_path / "one.json.gz"), tmp_path / "three.json.gz").read_bytes() == one


def test_a_file_that_is_damaged_or_another_is_refused(tmp_path, runs):
    file = pack(Packed(runs, {"tiny/5": TARGET}), tmp_path / "a.json.gz")
    content = file.read_bytes()
    values = json.loads(gzip.decompress(content))
    short = {**values, "digests": {**values["digests"], "runs": values["digests"]["runs"][1:]}}
    for wrong, why in (
        (content[: len(content) // 2], "end-of-stream|Compressed file ended"),
        (b"", "damaged"),
        (b"setting,method\n", "gzip"),
        (gzip.compress(b"[1, 2]"), "does not say that it holds runs"),
        (gzip.compress(json.dumps(short).encode()), "evaluations must have .* numbers, got"),
        (content[:200] + bytes([content[200] ^ 255]) + content[201:], "damaged"),
    ):
        file.write_bytes(wrong)
        with pytest.raises(
            Damaged, match=r"a\.json\.gz is not a file that .* or it is damaged .*pack it again"
        ) as told:
            unpack(file)
        assert told.match(why)
    with pytest.raises(FileNotFoundError):
        unpack(tmp_path / "none.json.gz")


@pytest.mark.parametrize("change", [{"format": 2}, {"format": 9}])
def test_a_file_of_another_version_is_refused(tmp_path, runs, change):
    file = pack(Packed(runs), tmp_path / "a.json.gz")
    values = json.loads(gzip.decompress(file.read_bytes()))
    file.write_bytes(gzip.compress(json.dumps(values | change).encode()))
    with pytest.raises(Damaged, match=r"a\.json\.gz was packed by another version of gradline, .*: pack it again$"):
        unpack(file)


def test_targets_that_changed_since_are_told(runs):
    packed = Packed(runs, {"tiny/5": TARGET})
    packed.check({"tiny/5": TARGET, "other/5": 1.0})
    with pytest.raises(ValueError, match=r"targets must be those .* tiny/5 has 0\.2 now and 0\.1 in the file: pack it"):
        packed.check({"tiny/5": 0.2})


def test_runs_are_added_to_a_file_and_replace_those_of_the_same_method_and_seed(tmp_path, runs):
    path = tmp_path / "runs.json.gz"
    first = runs[0]
    add(Packed(runs, {"tiny/5": TARGET}, ("gradline run compare",)), path)
    again = replace(trace(first.method, [2.0]), run=replace(first.run, record_every=7))
    after = add(Packed((again,), {"tiny/5": TARGET}, ("gradline run compare --seeds 1",)), path)
    assert after.commands == ("gradline run compare", "gradline run compare --seeds 1")
    found = unpack(path).runs
    assert len(found) == len(runs)
    assert [one.key for one in found if (one.method, one.seed) == (first.method, first.seed)] == [again.key]
    with pytest.raises(ValueError, match="pack it again"):
        add(Packed((again,), {"tiny/5": 2.0 * TARGET}), path)
    assert len(unpack(path).runs) == len(runs)


def test_commands_lose_what_belongs_to_one_machine():
    made = portable(
        [
            "gradline run compare --workers 2 --out /somewhere/else",
            "gradline run compare --out=/elsewhere --backend dask",
            "gradline run compare --tensorboard --out /elsewhere",
            "gradline run compare --out /elsewhere --tensorboard",
            "gradline run compare --tensorboard logs",
            "gradline run compare --problem a --quiet --data 'a folder' --known /some/file.json.gz --seeds 3",
        ]
    )
    assert made == ("gradline run compare", "gradline run compare --problem a --seeds 3")


def test_memory_leaves_out_what_is_not_installed(monkeypatch):
    monkeypatch.setattr("gradline.lab.methods.method.find_spec", lambda name: None if name == "prodigyopt" else name)
    assert copies(["sgd-0.1", "sgd-1", "prodigy"]) == {"sgd": 1.0}


def test_a_file_that_unpacks_to_far_more_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gradline.lab.findings.packed.MOST_BYTES", 10**6)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * (10**6 + 1)))
    with pytest.raises(Damaged, match=r"it must have at most 1,000,000 bytes when it is unpacked, got more"):
        unpack(path)
    path.write_bytes(gzip.compress(b" " * 10**6))
    with pytest.raises(Damaged, match="Expecting value"):
        unpack(path)
    path.write_bytes(gzip.compress(b"[" * 10**5))
    with pytest.raises(Damaged, match="recursion"):
        unpack(path)
