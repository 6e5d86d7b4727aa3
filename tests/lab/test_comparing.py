"""Comparing methods on a model of one's own: from Python and from the command line."""

import json
import math
import re

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import gradline.lab
from gradline.lab import comparing
from gradline.lab.cli import main
from gradline.lab.comparing import DEFAULT, outcome
from gradline.lab.comparing import _Pace as Pace
from gradline.lab.jobs.store import Store
from gradline.lab.methods import GROUPS, METHODS
from gradline.lab.problems import problem_from_dict
from gradline.lab.problems.script import Training, check, script

FILE = """
import torch

def build():
    inputs = torch.randn(300, 6)
    targets = (inputs[:, 0] > inputs[:, 1]).long()
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    return model, torch.nn.functional.cross_entropy, (inputs[:200], targets[:200]), (inputs[200:], targets[200:])
"""
QUIET = {"backend": "inline", "notice": lambda text: None}


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_model.py"
    path.write_text(FILE)
    return path


def inputs_and_targets():
    inputs = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    return inputs, inputs.sum(dim=1, keepdim=True)


def build():
    return torch.nn.Linear(3, 1), torch.nn.functional.mse_loss, inputs_and_targets()


def test_the_command_shows_a_table_a_picture_a_page_and_the_line_to_paste(file, capfd):
    arguments = ["compare", str(file), "--budget", "80", "--method", "angle", "--method", "adam-0.001"]
    assert main([*arguments, "--workers", "1"]) == 0
    shown = capfd.readouterr()
    assert "2 runs of 80 evaluations (12.8 epochs with batches of 32)" in shown.err
    rows = [line.split()[0] for line in shown.out.splitlines() if line.startswith(("angle ", "adam-0.001 "))]
    assert sorted(rows) == ["adam-0.001", "angle"]
    assert re.search(
        r"^method +validation loss +lowest +validation error % +train loss +time +× Adam$", shown.out, re.M
    )
    assert "\noptimizer = gradline.Angle(model.parameters())" in shown.out
    folder = file.parent / "results" / "my_model"
    page = (folder / "report.html").read_text()
    assert page.count("<tr>") == 3
    assert page.count('src="data:image/png;base64,') == 2, "for light and for dark pages"
    assert not re.search(r"https?:", page)
    assert (folder / "compare.png").stat().st_size > 1000
    assert main(["results", str(folder)]) == 0
    assert "angle" in capfd.readouterr().out


def test_what_is_there_is_not_made_again_and_an_edited_file_is(file):
    first = gradline.lab.compare(file, "out", budget=40, methods=["adam-0.001"], **QUIET)
    before = {path: path.stat().st_mtime_ns for path in file.parent.glob("out/runs/*")}
    file.rename(file.with_name("moved.py"))
    again = gradline.lab.compare("moved.py", "out", budget=40, methods=["adam-0.001"], **QUIET)
    assert len(Store("out").keys()) == 2  # another name is another problem
    file.with_name("moved.py").rename(file)
    gradline.lab.compare(file, "out", budget=40, methods=["adam-0.001"], **QUIET)
    assert before.items() <= {path: path.stat().st_mtime_ns for path in file.parent.glob("out/runs/*")}.items()
    assert first.best.validation_loss == again.best.validation_loss
    file.write_text(FILE.replace("Tanh", "ReLU"))
    other = gradline.lab.compare(file, "out", budget=40, methods=["adam-0.001"], **QUIET)
    assert len(Store("out").keys()) == 3
    assert other.best.validation_loss != first.best.validation_loss


def test_minutes_become_a_budget_that_stays(file, monkeypatch):
    monkeypatch.setattr("gradline.lab.comparing._measured", lambda *arguments: (Pace(1.0, 1.0, 1.0), 0.0))
    said = []
    options = {"methods": ["adam-0.001"], "backend": "inline", "notice": said.append}
    gradline.lab.compare(file, "out", minutes=10, **options)
    budget = json.loads((file.parent / "out/compare.json").read_text())["budget"]
    assert 100 <= budget <= 10 * 60 / 1.25 - 41  # 1 s an evaluation, 40 s to measure, 1 s to begin
    assert "measured with 1 worker at once: 1,000 ms an evaluation" in said[0]
    assert said[1].startswith(f"1 runs of {budget} evaluations")
    monkeypatch.setattr("gradline.lab.comparing._measured", lambda *arguments: (Pace(2.0, 1.0, 1.0), 0.0))
    gradline.lab.compare(file, "out", minutes=10, **options)
    assert said[2] == said[1]
    gradline.lab.compare(file, "short", minutes=0.05, **options)
    assert said[3] == "0.05 minutes are too short for 100 evaluations a run"
    assert re.match(r"estimated: .* in all, 5 min 1 s of it for the runs; ", said[4])  # 1.25 * (200 + 40 + 1) s


