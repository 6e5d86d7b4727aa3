"""States of `gradline.Angle`: training resumes bit for bit from every phase, and damaged states are refused."""

import copy
import io
import json
import pickle

import pytest
import torch
from helpers import Problem, equal
from torch import nn

import gradline
from gradline.torch import buckets

PHASES = {"START": 0, "FIRST": 4, "STEPS": 40}


def normed(inputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))


def problem_of(calls=0, model=normed, **options):
    problem = Problem(model=model)
    problem.optimizer = gradline.Angle(problem.model.parameters(), weight_decay=0.01, **options)
    for _ in range(calls):
        problem.turn()
    return problem


def spoiled(problem):
    """One call with gradients that are not finite."""
    problem.closure()
    for parameter in problem.model.parameters():
        parameter.grad.fill_(float("nan"))
    problem.optimizer.step()


def stored(state):
    """Through a file."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def point(problem):
    """All values of the model and of its average, and the record of the last step."""
    training = [value.detach().clone() for value in problem.model.state_dict().values()]
    with problem.optimizer.eval():
        average = [value.detach().clone() for value in problem.model.state_dict().values()]
    return training, average, repr(problem.optimizer.last), problem.optimizer.evaluations


def assert_same(one, other):
    for left, right in zip(one, other, strict=True):
        assert equal(left, right) if isinstance(left, list) else left == right


def resumed(model, optimizer, draws, *, first="model", **options):
    problem = problem_of(**options)
    for name in (first, "optimizer" if first == "model" else "model"):
        (problem.model if name == "model" else problem.optimizer).load_state_dict(
            model if name == "model" else optimizer
        )
    problem.draws.set_state(draws)
    return problem


@pytest.mark.parametrize("first", ["model", "optimizer"])
@pytest.mark.parametrize("inside", [False, True], ids=["outside eval", "inside"])
@pytest.mark.parametrize("average", [True, False], ids=["average", "last"])
@pytest.mark.parametrize("phase", [*PHASES, "not finite"])
def test_training_resumes_bit_for_bit(phase, average, inside, first):
    problem = problem_of(PHASES.get(phase, 40), average=average)
    assert phase == "not finite" or problem.optimizer._phase.name == phase
    if phase == "not finite":
        spoiled(problem)
    if inside:
        problem.optimizer.eval()
    model, optimizer = stored(problem.model.state_dict()), stored(problem.optimizer.state_dict())
    other = resumed(model, optimizer, problem.draws.get_state(), first=first, average=average)
    problem.optimizer.train()
    if inside and first == "optimizer":  # the model was loaded last: the first closure goes back to the point
        problem.optimizer.step(problem.closure)
        other.optimizer.step(other.closure)
    for _ in range(30):
        problem.turn()
        other.turn()
    assert_same(point(problem), point(other))


@pytest.mark.parametrize("inside", [False, True], ids=["outside eval", "inside"])
def test_training_in_half_precision_resumes_bit_for_bit(inside):
    """Iterate, average and displacement are in float32, more exact than the parameters."""

    def build():
        problem = Problem(dtype=torch.bfloat16)
        problem.optimizer = gradline.Angle(problem.model.parameters())
        return problem

    problem, other = build(), build()
    for _ in range(40):
        problem.turn()
    if inside:
        problem.optimizer.eval()
    other.model.load_state_dict(stored(problem.model.state_dict()))
    other.optimizer.load_state_dict(stored(problem.optimizer.state_dict()))
    problem.optimizer.train()
    other.draws.set_state(problem.draws.get_state())
    for _ in range(3):
        states = zip(problem.optimizer.state.values(), other.optimizer.state.values(), strict=True)
        for held, loaded in states:
            assert {held[name].dtype for name in ("iterate", "average", "displacement")} == {torch.float32}
            assert all(torch.equal(value, loaded[name]) for name, value in held.items())
        problem.turn()
        other.turn()


def test_the_first_gradient_is_used_where_half_precision_rounds_point_and_average_to_the_same():
    problem, other = Problem(dtype=torch.bfloat16), Problem(dtype=torch.bfloat16)
    for each in (problem, other):
        each.optimizer = gradline.Angle(each.model.parameters(), lr_scale=1e-20)
    for _ in range(60):
        problem.turn()
    assert problem.optimizer.averaged_from > 0
    other.model.load_state_dict(problem.model.state_dict())
    other.optimizer.load_state_dict(stored(problem.optimizer.state_dict()))
    other.turn()
    assert other.optimizer.evaluations == problem.optimizer.evaluations + 1


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("average", [True, False], ids=["average", "last"])
def test_a_state_taken_inside_eval_is_not_changed_afterwards(average, packed, monkeypatch):
    if not packed:
        monkeypatch.setattr(buckets, "is_small", lambda parameters: False)
    problem = problem_of(40, average=average)
    with problem.optimizer.eval():
        state = problem.optimizer.state_dict()
        before = copy.deepcopy(state)
    for held, kept in zip(state["state"].values(), before["state"].values(), strict=True):
        assert all(torch.equal(value, kept[name]) for name, value in held.items())


def test_the_record_of_the_last_step_is_loaded():
    problem = problem_of(40)
    other = problem_of()
    other.optimizer.load_state_dict(stored(problem.optimizer.state_dict()))
    one, another = problem.optimizer.last, other.optimizer.last
    assert (one.outcome, one.memory, one.cosine) == (another.outcome, another.memory, another.cosine)
    assert one.memory != one.outcome.memory


@pytest.mark.parametrize("inside", [False, True], ids=["outside eval", "inside"])
@pytest.mark.parametrize("phase", PHASES)
def test_the_first_thing_after_loading_may_be_an_evaluation(phase, inside):
    problem = problem_of(PHASES[phase])
    if inside:
        problem.optimizer.eval()
    model, optimizer = stored(problem.model.state_dict()), stored(problem.optimizer.state_dict())
    other = resumed(model, optimizer, problem.draws.get_state())
    problem.optimizer.train()
    with other.optimizer.eval():
        other.model.eval()
        other.loss()
        again = stored(other.optimizer.state_dict())
        values = [value.detach().clone() for value in other.model.state_dict().values()]
        other.model.train()
    assert equal(values, point(problem)[1])
    third = resumed(stored(other.model.state_dict()), again, problem.draws.get_state())
    for _ in range(30):
        for one in (problem, other, third):
            one.turn()
    assert_same(point(problem), point(other))
    assert_same(point(problem), point(third))


@pytest.mark.parametrize("phase", PHASES)
def test_a_model_saved_inside_eval_and_a_state_saved_outside(phase):
    """The closure's evaluation is at the point of training, not at the average, and training goes on."""
    problem = problem_of(PHASES[phase])
    optimizer = stored(problem.optimizer.state_dict())
    with problem.optimizer.eval():
        model = stored(problem.model.state_dict())
    other = resumed(model, optimizer, problem.draws.get_state())
    before = problem.parameters()
    points = []
    other.optimizer.step(lambda: [other.closure(), points.append(other.parameters())][0])
    for expected, evaluated in zip(before, points[0], strict=True):
        torch.testing.assert_close(evaluated, expected, rtol=1e-12, atol=1e-15)
    for _ in range(20):
        other.turn()
    assert all(bool(p.isfinite().all()) for p in other.parameters())


