"""A saved state that is damaged is refused in one sentence, and nothing is changed: the optimizer goes on as it was."""

import copy
import json
import warnings

import pytest
import torch
from helpers import Problem, equal, problem_with
from torch import nn

import gradline
from gradline.searches import Angle, Armijo, GolsB, GolsI

JUNK = [None, "x", -1, [], {}, [1], True, float("nan"), 1e400]
DAMAGED = "state_dict must be as it was saved .* got a damaged one: "


def trained(search=None, turns=7, **options):
    """A problem in the middle of a search (its parameters stand at a probe), but for searches that need a closure."""
    problem = problem_with(search or GolsI(), **options)
    for _ in range(turns):
        problem.optimizer.step(problem.closure) if isinstance(search, Armijo) else problem.turn()
    return problem


def story(state):
    return json.loads(state["param_groups"][0]["line_search"])


def with_story(state, told):
    first, *others = state["param_groups"]
    told = told if isinstance(told, str) else json.dumps(told)
    return {**state, "param_groups": [{**first, "line_search": told}, *others]}


def same(left, right):
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def everything(problem):
    optimizer = problem.optimizer
    return copy.deepcopy([optimizer.state_dict(), problem.parameters(), optimizer._session.standing, optimizer.last])


def refused(problem, state, sentence=DAMAGED):
    """The state is refused, and the optimizer is what it was, to the bit."""
    before = everything(problem)
    base = problem.optimizer._base
    with pytest.raises(ValueError, match=sentence) as told:
        problem.optimizer.load_state_dict(state)
    assert "\n" not in str(told.value)
    assert same(everything(problem), before)
    if base is not None:
        assert base.state is problem.optimizer.state
        assert base.param_groups is problem.optimizer.param_groups


def paths(tree, path=()):
    yield path
    if isinstance(tree, dict | list):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from paths(tree[key], (*path, key))


def replaced(tree, path, value):
    if not path:
        return value
    tree = copy.copy(tree)
    tree[path[0]] = replaced(tree[path[0]], path[1:], value)
    return tree


def without(tree, path):
    tree = copy.copy(tree)
    if len(path) == 1:
        del tree[path[0]]
    else:
        tree[path[0]] = without(tree[path[0]], path[1:])
    return tree


@pytest.mark.parametrize("search", [GolsI(), GolsB(tolerance=0.1), Armijo(), Angle()], ids=str)
def test_any_damage_to_the_story_is_refused_or_does_no_harm(search):
    problem = trained(search, turns=47 if isinstance(search, GolsB) else 7)
    state = problem.optimizer.state_dict()
    whole = story(state)
    damages = [without(whole, path) for path in paths(whole) if path]
    damages += [replaced(whole, path, junk) for path in paths(whole) if path for junk in JUNK]
    damages = damages[::5]  # 5 and the number of junk values have no common factor: each path and each value occur
    sentences = []
    before = everything(problem)
    for damage in damages:
        try:
            problem.optimizer.load_state_dict(with_story(state, damage))
        except ValueError as error:
            sentences.append(str(error))
            assert same(everything(problem), before)
        else:  # a number became another one, on which nothing depends that could go wrong
            twin = copy.deepcopy(problem)
            twin.optimizer.train()
            for _ in range(2):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    twin.optimizer.step(twin.closure)
            assert all(bool(p.isfinite().all()) for p in twin.parameters())
            problem.optimizer.load_state_dict(state)
    assert all(sentence.startswith(("state_dict must be", "transcript must be", "origin")) for sentence in sentences)
    assert len(sentences) > 0.7 * len(damages)


@pytest.mark.parametrize("direction", [None, torch.optim.Adam], ids=str)
def test_a_story_cut_off_is_refused(direction):
    problem = trained(direction=direction)
    state = problem.optimizer.state_dict()
    told = state["param_groups"][0]["line_search"]
    for end in range(1, len(told), 37):
        refused(problem, with_story(state, told[:end]))
    for other in (7, [told], told.encode(), {}):
        first = {**state["param_groups"][0], "line_search": other}
        refused(problem, {**state, "param_groups": [first]}, "state_dict must be")
    twin = trained(direction=direction)
    for _ in range(5):
        problem.turn()
        twin.turn()
    assert equal(problem.parameters(), twin.parameters())


