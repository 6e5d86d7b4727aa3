"""Several processes take the steps that one takes on the joined batch, and all take the same."""

import pytest
import torch
from ranks.work import train

WAYS = [
    ("GolsI", None, True),
    ("GolsI", None, False),
    ("GolsI", "Adam", True),
    ("GolsI", "AdamW", False),
    ("GolsMax", "SGD", False),
    ("GolsMax", None, True),
    ("Armijo", None, True),
]


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
@pytest.mark.parametrize(("search", "direction", "closure"), WAYS)
def test_ranks_take_the_steps_of_one_process_on_the_joined_batch(world, kind, search, direction, closure):
    steps, evaluations, parameters = train(0, 1, None, search, direction, closure)
    answers = world(train, kind, search, direction, closure)
    first = answers[0]
    for rank_steps, rank_evaluations, rank_parameters in answers:
        assert rank_steps == first[0]  # not approximately
        assert rank_evaluations == evaluations
        for mine, others, alone in zip(rank_parameters, first[2], parameters, strict=True):
            assert torch.equal(mine, others)
            torch.testing.assert_close(mine, alone, rtol=1e-7, atol=1e-9)
    assert first[0] == pytest.approx(steps, rel=1e-7)


@pytest.mark.parametrize("direction", [None, "Adam"])
def test_prls_pools_the_variances_of_all_ranks(world, direction):
    steps, evaluations, parameters = train(0, 1, None, "Prls", direction, True)
    answers = world(train, "ddp", "Prls", direction, True)
    for rank_steps, rank_evaluations, rank_parameters in answers:
        assert rank_steps == answers[0][0]
        assert rank_steps == pytest.approx(steps, rel=1e-6)
        assert rank_evaluations == evaluations
        for mine, alone in zip(rank_parameters, parameters, strict=True):
            torch.testing.assert_close(mine, alone, rtol=1e-6, atol=1e-8)
