"""Recorded steps as one learning rate, or as a schedule."""

import json
import math
import warnings
from functools import partial

import pytest
import torch
from helpers import Problem, problem_with

import gradline
from gradline.protocol import Stop
from gradline.searches import Fixed, GolsI
from gradline.torch.learning_rate import StepRecorder, find_lr

MOMENTUM = partial(torch.optim.SGD, momentum=0.9)

pytestmark = pytest.mark.filterwarnings("ignore:gradline. .* steps are few")


def recording(steps, lengths=None, kind="SGD", momentum=0.0):
    """A recording of these steps."""
    made = StepRecorder(gradline.GOLSI([torch.zeros(1, requires_grad=True)]))
    made.steps, made.lengths = list(steps), list(lengths or [1.0] * len(steps))
    made.searches, made.kind, made.momentum = len(made.steps), kind, momentum
    return made


def sgd(*lrs, build=torch.optim.SGD):
    groups = [{"params": [torch.zeros(1, requires_grad=True)], "lr": lr} for lr in lrs or (1.0,)]
    return build(groups, lr=1.0)


def rates_of(scheduler, optimizer, count):
    """The first group's learning rates, of that many steps."""
    seen = []
    for _ in range(count):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return seen


# Recording


@pytest.mark.parametrize("closure", [True, False])
def test_the_steps_of_all_searches_are_recorded(closure):
    problem, records = problem_with(GolsI()), []
    problem.optimizer.register_search_hook(records.append)
    steps = StepRecorder(problem.optimizer)
    for _ in range(12):
        problem.optimizer.step(problem.closure) if closure else problem.turn()
    found = [record for record in records if record.stop is not Stop.STEP_MIN]
    assert steps.steps == [record.step for record in found]
    assert steps.lengths == [record.origin.norm for record in found]
    assert steps.searches == len(records) > 3


def test_a_stopped_recorder_records_no_more():
    problem = problem_with(GolsI())
    steps = StepRecorder(problem.optimizer)
    problem.optimizer.step(problem.full)
    steps.stop()
    problem.optimizer.step(problem.full)
    assert len(steps.steps) == steps.searches == 1


def test_searches_that_found_no_step_are_counted_only():
    problem = problem_with(GolsI())
    steps = StepRecorder(problem.optimizer)

    def broken():
        problem.optimizer.zero_grad()
        loss = problem.loss() * float("nan")
        loss.backward()
        return loss

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        problem.optimizer.step(broken)
    assert (steps.steps, steps.searches) == ([], 1)
    with pytest.raises(
        RuntimeError, match=r"no step was recorded.*the last of 1 searches: the observation at the start"
    ):
        steps.fixed()
    problem.optimizer.step(problem.full)
    assert steps.steps == [problem.optimizer.last.step]


def test_a_search_that_stays_uphill_is_no_step():
    parameter = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = gradline.GOLSI([parameter])
    steps = StepRecorder(optimizer)
    signs = iter([-1.0] + [1.0] * 100)

    def closure():
        parameter.grad = torch.full_like(parameter, next(signs))  # downhill at first, and uphill wherever one goes
        return torch.zeros(())

    optimizer.step(closure)
    assert optimizer.last.stop is Stop.STEP_MIN
    assert optimizer.last.step > 0.0
    assert (steps.steps, steps.searches) == ([], 1)


def test_before_any_search_it_says_so():
    steps = StepRecorder(gradline.GOLSI([torch.zeros(1, requires_grad=True)]))
    for ask in (steps.fixed, steps.rates, lambda: steps.schedule(sgd())):
        with pytest.raises(RuntimeError, match=r"no step was recorded.*no search has ended"):
            ask()
    assert "0 steps of 0 searches, for SGD" in repr(steps)


@pytest.mark.parametrize(
    ("direction", "kind", "momentum"),
    [(None, "SGD", 0.0), (torch.optim.SGD, "SGD", 0.0), (MOMENTUM, "SGD", 0.9), (torch.optim.Adam, "Adam", 0.9)],
)
def test_it_knows_whose_learning_rates_they_are(direction, kind, momentum):
    steps = StepRecorder(problem_with(GolsI(), direction=direction).optimizer)
    assert (steps.kind, steps.momentum) == (kind, momentum)


def test_only_gradline_optimizers_are_recorded():
    with pytest.raises(TypeError, match=r"optimizer must be a gradline optimizer .*got SGD"):
        StepRecorder(sgd())


# One learning rate


def test_the_fixed_rate_is_the_weighted_median():
    assert recording([0.1, 100.0, 0.2]).fixed() == 0.2
    assert recording([0.1, 0.2, 100.0, 1000.0], lengths=[2.0, 2.0, 1.0, 1.0]).fixed() == 0.2
    assert recording([3.0]).fixed() == 3.0


def test_steps_that_grow_as_the_gradient_vanishes_hardly_count():
    early, late = [0.5] * 10, [10.0**power for power in range(1, 31)]
    assert recording(early + late, lengths=[1.0] * 10 + [0.5**power for power in range(2, 32)]).fixed() == 0.5


def test_with_momentum_half_of_a_step_is_taken():
    assert recording([0.1, 0.4, 9.0], kind="Adam", momentum=0.9).fixed() == 0.2
    assert recording([0.4] * 9, kind="Adam", momentum=0.9).rates() == pytest.approx([0.2] * 9)


def test_with_a_fixed_search_its_step_is_found():
    problem = Problem()
    assert find_lr(problem.model, problem.loss, evaluations=5, search=Fixed(step=0.03)).fixed() == 0.03