@pytest.mark.parametrize("direction", [None, torch.optim.Adam], ids=str)
def test_missing_tensors_are_refused(direction):
    problem = trained(GolsB(tolerance=0.1), turns=45, direction=direction)
    state = problem.optimizer.state_dict()
    kept = [name for name in state["state"][0] if name.startswith("line_gradient_")]
    assert kept
    for place in state["state"]:
        for name in ("line_origin", "line_direction", *kept):
            refused(problem, {**state, "state": without(state["state"], (place, name))}, f"{DAMAGED}line_.* is there")
        refused(problem, {**state, "state": without(state["state"], (place,))}, f"{DAMAGED}line_.* for 3 parameters")
    refused(problem, {**state, "state": {}}, f"{DAMAGED}line_.* for 0 parameters")


def test_states_of_another_form_are_refused():
    problem = trained(direction=torch.optim.Adam)
    state = problem.optimizer.state_dict()
    for bad in (
        {},
        {"state": state["state"]},
        {**state, "param_groups": []},
        {**state, "param_groups": None},
        {**state, "param_groups": [None]},
        None,
        [state],
    ):
        refused(problem, bad, "state_dict must be one of a gradline optimizer")
    for bad in (
        {"param_groups": state["param_groups"]},
        {**state, "param_groups": [without(state["param_groups"][0], ("params",))]},
        {**state, "state": None},
        {**state, "state": dict.fromkeys(state["state"], 3)},
        {**state, "state": replaced(state["state"], (0, "line_direction"), [1.0])},
    ):
        refused(problem, bad)


def test_what_the_directions_own_optimizer_refuses_is_undone():
    """Adam looks for its count of steps when all else has been loaded."""
    problem = trained(direction=torch.optim.Adam)
    state = problem.optimizer.state_dict()
    refused(problem, {**state, "state": without(state["state"], (0, "step"))}, f"{DAMAGED}KeyError: 'step'")
    twin = trained(direction=torch.optim.Adam)
    for _ in range(5):
        problem.turn()
        twin.turn()
    assert equal(problem.parameters(), twin.parameters())


def test_a_failing_hook_of_loading_is_undone():
    problem = trained(direction=torch.optim.Adam)
    state = problem.optimizer.state_dict()
    for _ in range(4):
        problem.turn()

    def hook(_optimizer):
        raise KeyboardInterrupt

    problem.optimizer.register_load_state_dict_post_hook(hook)
    before = everything(problem)
    with pytest.raises(KeyboardInterrupt):
        problem.optimizer.load_state_dict(state)
    assert same(everything(problem), before)


def test_another_models_state_is_refused():
    problem, foreign = trained(), Problem(model=lambda inputs: nn.Sequential(nn.Linear(inputs, 9), nn.Linear(9, 1)))
    foreign.optimizer = gradline.GOLSI(foreign.model.parameters())
    foreign.turn()
    refused(problem, foreign.optimizer.state_dict(), r"of parameters of the same shapes .* \(8, 6\) .* \(9, 6\)")
    foreign = Problem(model=nn.Flatten)
    foreign.model.weight = nn.Parameter(torch.ones(8, 6))
    foreign.optimizer = gradline.GOLSI(foreign.model.parameters())
    refused(problem, foreign.optimizer.state_dict(), "of as many parameters")


def test_a_memory_that_no_search_can_begin_from_is_refused():
    problem = trained(turns=30)
    state = problem.optimizer.state_dict()
    for memory in (float("nan"), "0.1", [0.1], None):
        told = replaced(story(state), ("driver", "memory"), memory)
        refused(problem, with_story(state, told), f"{DAMAGED}.*GolsI cannot begin from")