@pytest.mark.parametrize("phase", ["FIRST", "STEPS"])
def test_a_gradient_of_the_average_is_not_used_for_a_step(phase):
    problem = problem_of(PHASES[phase])
    optimizer = stored(problem.optimizer.state_dict())
    with problem.optimizer.eval():
        model = stored(problem.model.state_dict())
    other = resumed(model, optimizer, problem.draws.get_state())
    other.turn()
    assert other.optimizer.evaluations == problem.optimizer.evaluations
    if phase == "FIRST":
        assert equal(problem.parameters(), other.parameters())
    other.turn()
    assert other.optimizer.evaluations == problem.optimizer.evaluations + 1


@pytest.mark.parametrize("phase", PHASES)
def test_a_model_saved_outside_and_a_state_saved_inside_eval(phase):
    problem = problem_of(PHASES[phase])
    model = stored(problem.model.state_dict())
    with problem.optimizer.eval():
        optimizer = stored(problem.optimizer.state_dict())
    other = resumed(model, optimizer, problem.draws.get_state())
    for _ in range(30):
        problem.turn()
        other.turn()
    assert_same(point(problem), point(other))


@pytest.mark.parametrize("inside", [False, True], ids=["outside eval", "inside"])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda problem: pickle.loads(pickle.dumps(problem))])
def test_copies_of_model_and_optimizer_train_alike(phase, inside, copied):
    problem = problem_of(PHASES[phase])
    if inside:
        problem.optimizer.eval()
    parts = copied({"model": problem.model, "optimizer": problem.optimizer})
    other = Problem(model=normed)
    other.model, other.optimizer = parts["model"], parts["optimizer"]
    other.draws.set_state(problem.draws.get_state())
    for one in (problem, other):
        one.optimizer.train()
    for _ in range(30):
        problem.turn()
        other.turn()
    assert_same(point(problem), point(other))


