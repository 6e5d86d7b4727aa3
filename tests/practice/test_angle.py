"""`gradline.Angle` with loss scaling, accumulation, clipping and `torch.compile`, and what a step costs."""

import pytest
import torch
from helpers import Problem, end_listening, equal
from torch import nn
from torch.amp import GradScaler
from torch.nn.utils import clip_grad_norm_
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import gradline

TURNS = 40  # more than the first search needs


def training(dtype=torch.float32, model=None, **options):
    problem = Problem(dtype=dtype, batch_size=40, model=model)
    problem.optimizer = gradline.Angle(problem.model.parameters(), **options)
    return problem


def scaled_turn(problem, scaler, *, factor=1.0, unscale=False, clip=None):
    problem.optimizer.zero_grad()
    (scaler.scale(problem.loss(problem.draw())) * factor).backward()
    if unscale or clip:
        scaler.unscale_(problem.optimizer)
    if clip:
        clip_grad_norm_(problem.model.parameters(), clip)
    scaler.step(problem.optimizer)
    scaler.update()


def same(one, other):
    """Equal points, averages and counts, bit for bit."""
    assert equal(one.parameters(), other.parameters())
    with one.optimizer.eval(), other.optimizer.eval():
        assert equal(one.parameters(), other.parameters())
    assert one.optimizer.iterations == other.optimizer.iterations
    assert one.optimizer.averaged_from == other.optimizer.averaged_from


def large(inputs):
    """Too large to be packed, with one matrix of half of all elements."""
    return nn.Sequential(nn.Linear(inputs, 600), nn.Tanh(), nn.Linear(600, 600), nn.Tanh(), nn.Linear(600, 1))


@pytest.mark.parametrize("model", [None, large], ids=["packed", "unpacked"])
@pytest.mark.parametrize("unscale", [False, True])
def test_the_scale_of_the_loss_is_divided_out_once(model, unscale):
    """A power of two changes no digit, and the scale grows every seventh step."""
    plain, scaled = training(model=model), training(model=model)
    scaler = GradScaler("cpu", init_scale=2.0**10, growth_interval=7)
    for _ in range(TURNS):
        plain.turn()
        scaled_turn(scaled, scaler, unscale=unscale)
        assert equal(plain.parameters(), scaled.parameters())
    assert scaler.get_scale() > 2.0**14
    same(plain, scaled)


def test_the_gradients_of_the_parameters_are_not_changed():
    problem, scaler = training(), GradScaler("cpu", init_scale=2.0**10)
    for _ in range(TURNS):
        problem.optimizer.zero_grad()
        scaler.scale(problem.loss(problem.draw())).backward()
        before = [parameter.grad.clone() for parameter in problem.model.parameters()]
        scaler.step(problem.optimizer)
        scaler.update()
        assert equal(before, [parameter.grad for parameter in problem.model.parameters()])


@pytest.mark.parametrize("first", [0, 30], ids=["at first", "later"])
def test_one_overflow_changes_nothing_but_the_scale(first):
    plain, scaled = training(), training()
    scaler = GradScaler("cpu", init_scale=2.0**20)
    for turn in range(TURNS):
        if turn == first:
            before, batches = scaled.parameters(), scaled.draws.get_state()
            scaled_turn(scaled, scaler, factor=float("inf"))
            assert equal(before, scaled.parameters())
            scaled.draws.set_state(batches)
        plain.turn()
        scaled_turn(scaled, scaler)
    assert scaler.get_scale() == 2.0**19
    assert scaled.optimizer.evaluations == plain.optimizer.evaluations + 1
    same(plain, scaled)


def test_many_overflows_at_first_lower_the_scale_without_a_warning():
    plain, scaled = training(), training()
    scaler = GradScaler("cpu", init_scale=2.0**24)
    batches = scaled.draws.get_state()
    for _ in range(12):
        scaled_turn(scaled, scaler, factor=float("inf"))
    scaled.draws.set_state(batches)
    for _ in range(TURNS):
        plain.turn()
        scaled_turn(scaled, scaler)
    same(plain, scaled)