def test_the_time_of_a_run_is_that_of_its_beginning_its_measurements_and_its_evaluations():
    pace = Pace(0.01, 0.1, 2.0)
    assert pace.run(1000) == pytest.approx(1.25 * (2.0 + 40 * 0.1 + 10.0))
    assert pace.budget(20.0) == 1000
    assert pace.budget(21.0) == 1000  # 1080 has three digits
    assert pace.budget(1.0) == 100


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_method_is_measured_by_one_worker(file, monkeypatch, workers):
    monkeypatch.setattr("gradline.lab.comparing.PACE_SECONDS", 0.0)
    monkeypatch.setattr("gradline.lab.comparing.engines.make", lambda runs, _=None: made.append(runs[0]) or Engine())
    monkeypatch.setattr("gradline.lab.comparing.time.perf_counter", lambda: 0.0)
    made, names = [], ["angle", "adam-0.001", "prodigy"]
    for place in range(workers):
        comparing._measured(script(file), [METHODS[name] for name in names], 32, 1, place, workers)
    measured = [names[place::workers] for place in range(workers)]
    assert [run.method.name for run in made] == [name for share in measured for name in (share[0], *share)]


class Engine:
    active, evaluations = True, 0

    def advance(self):
        self.evaluations += 1


def test_the_pace_is_measured(file, monkeypatch):
    monkeypatch.setattr("gradline.lab.comparing.PACE_SECONDS", 0.05)
    methods = [METHODS["angle"], METHODS["adam-0.001"]]
    pace, seconds = comparing._measured(script(file), methods, 32, 1, 0, 1)
    assert 0.0 < pace.evaluation < seconds
    assert 0.0 < pace.measuring < seconds
    assert 0.0 < pace.beginning < seconds


def test_a_function_of_a_module_and_one_of_a_notebook(tmp_path):
    found = gradline.lab.compare(build, tmp_path / "a", budget=30, methods=["adam-0.001"], **QUIET)
    assert math.isnan(found.best.validation_error.median)
    assert not found.has_error
    assert "validation error" not in str(found)

    def inner():
        return build()

    other = gradline.lab.compare(inner, tmp_path / "b", budget=30, methods=["adam-0.001"], **QUIET)
    assert other.best.validation_loss == found.best.validation_loss
    assert "<table " in other._repr_html_()
    assert str(found).splitlines()[-1] == "optimizer = torch.optim.Adam(model.parameters(), lr=0.001)"


def test_a_function_typed_at_a_prompt():
    typed = {}
    exec("def build():\n    return 1\ndef other():\n    return 2", typed)
    one, other = script(typed["build"]), script(typed["other"])
    assert one.path == ""
    assert one.digest != other.digest


class Items(Dataset):
    def __len__(self):
        return 50

    def __getitem__(self, place):
        inputs, targets = inputs_and_targets()
        return inputs[place], targets[place]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(())


def losses(train, **options):
    task = Training(torch.nn.Linear(3, 1), torch.nn.functional.mse_loss, train, train, **options).task()
    with torch.no_grad():
        for parameter in task.model.parameters():
            parameter.fill_(0.1)
    return task.samples, task.losses(task.model, torch.tensor([0, 3, 4])).item(), task.measure(task.model)


def test_tensors_data_sets_and_loaders_are_the_same_data():
    tensors = losses(inputs_and_targets())
    for other in (TensorDataset(*inputs_and_targets()), Items(), DataLoader(Items(), batch_size=7)):
        samples, loss, measured = losses(other)
        assert samples == tensors[0] == 50
        assert loss == pytest.approx(tensors[1])
        assert measured.validation_loss == pytest.approx(tensors[2].validation_loss)
    assert Training(None, None, DataLoader(Items(), batch_size=7)).batch() == 7
    assert Training(None, None, Items()).batch() == 32
    named = DataLoader(Items(), collate_fn=lambda items: {"x": torch.stack([one[0] for one in items])})
    forward = {"forward": lambda model, batch: (model(batch["x"]), batch["x"].sum(dim=1, keepdim=True))}
    assert losses(named, **forward)[1] == pytest.approx(tensors[1])


def test_without_validation_data_a_fifth_is_held_out():
    task = Training(torch.nn.Linear(3, 1), torch.nn.functional.mse_loss, inputs_and_targets()).task()
    assert task.samples == 40
    measured = task.measure(task.model)
    assert measured.train_loss != measured.validation_loss


@pytest.mark.parametrize(
    ("train", "text"),
    [
        (Stream(), "train must be a tuple of tensors, a data set with a length, or a DataLoader of one"),
        ((torch.ones(3), torch.ones(4)), "train must be tensors of equal length"),
        ((torch.ones(0), torch.ones(0)), "train must be at least one sample"),
        (DataLoader(Items(), collate_fn=lambda items: {"x": 1}), "train must have batches of inputs and targets"),
    ],
)
def test_data_that_cannot_be_used_are_refused(train, text):
    with pytest.raises((TypeError, ValueError), match=text):
        losses(train)


