import itertools

import numpy as np
import pytest
from lab.study_runs import run

from gradline.lab.jobs.runs import Sampling
from gradline.lab.problems.sampling import (
    BLOCK,
    Batches,
    Purpose,
    chosen_samples,
    generator,
    without_repetition,
)


def batches(samples, size, *, seed=0, purpose=Purpose.PROBES, repetition=False):
    return Batches(seed=seed, purpose=purpose, samples=samples, size=size, repetition=repetition)


@pytest.mark.parametrize(("samples", "size"), [(400, 10), (400, 50), (400, 200), (400, 399), (50_000, 200), (3, 2)])
def test_a_batch_has_distinct_samples_in_order(samples, size):
    source = batches(samples, size)
    for position in range(0, 3 * BLOCK, 7):
        batch = source.at(position)
        assert batch.shape == (size,)
        assert (np.diff(batch) > 0).all()
        assert 0 <= batch[0] <= batch[-1] < samples


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_all_subsets_are_equally_likely(size):
    count = 40_000
    drawn = without_repetition(np.random.default_rng(1), count, 5, size)
    subsets = list(itertools.combinations(range(5), size))
    seen = dict.fromkeys(subsets, 0)
    for batch in drawn.tolist():
        seen[tuple(batch)] += 1
    expected = count / len(subsets)
    chi_square = sum((number - expected) ** 2 / expected for number in seen.values())
    assert chi_square < 30.0  # 9 degrees of freedom at most: exceeded by chance once in 2000


def test_every_sample_is_drawn_equally_often():
    source = batches(400, 50)
    drawn = np.concatenate([source.at(position) for position in range(40 * BLOCK)])
    counts = np.bincount(drawn, minlength=400)
    expected, spread = 40 * BLOCK * 50 / 400, np.sqrt(40 * BLOCK * (50 / 400) * (350 / 400))
    assert np.abs(counts - expected).max() < 4.5 * spread
    assert counts.std() == pytest.approx(spread, rel=0.2)


def test_batches_of_a_stream_are_independent():
    source = batches(400, 100)
    overlaps = [len(np.intersect1d(source.at(n), source.at(n + 1))) for n in range(2000)]
    assert np.mean(overlaps) == pytest.approx(25.0, abs=0.4)


def test_a_position_is_all_there_is_to_a_stream():
    forward, anyhow = batches(100, 7), batches(100, 7)
    expected = {n: forward.at(n).copy() for n in range(3 * BLOCK)}
    for n in (150, 3, 64, 63, 191, 0):
        np.testing.assert_array_equal(anyhow.at(n), expected[n])


def test_streams_differ_by_seed_and_purpose():
    one = batches(1000, 20).at(0)
    assert not np.array_equal(one, batches(1000, 20, seed=1).at(0))
    assert not np.array_equal(one, batches(1000, 20, purpose=Purpose.DIRECTIONS).at(0))
    assert not np.array_equal(one, batches(1000, 20).at(1))
    assert not np.array_equal(one, batches(1000, 20).at(BLOCK))


def test_with_repetition_a_sample_may_come_twice():
    source = batches(10, 30, repetition=True)
    assert source.at(0).shape == (30,)
    assert not source.whole
    assert (np.bincount(np.concatenate([source.at(n) for n in range(640)])) > 1700).all()
    doubled = batches(400, 50, repetition=True)
    distinct = np.mean([len(set(doubled.at(n).tolist())) for n in range(640)])
    assert distinct == pytest.approx(400 * (1 - (1 - 1 / 400) ** 50), abs=0.3)


def test_a_batch_of_all_samples_needs_no_draw():
    source = batches(12, 12)
    assert source.whole
    assert source.at(5).tolist() == list(range(12))


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(ValueError, match=r"size must be at most the number of samples, 10 \(none is drawn twice\)"):
        batches(10, 11)
    with pytest.raises(ValueError, match="samples must be at least 1"):
        batches(0, 1, repetition=True)


def test_a_run_says_where_its_batches_come_from():
    plain = run(batch_size=20)
    probes, directions = plain.batches(120)
    assert (probes.size, directions) == (20, None)
    assert plain.reuses_gradient
    assert run(batch_size=20, sampling=Sampling.FULL).batches(120)[0].whole
    separate = run(batch_size=20, direction_batch_size=50, repetition=True)
    _, directions = separate.batches(120)
    assert (directions.size, directions.purpose, directions.repetition) == (50, Purpose.DIRECTIONS, True)
    assert not separate.reuses_gradient
    assert not run(sampling=Sampling.STATIC).reuses_gradient


def test_variances_need_two_samples():
    with pytest.raises(ValueError, match="batch_size must be at least 2 with prls"):
        run(method="prls", batch_size=1).check_variances(100)
    with pytest.raises(ValueError, match="batch_size must be at least 2 with prls"):
        run(method="prls", batch_size=10, direction_batch_size=1).check_variances(100)
    run(method="gols-i", batch_size=1).check_variances(100)
    run(method="prls", batch_size=1, direction_batch_size=10).check_variances(100)


def test_samples_to_measure_on_are_chosen_once_for_each_seed_and_part():
    assert chosen_samples(0, 100, None, 0) is None
    assert chosen_samples(0, 100, 100, 0) is None
    train = chosen_samples(0, 100, 30, 0)
    assert len(set(train.tolist())) == 30
    np.testing.assert_array_equal(train, chosen_samples(0, 100, 30, 0))
    assert not np.array_equal(train, chosen_samples(0, 100, 30, 1))
    assert not np.array_equal(train, chosen_samples(1, 100, 30, 0))


def test_streams_stay_as_they_are():
    # Results are made of these numbers: a change of the streams changes every result.
    assert generator(0, Purpose.WEIGHTS).integers(10**6, size=3).tolist() == [802237, 942937, 5483]
    assert batches(400, 5).at(0).tolist() == [40, 43, 64, 106, 274]
    assert batches(400, 5, seed=7).at(100).tolist() == [14, 230, 355, 365, 381]
