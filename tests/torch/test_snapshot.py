"""What evaluations of a model change is saved and restored, and its random numbers are those of a seed."""

import torch

from gradline.torch.snapshot import seed_generators


def test_the_random_numbers_of_a_seed_are_those_of_torch():
    with torch.random.fork_rng():
        torch.manual_seed(7)
        expected = torch.randn(5)
        torch.rand(3)
        seed_generators(7)
        assert torch.equal(torch.randn(5), expected)


def test_every_device_is_seeded_where_there_is_an_accelerator(monkeypatch):
    seeds = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    seed_generators(7)
    assert seeds == [7]
