"""Whatever is done to an optimizer, in whatever order: what was promised stays true.

A machine draws a model, a search, a direction and a way to train, and then actions in any order.
"""

import os
import warnings

import pytest
import torch
from fuzz_world import DIRECTIONS, MODELS, SEARCHES, Plan, World, told_of_by_others
from helpers import equal
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gradline.protocol import Stop
from gradline.searches import GolsB

ERRORS = [ValueError("data"), KeyboardInterrupt(), MemoryError(), torch.OutOfMemoryError("no memory"), SystemExit()]


class Training(RuleBasedStateMachine):
    @initialize(
        model=st.sampled_from(sorted(MODELS)),
        dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
        search=st.sampled_from(SEARCHES),
        direction=st.sampled_from(DIRECTIONS),
        mode=st.sampled_from(["closure", "free", "spread"]),
        groups=st.integers(1, 2),
        reuse_gradient=st.sampled_from([None, None, True, False]),
        same_noise=st.booleans(),
    )
    def begin(self, **choices):
        plan = Plan(**choices)
        assume(plan.possible)
        self.world = World(plan)
        self.accepted = self.world.parameters()
        self.evaluations = 0
        self.looks = 1  # how often the optimizer looks around anew: without a closure a forward pass came before it
        self.resumed = False

    @property
    def mode(self):
        return self.world.plan.mode

    @rule(count=st.integers(1, 6))
    def steps(self, count):
        for _ in range(count):
            self.one_step()

    def one_step(self):
        world = self.world
        at_probe, iterations, drawn = world.parameters(), world.optimizer.iterations, world.drawn
        world.step()
        self.evaluations += world.drawn - drawn
        ended = world.optimizer.iterations - iterations
        assert ended == 1 if self.mode == "closure" else ended in (0, 1)
        now = world.accepted()
        if self.mode == "closure":
            assert equal(now, world.parameters())
            self.check_gradients()
        if not ended:
            assert equal(now, self.accepted)
        else:
            last = world.optimizer.last
            if last.outcome.probe is None:
                assert last.step == 0.0
                assert equal(now, self.accepted)
            elif self.mode != "closure" and last.outcome.probe == last.evaluations - 1:
                assert equal(now, at_probe)
        self.accepted = now

    def check_gradients(self):
        """The gradients that a step leaves are the accepted probe's, and nothing else."""
        last, seen = self.world.optimizer.last, self.world.seen
        if last.outcome.probe is None or len(seen) < last.evaluations:
            return
        expected = seen[len(seen) - last.evaluations + last.outcome.probe]
        ours = {id(parameter) for group in self.world.optimizer.param_groups for parameter in group["params"]}
        for parameter, gradient in zip(self.world.net.parameters(), expected, strict=True):
            if id(parameter) not in ours:
                continue
            assert (parameter.grad is None) == (gradient is None)
            assert gradient is None or torch.equal(parameter.grad, gradient)

    @rule(call=st.integers(0, 5), error=st.sampled_from(ERRORS))
    def failing_step(self, call, error):
        world = self.world
        optimizer = world.optimizer
        before, buffers, drawn = world.parameters(), world.buffers(), world.drawn
        told = optimizer.iterations, repr(optimizer.last)
        if self.mode == "free":
            optimizer.zero_grad()
            with told_of_by_others(), pytest.raises(RuntimeError, match="no parameter has a gradient"):
                optimizer.step()
            self.evaluations += 1
        else:
            world.failure = (call if self.mode == "closure" else 0, error)
            try:
                self.one_step()
            except type(error):
                self.evaluations += world.drawn - drawn if self.mode == "closure" else 0
            else:
                return  # the search ended before
            finally:
                world.failure = None
            assert equal(buffers, world.buffers())
        assert equal(before, world.parameters())
        assert told == (optimizer.iterations, repr(optimizer.last))
        assert equal(self.accepted, world.accepted())

    @rule(value=st.sampled_from([float("nan"), float("inf")]))
    def step_on_data_that_are_not_finite(self, value):
        self.world.factor = value
        before = self.accepted
        self.one_step()
        self.world.factor = 1.0
        if self.mode == "closure":
            assert self.world.optimizer.last.stop in (Stop.NON_FINITE, Stop.NON_FINITE_ORIGIN)
            assert equal(before, self.accepted)

    @rule(times=st.integers(1, 3))
    def look_at_the_accepted_point(self, times):
        world = self.world
        before = world.parameters()
        for _ in range(times):
            world.optimizer.eval()
            assert equal(self.accepted, world.parameters())
            with world.optimizer.eval():
                assert equal(self.accepted, world.parameters())
        with pytest.raises(RuntimeError, match=r"call optimizer.train\(\) first"):
            world.optimizer.step(world.closure)
        assert equal(self.accepted, world.parameters())
        world.optimizer.train()
        assert equal(before, world.parameters())

    @rule(count=st.integers(1, 4), model_first=st.booleans(), go_on=st.booleans(), evaluating=st.booleans())
    def resume_from_a_file(self, count, model_first, go_on, evaluating):
        world = self.world
        if evaluating:
            world.optimizer.eval()
        twin = world.resumed(model_first=model_first)
        if evaluating:
            world.optimizer.train()
            twin.optimizer.train()
        self.looks += 1
        self.resumed = True
        self.go_on_alike(twin, count, go_on)

    @rule(count=st.integers(1, 4), go_on=st.booleans())
    def copy_everything(self, count, go_on):
        self.looks += 1
        self.go_on_alike(self.world.copied(), count, go_on)

    def go_on_alike(self, twin, count, go_on):
        """Both take the same steps, to the bit, and leave each other alone."""
        world = self.world
        assert equal(world.parameters(), twin.parameters())
        optimizer = world.optimizer
        for _ in range(count):
            self.one_step()
            here = world.parameters()
            twin.step()
            assert equal(here, world.parameters())
            assert equal(here, twin.parameters())
            assert repr(optimizer.last) == repr(twin.optimizer.last)
            assert optimizer.evaluations == twin.optimizer.evaluations
            assert optimizer.iterations == twin.optimizer.iterations
            if self.statistics_are_exact:
                assert equal(world.buffers(), twin.buffers())
        assert equal(world.accepted(), twin.accepted())
        if go_on:
            self.world = twin

    @property
    def statistics_are_exact(self):
        """Not where a forward pass comes before step() for the first time, nor for candidates from a file."""
        return self.mode != "free" and not (self.resumed and isinstance(self.world.plan.search, GolsB))

    @rule()
    def refresh(self):
        self.world.optimizer.refresh()
        self.looks += 1
        assert equal(self.accepted, self.world.parameters())

    @precondition(lambda self: not self.world.late)
    @rule()
    def add_a_group(self):
        before = self.world.parameters()
        self.world.add_late()
        self.looks += 1
        assert equal(before, self.world.parameters())

    @rule(data=st.data())
    def freeze(self, data):
        places = range(len(self.world.first) - 1)  # the last one is not used
        frozen = data.draw(st.sets(st.sampled_from(places), max_size=len(places) - 1))
        self.world.freeze(frozenset(frozen))
        self.refresh()

    @rule(lr=st.sampled_from([0.5, 0.0, 7]))
    def set_the_learning_rate(self, lr):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "gradline: something set group", UserWarning)
            for group in self.world.optimizer.param_groups:
                group["lr"] = lr

    @rule(group=st.sampled_from(["x", {}]))
    def load_nonsense(self, group):
        before = repr(self.world.optimizer.state_dict())
        state = self.world.optimizer.state_dict()
        first, *others = state["param_groups"]
        with pytest.raises(ValueError, match="state_dict must be"):
            self.world.optimizer.load_state_dict({**state, "param_groups": [{**first, "line_search": group}, *others]})
        assert before == repr(self.world.optimizer.state_dict())

    @invariant()
    def what_is_shown_is_true(self):
        world = self.world
        optimizer = world.optimizer
        assert all(bool(p.isfinite().all()) for p in self.accepted)
        assert optimizer.iterations == len(world.ended)
        assert optimizer.evaluations == self.evaluations
        shown = optimizer.last.step
        assert {group["lr"] for group in optimizer.param_groups} == {shown}
        frozen = [world.first[place] for place in world.frozen]
        assert all(parameter.grad is None for parameter in [*frozen, world.net.unused])

    @invariant()
    def only_accepted_probes_count_in_running_statistics(self):
        if self.world.plan.model == "norm":
            tracked, accepted = int(self.world.net.body[1].num_batches_tracked), sum(self.world.ended)
            if self.statistics_are_exact:
                assert tracked == accepted
            elif self.mode == "free":
                assert accepted <= tracked <= accepted + self.looks


EXAMPLES = int(os.environ.get("GRADLINE_FUZZ", "0"))
"""Look at so many random runs instead of the same few."""

TestTraining = Training.TestCase
TestTraining.settings = settings(
    max_examples=EXAMPLES or 25,
    derandomize=not EXAMPLES,
    database=None,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
