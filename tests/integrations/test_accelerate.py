"""Accelerate: its wrapper of the optimizer, accumulation, mixed precision, saving, and two processes."""

import pytest
import torch
from helpers import Problem, equal
from ranks.processes import launched
from torch.utils.data import DataLoader, TensorDataset

import gradline

accelerate = pytest.importorskip("accelerate")


class Prepared:
    """A problem whose parts Accelerate has prepared. `line` is the optimizer inside the wrapper."""

    def __init__(self, *, direction=None, seed=0, **options):
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        self.accelerator = accelerate.Accelerator(cpu=True, **options)
        problem = Problem(dtype=torch.float32)
        self.plain = problem.model
        data = TensorDataset(problem.inputs, problem.targets)
        draws = torch.Generator().manual_seed(seed)
        loader = DataLoader(data, batch_size=20, shuffle=True, generator=draws)
        self.line = gradline.GOLSI(problem.model.parameters(), direction=direction, step_min=1e-3)
        self.model, self.optimizer, self.loader, self.scheduler = self.accelerator.prepare(
            problem.model, self.line, loader, gradline.NoSchedule(self.line)
        )

    def loss(self, x, y):
        return torch.nn.functional.binary_cross_entropy_with_logits(self.model(x), y)

    def batches(self, count):
        while True:
            for batch in self.loader:
                if count == 0:
                    return
                count -= 1
                yield batch

    def turn(self, x, y):
        """The loop of Accelerate's own examples."""
        with self.accelerator.accumulate(self.model):
            loss = self.loss(x, y)
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
        return loss.item()

    def parameters(self):
        return [parameter.detach().clone() for parameter in self.plain.parameters()]


def test_the_wrapper_holds_the_very_optimizer_and_steps_as_it_does():
    wrapped, plain = Prepared(), Problem(dtype=torch.float32)
    assert wrapped.optimizer.optimizer is wrapped.line
    plain.optimizer = gradline.GOLSI(plain.model.parameters(), step_min=1e-3)
    for x, y in wrapped.batches(60):
        wrapped.turn(x, y)
        plain.optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(plain.model(x), y).backward()
        plain.optimizer.step()
        assert equal(wrapped.parameters(), plain.parameters())
        assert wrapped.scheduler.get_last_lr() == [wrapped.line.param_groups[0]["lr"]]
    assert wrapped.line.evaluations == 60 > wrapped.line.iterations > 5


def test_eval_and_train_go_through_the_wrapper():
    prepared = Prepared()
    for x, y in prepared.batches(31):
        prepared.turn(x, y)
    probe = prepared.parameters()
    with prepared.line.eval():
        accepted = prepared.parameters()
    assert not equal(probe, accepted)
    prepared.optimizer.eval()
    assert equal(prepared.parameters(), accepted)
    prepared.optimizer.train()
    assert equal(prepared.parameters(), probe)


def test_accumulated_gradients_are_one_probe():
    prepared = Prepared(gradient_accumulation_steps=2)
    for x, y in prepared.batches(40):
        prepared.turn(x, y)
    assert prepared.line.evaluations == 20


def test_clipped_gradients_are_what_is_searched_with():
    prepared = Prepared()
    for x, y in prepared.batches(30):
        prepared.optimizer.zero_grad()
        prepared.accelerator.backward(prepared.loss(x, y))
        prepared.accelerator.clip_grad_norm_(prepared.model.parameters(), 0.01)
        prepared.optimizer.step()
    assert prepared.line.last.origin.norm == pytest.approx(0.01, rel=1e-3)


def test_a_closure_makes_a_whole_search_but_its_loss_is_not_handed_on():
    prepared = Prepared()
    losses = []
    for x, y in prepared.batches(40):

        def closure(x=x, y=y):
            prepared.optimizer.zero_grad()
            loss = prepared.loss(x, y)
            prepared.accelerator.backward(loss)
            losses.append(loss.item())
            return loss

        assert prepared.optimizer.step(closure) is None
    assert prepared.line.iterations == 40
    assert prepared.line.evaluations == len(losses) > 40
    assert sum(losses[-10:]) < 0.9 * sum(losses[:10])