def test_a_saved_state_has_no_memory_of_others():
    """Packed tensors share memory in training, but a checkpoint has each of them once, and not the gradient."""
    problem = problem_of(40)
    state = problem.optimizer.state_dict()["state"]
    for held in state.values():
        assert all(value.untyped_storage().nbytes() == value.nbytes for value in held.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("phase", ["FIRST", "STEPS"])
def test_the_models_precision_may_change(phase, dtype):
    problem = problem_of(PHASES[phase], model=None)
    problem.model.to(dtype)
    problem.inputs, problem.targets = problem.inputs.to(dtype), problem.targets.to(dtype)
    for _ in range(10):
        problem.turn()
    for parameter, held in problem.optimizer.state.items():
        assert {held[name].dtype for name in ("exp_avg_sq", "origin")} == {parameter.dtype} == {dtype}
        assert {held[name].dtype for name in ("iterate", "displacement")} == {torch.float32}
        assert ("average" in held) == (dtype is not torch.float32)
    with problem.optimizer.eval():
        assert all(bool(p.isfinite().all()) for p in problem.parameters())


def test_a_part_of_the_model_may_change_its_precision():
    def mixed(inputs):
        last = nn.Linear(8, 1)
        return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), Cast(last), last)

    problem = problem_of(40, model=mixed)
    problem.model[3].float()
    problem.targets = problem.targets.float()
    for _ in range(20):
        problem.turn()
    kinds = [
        {held[name].dtype for name in ("exp_avg_sq", "origin", "iterate")} for held in problem.optimizer.state.values()
    ]
    assert kinds == [{torch.float64}, {torch.float64}, {torch.float32}, {torch.float32}]
    assert problem.optimizer.last.step > 0.0


class Cast(nn.Module):
    """Converts to the precision of the next layer."""

    def __init__(self, layer):
        super().__init__()
        vars(self)["next"] = layer

    def forward(self, inputs):
        return inputs.to(self.next.weight.dtype)


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("inside", [False, True], ids=["outside eval", "inside"])
def test_evaluation_by_the_average_may_begin_or_end(saved, inside):
    problem, other = problem_of(40, average=saved), problem_of(average=not saved)
    if inside:
        problem.optimizer.eval()
    other.model.load_state_dict(stored(problem.model.state_dict()))
    other.optimizer.load_state_dict(stored(problem.optimizer.state_dict()))
    problem.optimizer.train()
    other.draws.set_state(problem.draws.get_state())
    for _ in range(10):
        problem.turn()
        other.turn()
    assert equal(problem.parameters(), other.parameters())
    assert not equal(point(problem)[1], point(other)[1])
    for one in (problem, other):
        assert all("average" not in held for held in one.optimizer.state.values())


