"""`find_lr`: a short run of which nothing remains but its steps."""

import random
import sys
from functools import partial

import numpy as np
import pytest
import torch
from helpers import Problem, equal
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gradline
from gradline.searches import Prls
from gradline.torch.learning_rate import find_lr
from gradline.torch.learning_rate.find import NOTE

pytestmark = pytest.mark.filterwarnings("ignore:gradline. .* steps are few")


# The run of which nothing remains


def network():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 1))


class Everything:
    """A model with buffers and randomness, data in every form, and all that a run might change."""

    def __init__(self, form):
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(60, 6, generator=generator)
        self.targets = self.inputs.sum(dim=1, keepdim=True)
        torch.manual_seed(1)
        self.model = network()
        dataset = TensorDataset(self.inputs, self.targets)
        self.generator = torch.Generator().manual_seed(5)
        self.batches = {
            "dynamic": lambda: gradline.batches.dynamic(self.inputs, self.targets, batch_size=20, seed=3),
            "static": lambda: gradline.batches.static(self.inputs, self.targets, batch_size=20, seed=3),
            "loader": lambda: DataLoader(dataset, batch_size=20, shuffle=True),
            "seeded loader": lambda: DataLoader(dataset, batch_size=20, shuffle=True, generator=self.generator),
            "batches of a loader": lambda: gradline.batches.dynamic(DataLoader(dataset, batch_size=20), seed=3),
            "list": lambda: [(self.inputs[:30], self.targets[:30]), (self.inputs[30:], self.targets[30:])],
            "none": lambda: None,
        }[form]()
        if hasattr(self.batches, "take"):
            list(self.batches.take(5))
        nn.functional.mse_loss(self.model(self.inputs), self.targets).backward()
        self.model[2].eval()
        self.gradients = [p.grad for p in self.model.parameters()]

    def loss(self, x=None, y=None):
        x, y = (self.inputs, self.targets) if x is None else (x, y)
        self.model.train()
        noise = random.random() + np.random.rand() + torch.rand(())
        return nn.functional.mse_loss(self.model(x + 0.01 * noise), y)

    def state(self):
        """Everything as one list of tensors."""
        position = self.batches.state_dict() if hasattr(self.batches, "state_dict") else None
        numbers = [random.random(), np.random.rand(), repr(position), [m.training for m in self.model.modules()]]
        tensors = [*self.model.state_dict().values(), torch.rand(3), self.generator.get_state()]
        tensors += [p.grad for p in self.model.parameters()]
        return [tensor.clone() for tensor in tensors], numbers


FORMS = ["dynamic", "static", "loader", "seeded loader", "batches of a loader", "list", "none"]


def seed_all():
    torch.manual_seed(9)
    np.random.seed(9)
    random.seed(9)


@pytest.mark.parametrize("ending", ["well", "an error", "ctrl-c"])
@pytest.mark.parametrize("form", FORMS)
def test_everything_is_put_back(form, ending):
    there = Everything(form)
    calls = 0

    def loss(*batch):
        nonlocal calls
        calls += 1
        if ending != "well" and calls == 7:
            raise KeyboardInterrupt if ending == "ctrl-c" else OSError("no data")
        return there.loss(*batch)

    seed_all()
    before = there.state()
    seed_all()
    if ending == "well":
        assert find_lr(there.model, loss, there.batches, evaluations=30).steps
        assert calls >= 30
    else:
        with pytest.raises(KeyboardInterrupt if ending == "ctrl-c" else OSError):
            find_lr(there.model, loss, there.batches, evaluations=30)
    after = there.state()
    assert equal(before[0], after[0])
    assert before[1] == after[1]
    assert all(p.grad is was for p, was in zip(there.model.parameters(), there.gradients, strict=True))


@pytest.mark.parametrize("form", ["dynamic", "static", "loader"])
def test_training_goes_on_as_if_nothing_had_been(form):
    def train(find):
        there = Everything(form)
        seed_all()
        if find:
            find_lr(there.model, there.loss, there.batches, evaluations=20)
        optimizer = torch.optim.SGD(there.model.parameters(), lr=0.01)
        batches = there.batches if form == "loader" else there.batches.take(6)
        for x, y in batches:
            optimizer.zero_grad()
            there.loss(x, y).backward()
            optimizer.step()
        return list(there.model.state_dict().values())

    assert equal(train(find=False), train(find=True))


def test_it_takes_the_steps_that_training_would_take():
    problem = Problem()
    batches = partial(gradline.batches.dynamic, problem.inputs, problem.targets, batch_size=20, seed=0)
    loss = nn.functional.binary_cross_entropy_with_logits
    steps = find_lr(
        problem.model, lambda x, y: loss(problem.model(x), y), batches(), evaluations=40, direction=torch.optim.Adam
    )
    optimizer, stream = gradline.GOLSI(problem.model.parameters(), direction=torch.optim.Adam), batches()
    closure, taken = stream.closure(optimizer, lambda x, y: loss(problem.model(x), y)), []
    while optimizer.evaluations < 40:
        optimizer.step(closure)
        taken.append(optimizer.last.step)
    assert steps.steps == taken
    assert steps.kind == "Adam"


