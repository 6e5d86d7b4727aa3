"""Saved and resumed training goes on bit for bit as if it had never stopped."""

import copy
import io
import json
import pickle
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from helpers import Problem, equal, problem_with
from lion_pytorch import Lion

import gradline
from gradline.protocol import Outcome, Stop
from gradline.searches import Angle, Armijo, GoldenSection, GolsB, GolsI, GolsMax, StrongWolfe

DIRECTIONS = [None, torch.optim.Adam, torch.optim.SGD]


def saved(problem):
    """Through a real file format, as a checkpoint would."""
    buffer = io.BytesIO()
    state = {"model": problem.model.state_dict(), "optimizer": problem.optimizer.state_dict()}
    torch.save({**state, "draws": problem.draws.get_state()}, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def resumed(state, search, *, model_first=True, **options):
    problem = problem_with(search, **options)
    parts = [(problem.model, "model"), (problem.optimizer, "optimizer")]
    for part, name in parts if model_first else reversed(parts):
        part.load_state_dict(state[name])
    problem.draws.set_state(state["draws"])
    return problem


@pytest.mark.parametrize("direction", DIRECTIONS, ids=str)
@pytest.mark.parametrize("search", [GolsI(), GolsMax(), Angle(), Armijo(), GoldenSection(), StrongWolfe()], ids=str)
def test_resume_with_a_closure(search, direction):
    problem = problem_with(search, direction=direction)
    for step in range(8):
        twin = resumed(saved(problem), search, direction=direction, model_first=step % 2 == 0)
        assert twin.optimizer.last == problem.optimizer.last
        assert twin.optimizer.evaluations == problem.optimizer.evaluations
        for _ in range(3):
            problem.optimizer.step(problem.closure)
            twin.optimizer.step(twin.closure)
            assert equal(problem.parameters(), twin.parameters())
            assert problem.optimizer.last == twin.optimizer.last


@pytest.mark.parametrize("direction", DIRECTIONS, ids=str)
@pytest.mark.parametrize("search", [GolsI(), GolsB(tolerance=0.1), Angle()], ids=str)
def test_resume_in_the_middle_of_a_search(search, direction):
    problem = problem_with(search, direction=direction)
    for turn in range(70):
        if turn % 3 == 0:
            twin = resumed(saved(problem), search, direction=direction, model_first=turn % 2 == 0)
        problem.turn()
        twin.turn()
        assert equal(problem.parameters(), twin.parameters())
        assert problem.optimizer.last == twin.optimizer.last
    assert problem.optimizer.iterations > 1


def test_save_at_the_accepted_point():
    problem = problem_with(GolsI())
    for _ in range(40):
        problem.turn()
        with problem.optimizer.eval():
            state = saved(problem)
            shown = problem.parameters()
        twin = resumed(state, GolsI())
        assert equal(twin.parameters(), shown)
        with pytest.raises(RuntimeError, match=r"call optimizer.train\(\) first"):
            twin.optimizer.step()
        twin.optimizer.train()
        assert equal(twin.parameters(), problem.parameters())
        twin.turn()
        draws = problem.draws.get_state()
        problem.turn()
        assert equal(twin.parameters(), problem.parameters())
        assert torch.equal(twin.draws.get_state(), problem.draws.get_state())
        assert not torch.equal(draws, problem.draws.get_state())


def test_the_state_is_plain():
    def plain(value):
        if isinstance(value, dict):
            return all(isinstance(key, str | int) and plain(part) for key, part in value.items())
        if isinstance(value, list | tuple):
            return all(map(plain, value))
        return value is None or isinstance(value, bool | int | float | str | torch.Tensor)

    problem = problem_with(GolsB(tolerance=0.1), direction=torch.optim.Adam)
    for _ in range(50):
        problem.turn()
        assert plain(problem.optimizer.state_dict())


def test_loading_does_not_tie_two_optimizers_together():
    one, other = problem_with(GolsI()), problem_with(GolsI())
    one.optimizer.step(one.closure)
    other.model.load_state_dict(one.model.state_dict())
    other.optimizer.load_state_dict(one.optimizer.state_dict())
    third = problem_with(GolsI())
    third.model.load_state_dict(one.model.state_dict())
    third.optimizer.load_state_dict(copy.deepcopy(one.optimizer.state_dict()))
    third.draws.set_state(one.draws.get_state())
    for _ in range(3):
        other.optimizer.step(other.closure)
    for _ in range(3):
        one.optimizer.step(one.closure)
        third.optimizer.step(third.closure)
    assert equal(one.parameters(), third.parameters())


@pytest.mark.parametrize(
    "through", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize("direction", DIRECTIONS, ids=str)
def test_copies_of_the_whole_optimizer_go_on_alike(direction, through):
    problem = problem_with(GolsI(), direction=direction)
    for _ in range(25):
        problem.turn()
    twin = Problem()
    twin.model, twin.optimizer = through((problem.model, problem.optimizer))
    twin.draws.set_state(problem.draws.get_state())
    for _ in range(10):
        problem.turn()
        twin.turn()
        assert equal(problem.parameters(), twin.parameters())
    assert problem.optimizer.last == twin.optimizer.last


class Pair(NamedTuple):
    guess: float
    mean: float


@dataclass(frozen=True)
class Averaging:
    """A search whose memory is a named tuple."""

    def start(self):
        return Pair(0.01, 0.01)

    def search(self, origin, memory):
        yield memory.guess
        mean = 0.9 * memory.mean + 0.1 * memory.guess
        return Outcome(memory.guess, 0, Stop.FIXED, Pair(1.1 * mean, mean))


def test_memories_with_names_come_back_with_them():
    problem = problem_with(Averaging())
    for _ in range(3):
        problem.optimizer.step(problem.closure)
    twin = resumed(saved(problem), Averaging())
    assert isinstance(twin.optimizer._session.driver.memory, Pair)
    problem.optimizer.step(problem.closure)
    twin.optimizer.step(twin.closure)
    assert problem.optimizer.last == twin.optimizer.last


def test_memories_that_cannot_be_saved_are_refused():
    class Hoarder(Averaging):
        def start(self):
            return {"steps": []}

    with pytest.raises(TypeError, match="memory must be made of numbers"):
        problem_with(Hoarder()).optimizer.state_dict()


def test_unsuitable_states_are_refused_and_nothing_is_lost():
    problem = problem_with(GolsI())
    for _ in range(5):
        problem.turn(problem.full)
    state, before = saved(problem)["optimizer"], problem.parameters()
    sgd = torch.optim.SGD(problem.model.parameters(), lr=0.1)
    other_version = copy.deepcopy(state)
    search = json.loads(state["param_groups"][0]["line_search"])
    fields = [*(name for name in search["fields"] if name != "driver.taken"), "driver.refused"]
    other_version["param_groups"][0]["line_search"] = json.dumps({**search, "fields": fields})
    fewer = {**state, "param_groups": [{**state["param_groups"][0], "params": [0]}]}
    for optimizer, bad, sentence in [
        (problem.optimizer, sgd.state_dict(), "no line search in it"),
        *((problem.optimizer, none, "no line search in it") for none in ({}, {"model": sgd.state_dict()}, None)),
        (problem_with(GolsMax()).optimizer, state, "of the search GolsMax .* got GolsI"),
        (problem_with(GolsI(growth=3.0)).optimizer, state, "recorded with other settings"),
        (problem.optimizer, other_version, r"got one without driver\.taken and with driver\.refused: it was saved by"),
        (problem.optimizer, fewer, "of as many parameters"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            optimizer.load_state_dict(bad)
    assert equal(before, problem.parameters())
    twin = resumed({**saved(problem)}, GolsI())
    problem.turn()
    twin.turn()
    assert equal(problem.parameters(), twin.parameters())


@pytest.mark.parametrize("version", [1, 2, 4])
def test_what_earlier_versions_saved_is_refused_with_what_to_do(version):
    problem = problem_with(GolsI())
    problem.turn()
    old = saved(problem)
    group = old["optimizer"]["param_groups"][0]
    packed = {**json.loads(group["line_search"]), "version": version}
    del packed["fields"]
    group["line_search"] = packed if version == 1 else json.dumps(packed)
    with pytest.raises(ValueError, match=r"by another version; the model's own state_dict can be loaded"):
        problem.optimizer.load_state_dict(old["optimizer"])


def test_settings_may_change_between_searches():
    problem = problem_with(GolsI())
    problem.optimizer.step(problem.closure)
    twin = resumed(saved(problem), GolsI(growth=3.0))
    twin.optimizer.step(twin.closure)
    assert twin.optimizer.iterations == 2


@pytest.mark.parametrize(
    "through", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["copy", "pickle"]
)
def test_copies_beside_a_scheduler_and_of_directions_with_attributes(through):
    problem = problem_with(GolsI(), direction=Lion)
    torch.optim.lr_scheduler.StepLR(problem.optimizer, 2)
    problem.optimizer.step(problem.closure)
    before = problem.parameters()
    twin = Problem()
    twin.model, twin.optimizer = through((problem.model, problem.optimizer))
    twin.draws.set_state(problem.draws.get_state())
    twin.optimizer.step(twin.closure)
    assert equal(before, problem.parameters())
    problem.optimizer.step(problem.closure)
    assert equal(twin.parameters(), problem.parameters())


def test_another_directions_state_is_refused_and_nothing_is_lost():
    plain, adam = problem_with(GolsI()), problem_with(GolsI(), direction=torch.optim.Adam)
    for problem in (plain, adam):
        problem.optimizer.step(problem.closure)
    for problem, state in [(plain, saved(adam)), (adam, saved(plain))]:
        with pytest.raises(ValueError, match=r"state_dict must be of the direction .* got "):
            problem.optimizer.load_state_dict(state["optimizer"])
        problem.optimizer.step(problem.closure)


def test_resume_with_a_gradient_kept_for_a_parameter_new_to_the_direction():
    def build():
        x, late = (torch.nn.Parameter(torch.tensor([value])) for value in (3.0, 1.0))
        search = GolsB(tolerance=0.1)
        return x, late, gradline.LineSearchOptimizer([x, late], search, direction=torch.optim.Adam)

    def turn(x, late, optimizer, count):
        optimizer.zero_grad()
        ((x - 2.0).square() + (late.square() if count > 3 else 0.0)).sum().backward()
        optimizer.step()

    parts = build()
    for count in range(90):
        twin = build()
        for parameter, original in zip(twin[:2], parts[:2], strict=True):
            parameter.data.copy_(original.data)
        twin[2].load_state_dict(copy.deepcopy(parts[2].state_dict()))
        turn(*twin, count)
        turn(*parts, count)
        assert equal(parts[:2], twin[:2])
