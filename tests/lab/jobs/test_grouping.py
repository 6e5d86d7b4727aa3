"""Groups: nothing is lost or mixed, all workers have work, and memory is bounded."""

import pytest
import torch
from lab.helping import small

from gradline.lab import studies
from gradline.lab.engines import group_key
from gradline.lab.jobs.grouping import FEWEST_ROWS, MOST_BYTES, MOST_ROWS, cost, groups, makespan, row_bytes
from gradline.lab.problems import PROBLEMS
from gradline.lab.problems.problem import Problem
from gradline.lab.problems.task import Task
from gradline.lab.studies import plan


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ["bcwd", "bcwd-fixed", "netpi-10", "direction-vs-step", "static-vs-dynamic"])
def test_groups_hold_every_run_once_and_do_not_mix_what_cannot_go_together(name, workers):
    runs = plan(studies.load(name))
    made = groups(runs, workers, group_key)
    assert sorted(run.key for group in made for run in group) == sorted(run.key for run in runs)
    for group in made:
        assert (
            len({(run.problem.hidden, run.problem.loss, run.batch_size, run.direction_batch_size) for run in group})
            == 1
        )
        assert 0 < len(group) <= MOST_ROWS


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("name", ["bcwd", "bcwd-fixed", "netpi-10"])
def test_no_worker_is_long_alone_at_the_end(name, workers):
    runs = plan(studies.load(name))
    made = groups(runs, workers, group_key)
    prices = [sum(map(cost, group)) for group in made]
    assert prices == sorted(prices, reverse=True)
    fair = sum(prices) / workers
    assert makespan(prices, workers) <= 1.25 * fair
    assert all(len(group) >= FEWEST_ROWS for group in made)


def test_one_worker_needs_no_cutting():
    assert len(groups(plan(studies.load("netpi-10")), 1, group_key)) == 1
    assert len(groups(plan(studies.load("netpi-10")), 2, group_key)) == 2


def test_large_networks_go_in_smaller_groups():
    runs = plan(small(seeds=200, problems=("bcwd-netpi-10",)))
    largest = max(map(len, groups(runs, 1, group_key)))
    assert largest <= MOST_ROWS
    problem = PROBLEMS["bcwd-netpi-10"]
    assert problem.parameters == 31 * 32 + 9 * 33 * 32 + 33 * 2
    assert largest * row_bytes(problem) <= MOST_BYTES


def test_makespan():
    assert makespan([5.0, 4.0, 3.0, 3.0], 2) == 8.0
    assert makespan([5.0], 4) == 5.0


class Slow(Problem):
    """A problem whose evaluations take a second for each sample, by a clock of its own; the first ones take longer."""

    kind = "slow"
    described = "a problem"

    def build(self, seed):
        calls = []

        def losses(model, chosen):
            calls.append(chosen)
            CLOCK.append(CLOCK[-1] + (chosen.stop - chosen.start) * (10.0 if len(calls) == 1 else 1.0))
            if self.name == "fails":
                raise RuntimeError("of the user")
            return model(torch.rand(chosen.stop, 3)).squeeze(1)

        return Task(torch.nn.Linear(3, 1), 1000, losses, lambda model: None)


CLOCK = [0.0]


def test_problems_of_any_model_are_timed(monkeypatch):
    monkeypatch.setattr("gradline.lab.problems.problem.time.perf_counter", lambda: CLOCK[-1])
    seed = torch.initial_seed()
    state = torch.get_rng_state()
    assert Slow(name="slow").seconds(7) == 7.0
    assert Slow(name="slow").seconds(1000) == pytest.approx(1000.0)
    assert len(CLOCK) == 1 + 2 + 2
    assert Slow(name="slow").seconds(7) == 7.0
    assert len(CLOCK) == 5  # measured once
    assert Slow(name="fails").seconds(7) > 0.0  # runs say what is wrong
    assert torch.initial_seed() == seed
    assert torch.equal(torch.get_rng_state(), state)
