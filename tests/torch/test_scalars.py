"""Scalars of searches: what a function is given, and what TensorBoard reads back from its event files."""

import math
import warnings
from collections import Counter

import pytest
import torch
from helpers import Problem, problem_with

import gradline
from gradline.protocol import Stop
from gradline.searches import Armijo, GolsI
from gradline.torch.scalars import log_scalars


class Taken(list):
    """Takes (tag, value, step)."""

    def __call__(self, tag, value, step):
        self.append((tag, value, step))

    def of(self, tag):
        return [(step, value) for name, value, step in self if name == tag]


def test_each_search_gives_its_step_slopes_and_evaluations():
    problem, taken, records, all_so_far = problem_with(GolsI()), Taken(), [], []
    problem.optimizer.register_search_hook(records.append)
    problem.optimizer.register_search_hook(lambda record: all_so_far.append(problem.optimizer.evaluations))
    log_scalars(problem.optimizer, taken)
    for _ in range(25):
        problem.turn()
    assert len(records) > 3
    values = {
        "gradline/step": [record.step for record in records],
        "gradline/slope/start": [record.origin.at_zero.slope for record in records],
        "gradline/slope/accepted": [record.transcript[record.outcome.probe][1].slope for record in records],
        "gradline/evaluations": [record.evaluations for record in records],
        "gradline/total/evaluations": all_so_far,
        "gradline/total/searches": list(range(1, len(records) + 1)),
    }
    for tag, expected in values.items():
        assert taken.of(tag) == list(zip(all_so_far, expected, strict=True)), tag
    assert {tag for tag, _, _ in taken} - set(values) == {
        f"gradline/stops/{record.stop.name.lower()}" for record in records
    }


@pytest.mark.parametrize("average", [False, True])
def test_angle_gives_its_step_cosine_and_where_its_average_begins(average):
    problem, taken, expected = Problem(), Taken(), []
    problem.optimizer = gradline.Angle(problem.model.parameters(), average=average)

    def note(record):
        expected.append((problem.optimizer.evaluations, record.step, record.cosine, problem.optimizer.averaged_from))

    problem.optimizer.register_search_hook(note)
    log_scalars(problem.optimizer, taken)
    for _ in range(40):
        problem.turn()
    assert len(expected) > 20
    assert taken.of("gradline/step") == [(place, step) for place, step, _, _ in expected]
    cosines = dict(taken.of("gradline/cosine"))
    assert cosines == {place: cosine for place, _, cosine, _ in expected if math.isfinite(cosine)}
    assert len(set(cosines.values())) > 20
    since = taken.of("gradline/averaged_from")
    assert since == ([(place, number) for place, _, _, number in expected] if average else [])


def test_stop_reasons_are_counted():
    problem, taken = problem_with(GolsI()), Taken()
    records = []
    problem.optimizer.register_search_hook(records.append)
    log_scalars(problem.optimizer, taken, at="searches")
    for _ in range(20):
        problem.optimizer.step(problem.closure)
    counts = Counter(record.stop for record in records)
    assert len(counts) > 1
    for stop, count in counts.items():
        curve = taken.of(f"gradline/stops/{stop.name.lower()}")
        first = next(place for place, record in enumerate(records, 1) if record.stop is stop)
        assert curve[0] == (first, 1)
        assert curve[-1] == (20, count)
        assert [step for step, _ in curve] == list(range(first, 21))


def test_prefix_and_every():
    problem, taken = problem_with(GolsI()), Taken()
    log_scalars(problem.optimizer, taken, prefix="", every=4, at="searches")
    for _ in range(11):
        problem.optimizer.step(problem.closure)
    assert [step for step, _ in taken.of("step")] == [4, 8]
    counts = [value for tag, value, step in taken if tag.startswith("stops/") and step == 8]
    assert sum(counts) == 8


def test_once_removed_it_is_silent():
    problem, taken = problem_with(GolsI()), Taken()
    handle = log_scalars(problem.optimizer, taken)
    problem.optimizer.step(problem.closure)
    before = len(taken)
    assert before
    handle.remove()
    problem.optimizer.step(problem.closure)
    assert len(taken) == before