def test_on_a_parabola_it_finds_what_solves_it():
    # At 1/curvature a step lands in the minimum. GOLS-I ends within a factor of 2 beyond it.
    x = torch.full((3,), 0.02, dtype=torch.float64, requires_grad=True)
    steps = find_lr([x], lambda: 2.5 * x.square().sum(), evaluations=60)  # curvature 5
    assert 0.2 <= steps.fixed() <= 0.4


# A schedule


def test_a_schedule_goes_through_the_medians_of_its_parts():
    steps = recording([0.1] * 50 + [0.2] * 50)
    rates = steps.rates(1000)
    assert len(rates) == 1000
    assert rates[:450] == pytest.approx([0.1] * 450)
    assert rates[550:] == pytest.approx([0.2] * 450)
    assert rates[500] == pytest.approx(0.1 * math.sqrt(2.0))  # half of the way, in logarithms
    assert len(steps.rates()) == 100


def test_a_schedule_stays_near_the_fixed_rate():
    steps = recording([1e-6] * 20 + [0.1] * 60 + [1e6] * 20)
    assert steps.fixed() == 0.1
    rates = steps.rates()
    assert rates[0] == pytest.approx(0.1 / 3)
    assert rates[-1] == pytest.approx(0.3)


def test_few_steps_make_a_schedule_of_one_rate():
    assert recording([0.1, 5.0, 0.2]).rates() == pytest.approx([0.2] * 3)


def test_the_scheduler_sets_these_rates_and_holds_the_last():
    steps, optimizer = recording([0.1] * 25 + [0.2] * 25 + [0.3] * 50), sgd(17.0)
    scheduler = steps.schedule(optimizer, total=40)
    seen = rates_of(scheduler, optimizer, 60)
    assert seen[:40] == pytest.approx(steps.rates(40))
    assert seen[40:] == pytest.approx([0.3] * 20)
    assert scheduler.get_last_lr() == pytest.approx([0.3])


def test_groups_keep_their_proportion():
    optimizer = sgd(0.01, 0.001)
    scheduler = recording([0.1] * 10).schedule(optimizer)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.1, 0.01])
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == pytest.approx([0.1, 0.01])


def test_a_schedule_resumes_from_its_state():
    steps = recording([0.1 * 1.02**step for step in range(60)])
    optimizer = sgd()
    scheduler = steps.schedule(optimizer, total=50)
    rates_of(scheduler, optimizer, 20)
    saved = torch.load(_written(scheduler.state_dict(), optimizer.state_dict()), weights_only=True)
    again = sgd()
    resumed = recording([77.0]).schedule(again)
    again.load_state_dict(saved[1])
    resumed.load_state_dict(saved[0])
    assert rates_of(resumed, again, 40) == rates_of(scheduler, optimizer, 40)


def _written(*states):
    import io

    file = io.BytesIO()
    torch.save(states, file)
    file.seek(0)
    return file


def test_a_schedule_is_for_the_optimizer_that_was_recorded():
    with pytest.raises(ValueError, match=r"optimizer must be SGD \(.*got Adam with momentum 0.9"):
        recording([0.1]).schedule(sgd(build=torch.optim.Adam))
    with pytest.raises(ValueError, match=r"optimizer must be SGD with momentum 0.9 \(.*got SGD$"):
        recording([0.1], momentum=0.9).schedule(sgd())
    with pytest.raises(TypeError, match=r"got a gradline optimizer: it needs none"):
        recording([0.1]).schedule(problem_with(GolsI()).optimizer)
    recording([0.1], momentum=0.9).schedule(sgd(build=MOMENTUM))


def test_the_arguments_of_a_schedule_are_checked():
    steps = recording([0.1])
    for total in (0, 2.5):
        with pytest.raises(ValueError, match=rf"total must be a whole number above 0 .*got {total}"):
            steps.schedule(sgd(), total=total)
    with pytest.raises(ValueError, match=r"first group with an lr above 0 .*got 0.0"):
        steps.schedule(sgd(0.0))


# Files


def test_a_recording_is_saved_as_json_and_loaded(tmp_path):
    problem = problem_with(GolsI(), direction=torch.optim.Adam)
    steps = StepRecorder(problem.optimizer)
    for _ in range(8):
        problem.optimizer.step(problem.closure)
    steps.save(tmp_path / "steps.json")
    assert json.loads((tmp_path / "steps.json").read_text())["steps"] == steps.steps
    again = StepRecorder.load(tmp_path / "steps.json")
    assert (again.steps, again.lengths, again.searches) == (steps.steps, steps.lengths, steps.searches)
    assert (again.kind, again.momentum) == ("Adam", 0.9)
    assert (again.fixed(), again.rates(30)) == (steps.fixed(), steps.rates(30))
    again.stop()
    again.schedule(sgd(build=torch.optim.Adam))


@pytest.mark.parametrize("content", ["[]", '{"a": 1}'])
def test_another_file_is_refused(tmp_path, content):
    (tmp_path / "other.json").write_text(content)
    with pytest.raises(ValueError, match=r"file must be a recording that StepRecorder.save wrote, got .*other.json"):
        StepRecorder.load(tmp_path / "other.json")


def test_a_file_with_impossible_steps_is_refused(tmp_path):
    recording([0.1, -1.0]).save(tmp_path / "steps.json")
    with pytest.raises(ValueError, match=r"file must hold steps above 0 and finite"):
        StepRecorder.load(tmp_path / "steps.json")


def test_a_recording_is_drawn():
    pytest.importorskip("matplotlib")
    axes = recording([0.1, 0.2, 0.4] * 10).plot()
    assert axes.get_yscale() == "log"
    dots, line, level = axes.get_lines()
    assert list(dots.get_ydata()) == [0.1, 0.2, 0.4] * 10
    assert len(line.get_ydata()) == 30
    assert level.get_ydata()[0] == 0.2
    assert axes.get_ylabel() == "learning rate of SGD"