def test_the_part_of_the_data_that_cannot_be_used_is_named():
    inputs, targets = inputs_and_targets()
    model = torch.nn.Linear(3, 1)
    task = Training(model, torch.nn.functional.mse_loss, (inputs, targets), (inputs,)).task()
    with pytest.raises(TypeError, match=r"validation must have batches of inputs and targets .* got tuple of Tensor;"):
        task.measure(model)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def make():\n    pass\n", "must have a function build .*; its functions are make"),
        ("def build():\n    return 3\n", "build must return model, loss, training data and perhaps .* got int$"),
        ("def build():\n    return 3, 'x'\n", r"build must return model, loss, .* got tuple of int, str$"),
        ("import no_such_module\n", "build of my_model.py, line 1: ModuleNotFoundError: .*no_such_module"),
        ("def build():\n    return {}['x']\n", "build of my_model.py, line 2: KeyError: 'x'"),
        (f"{FILE}\nimport gradline.lab\ngradline.lab.compare(build)\n", "compare must be called under `if __name__ =="),
        (FILE.replace("Linear(6, 8)", "Linear(5, 8)"), "build of my_model.py: RuntimeError: mat1 and mat2 shapes"),
        (FILE.replace("torch.nn.functional.cross_entropy", "lambda a, b: a.sum(dim=1)"), "without dimensions"),
        (FILE.replace("torch.nn.functional.cross_entropy", "lambda a, b: b.float().mean()"), "has to have gradients"),
    ],
)
def test_mistakes_in_the_file_are_one_sentence(file, source, text, capsys):
    file.write_text(source)
    assert main(["compare", str(file), "--budget", "10"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("gradline: ")
    assert re.search(text, said)


def test_a_changed_batch_size_and_arguments_that_exclude_each_other(file, capsys):
    assert main(["compare", str(file), "--budget", "10", "--minutes", "1"]) == 2
    assert "minutes must be None if budget is given" in capsys.readouterr().err
    assert main(["compare", str(file), "--budget", "10", "--batch-size", "900"]) == 2
    assert "batch_size must be at most 200" in capsys.readouterr().err
    assert main(["compare", str(file), "--budget", "10", "--method", "adm"]) == 2
    assert "there is no method 'adm'" in capsys.readouterr().err


def test_a_stored_problem_is_read_without_its_file(file):
    problem = script(file)
    file.unlink()
    assert problem_from_dict(problem.to_dict()) == problem


def test_numpy_and_random_are_seeded_too(tmp_path):
    path = tmp_path / "noisy.py"
    path.write_text(
        "import random, numpy, torch\ndef build():\n"
        "    x = torch.tensor(numpy.random.randn(40, 2), dtype=torch.float32) + random.random()\n"
        "    return torch.nn.Linear(2, 1), torch.nn.functional.mse_loss, (x, x[:, :1])\n"
    )
    first, second = (check(script(path))[2] for _ in range(2))
    assert first.train_loss == second.train_loss


def test_a_method_that_fails_says_why(file):
    source = FILE.replace("torch.nn.functional.cross_entropy", "loss").replace(
        "def build", "def loss(a, b):\n    return torch.nn.functional.cross_entropy(1e30 * a, b) * 1e30\n\ndef build"
    )
    file.write_text(source)
    found = gradline.lab.compare(file, "out", budget=30, methods=["adam-1", "adam-0.001"], **QUIET)
    assert all(math.isinf(row.validation_loss.median) or row.validation_loss.median >= 0 for row in found.rows)
    assert len(found.sentences) >= 1


def test_code_of_every_default_method():
    names = [one for name in DEFAULT for one in GROUPS.get(name, (name,))]
    for name in names:
        compile(outcome.code(METHODS[name]), name, "exec")
    assert outcome.code(METHODS["prodigy"]) == "optimizer = prodigyopt.Prodigy(model.parameters())"
    assert outcome.code(METHODS["adamw-cosine-0.003"]).splitlines() == [
        "optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)",
        "scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=number_of_steps)",
    ]


def test_a_grid_of_learning_rates_is_told_with_its_cost(tmp_path):
    found = gradline.lab.compare(build, tmp_path, budget=20, methods=["angle", "adamw-cosine"], **QUIET)
    assert len(found.rows) == 1 + len(GROUPS["adamw-cosine"])
    (told,) = [sentence for sentence in found.sentences if sentence.startswith("The best of ")]
    count = len(GROUPS["adamw-cosine"])
    assert told.startswith(f"The best of {count} learning rates of adamw-cosine is adamw-cosine-")
    assert " of angle" in told