def test_while_gradients_are_accumulated_a_closure_is_not_called():
    prepared = Prepared(gradient_accumulation_steps=2)
    called = []

    def closure():
        called.append(True)
        raise AssertionError("not while accumulating")

    with prepared.accelerator.accumulate(prepared.model):
        prepared.optimizer.step(closure)
    assert not called
    assert prepared.line.evaluations == 0


def test_bf16():
    prepared = Prepared(mixed_precision="bf16", direction=torch.optim.Adam)
    losses = [prepared.turn(x, y) for x, y in prepared.batches(150)]
    assert sum(losses[-10:]) < 0.9 * sum(losses[:10])
    assert {parameter.dtype for parameter in prepared.plain.parameters()} == {torch.float32}


def test_a_scaled_loss_that_overflows_costs_a_probe_and_no_step():
    prepared = Prepared()
    scaler = torch.amp.GradScaler("cpu")
    optimizer = accelerate.optimizer.AcceleratedOptimizer(prepared.line, scaler=scaler)
    for turn, (x, y) in enumerate(prepared.batches(40)):
        optimizer.zero_grad()
        scaler.scale(prepared.loss(x, y) * (float("inf") if turn == 20 else 1.0)).backward()
        optimizer.step()
        assert not optimizer.step_was_skipped
    assert prepared.line.evaluations == 40
    assert scaler.get_scale() == 2.0**15
    assert all(parameter.isfinite().all() for parameter in prepared.parameters())


@pytest.mark.parametrize("direction", [None, torch.optim.Adam])
@pytest.mark.parametrize("at_accepted", [False, True])
def test_training_goes_on_from_a_saved_state_bit_for_bit(tmp_path, direction, at_accepted):
    whole = Prepared(direction=direction)
    batches = list(whole.batches(50))
    for turn, (x, y) in enumerate(batches):
        if turn == 23:
            probe = whole.parameters()
            with whole.line.eval():
                assert not equal(whole.parameters(), probe)  # in the middle of a search
            if at_accepted:
                whole.optimizer.eval()
            whole.accelerator.save_state(tmp_path)
            whole.optimizer.train()
        whole.turn(x, y)
    resumed = Prepared(direction=direction)
    resumed.accelerator.load_state(tmp_path)
    resumed.optimizer.train()
    for x, y in batches[23:]:
        resumed.turn(x, y)
    assert equal(resumed.parameters(), whole.parameters())
    assert resumed.line.evaluations == whole.line.evaluations
    assert resumed.line.last.step == whole.line.last.step


def train_on_ranks(rank, size):
    """Without a closure, then with one. Returns whether the models stayed equal, and what else must be true."""
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    with launched(rank, size):
        accelerator = accelerate.Accelerator(cpu=True)
    torch.manual_seed(rank)  # two models, until DDP makes them one
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    inputs = torch.randn(256, 5, generator=torch.Generator().manual_seed(0))
    targets = inputs.sum(dim=1, keepdim=True).sin()
    line = gradline.GOLSI(model.parameters())
    wrapped, optimizer, loader = accelerator.prepare(
        model, line, DataLoader(TensorDataset(inputs, targets), batch_size=16, shuffle=True)
    )

    def closure(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(wrapped(x), y)
        accelerator.backward(loss)
        return loss

    def of_all_data():
        with torch.no_grad(), line.eval():
            return torch.nn.functional.mse_loss(model(inputs), targets).item()

    equal_everywhere, own_batches = [], []
    before = of_all_data()
    for epoch in range(10):
        for x, y in loader:
            if epoch < 7:
                closure(x, y)
                optimizer.step()
            else:
                optimizer.step(lambda x=x, y=y: closure(x, y))
            parameters = torch.cat([p.detach().reshape(-1) for p in model.parameters()])[None]
            equal_everywhere.append(torch.equal(*accelerator.gather(parameters)))
        own_batches.append(not torch.equal(*accelerator.gather(x[None])))
    return accelerator.num_processes, all(equal_everywhere), all(own_batches), line.iterations, of_all_data() / before


def test_in_two_processes_the_parameters_stay_equal(two):
    for processes, equal_everywhere, own_batches, iterations, reduction in two(train_on_ranks):
        assert processes == 2
        assert equal_everywhere
        assert own_batches
        assert iterations > 3 * 8
        assert reduction < 0.9
