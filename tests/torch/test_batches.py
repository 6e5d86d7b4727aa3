"""Endless mini-batches: modes, reproducibility, position, loaders with workers."""

import json

import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import gradline
from gradline import batches

X = torch.arange(20.0)[:, None]
Y = -X


def first(stream, count):
    return [batch[0].flatten().tolist() for batch in stream.take(count)]


def loader(**options):
    return DataLoader(TensorDataset(X, Y), batch_size=5, **{"shuffle": True, **options})


def test_dynamic_draws_anew_and_an_epoch_has_every_sample_once():
    stream = batches.dynamic(X, Y, batch_size=5, seed=0)
    for _ in range(3):
        epoch = torch.cat([stream.draw()[0] for _ in range(4)])
        assert torch.equal(epoch.sort(dim=0).values, X)
    x, y = stream.draw()
    assert torch.equal(x, -y)


def test_epochs_are_shuffled_differently():
    stream = batches.dynamic(X, batch_size=20, seed=0)
    orders = first(stream, 5)
    assert len({tuple(order) for order in orders}) == 5


def test_the_rest_of_an_epoch_is_left_out():
    stream = batches.dynamic(X, batch_size=6, seed=0)
    assert {len(batch[0]) for batch in stream.take(20)} == {6}


def test_static_keeps_its_batch_until_it_is_told_to_advance():
    stream = batches.static(X, Y, batch_size=5, seed=0)
    drawn = [stream.draw()[0] for _ in range(3)]
    assert torch.equal(drawn[0], drawn[2])
    stream.advance()
    assert not torch.equal(drawn[0], stream.draw()[0])


def test_full_is_everything():
    for stream in (batches.full(X, Y), batches.full(loader(shuffle=False))):
        for _ in range(2):
            x, y = stream.draw()
            assert torch.equal(x, X)
            assert torch.equal(y, Y)
            stream.advance()


@pytest.mark.parametrize(
    "make",
    [lambda seed: batches.dynamic(X, batch_size=5, seed=seed), lambda seed: batches.dynamic(loader(), seed=seed)],
)
def test_a_seed_fixes_the_order_and_leaves_the_global_generator_alone(make):
    state = torch.get_rng_state()
    one, other, third = first(make(3), 12), first(make(3), 12), first(make(4), 12)
    assert one == other != third
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(5)
    unseeded = first(make(None), 12)
    torch.manual_seed(5)
    assert first(make(None), 12) == unseeded


LOADERS = [
    loader,
    lambda: loader(num_workers=2),
    lambda: loader(num_workers=1, persistent_workers=True),
    lambda: loader(generator=torch.Generator()),
    lambda: loader(shuffle=False, sampler=WeightedRandomSampler(torch.ones(20), 20)),
    lambda: loader(drop_last=False, shuffle=False),
    lambda: DataLoader(
        TensorDataset(X, Y),
        batch_sampler=BatchSampler(RandomSampler(X, generator=torch.Generator()), batch_size=5, drop_last=True),
    ),
    lambda: loader(shuffle=False, sampler=DistributedSampler(X, num_replicas=1, rank=0)),
]


@pytest.mark.parametrize(
    "source",
    LOADERS,
    ids=["plain", "workers", "persistent", "generator", "weighted", "ordered", "batch sampler", "distributed"],
)
def test_a_loaders_position_is_saved_and_restored(source):
    stream = batches.dynamic(source(), seed=1)
    first(stream, 6)
    position = json.loads(json.dumps(stream.state_dict()))
    ahead = first(stream, 9)
    restored = batches.dynamic(source(), seed=99)
    restored.load_state_dict(position)
    assert first(restored, 9) == ahead


@pytest.mark.parametrize("mode", [batches.dynamic, batches.static])
@pytest.mark.parametrize("taken", [0, 1, 4, 5, 9])
def test_a_position_in_tensors_is_saved_and_restored(mode, taken):
    stream = mode(X, batch_size=5, seed=1)
    for _ in range(taken):
        stream.advance()
    position = json.loads(json.dumps(stream.state_dict()))
    ahead = [stream.draw()[0].tolist() for _ in range(3)] + first(stream, 9)
    restored = mode(X, batch_size=5, seed=99)
    restored.load_state_dict(position)
    assert [restored.draw()[0].tolist() for _ in range(3)] + first(restored, 9) == ahead


def test_the_closure_is_an_ordinary_one():
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    closure = batches.dynamic(X, Y, batch_size=5, seed=0).closure(
        optimizer, lambda x, y: (model(x) - y).square().mean()
    )
    start = closure().item()
    for _ in range(50):
        loss = optimizer.step(closure)
    assert loss.item() < start
    assert model.weight.grad is not None


