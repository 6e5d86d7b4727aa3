"""Layers that remember: BatchNorm's running statistics, and dropout's random numbers."""

import copy
import dataclasses
import gc
import itertools
import warnings

import pytest
import torch
from helpers import Problem, end_listening, equal
from torch import nn

import gradline
from gradline.searches import Armijo, GoldenSection, GolsI, GolsMax, Prls
from gradline.torch import context


def normed(inputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))


def plain_norm(inputs):
    """A BatchNorm that has no parameters, in a part that has none."""
    return nn.Sequential(nn.Linear(inputs, 8), nn.Sequential(nn.BatchNorm1d(8, affine=False)), nn.Linear(8, 1))


def problem_of(model, search=None, **options):
    problem = Problem(model=model)
    problem.optimizer = gradline.LineSearchOptimizer(problem.model.parameters(), search or GolsI(), **options)
    return problem


def statistics(problem):
    return [buffer.clone() for name, buffer in problem.model.named_buffers() if "running" in name]


def tracked(problem):
    model = getattr(problem.model, "inner", problem.model)
    (count,) = [int(buffer) for name, buffer in model.named_buffers() if "num_batches" in name]
    return count


@pytest.mark.parametrize("model", [normed, plain_norm])
@pytest.mark.parametrize("search", [GolsI(), GolsMax(), Armijo()])
def test_each_accepted_probe_counts_once_and_no_other_evaluation(search, model):
    problem = problem_of(model, search)
    for _ in range(20):
        problem.optimizer.step(problem.closure)
    assert problem.optimizer.evaluations > 25
    assert tracked(problem) == problem.optimizer.iterations == 20


@pytest.mark.parametrize("search", [GolsI(), GolsMax()])
def test_so_it_is_without_a_closure(search):
    problem = problem_of(normed, search)
    problem.turn()
    for _ in range(60):
        accepted = tracked(problem)
        before = problem.optimizer.iterations
        problem.turn()
        assert tracked(problem) - accepted == problem.optimizer.iterations - before
    assert 5 < problem.optimizer.iterations < 60


def test_they_are_those_of_the_accepted_points():
    """The same mini-batches at the accepted points alone give the same statistics."""
    problem = problem_of(normed)
    drawn = []
    draw = problem.draw
    problem.draw = lambda: drawn.append(draw()) or drawn[-1]
    twin = Problem(model=normed)
    twin.model.load_state_dict(problem.model.state_dict())
    for _ in range(8):
        problem.optimizer.step(problem.closure)
        for mine, theirs in zip(twin.model.parameters(), problem.model.parameters(), strict=True):
            mine.data.copy_(theirs)
        twin.loss(drawn[-1])  # GolsI accepts its last probe
        assert equal(statistics(twin), statistics(problem))


def test_a_search_that_accepts_an_earlier_probe_has_its_statistics():
    problem = problem_of(normed, GoldenSection())
    seen = {}
    inner = problem.closure

    def closure():
        loss = inner()
        seen[tuple(p.detach().sum().item() for p in problem.model.parameters())] = statistics(problem)
        return loss

    earlier = 0
    for _ in range(12):
        problem.optimizer.step(closure)
        here = tuple(p.detach().sum().item() for p in problem.model.parameters())
        assert equal(seen[here], statistics(problem))
        earlier += problem.optimizer.last.outcome.probe != problem.optimizer.last.evaluations - 1
    assert earlier


def test_a_failed_step_leaves_them_alone():
    problem = problem_of(normed)
    for _ in range(3):
        problem.optimizer.step(problem.closure)
    before, calls = statistics(problem), []

    def broken():
        calls.append(None)
        loss = problem.closure()
        if len(calls) == 2:
            raise OSError("no data")
        return loss

    problem.optimizer.refresh()  # so that the first evaluation of the step is at its origin
    with pytest.raises(OSError, match="no data"):
        problem.optimizer.step(broken)
    assert equal(before, statistics(problem))


def test_changes_between_steps_are_the_users():
    problem = problem_of(normed)
    problem.optimizer.step(problem.closure)
    norm = problem.model[1]
    norm.reset_running_stats()
    problem.optimizer.step(problem.closure)
    assert tracked(problem) == 1


def test_eval_mode_changes_nothing():
    problem = problem_of(normed)
    problem.optimizer.step(problem.closure)
    problem.model.eval()
    before = statistics(problem)
    problem.optimizer.step(problem.closure)
    assert equal(before, statistics(problem))


