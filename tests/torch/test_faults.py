"""Faults from outside: memory, data, workers and interrupts. What failed can be tried again, as if nothing had been."""

import copy
import gc
import os
import signal
import warnings

import pytest
import torch
from helpers import Problem, equal, problem_with
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

import gradline
from gradline.protocol import Pending
from gradline.searches import Armijo, GolsB, GolsI, GolsMax, Prls, StrongWolfe

ERRORS = [MemoryError(), torch.OutOfMemoryError("no memory"), KeyboardInterrupt(), SystemExit(), OSError("disk")]
loss_of = nn.functional.binary_cross_entropy_with_logits


def remembering(inputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 1))


def dropping(inputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 1))


def problem_of(model, search, **options):
    problem = Problem(model=model)
    problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), search, **options)
    return problem


def everything(problem):
    """Parameters, buffers, and all that the optimizer remembers."""
    state = problem.optimizer.state_dict()
    held = [
        torch.as_tensor(part)
        for place in sorted(state["state"])
        for _, part in sorted(state["state"][place].items())
        if part is not None
    ]
    return [part.clone() for part in [*problem.model.state_dict().values(), *held]]


def failing(closure, call, error, *, when):
    """Fails at one of its calls: before, within or after the evaluation."""
    calls = 0

    def wrapped():
        nonlocal calls
        calls += 1
        if calls == call and when == "before":
            raise error
        loss = closure()
        if calls == call:
            raise error
        return loss

    wrapped.same_noise = getattr(closure, "same_noise", False)
    return wrapped


@pytest.mark.parametrize("direction", [None, torch.optim.Adam], ids=str)
@pytest.mark.parametrize("search", [GolsI(), GolsB(tolerance=0.3), Armijo(), StrongWolfe(), Prls()], ids=str)
def test_a_step_that_failed_on_a_static_batch_is_taken_again_bit_for_bit(search, direction):
    """Batch, dropout's mask and statistics are those of the step that failed: nothing is lost or counts twice."""
    model = dropping if isinstance(search, Prls) else remembering
    runs = []
    for disturbed in (False, True):
        problem = problem_of(model, search, direction=direction)
        stream = gradline.batches.static(problem.inputs, problem.targets, batch_size=20, seed=3)
        losses = (lambda value: value.flatten()) if problem.optimizer.per_sample else torch.mean
        closure = stream.closure(
            problem.optimizer,
            lambda x, y, model=problem.model, losses=losses: losses(loss_of(model(x), y, reduction="none")),
        )
        torch.manual_seed(5)
        for step in range(6):
            if disturbed:
                before = everything(problem)
                error = ERRORS[step % len(ERRORS)]
                when = ("before", "after")[step % 2]
                iterations = problem.optimizer.iterations
                try:
                    problem.optimizer.step(failing(closure, 1 + step % 3, error, when=when))
                except type(error):
                    assert problem.optimizer.iterations == iterations
                    assert equal(before[: len(problem.model.state_dict())], list(problem.model.state_dict().values()))
                    problem.optimizer.step(closure)
            else:
                problem.optimizer.step(closure)
        runs.append(problem)
    undisturbed, disturbed = runs
    assert equal(everything(undisturbed), everything(disturbed))
    assert undisturbed.optimizer.last == disturbed.optimizer.last


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_spread_probe_that_failed_is_made_again_bit_for_bit(error, when):
    problem, untouched = (problem_of(remembering, GolsMax(step_min=1e-3), spread=True) for _ in range(2))
    for probe in range(25):
        torch.manual_seed(probe)
        untouched.optimizer.step(untouched.closure)
        if probe % 3 == 1:
            draws, before = problem.draws.get_state(), everything(problem)
            with pytest.raises(type(error)):
                problem.optimizer.step(failing(problem.closure, 1, error, when=when))
            assert equal(before, everything(problem))
            problem.draws.set_state(draws)
        torch.manual_seed(probe)
        problem.optimizer.step(problem.closure)
    assert equal(everything(untouched), everything(problem))
    assert problem.optimizer.last == untouched.optimizer.last
    assert problem.optimizer.iterations == untouched.optimizer.iterations > 3


@pytest.mark.parametrize("direction", [None, torch.optim.Adam], ids=str)
def test_an_interrupt_between_probes_costs_nothing(direction):
    """Without a closure the loop's own code may fail, before or after the gradients are there."""
    problem, untouched = problem_with(GolsI(), direction=direction), problem_with(GolsI(), direction=direction)
    for probe in range(30):
        untouched.turn()
        if probe % 4 == 1:
            draws = problem.draws.get_state()
            problem.closure()  # then Ctrl-C, so that step() is not reached
            problem.draws.set_state(draws)
        if probe % 4 == 3:
            problem.optimizer.zero_grad()
            with pytest.raises(RuntimeError, match="no parameter has a gradient"):
                problem.optimizer.step()
        problem.turn()
        assert equal(problem.parameters(), untouched.parameters())
    assert problem.optimizer.last == untouched.optimizer.last
    with problem.optimizer.eval(), untouched.optimizer.eval():
        assert equal(problem.parameters(), untouched.parameters())


