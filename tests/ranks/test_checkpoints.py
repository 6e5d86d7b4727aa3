"""Checkpoints through torch.distributed.checkpoint: exact, and readable by another number of processes."""

import pytest
import torch
import torch.distributed.checkpoint as dcp
from ranks.work import Trained, net
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict


def save(rank, size, folder, kind, ways, flat, closure):
    """Train, save, go on. Also: how many batches had been drawn when it was saved."""
    problem = Trained(rank, size, kind=kind, model=net, **ways)
    problem.train(4, closure=closure)
    _save(problem, folder, flat)
    drawn = problem.optimizer.evaluations
    return *problem.train(2, closure=closure), problem.whole(), drawn


def resume(rank, size, folder, kind, ways, flat, closure, drawn):
    """Begin anew from what was saved."""
    problem = Trained(rank, size, kind=kind, model=net, **ways)
    _load(problem, folder, flat)
    for _ in range(drawn):
        problem.draw()
    return *problem.train(2, closure=closure), problem.whole()


def _save(problem, folder, flat):
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    model, optimizer = get_state_dict(problem.model, problem.optimizer, options=options)
    dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=folder)


def _load(problem, folder, flat):
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    model, optimizer = get_state_dict(problem.model, problem.optimizer, options=options)
    state = {"model": model, "optimizer": optimizer}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(
        problem.model,
        problem.optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
        options=options,
    )


BIT_FOR_BIT = [
    ("ddp", {"search": "GolsI"}, False),
    ("ddp", {"search": "GolsMax", "direction": "SGD"}, True),
    ("ddp", {"search": "Angle", "direction": "AdamW"}, False),
    ("fsdp", {"search": "GolsI"}, True),
    ("fsdp", {"search": "GolsI", "direction": "AdamW"}, False),
    ("fsdp", {"search": "GolsMax", "direction": "SGD"}, False),
    ("fsdp", {"search": "Armijo"}, True),
    ("fsdp", {"search": "Angle", "direction": "AdamW"}, True),
    ("fsdp", {"search": "Angle"}, False),
]


@pytest.mark.parametrize(("kind", "ways", "flat"), BIT_FOR_BIT)
def test_training_goes_on_bit_for_bit(two, tmp_path, kind, ways, flat):
    closure = ways["search"] == "Armijo"
    saved = two(save, str(tmp_path), kind, ways, flat, closure)
    resumed = two(resume, str(tmp_path), kind, ways, flat, closure, saved[0][3])
    for before, after in zip(saved, resumed, strict=True):
        assert after[:2] == before[:2]
        assert all(map(torch.equal, after[2], before[2]))


@pytest.mark.parametrize(
    ("ways", "more", "flat"),
    [
        ({"search": "GolsI"}, True, False),
        ({"search": "GolsI"}, False, True),
        ({"search": "Angle", "direction": "AdamW"}, True, True),
        ({"search": "Angle", "direction": "AdamW"}, False, False),
        ({"search": "Angle"}, False, True),
    ],
)
def test_another_number_of_processes_goes_on(two, three, tmp_path, ways, more, flat):
    before, after = (two, three) if more else (three, two)
    saved = before(save, str(tmp_path), "fsdp", ways, flat, False)
    for steps, evaluations, parameters in after(resume, str(tmp_path), "fsdp", ways, flat, False, saved[0][3]):
        assert steps == pytest.approx(saved[0][0], rel=1e-6)
        assert evaluations == saved[0][1]
        for mine, theirs in zip(parameters, saved[0][2], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_one_process_goes_on_from_what_ranks_saved(two, tmp_path):
    saved = two(save, str(tmp_path), "fsdp", {"search": "GolsI"}, False, False)
    steps, evaluations, parameters = resume(0, 1, str(tmp_path), None, {"search": "GolsI"}, False, False, saved[0][3])
    assert steps == pytest.approx(saved[0][0], rel=1e-6)
    assert evaluations == saved[0][1]
    for mine, theirs in zip(parameters, saved[0][2], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-9)