def test_an_overflow_does_not_count_in_running_statistics():
    def normalized(inputs):
        return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))

    problem, scaler = training(model=normalized), GradScaler("cpu", init_scale=2.0**20)
    for turn in range(TURNS):
        scaled_turn(problem, scaler)
        if turn % 5 == 4:
            before = [buffer.clone() for buffer in problem.model.buffers()]
            scaled_turn(problem, scaler, factor=float("inf"))
            assert equal(before, list(problem.model.buffers())), turn


def test_a_closure_with_a_scaler_is_refused_and_the_scale_forgotten():
    problem, scaler = training(), GradScaler("cpu", init_scale=4.0)
    scaled_turn(problem, scaler)
    with pytest.raises(RuntimeError, match="must be called without a closure"):
        scaler.step(problem.optimizer, problem.closure)
    assert not hasattr(problem.optimizer, "grad_scale")


def test_clipping_after_unscaling_is_clipping_without_a_scaler():
    plain, scaled, free = training(), training(), training()
    scaler = GradScaler("cpu", init_scale=2.0**10)
    for _ in range(TURNS):
        plain.closure()
        clip_grad_norm_(plain.model.parameters(), 0.05)
        plain.optimizer.step()
        scaled_turn(scaled, scaler, clip=0.05)
        free.turn()
    same(plain, scaled)
    assert not equal(plain.parameters(), free.parameters())