def test_parameters_are_enough_and_gradients_need_not_be_on():
    problem = Problem()
    before = problem.parameters()
    with torch.no_grad():
        steps = find_lr(problem.model.parameters(), problem.loss, evaluations=20)
    assert steps.steps
    assert equal(before, problem.parameters())
    assert all(p.grad is None for p in problem.model.parameters())


def test_frozen_parameters_stay_frozen():
    problem = Problem()
    problem.model[0].requires_grad_(False)
    assert find_lr(problem.model, problem.loss, evaluations=10).steps
    assert problem.model[0].weight.grad is None


def test_batches_of_one_tensor_or_a_dict_are_passed_as_they_are():
    problem = Problem()
    dicts = [{"chosen": problem.draw()} for _ in range(4)]
    assert find_lr(problem.model, lambda batch: problem.loss(batch["chosen"]), dicts, evaluations=10).steps
    loader = DataLoader(problem.inputs, batch_size=50)
    assert find_lr(problem.model, lambda x: problem.model(x).square().mean(), loader, evaluations=10).steps


@pytest.mark.parametrize("loss", [nn.functional.cross_entropy, nn.functional.mse_loss])
def test_an_error_in_the_first_evaluation_says_how_the_loss_is_called(loss):
    inputs = torch.randn(8, 3)
    data = inputs, inputs if loss is nn.functional.mse_loss else torch.ones(8, 2, 2)
    with pytest.raises((RuntimeError, ValueError)) as raised:
        find_lr(nn.Linear(3, 3), loss, [data])
    assert raised.value.__notes__ == [NOTE]


def test_the_arguments_of_a_run_are_checked():
    problem = Problem()
    loss = problem.loss
    with pytest.raises(TypeError, match=r"model must be a module or its parameters, got int"):
        find_lr(3, loss)
    with pytest.raises(TypeError, match=r"got one tensor: write \[parameter\]"):
        find_lr(torch.zeros(3, requires_grad=True), loss)
    with pytest.raises(TypeError, match=r"got a str among them"):
        find_lr(["weight"], loss)
    with pytest.raises(ValueError, match=r"model must have a parameter that requires a gradient .*got none"):
        find_lr(nn.ReLU(), loss)
    with pytest.raises(TypeError, match=r"loss must be a function .*got None"):
        find_lr(problem.model, None)
    with pytest.raises(ValueError, match=r"evaluations must be a whole number above 0 .*got 0"):
        find_lr(problem.model, loss, evaluations=0)
    with pytest.raises(TypeError, match=r"batches must be .*got int"):
        find_lr(problem.model, loss, 5)
    with pytest.raises(TypeError, match=r"got tensors: write gradline.batches.dynamic"):
        find_lr(problem.model, loss, (problem.inputs, problem.targets))
    with pytest.raises(TypeError, match=r"gone through again .*got list_iterator"):
        find_lr(problem.model, loss, iter([1, 2]))
    with pytest.raises(ValueError, match=r"batches must have at least one batch .*got none"):
        find_lr(problem.model, loss, [])
    with pytest.raises(ValueError, match=r"search must observe slopes or values .*got Prls"):
        find_lr(problem.model, loss, search=Prls())


def test_a_progress_bar_counts_evaluations(capsys):
    pytest.importorskip("tqdm")
    problem = Problem()
    find_lr(problem.model, problem.loss, evaluations=10, progress=True)
    assert "finding the learning rate" in capsys.readouterr().err
    find_lr(problem.model, problem.loss, evaluations=10)
    assert capsys.readouterr().err == "", "it is short, and there is no terminal"


def test_without_tqdm_there_is_no_bar(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.delitem(sys.modules, "tqdm.auto", raising=False)
    problem = Problem()
    assert find_lr(problem.model, problem.loss, evaluations=10).steps
    with pytest.raises(ModuleNotFoundError, match=r"progress=True needs tqdm"):
        find_lr(problem.model, problem.loss, evaluations=10, progress=True)


def test_few_steps_are_told_of():
    problem = Problem()
    with pytest.warns(RuntimeWarning, match=r"\d steps are few to tell a learning rate from .*evaluations=5"):
        gradline.find_lr(problem.model, problem.loss, evaluations=5)


def test_a_loss_that_does_not_call_the_model_is_refused():
    problem = Problem()
    batches = gradline.batches.dynamic(problem.inputs, problem.inputs, batch_size=20)
    for source in (batches, [(problem.inputs, problem.inputs)]):
        with pytest.raises(ValueError, match="loss must compute the loss of a batch from the model"):
            gradline.find_lr(problem.model, torch.nn.MSELoss(), source)