def test_dict_batches_are_passed_whole():
    class Dicts(torch.utils.data.Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, index):
            return {"x": X[index], "y": Y[index]}

    model = nn.Linear(1, 1)
    source = DataLoader(Dicts(), batch_size=5)
    for stream in (batches.dynamic(source, seed=0), batches.full(source)):
        optimizer = gradline.GOLSI(model.parameters())
        closure = stream.closure(optimizer, lambda batch: (model(batch["x"]) - batch["y"]).square().mean())
        assert optimizer.step(closure).isfinite()


def test_a_training_loop_resumes_with_its_batches():
    def start():
        torch.manual_seed(0)
        model = nn.Linear(1, 1)
        optimizer = gradline.GOLSI(model.parameters())
        stream = batches.dynamic(X / 20, Y, batch_size=5, seed=0)
        return model, optimizer, stream, stream.closure(optimizer, lambda x, y: (model(x) - y).square().mean())

    model, optimizer, stream, closure = start()
    for _ in range(7):
        optimizer.step(closure)
    saved = [part.state_dict() for part in (model, optimizer, stream)]
    saved = torch.utils._pytree.tree_map(
        lambda value: value.clone() if isinstance(value, torch.Tensor) else value, saved
    )
    for _ in range(7):
        optimizer.step(closure)
    again, optimizer, stream, closure = start()
    for part, state in zip((again, optimizer, stream), saved, strict=True):
        part.load_state_dict(state)
    for _ in range(7):
        optimizer.step(closure)
    assert torch.equal(model.weight, again.weight)


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: batches.dynamic(X, Y[:3], batch_size=2), ValueError, r"equal length .*\[20, 3\]"),
        (lambda: batches.dynamic(X, batch_size=21), ValueError, "between 1 and the number of samples, 20, got 21"),
        (lambda: batches.dynamic(X), ValueError, "batch_size must be between 1 and .*got None"),
        (lambda: batches.dynamic(batch_size=2), TypeError, "tensors of samples or one DataLoader, got nothing"),
        (lambda: batches.dynamic([1, 2], batch_size=2), TypeError, "got list"),
        (lambda: batches.dynamic(loader(), batch_size=2), ValueError, "must not be given with a DataLoader"),
        (lambda: batches.dynamic(X, batch_size=2, seed=-1), ValueError, "seed must be 0 or more .*got -1"),
        (lambda: batches.full(DataLoader(["a", "b"])), TypeError, "batches of tensors .*got str"),
        (lambda: next(batches.dynamic(DataLoader(TensorDataset(X), sampler=[]))), ValueError, "at least one batch"),
    ],
)
def test_bad_sources(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()


def test_distributed_samplers_shuffle_anew_in_each_epoch():
    stream = batches.dynamic(
        DataLoader(X, batch_size=20, sampler=DistributedSampler(X, num_replicas=1, rank=0)), seed=0
    )
    assert len({tuple(batch.flatten().tolist()) for batch in stream.take(4)}) == 4


def test_asking_twice_for_a_static_closure_changes_nothing_and_a_failed_step_keeps_its_batch():
    model = nn.Linear(1, 1)
    optimizer = gradline.LineSearchOptimizer(model.parameters(), gradline.searches.Armijo())
    stream = batches.static(X, Y, batch_size=5, seed=0)
    used, fail = [], [False]

    def loss(x, y):
        used.append(x.flatten().tolist())
        if fail[0]:
            raise ZeroDivisionError
        return (model(x / 20) - y / 20).square().mean()

    order = first(batches.static(X, Y, batch_size=5, seed=0), 4)
    for step in range(4):
        closure = stream.closure(optimizer, loss)
        fail[0] = True
        with pytest.raises(ZeroDivisionError):
            optimizer.step(closure)
        fail[0] = False
        optimizer.step(closure)
        assert used == [order[step]] * len(used)
        used.clear()


@pytest.mark.parametrize(
    "other", [lambda: batches.dynamic(X, batch_size=4), lambda: batches.dynamic(X[:10], batch_size=5)]
)
def test_a_position_in_other_data_is_refused(other):
    stream, wrong = batches.dynamic(X, batch_size=5, seed=1), other()
    with pytest.raises(ValueError, match=r"same data and batch size .*\[20, 5\], here are"):
        wrong.load_state_dict(stream.state_dict())
    next(wrong)


def test_some_batches_have_a_length():
    source = batches.dynamic(torch.arange(12.0), batch_size=3, seed=0)
    some = source.take(5)
    assert len(some) == 5
    assert len(list(some)) == 5
    assert list(source.take(0)) == []


def test_torchs_default_device_changes_nothing():
    samples = torch.arange(12.0)
    drawn = []
    for device in ("cpu", "meta"):
        with torch.device(device):
            drawn.append([batch for (batch,) in batches.dynamic(samples, batch_size=3, seed=0).take(9)])
            list(batches.dynamic(samples, batch_size=3).take(1))
    assert all(map(torch.equal, *drawn))
