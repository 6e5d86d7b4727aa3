"""`torch.compile` of the model: compiled once, whatever the search does to its parameters."""

import shutil

import pytest
import torch
from helpers import Problem, end_listening, equal
from torch import nn

import gradline
from gradline.torch.moments import refuse_batch_norm

DIRECTIONS = [None, torch.optim.Adam]

# The compiler looks at it and hides the warning, unless warnings are errors.
torch_looks_at_grad = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


class Counting:
    """A backend that runs graphs as they are, and counts them."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, examples):
        self.graphs += 1
        return graph.forward


@pytest.fixture(autouse=True)
def fresh():
    end_listening()  # no hook is compiled
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def training(backend, *, build=gradline.GOLSI, model=None, **options):
    """A problem whose loss uses the compiled model; a graph break is an error."""
    problem = Problem(dtype=torch.float32, batch_size=50, model=model)
    problem.optimizer = build(problem.model.parameters(), **options)
    if backend is not None:
        problem.model = torch.compile(problem.model, backend=backend, fullgraph=True)
    return problem


@pytest.mark.parametrize("with_closure", [False, True])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_graph_for_all_probes_and_one_for_evaluation(direction, with_closure):
    count = Counting()
    plain, compiled = training(None, direction=direction), training(count, direction=direction)
    for turn in range(40):
        for problem in (plain, compiled):
            if with_closure:
                problem.optimizer.step(problem.closure)
            else:
                problem.turn()
            if turn % 10 == 9:
                problem.model.eval()
                with problem.optimizer.eval(), torch.no_grad():
                    problem.loss(slice(50))
                problem.model.train()
        assert count.graphs == (1 if turn < 9 else 2)
    assert compiled.optimizer.iterations == plain.optimizer.iterations > 1
    assert equal(plain.parameters(), compiled.parameters())


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_with_autograd_compiled_ahead_of_time_the_steps_are_the_same(direction):
    plain, compiled = training(None, direction=direction), training("aot_eager", direction=direction)
    for _ in range(25):
        plain.optimizer.step(plain.closure)
        compiled.optimizer.step(compiled.closure)
    assert [step for step, _ in compiled.optimizer.last.transcript] == pytest.approx(
        [step for step, _ in plain.optimizer.last.transcript], rel=1e-4
    )
    torch.testing.assert_close(compiled.parameters(), plain.parameters(), rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_torchs_own_compiler_gives_the_same_steps():
    plain, compiled = training(None), training("inductor")
    for _ in range(15):
        plain.optimizer.step(plain.closure)
        compiled.optimizer.step(compiled.closure)
    assert compiled.optimizer.evaluations == plain.optimizer.evaluations
    torch.testing.assert_close(compiled.parameters(), plain.parameters(), rtol=1e-3, atol=1e-5)


def test_batch_norm_and_dropout_compile_too():
    def model(inputs):
        return nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))

    count = Counting()
    problem = training(count, model=model)
    before = problem.loss().item()  # another batch size: its graph may be one of its own
    graphs = count.graphs
    for _ in range(60):
        problem.optimizer.step(problem.closure)
    assert count.graphs <= graphs + 1
    assert problem.loss().item() < before


@torch_looks_at_grad
def test_a_compiled_closure_takes_the_same_steps():
    """The graph breaks at `zero_grad()` and `backward()`, as it does with any optimizer: only the rest is compiled."""
    count = Counting()
    plain, compiled = training(None), Problem(dtype=torch.float32, batch_size=50)
    compiled.optimizer = gradline.GOLSI(compiled.model.parameters(), model=compiled.model)  # so no hook is compiled
    inputs, targets = compiled.inputs[:50], compiled.targets[:50]
    loss_of = nn.functional.binary_cross_entropy_with_logits

    def closure_of(problem):
        def closure():
            problem.optimizer.zero_grad()
            loss = loss_of(problem.model(inputs), targets)
            loss.backward()
            return loss

        return closure

    closure, other = torch.compile(closure_of(compiled), backend=count), closure_of(plain)
    for _ in range(20):
        plain.optimizer.step(other)
        compiled.optimizer.step(closure)
    assert equal(plain.parameters(), compiled.parameters())
    assert count.graphs == 1


@torch_looks_at_grad
@pytest.mark.parametrize("with_closure", [False, True])
def test_a_compiled_training_step_leaves_the_search_alone(with_closure):
    """A search is Python: torch would compile pieces of it, anew for each step, until it gives up."""
    count = Counting()
    plain, compiled = training(None), training(None)

    def train(problem):
        return problem.optimizer.step(problem.closure) if with_closure else problem.optimizer.step()

    step = torch.compile(train, backend=count)
    for _ in range(10 if with_closure else 40):
        for problem, run in ((plain, train), (compiled, step)):
            if not with_closure:
                problem.closure()
            run(problem)
        assert equal(plain.parameters(), compiled.parameters())
    assert compiled.optimizer.iterations > 1
    assert count.graphs == 0


def test_saving_a_compiled_model_resumes_exactly():
    first, second = training("eager"), training("eager")
    for _ in range(33):
        first.turn()
    second.model.load_state_dict(first.model.state_dict())
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    second.draws.set_state(first.draws.get_state())
    for _ in range(10):
        first.turn()
        second.turn()
        assert equal(first.parameters(), second.parameters())


@pytest.mark.parametrize("diagonal", [False, True])
def test_prls_sees_the_layers_of_a_graph_that_runs_as_it_is(diagonal):
    plain, compiled = (training(b, build=gradline.PrLS, diagonal=diagonal) for b in (None, "eager"))
    for _ in range(8):
        plain.optimizer.step(plain.losses)
        compiled.optimizer.step(compiled.losses)
    assert equal(plain.parameters(), compiled.parameters())


@pytest.mark.filterwarnings("ignore:gradline. the backward pass cannot be differentiated:RuntimeWarning")
@pytest.mark.parametrize("diagonal", [False, True])
def test_prls_goes_backward_sample_by_sample_where_autograd_is_compiled(diagonal):
    plain, compiled = (training(b, build=gradline.PrLS, diagonal=diagonal) for b in (None, "aot_eager"))
    for problem in (plain, compiled):
        problem.batch_size = 10
    for _ in range(3):
        plain.optimizer.step(plain.losses)
        compiled.optimizer.step(compiled.losses)
        seen, wanted = (problem.optimizer.last.origin.at_zero for problem in (compiled, plain))
        assert seen.slope_var == pytest.approx(wanted.slope_var, rel=1e-3)
    torch.testing.assert_close(compiled.parameters(), plain.parameters(), rtol=1e-3, atol=1e-5)


def test_a_compiled_model_does_not_hide_batch_norm_from_a_look_at_its_layers():
    model = torch.compile(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), backend="eager")
    with pytest.raises(ValueError, match="BatchNorm1d"):
        refuse_batch_norm(model)
    refuse_batch_norm(model.eval())