def test_micro_batches_add_up_to_the_batch():
    whole, parts = training(torch.float64), training(torch.float64)
    for _ in range(TURNS):
        whole.turn()
        parts.optimizer.zero_grad()
        for chosen in parts.draw().chunk(4):
            (parts.loss(chosen) / 4).backward()
        parts.optimizer.step()
    assert parts.optimizer.evaluations == whole.optimizer.evaluations == TURNS
    torch.testing.assert_close(parts.parameters(), whole.parameters(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("dtype", "eps"), [(torch.float16, 1e-3), (torch.bfloat16, 1e-8)])
def test_half_precision_parameters_are_trained(dtype, eps):
    """In float16 squares of small gradients are 0, and Adam divides by `eps`."""
    problem = training(dtype, eps=eps)
    before = problem.loss().item()
    for _ in range(150):
        problem.turn()
    with problem.optimizer.eval():
        assert problem.loss().item() < 0.9 * before
        assert all(parameter.dtype == dtype for parameter in problem.parameters())


class Counting:
    """A compiler backend that runs graphs as they are, and counts them."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, examples):
        self.graphs += 1
        return graph.forward


@pytest.fixture
def compiler():
    end_listening()  # no hook is compiled
    torch.compiler.reset()
    yield Counting()
    torch.compiler.reset()


def noting(calls, name):
    """Return a hook that is not compiled and appends a name to a list."""

    @torch.compiler.disable
    def hook(*_):
        calls.append(name)

    return hook


def test_a_compiled_model_is_compiled_once_for_training_and_once_for_evaluation(compiler):
    plain, compiled = training(), training()
    compiled.model = torch.compile(compiled.model, backend=compiler, fullgraph=True)
    for turn in range(TURNS):
        for problem in (plain, compiled):
            problem.turn()
            if turn % 10 == 9:
                problem.model.eval()
                with problem.optimizer.eval(), torch.no_grad():
                    problem.loss(slice(40))
                problem.model.train()
        assert compiler.graphs == (1 if turn < 9 else 2)
    same(plain, compiled)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("with_closure", [False, True])
def test_a_compiled_step_is_not_traced_and_calls_hooks_once(compiler, with_closure):
    plain, compiled = training(), training()
    calls = {plain: [], compiled: []}

    def train(problem):
        return problem.optimizer.step(problem.closure) if with_closure else problem.optimizer.step()

    step = torch.compile(train, backend=compiler)
    for problem, run in ((plain, train), (compiled, step)):
        heard = calls[problem]
        problem.optimizer.register_step_pre_hook(noting(heard, "before"))
        problem.optimizer.register_step_post_hook(noting(heard, "after"))
        problem.optimizer.register_search_hook(lambda _, heard=heard: heard.append("search"))
        for _ in range(TURNS):
            if not with_closure:
                problem.closure()
            run(problem)
    same(plain, compiled)
    assert compiler.graphs == 0
    assert calls[plain] == calls[compiled]
    assert calls[plain].count("before") == calls[plain].count("after") == TURNS
    assert calls[plain].count("search") == plain.optimizer.iterations


@pytest.mark.parametrize("average", [False, True])
def test_a_large_model_has_at_most_three_copies_beyond_adams_moments(average):
    problem = training(model=large, average=average)
    for _ in range(TURNS):
        problem.turn()
        elements = sum(parameter.numel() for parameter in problem.model.parameters())
        storages = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
            for held in problem.optimizer.state.values()
            for tensor in held.values()
        }
        assert sum(storages.values()) <= (4 + average) * 4 * elements + 100  # two moments, and the counts of steps


def tensors_in(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Watching(TorchDispatchMode):
    """Counts kernels, and elements of new tensors."""

    def __init__(self):
        super().__init__()
        self.kernels = self.made = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.kernels += 1
        known = {part.untyped_storage().data_ptr() for part in tensors_in(args)}
        self.made += sum(part.numel() for part in tensors_in(result) if part.untyped_storage().data_ptr() not in known)
        return result


@pytest.fixture
def transfers(monkeypatch):
    """The calls that copy a tensor from the device to the host."""
    calls = []
    for name in ("tolist", "item", "__float__", "__bool__", "__int__", "cpu"):
        monkeypatch.setattr(torch.Tensor, name, transferring(getattr(torch.Tensor, name), calls))
    return calls


@pytest.mark.parametrize("model", [None, large], ids=["packed", "unpacked"])
def test_a_step_transfers_once_and_makes_no_large_tensors(model, transfers):
    problem = training(model=model)
    for _ in range(TURNS):
        problem.turn()
    assert problem.optimizer._phase.name == "STEPS"
    for _ in range(3):
        problem.closure()
        transfers.clear()
        with Watching() as watching:
            problem.optimizer.step()
        assert len(transfers) == 1
        assert watching.made < 100
        # Three products for each parameter, and a constant number of kernels that update all of them.
        assert watching.kernels <= (15 if model is None else 6 * 6 + 15)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_probe_of_the_first_search_and_the_first_steps_transfer_once(scaled, transfers):
    """The scale of the loss, which is on the device too, is transferred with the other numbers."""
    problem, scaler = training(model=large), GradScaler("cpu", init_scale=4.0, enabled=scaled)

    def step():
        problem.optimizer.zero_grad()
        scaler.scale(problem.loss(problem.draw())).backward()
        transfers.clear()
        scaler.step(problem.optimizer)
        found = len(transfers)
        scaler.update()
        return found

    assert step() == 3  # also the numbers of updates, and what is measured along the direction
    while problem.optimizer.iterations < 3:
        assert step() == 1
    assert problem.optimizer.evaluations > 4


def test_a_step_of_other_parameters_than_the_last_one_transfers_once_more(transfers):
    problem = training(model=large)
    for _ in range(TURNS):
        problem.turn()
    for expected in (2, 2, 1):
        problem.closure()
        if expected == 2 and problem.optimizer.evaluations == TURNS:
            problem.model[0].weight.grad = None
        transfers.clear()
        problem.optimizer.step()
        assert len(transfers) == expected


def test_an_outlier_and_zero_take_one_more_transfer_and_an_overflow_two(transfers):
    """What hardly any step needs is not measured with the other numbers: it costs a pass over all parameters."""
    problem = training(model=large)
    for _ in range(TURNS):
        problem.turn()
    for factor, expected in ((1e6, 2), (1e24, 3), (0.0, 2)):
        problem.closure()
        for parameter in problem.model.parameters():
            parameter.grad *= factor
        transfers.clear()
        problem.optimizer.step()
        assert len(transfers) == expected


def transferring(method, transfers):
    """Return a method of tensors that counts its calls: each copies from the device to the host."""

    def counted(self, *arguments, **options):
        transfers.append(method.__name__)
        return method(self, *arguments, **options)

    return counted