@pytest.mark.parametrize("turns", [5, 20, 41])
def test_what_a_search_may_yet_accept_survives_a_failure(turns):
    """Turns without a closure, then a closure that fails when the lower end of the bracket has moved on."""
    problem = problem_with(GolsB(tolerance=0.1))
    for _ in range(turns):
        problem.turn(problem.full)
    before = problem.parameters()
    with pytest.raises(OSError, match="disk"):
        problem.optimizer.step(failing(problem.full, 4, OSError("disk"), when="before"))
    assert equal(before, problem.parameters())

    def broken():
        loss = problem.full() * float("nan")
        for parameter in problem.model.parameters():
            parameter.grad.fill_(float("nan"))
        return loss

    problem.optimizer.step(broken)  # nothing but NaN from here on: the lower end is all there is
    assert problem.optimizer.last.outcome.probe is not None
    assert problem.optimizer.last.step > 0.0
    assert all(bool(p.isfinite().all()) for p in problem.parameters())


@pytest.mark.parametrize("turns", [0, 7])
def test_a_second_failure_while_the_first_is_undone_costs_nothing(monkeypatch, turns):
    """As when Ctrl-C is pressed twice, or a loader's worker dies: torch tells of it once more by a signal."""
    problem = problem_with(GolsI())
    problem.optimizer.step(problem.full)
    for _ in range(turns):
        problem.turn(problem.full)
    before, iterations = problem.parameters(), problem.optimizer.iterations
    replay, failures = Pending.replay, [KeyboardInterrupt()]

    def interrupted(*arguments):
        if failures:
            raise failures.pop()
        return replay(*arguments)

    monkeypatch.setattr(Pending, "replay", interrupted)
    with pytest.raises(KeyboardInterrupt):
        problem.optimizer.step(failing(problem.full, 2, OSError("disk"), when="before"))
    assert not failures
    assert equal(before, problem.parameters())
    assert problem.optimizer.iterations == iterations


class Fragile(Dataset):
    """Fails once, at one sample, in one of three ways: raises, is interrupted, or is killed as by the system."""

    def __init__(self, flag, how, at):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(40, 6, generator=generator, dtype=torch.float64)
        self.flag, self.how, self.at = flag, how, at

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        if index == self.at and not self.flag.exists():
            self.flag.write_text("failed once")
            if self.how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("disk") if self.how == "raises" else KeyboardInterrupt
        return self.x[index], (self.x[index].sum(dim=0, keepdim=True).sin() > 0).double()


@pytest.fixture
def deaf(monkeypatch):
    """The death of a worker is not heard of at once, wherever the process is, but by the loader when it waits for it.

    torch raises from the signal's handler. That may be between two steps, or in the test's own code.
    """
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.2)  # seconds
    monkeypatch.setattr(_MultiProcessingDataLoaderIter._try_get_data, "__defaults__", (0.2,))
    # Blocking the signal is not enough: another thread (a test runner's) may take it, and the handler runs here.
    monkeypatch.setattr(torch.utils.data._utils.signal_handling, "_SIGCHLD_handler_set", True)
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    yield
    gc.collect()  # the loader's workers are no longer expected to live
    signal.signal(signal.SIGCHLD, before)


def run_on(flag, how, workers, sampling):
    """Six steps on a loader; the failures on the way, and what came of it."""
    loader = DataLoader(Fragile(flag, how, at=23), batch_size=8, shuffle=True, num_workers=workers)
    problem = problem_with(GolsI())
    stream = getattr(gradline.batches, sampling)(loader, seed=1)
    closure = stream.closure(problem.optimizer, lambda x, y: loss_of(problem.model(x), y))
    failures = 0
    while problem.optimizer.iterations < 6:
        before, iterations = problem.parameters(), problem.optimizer.iterations
        try:
            problem.optimizer.step(closure)
        except (OSError, KeyboardInterrupt, RuntimeError, EOFError):  # the last: it died while it handed over a batch
            failures += 1
            assert problem.optimizer.iterations > iterations or equal(before, problem.parameters())
    return problem, stream, failures


MULTI_THREADED = "ignore:This process .* is multi-threaded, use of fork:DeprecationWarning"


@pytest.mark.filterwarnings(MULTI_THREADED)
@pytest.mark.parametrize(("how", "workers"), [("raises", 0), ("interrupted", 0), ("raises", 1), ("killed", 1)])
def test_a_step_whose_batch_could_not_be_read_is_taken_again_bit_for_bit(tmp_path, deaf, how, workers):
    (tmp_path / "never").touch()
    untouched, place, failures = run_on(tmp_path / "never", how, 0, "static")
    assert failures == 0
    problem, other_place, failures = run_on(tmp_path / "once", how, workers, "static")
    assert failures == 1
    assert equal(untouched.parameters(), problem.parameters())
    assert untouched.optimizer.last == problem.optimizer.last
    assert place.state_dict() == other_place.state_dict()
    assert torch.equal(*(torch.cat([x for x, _ in stream.take(10)]) for stream in (place, other_place)))