def test_a_search_that_fails_gives_what_there_is():
    problem, taken = problem_with(GolsI()), Taken()
    log_scalars(problem.optimizer, taken)

    def broken():
        problem.optimizer.zero_grad()
        loss = problem.loss() * float("nan")
        loss.backward()
        return loss

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        problem.optimizer.step(broken)
    assert problem.optimizer.last.stop is Stop.NON_FINITE_ORIGIN
    given = {tag: value for tag, value, _ in taken}
    assert given["gradline/step"] == 0.0
    assert given["gradline/stops/non_finite_origin"] == 1
    assert not {"gradline/slope/start", "gradline/slope/accepted"} & set(given)
    assert all(math.isfinite(value) for value in given.values())


def test_searches_that_compare_values_are_logged_too():
    problem, taken = problem_with(Armijo()), Taken()
    log_scalars(problem.optimizer, taken)
    problem.optimizer.step(problem.full)
    assert taken.of("gradline/step") == [(problem.optimizer.evaluations, problem.optimizer.last.step)]


def test_one_dict_for_a_search():
    problem, one_by_one, dicts = problem_with(GolsI()), Taken(), []
    log_scalars(problem.optimizer, one_by_one)
    log_scalars(problem.optimizer, lambda scalars, step: dicts.append((scalars, step)), as_dict=True)
    for _ in range(5):
        problem.optimizer.step(problem.closure)
    assert len(dicts) == 5
    assert [(tag, value, step) for scalars, step in dicts for tag, value in scalars.items()] == one_by_one


def test_tensorboard_reads_them_back(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    problem, taken, records = problem_with(GolsI()), Taken(), []
    problem.optimizer.register_search_hook(records.append)
    with SummaryWriter(str(tmp_path)) as writer:
        log_scalars(problem.optimizer, writer)
        log_scalars(problem.optimizer, taken)
        for _ in range(30):
            problem.turn()
    reader = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    assert set(reader.Tags()["scalars"]) == {tag for tag, _, _ in taken}
    for tag in reader.Tags()["scalars"]:
        shown = [(event.step, event.value) for event in reader.Scalars(tag)]
        assert shown == [(step, pytest.approx(value, rel=1e-6)) for step, value in taken.of(tag)]
    texts = {
        tag: [bytes(event.tensor_proto.string_val[0]).decode() for event in reader.Tensors(tag)]
        for tag in reader.Tags()["tensors"]
    }
    assert texts == {
        f"gradline/stops/{stop.name.lower()}/text_summary": [str(stop)] for stop in {one.stop for one in records}
    }


def test_the_method_of_a_writer_is_enough(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    problem = problem_with(GolsI())
    with SummaryWriter(str(tmp_path)) as writer:
        log_scalars(problem.optimizer, writer.add_scalar)
        problem.optimizer.step(problem.closure)
    assert "gradline/step" in EventAccumulator(str(tmp_path)).Reload().Tags()["scalars"]


def test_arguments_are_checked():
    model = torch.nn.Linear(2, 1)
    optimizer = gradline.GOLSI(model.parameters())
    with pytest.raises(TypeError, match=r"optimizer must be a gradline optimizer .*got SGD"):
        log_scalars(torch.optim.SGD(model.parameters()), print)
    with pytest.raises(TypeError, match=r"add_scalar must be a SummaryWriter or a function .*got 3"):
        log_scalars(optimizer, 3)
    with pytest.raises(ValueError, match=r"every must be a whole number above 0 .*got 0"):
        log_scalars(optimizer, print, every=0)
    with pytest.raises(ValueError, match=r"at must be 'evaluations' or 'searches' .*got 'steps'"):
        log_scalars(optimizer, print, at="steps")

    class Writer:
        def add_scalar(self, tag, value, step):
            """Nothing."""

    with pytest.raises(ValueError, match=r"as_dict must be False for a Writer .*got True"):
        log_scalars(optimizer, Writer(), as_dict=True)