def damaged_states(state):
    told = json.loads(state["param_groups"][0]["line_search"])

    def retold(**changes):
        first = {**state["param_groups"][0], "line_search": json.dumps({**told, **changes})}
        return {**state, "param_groups": [first]}

    def without(place, name):
        held = {key: value for key, value in state["state"][place].items() if key != name}
        return {**state, "state": {**state["state"], place: held}}

    def optioned(**changes):
        return {**state, "param_groups": [{**state["param_groups"][0], **changes}]}

    yield from (retold(**{name: junk}) for name in told for junk in (None, "x", [], -1, {"a": 1}))
    if told["driver"]["pending"]:
        yield retold(driver={**told["driver"], "memory": [0.001, 3, 0.0, 0.0, 0.0, 0.0]})
    yield from (without(0, name) for name in ("step", "exp_avg_sq", "origin", "displacement", "iterate"))
    yield from (optioned(**{name: junk}) for name in ("betas", "lr_scale", "eps") for junk in (None, -1.0, "x"))
    yield {**state, "state": {}}
    yield {**state, "param_groups": []}
    yield {**state, "param_groups": [{k: v for k, v in state["param_groups"][0].items() if k != "lr_scale"}]}
    yield {**state, "state": {**state["state"], 0: {**state["state"][0], "origin": torch.zeros(3)}}}
    yield {}


@pytest.mark.parametrize("inside", [False, True], ids=["outside eval", "inside"])
@pytest.mark.parametrize("phase", ["FIRST", "STEPS"])
def test_damaged_states_are_refused_and_nothing_is_changed(phase, inside):
    problem, twin = problem_of(PHASES[phase]), problem_of(PHASES[phase])
    if inside:
        problem.optimizer.eval()
        twin.optimizer.eval()
    states = list(damaged_states(problem.optimizer.state_dict()))
    for bad in states:
        with pytest.raises(ValueError, match=r"state_dict must be|must be .*, got|has a different number|Angle"):
            problem.optimizer.load_state_dict(bad)
    problem.optimizer.train()
    twin.optimizer.train()
    for _ in range(20):
        problem.turn()
        twin.turn()
    assert_same(point(problem), point(twin))


def test_states_of_other_optimizers_and_versions_are_refused():
    problem = problem_of(40)
    state = problem.optimizer.state_dict()
    other = Problem(model=normed)
    for build in (
        gradline.GOLSI,
        torch.optim.AdamW,
        lambda p: gradline.LineSearchOptimizer(p, gradline.searches.Angle()),
    ):
        other.optimizer = build(other.model.parameters())
        other.optimizer.step(other.closure)
        with pytest.raises(ValueError, match="state_dict must be "):
            problem.optimizer.load_state_dict(other.optimizer.state_dict())
    golsi = gradline.GOLSI(Problem(model=normed).model.parameters())
    with pytest.raises(ValueError, match="state_dict must be "):
        golsi.load_state_dict(state)
    told = json.loads(state["param_groups"][0]["line_search"])
    fewer = [name for name in told["fields"] if name != "memory.step"]
    for fields, sentence in ((None, "that does not name them"), (fewer, r"without memory\.step")):
        first = {**state["param_groups"][0], "line_search": json.dumps({**told, "fields": fields})}
        with pytest.raises(ValueError, match=f"got one {sentence}: it was saved by another version"):
            problem.optimizer.load_state_dict({**state, "param_groups": [first]})


def test_another_models_state_is_refused():
    problem = problem_of(40)
    other = problem_of(40, model=lambda inputs: nn.Sequential(nn.Linear(inputs, 9), nn.BatchNorm1d(9), nn.Linear(9, 1)))
    with pytest.raises(ValueError, match=r"of parameters of the same shapes .* \(8, 6\) .* \(9, 6\)"):
        problem.optimizer.load_state_dict(other.optimizer.state_dict())


def test_a_state_of_contiguous_parameters_is_loaded_into_channels_last():
    """Moments of another memory layout would be taken for those of other entries."""

    def conv(inputs):
        return nn.Sequential(
            nn.Unflatten(1, (2, 3, 1)), nn.Conv2d(2, 300, (2, 1)), nn.Tanh(), nn.Flatten(), nn.Linear(600, 1)
        )

    problem, other = problem_of(40, model=conv), problem_of(model=conv)
    other.model.load_state_dict(problem.model.state_dict())
    other.model.to(memory_format=torch.channels_last)
    other.optimizer.load_state_dict(stored(problem.optimizer.state_dict()))
    other.draws.set_state(problem.draws.get_state())
    for _ in range(20):
        problem.turn()
        other.turn()
    for one, two in zip(problem.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-7, atol=1e-10)