@pytest.mark.filterwarnings(MULTI_THREADED)
@pytest.mark.filterwarnings("ignore:gradline. the step was taken, but its gradient:RuntimeWarning")
@pytest.mark.parametrize(("how", "workers"), [("raises", 0), ("raises", 1), ("killed", 1)])
def test_training_goes_on_after_its_data_failed_and_no_batch_of_the_epoch_is_left_out(tmp_path, deaf, how, workers):
    problem, stream, failures = run_on(tmp_path / "once", how, workers, "dynamic")
    assert failures == 1
    start = stream.state_dict()["stream"]["position"]
    rest = [x for x, _ in stream.take(10 - start)]
    assert len(torch.cat(rest[-5:]).unique(dim=0)) == 40
    assert all(bool(p.isfinite().all()) for p in problem.parameters())


@pytest.mark.parametrize("how", ["raises", "interrupted"])
def test_a_failed_draw_is_repeated_whatever_the_place_in_the_epoch(tmp_path, how):
    for at in (0, 7, 8, 39):
        whole, broken = tmp_path / f"whole-{at}", tmp_path / f"broken-{at}"
        whole.write_text("never")
        streams = [
            gradline.batches.dynamic(DataLoader(Fragile(flag, how, at), batch_size=8, shuffle=True), seed=2)
            for flag in (whole, broken)
        ]
        expected = [x for x, _ in streams[0].take(17)]
        found, failures = [], 0
        while len(found) < 17:
            try:
                found.append(next(streams[1])[0])
            except (OSError, KeyboardInterrupt):
                failures += 1
        assert failures == 1
        assert equal(expected, found)
        assert streams[0].state_dict() == streams[1].state_dict()


def test_a_position_that_cannot_be_read_leaves_the_one_before(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.write_text("never")
    source, goal = (
        gradline.batches.dynamic(DataLoader(Fragile(flag, "raises", 5), batch_size=8, shuffle=True), seed=seed)
        for flag, seed in ((whole, 2), (broken, 4))
    )
    list(source.take(5))
    before = goal.state_dict()
    with pytest.raises(OSError, match="disk"):
        goal.load_state_dict(source.state_dict())
    assert goal.state_dict() == before
    for bad in ({}, {"stream": {}, "taken": True}, {"stream": {**before["stream"], "epoch": "x"}, "taken": True}, None):
        with pytest.raises(ValueError, match=r"state_dict must be what state_dict\(\) of batches gave"):
            goal.load_state_dict(bad)
    assert goal.state_dict() == before
    goal.load_state_dict(source.state_dict())
    assert torch.equal(next(source)[0], next(goal)[0])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("spread", [True, False])
def test_samples_that_are_not_finite_are_survived(value, spread):
    """The batches that have one of them are never accepted, nor do they count in running statistics."""
    problem = problem_of(remembering, GolsI(step_min=1e-4), spread=spread)
    inputs = problem.inputs.clone()
    inputs[50::51] = value
    loader = DataLoader(TensorDataset(inputs, problem.targets), batch_size=10, shuffle=True)
    stream = gradline.batches.dynamic(loader, seed=1)
    bad = []

    def loss(x, y):
        bad.append(not x.isfinite().all())
        return loss_of(problem.model(x), y)

    closure = stream.closure(problem.optimizer, loss)
    accepted = []
    problem.optimizer.register_search_hook(lambda record: accepted.append(record.outcome.probe is not None))
    for _ in range(80 if spread else 30):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "gradline: .* not finite", RuntimeWarning)
            problem.optimizer.step(closure)
        with problem.optimizer.eval():
            assert all(bool(part.isfinite().all()) for part in problem.model.state_dict().values())
        assert int(problem.model[1].num_batches_tracked) == sum(accepted)
    assert sum(bad) > 3
    assert sum(accepted) > 10


def test_loading_into_an_optimizer_in_use_forgets_its_statistics():
    """Back to a checkpoint, model and all, while a search without a closure is under way."""
    problem = problem_of(remembering, GolsI())
    for _ in range(10):
        problem.turn()
    state = copy.deepcopy((problem.model.state_dict(), problem.optimizer.state_dict()))
    for _ in range(15):
        problem.turn()
    problem.model.load_state_dict(state[0])
    problem.optimizer.load_state_dict(state[1])
    tracked = int(state[0]["1.num_batches_tracked"])
    assert int(problem.model[1].num_batches_tracked) == tracked
    problem.turn()
    assert int(problem.model[1].num_batches_tracked) <= tracked + 1


@pytest.mark.filterwarnings("ignore:gradline. the observation at the start is not finite:RuntimeWarning")
def test_a_copy_made_after_a_first_evaluation_that_failed_saves_no_line_of_before():
    """Parameters were frozen, the next gradient was NaN, and then the optimizer was copied."""
    problem = problem_with(GolsI())
    problem.turn()
    problem.model[0].requires_grad_(False)
    problem.optimizer.zero_grad()
    problem.optimizer.refresh()
    (problem.loss() * float("nan")).backward()
    problem.optimizer.step()
    twin = copy.deepcopy(problem)
    twin.turn()
    state = twin.optimizer.state_dict()["state"]
    assert [place for place, held in state.items() if "line_direction" in held] == [2, 3]