def test_a_frozen_part_in_training_mode_is_watched_too():
    problem = Problem(model=normed)
    problem.model[0].requires_grad_(False)
    problem.model[1].requires_grad_(False)
    problem.optimizer = gradline.GOLSI(problem.model[3].parameters())
    for _ in range(10):
        problem.optimizer.step(problem.closure)
    assert tracked(problem) == 10 < problem.optimizer.evaluations


def test_other_models_in_the_same_container_are_left_alone():
    """As in adversarial training: the other net's statistics change between this one's steps."""
    pair = nn.ModuleDict({"one": normed(6).double(), "other": normed(6).double()})
    problem = Problem()
    problem.model = pair["one"]
    problem.optimizer = gradline.GOLSI(pair["one"].parameters())
    for count in range(30):
        pair["other"](problem.inputs)
        problem.turn()
        assert int(pair["other"][1].num_batches_tracked) == count + 1


def test_a_model_moved_to_other_buffers_is_followed():
    problem = problem_of(normed)
    problem.optimizer.step(problem.closure)
    problem.model.float()
    problem.model.double()
    before = tracked(problem)
    for _ in range(5):
        problem.optimizer.step(problem.closure)
    assert tracked(problem) == before + 5


def test_a_copy_follows_its_own_model():
    problem = problem_of(normed)
    problem.optimizer.step(problem.closure)
    twin = copy.deepcopy(problem)
    for _ in range(5):
        twin.optimizer.step(twin.closure)
    assert (tracked(problem), tracked(twin)) == (1, 6)


def test_prls_leaves_no_trace_of_rejected_probes():
    problem = Problem(model=lambda inputs: nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)))
    problem.optimizer = gradline.PrLS(problem.model.parameters(), allow_batch_norm=True)
    for _ in range(10):
        problem.optimizer.step(problem.losses)
    assert tracked(problem) == 10 < problem.optimizer.evaluations


def dropping(inputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 1))


def masks_of(problem):
    seen = []
    problem.model[2].register_forward_hook(lambda _module, _inputs, output: seen.append(output.detach() == 0))
    return seen


def changes(seen, ends):
    """How many masks differ from the one before, within steps and between them."""
    differ = [not torch.equal(left, right) for left, right in itertools.pairwise(seen)]
    between = [differ[end - 1] for end in ends if end - 1 < len(differ)]
    return sum(differ) - sum(between), sum(between), len(between)


@pytest.mark.parametrize("search", [GolsI(), Armijo()])
@pytest.mark.parametrize("sampling", ["static", "full", "dynamic"])
def test_dropout_has_one_mask_in_a_static_search_and_new_ones_in_a_dynamic_one(search, sampling):
    torch.manual_seed(0)
    problem = problem_of(dropping, search)
    options = {} if sampling == "full" else {"batch_size": 20, "seed": 0}
    batches = getattr(gradline.batches, sampling)(problem.inputs, problem.targets, **options)
    loss = nn.functional.binary_cross_entropy_with_logits
    closure = batches.closure(problem.optimizer, lambda x, y: loss(problem.model(x), y))
    seen, ends = masks_of(problem), []
    for _ in range(8):
        problem.optimizer.step(closure)
        ends.append(len(seen))
    within, between, steps = changes(seen, ends)
    probes = len(seen) - 1 - steps
    assert between == steps
    assert probes > 3
    assert within == (probes if sampling == "dynamic" else 0)


def test_same_noise_holds_for_any_closure():
    problem = problem_of(dropping, same_noise=True)
    seen, ends = masks_of(problem), []
    for _ in range(6):
        problem.optimizer.step(problem.full)
        ends.append(len(seen))
    within, between, steps = changes(seen, ends)
    assert within == 0
    assert between == steps > 0


def test_noise_is_as_random_after_a_step_as_before():
    problem = problem_of(dropping, same_noise=True)
    torch.manual_seed(0)
    numbers = []
    for _ in range(5):
        problem.optimizer.step(problem.full)
        numbers.append(torch.rand(()).item())
    assert len(set(numbers)) == 5


def test_prls_with_one_mask():
    problem = problem_of(dropping, Prls(), same_noise=True)
    seen, ends = masks_of(problem), []
    for _ in range(5):
        problem.optimizer.step(problem.losses)
        ends.append(len(seen))
    assert changes(seen, ends)[0] == 0


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_a_scripted_model_is_watched():
    problem = problem_of(lambda inputs: torch.jit.script(normed(inputs)))
    for _ in range(5):
        problem.optimizer.step(problem.closure)
    assert tracked(problem) == 5 < problem.optimizer.evaluations


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_a_lazy_layer_has_no_statistics_yet():
    lazy = nn.LazyBatchNorm1d(affine=False)
    problem = problem_of(lambda inputs: nn.Sequential(nn.Linear(inputs, 8), lazy, nn.Linear(8, 1)))
    for _ in range(5):
        problem.optimizer.step(problem.closure)
    assert tracked(problem) == 5 < problem.optimizer.evaluations


