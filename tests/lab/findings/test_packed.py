"""A packed file: the same measures as the store's, the same bytes for the same records, and what is refused."""

from __future__ import annotations

import gzip
import json
import math
import random
from dataclasses import replace
from itertools import pairwise

import pytest
from lab.compare_cases import record

from gradline.lab.findings.measures import rows, tabulate
from gradline.lab.findings.memory import copies
from gradline.lab.findings.packed import POINTS, Damaged, Packed, add, chosen, pack, portable, shorter, thinned, unpack
from gradline.lab.findings.trajectory import Point
from gradline.lab.jobs.result import Status

TARGET = 0.1


def long_record(method="sgd", seed=0, **options):
    """More points than are kept, times and losses with many digits, and a last point beyond the budget of 10."""
    source = random.Random(f"{method} {seed}")
    losses = [source.uniform(0.9, 1.1) * 3.0**-place for place in range(61)]
    thirds = [place // 2 for place in range(60)] + [47]
    made = record(method, losses, seed=seed, thirds=thirds, seconds=source.uniform(0.1, 1.0) / 3, **options)
    short = [tuple(float(f"{value:.9g}") for value in point[2:]) for point in made.points]  # digits that are packed
    points = tuple(Point(*point[:2], *rest) for point, rest in zip(made.points, short, strict=True))
    return replace(made, points=points)


@pytest.fixture
def records():
    return (
        *(long_record(method, seed) for method in ("sgd", "gols-i") for seed in range(3)),
        record("prls", [3.0, math.nan, math.inf], status=Status.DIVERGED),
        record("prls", [3.0], seed=1, status=Status.FAILED, reason="ValueError: “no”"),
        replace(record("prls", [], seed=2, status=Status.FAILED, reason="other"), versions={"torch": "3"}),
    )


def test_measures_are_the_same_from_a_packed_file(tmp_path, records):
    found = unpack(pack(Packed(records, {"tiny/5": TARGET}), tmp_path / "a.json.gz"))
    lines = rows(tabulate(records), {"tiny/5": TARGET}, ["sgd"])
    again = rows(tabulate(found.records), {"tiny/5": TARGET}, ["sgd"])
    assert len(lines) == 3
    for line, read in zip(lines, again, strict=True):
        assert repr(read) == repr(line)  # NaN is not equal to itself


def test_what_is_no_number_of_a_curve_is_read_as_it_was_written(tmp_path, records):
    commands, memory = ("gradline run compare",), {"sgd": 1.0, "lbfgs": "failed: RuntimeError"}
    found = unpack(pack(Packed(records, {"tiny/5": TARGET}, commands, memory), tmp_path / "a.json.gz"))
    assert (found.targets, found.commands, found.memory) == ({"tiny/5": TARGET}, commands, memory)
    assert {one.name for one in found.records} == {one.name for one in records}
    read = {one.name: one for one in found.records}
    for one in records:
        other = read[one.name]
        kept = ("setting", "method", "budget", "status", "reason", "versions")
        assert [getattr(other, name) for name in kept] == [getattr(one, name) for name in kept]


def test_curves_are_thinned_and_keep_the_points_that_measures_are_read_from():
    whole = long_record()
    thin = thinned(whole, TARGET)
    assert len(whole.points) == 61
    assert len(thin.points) == POINTS
    assert repr(thin.points[-1]) == repr(whole.points[-1])  # NaN is not equal to itself
    assert repr(thin.last) == repr(whole.last) != repr(thin.points[-1])
    assert thin.points[0].evaluations == 0
    reached = [one.first("train_loss", TARGET, "evaluations", counted=True) for one in (thin, whole)]
    assert reached[0] == reached[1] < math.inf
    assert repr(thinned(thin, TARGET)) == repr(thin)


def test_places_are_even_and_hold_those_that_must_be_kept():
    assert chosen(5, [2]) == [0, 1, 2, 3, 4]
    for also in ([], [50], [49, 50], [59, 60], [None, -1, 1]):
        found = chosen(61, also)
        assert len(found) <= POINTS
        assert {0, 60, *(place for place in also if place is not None and place >= 0)} <= set(found)
        assert max(after - before for before, after in pairwise(found)) <= 5


@pytest.mark.parametrize("value", [0.0100000001, 0.0099999999, 0.01, 0.010004, 0.0099996])
def test_no_rounding_takes_a_loss_to_the_other_side_of_its_target(value):
    assert (shorter(value, 0.01) <= 0.01) == (value <= 0.01)
    assert shorter(value, 0.01) == pytest.approx(value, rel=1e-5)


def test_numbers_have_five_digits():
    assert shorter(0.123456789) == 0.12346
    assert shorter(math.inf) == math.inf
    assert math.isnan(shorter(math.nan))


def test_the_same_records_give_the_same_bytes_in_whatever_order(tmp_path, records):
    one = pack(Packed(records, {"tiny/5": TARGET}), tmp_path / "one.json.gz").read_bytes()
    two = pack(Packed(records[::-1], {"tiny/5": TARGET}), tmp_path / "folder" / "two.json.gz").read_bytes()
    assert one == two
    assert unpack_again(tmp_path / "one.json.gz", tmp_path / "three.json.gz") == one


def unpack_again(source, target):
    return pack(unpack(source), target).read_bytes()


def test_a_file_that_is_damaged_or_another_is_refused(tmp_path, records):
    file = pack(Packed(records, {"tiny/5": TARGET}), tmp_path / "a.json.gz")
    content = file.read_bytes()
    values = json.loads(gzip.decompress(content))
    short = {**values, "runs": values["runs"][1:]}
    for wrong, why in (
        (content[: len(content) // 2], "end-of-stream|Compressed file ended"),
        (b"", "damaged"),
        (b"setting,method\n", "gzip"),
        (gzip.compress(b"[1, 2]"), "does not say that it holds runs"),
        (gzip.compress(json.dumps({**values, "format": 9}).encode()), "its format is 9, this version reads 3"),
        (gzip.compress(json.dumps(short).encode()), "damaged"),
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


def test_targets_that_changed_since_are_told(records):
    packed = Packed(records, {"tiny/5": TARGET})
    packed.check({"tiny/5": TARGET, "other/5": 1.0})
    with pytest.raises(ValueError, match=r"targets must be those .* tiny/5 has 0\.2 now and 0\.1 in the file: pack it"):
        packed.check({"tiny/5": 0.2})


def test_runs_are_added_to_a_file_and_replace_those_of_the_same_method_and_seed(tmp_path, records):
    path = tmp_path / "runs.json.gz"
    first = records[0]
    add(Packed(tuple(records), {"tiny/5": TARGET}, ("gradline run compare",)), path)
    again = replace(first, points=first.points[:1])
    after = add(Packed((again,), {"tiny/5": TARGET}, ("gradline run compare --seeds 1",)), path)
    assert after.commands == ("gradline run compare", "gradline run compare --seeds 1")
    found = unpack(path).records
    assert len(found) == len(records)
    assert sorted(len(one.points) for one in found if (one.method, one.seed) == (first.method, first.seed)) == [1]
    with pytest.raises(ValueError, match="pack it again"):
        add(Packed((again,), {"tiny/5": 2.0 * TARGET}), path)
    assert len(unpack(path).records) == len(records)


def test_commands_lose_what_belongs_to_one_machine():
    made = portable(
        [
            "gradline run compare --workers 2 --out /somewhere/else",
            "gradline run compare --out=/elsewhere --backend dask",
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