def test_a_module_that_shows_its_parameters_in_groups_is_no_obstacle():
    class Grouped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = normed(6).double()

        def parameters(self, recurse=True):
            return [{"params": list(self.inner.parameters(recurse))}]

        def forward(self, inputs):
            return self.inner(inputs)

    problem = Problem()
    problem.model = Grouped()
    problem.optimizer = gradline.GOLSI(problem.model.parameters())
    for _ in range(5):
        problem.optimizer.step(problem.closure)
    assert tracked(problem) == 5


def test_a_loaded_checkpoint_goes_on_with_its_own_statistics():
    problem, twin = problem_of(normed), problem_of(normed)
    for _ in range(10):
        problem.turn()
    twin.turn()  # an optimizer in use
    for name in ("model", "optimizer"):
        getattr(twin, name).load_state_dict(copy.deepcopy(getattr(problem, name).state_dict()))
    twin.draws.set_state(problem.draws.get_state())
    for _ in range(20):
        problem.turn()
        twin.turn()
        assert tracked(problem) == tracked(twin)
        assert equal(statistics(problem), statistics(twin))


@pytest.mark.parametrize("given", [False, True])
def test_without_a_closure_the_first_evaluation_does_not_count(given):
    problem = Problem(model=normed)
    problem.optimizer = gradline.GOLSI(problem.model.parameters(), model=problem.model if given else None)
    problem.turn()
    assert tracked(problem) == (1 if given else 0)  # no hook: nobody knew of the layers before it


def test_forward_passes_between_steps_count():
    problem = problem_of(normed)
    for _ in range(3):
        problem.model(problem.inputs)  # the user's own, to calibrate the statistics
    problem.turn()
    assert tracked(problem) == 3


def test_no_hook_is_left_behind():
    hooks = nn.modules.module._global_forward_pre_hooks
    end_listening()
    before = dict(hooks)
    problem = problem_of(normed)
    assert len(hooks) == 1
    problem.turn()
    assert hooks == before
    problem.optimizer.refresh()
    del problem
    gc.collect()
    nn.Identity()(torch.ones(1))  # the collector may not touch torch's hooks: the next forward pass does
    assert hooks == before


def test_the_garbage_collector_leaves_torchs_hooks_alone():
    end_listening()
    hooks, listening = nn.modules.module._global_forward_pre_hooks, context._listening
    kept, dropped = problem_of(normed), problem_of(normed)
    before = dict(hooks)
    del dropped
    gc.collect()
    assert (dict(hooks), len(listening._contexts)) == (before, 1)
    kept.turn()
    assert not listening._contexts
    assert not hooks


def test_compilation_warns_of_no_hook_after_an_optimizer_that_never_stepped():
    end_listening()
    with warnings.catch_warnings():  # as a test's, whose filters end with it
        dropped = problem_of(normed)
        del dropped
        gc.collect()
    with warnings.catch_warnings(record=True, action="always") as told:
        problem = problem_of(normed)
        torch.compile(problem.model, backend="eager")(problem.inputs)
    assert not told


@pytest.mark.parametrize("given", [False, True])
def test_a_module_that_cannot_be_hashed_is_found(given):
    @dataclasses.dataclass
    class Net(nn.Module):
        width: int

        def __post_init__(self):
            super().__init__()
            self.inner = normed(self.width).double()

        def forward(self, inputs):
            return self.inner(inputs)

    problem = Problem()
    problem.model = Net(6)
    problem.optimizer = gradline.GOLSI(problem.model.inner.parameters(), model=problem.model if given else None)
    for _ in range(5):
        problem.optimizer.step(problem.closure)
    assert tracked(problem) == 5 < problem.optimizer.evaluations


def test_a_loss_that_cannot_be_hashed_may_be_called():
    @dataclasses.dataclass
    class Loss(nn.Module):
        scale: float

        def __post_init__(self):
            super().__init__()

        def forward(self, outputs):
            return self.scale * outputs.square().mean()

    model, loss = nn.Linear(2, 1), Loss(2.0)
    optimizer = gradline.GOLSI(model.parameters())
    loss(model(torch.ones(3, 2))).backward()
    optimizer.step()
    assert optimizer.evaluations == 1
