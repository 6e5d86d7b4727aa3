"""Studies: the shipped ones plan what the paper ran, and every mistake in a file is named with its line."""

import json
import sys
from dataclasses import dataclass

import pytest

from gradline.lab import studies
from gradline.lab.engines import lockstep_accepts
from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.methods import METHODS, Direction
from gradline.lab.problems import PROBLEMS, Activation, Loss, Network
from gradline.lab.studies import Study, StudyError, plan
from gradline.lab.studies.toml import Value
from gradline.protocol import Outcome, Stop

COUNTS = {
    "bcwd": 3 * 4 * 2 * 10,
    "bcwd-fixed": 4 * 4 * 10,
    "mnist-net1": 3 * 2 * 10,
    "mnist-net2": 3 * 2 * 10,
    "cifar-net1": 3 * 2 * 10,
    "cifar-net2": 3 * 2 * 10,
    "netpi-10": 2 * 10,
    "static-vs-dynamic": 2 * 4 * 4 * 10,
    "direction-vs-step": 4 * 4 * 2 * 10,
    "direction-quality": 3 * 6 * 10,
    "prls-losses": (4 * 4 + 4) * 2 * 10,
    "net2-scales": 4 * 3 * 2 * 10,
    "today": 6 * 10 * 5,
    "compare": 30 * 31 * 5,
    "train": 16 * 2 * 2 * (11 * 5 + 24 + 21 + 8),
}
IMAGES = ("compare", "train", "prls-losses", "net2-scales", "today")
"""Studies with problems on MNIST or CIFAR10, beside those that are called so."""


def test_all_of_them_are_here():
    assert set(studies.available()) == set(COUNTS)


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_a_shipped_study_plans_its_runs(name, count):
    study = studies.load(name)
    runs = plan(study)
    assert len(runs) == len({run.key for run in runs}) == count
    assert study.name == name
    assert 20 < len(study.title) < 110
    for run in runs:
        assert Run.from_dict(run.to_dict()) == run
    if "mnist" not in name and "cifar" not in name and name not in IMAGES:
        studies.validate(runs)


def test_the_studies_are_the_papers():
    fixed = plan(studies.load("bcwd-fixed"))
    assert {run.budget for run in fixed} == {100_000}
    assert {run.method.name for run in fixed} == {"gols-i", "fixed-1", "fixed-10", "fixed-100"}
    assert {run.sampling for run in plan(studies.load("static-vs-dynamic"))} == {Sampling.STATIC, Sampling.DYNAMIC}
    both = {(run.direction_batch_size, run.batch_size) for run in plan(studies.load("direction-vs-step"))}
    assert {(400, 10), (10, 400)} <= both
    assert all(run.angle for run in plan(studies.load("direction-quality")))
    losses = {run.problem.name: run.problem for run in plan(studies.load("prls-losses"))}
    published = losses["bcwd-netpi-published-loss"]
    assert published.loss is Loss.BCE_AS_PUBLISHED
    assert published.z_score == losses["bcwd-netpi"].z_score  # nothing else differs
    scales = {run.key for run in plan(studies.load("net2-scales"))}
    for name in ("mnist-net2", "cifar-net2"):
        for problem in (name, f"{name}-as-published"):
            assert {run.key for run in plan(studies.load(name, problems=[problem]))} <= scales


def test_what_is_given_takes_the_place_of_the_studys():
    study = studies.load("bcwd", problems=["iris"], methods=["armijo"], batch_sizes=[20], seeds=2, budget=7)
    runs = plan(study)
    assert [(run.problem.name, run.method.name, run.batch_size, run.seed, run.budget) for run in runs] == [
        ("iris", "armijo", 20, seed, 7) for seed in range(2)
    ]
    for wrong in ({"seeds": 0}, {"budget": 0}, {"problems": ["bcwd-netp"]}, {"methods": ["gols"]}):
        with pytest.raises(ValueError, match=r"must be|did you mean"):
            studies.load("bcwd", **wrong)


def test_full_sampling_has_one_batch_size():
    study = Study(
        name="full", problems=(PROBLEMS["bcwd-logr"],), methods=(METHODS["gols-i"],), sampling=(Sampling.FULL,)
    )
    assert {run.batch_size for run in plan(study)} == {400}
    assert len(plan(study)) == 10


def test_a_batch_is_no_larger_than_the_data():
    runs = plan(studies.load("bcwd", batch_sizes=[401]))
    with pytest.raises(StudyError, match=r"batch_size must be at most 400 for bcwd-logr .* got 401"):
        studies.validate(runs)
    with pytest.raises(StudyError, match="direction_batch_size must be at most 400"):
        studies.validate(plan(Study(**base(), direction_batch_sizes=(500,))))
    studies.validate(plan(Study(**base(), direction_batch_sizes=(500,), repetition=True)))


def base():
    return {"name": "x", "problems": (PROBLEMS["bcwd-logr"],), "methods": (METHODS["gols-i"],)}


@dataclass(frozen=True)
class HalfStep:
    """Somebody's own search."""

    size: float = 0.5

    def start(self):
        return None

    def search(self, origin, memory):
        yield self.size
        return Outcome(self.size, 0, Stop.FIXED, memory)


@pytest.fixture
def write(tmp_path):
    def written(text):
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def test_a_study_of_ones_own(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "somebodys", sys.modules[__name__])
    path = write(
        """
        title = "mine"
        seeds = [3, 5]
        budget = 50
        sampling = "static"
        direction_batch_sizes = ["same", 20]

        [[problem]]
        name = "wide"
        like = "bcwd-netpi"
        hidden = [256, 8]
        activation = "tanh"
        batch_sizes = [25]

        [[problem]]
        name = "wider"
        like = "wide"
        hidden = [512]

        [[problem]]
        name = "fresh"
        data = "iris"
        loss = "mse"
        scale = 1

        [[method]]
        name = "eager"
        search = "GolsI"
        options = { growth = 4.0 }

        [[method]]
        name = "half"
        search = "somebodys:HalfStep"
        [method.options]
        size = 0.25
        """
    )
    study = studies.load(path)
    assert study.name == "mine"
    wide, wider, fresh = study.problems
    assert wide.hidden == (256, 8)
    assert wide.activation is wider.activation is Activation.TANH
    assert wider.batch_sizes == (25,)
    assert fresh == Network(name="fresh", data="iris", loss=Loss.MSE, scale=1)
    assert study.methods[0].search.growth == 4.0
    assert study.methods[1].search == HalfStep(0.25)
    assert {run.seed for run in plan(study)} == {3, 5}
    assert {run.direction_batch_size for run in plan(study)} == {None, 20}
    only = studies.load(path, problems=["fresh"], methods=["half", "prls"])
    assert [method.name for method in only.methods] == ["half", "prls"]


MISTAKES = {
    'problems = ["bcwd-netpi"]\nmethods = ["golsi"]': (
        r"line 2: methods: there is no method 'golsi'; did you mean 'gols-i'\? \(`gradline list methods` shows all\)"
    ),
    'problems = ["bcwd-netp"]\nmethods = ["prls"]': (
        r"line 1: problems: there is no problem 'bcwd-netp'; did you mean 'bcwd-netpi'"
    ),
    'metods = ["prls"]': r"line 1: metods: there is no key 'metods'; did you mean 'methods'\?",
    "title = 3": "line 1: title: must be a text in quotes, got 3",
    "seeds = 3\nbatch_sizes = 4": r"line 2: batch_sizes: must be a list in brackets, got 4",
    "seeds = 3\nbatch_sizes = [4, 0]": "line 2: batch_sizes: must be whole, and at least 1, got 0",
    "\nseeds = 0": "line 2: seeds: must be whole, and at least 1, got 0",
    "seeds = [1, -1]": "line 1: seeds: must be whole, and at least 0, got -1",
    "seeds = []": r"line 1: seeds: must have at least one entry \(nothing would be run\), got \[\]",
    "budget = 1e3": r"line 1: budget: must be whole, and at least 1, got 1000\.0",
    'angle = "yes"': "line 1: angle: must be true or false, got 'yes'",
    'sampling = ["dynamic", "statc"]': "line 1: sampling: there is no sampling 'statc'; did you mean 'static'",
    'direction_batch_sizes = ["sam"]': (
        r"line 1: direction_batch_sizes: must be whole numbers from 1 on or \"same\", got 'sam'"
    ),
    "seeds = 3\nbudget = ": r"this is not TOML: Invalid value \(at line 2, column 10\)",
    '[[problem]]\nlike = "iris"': r"line 1: problem: name is missing \(runs and files are named by it\)",
    '[[problem]]\nname = "a/b"\nlike = "iris"': r"line 2: problem.name: must be letters, digits.*got 'a/b'",
    'name = "../../../x"': r"line 1: name: must be letters, digits.*\(files are named by it\), got '../../../x'",
    "name = 3": r"line 1: name: must be letters, digits",
    '[[problem]]\nname = "iris"\nlike = "iris"': "line 2: problem.name: must be a new name",
    '[[problem]]\nname = "a"\nlike = "irs"': "line 3: problem.like: there is no problem 'irs'; did you mean 'iris'",
    '[[problem]]\nname = "a"': "line 1: problem: data is missing",
    '[[problem]]\nname = "a"\ndata = "mnst"': (
        "line 3: problem.data: there is no data set 'mnst'; did you mean 'mnist'"
    ),
    '[[problem]]\nname = "a"\nlike = "iris"\n\n[[problem]]\nname = "b"\nlike = "iris"\nhiden = [3]': (
        "line 8: problem.hiden: there is no key 'hiden'; did you mean 'hidden'"
    ),
    '[[problem]]\nname = "a"\nlike = "iris"\nhidden = [0]': (
        r"line 4: problem.hidden: hidden must be whole numbers above 0"
    ),
    '[[problem]]\nname = "a"\nlike = "iris"\nscale = "big"': (
        "line 4: problem.scale: scale must be above 0 and finite"
    ),
    '[[problem]]\nname = "a"\nlike = "iris"\nloss = "bse"': (
        "line 4: problem.loss: there is no loss 'bse'; did you mean 'mse'|'bce'"
    ),
    '[[problem]]\nname = "a"\nlike = "iris"\nerror_samples = 0': (
        "line 4: problem.error_samples: error_samples must be a whole"
    ),
    '[[method]]\nname = "m"': "line 1: method: must have either search or like",
    '[[method]]\nname = "m"\nsearch = "GoldI"': (
        r"line 3: method.search: there is no search 'GoldI'; did you mean 'GolsI'\?"
    ),
    '[[method]]\nname = "m"\nsearch = "nowhere.at_all:Search"': (
        "line 3: method.search: search must be 'package.module:Class' .*No module named 'nowhere'"
    ),
    '[[method]]\nname = "m"\nsearch = "math:pi"': "line 3: method.search: search must be a dataclass with a method",
    '[[method]]\nname = "m"\nsearch = "GolsI"\noptions = { groth = 3 }': (
        r"line 4: method.options.groth: there is no option of GolsI 'groth'; did you mean 'growth'\?"
    ),
    '[[method]]\nname = "m"\nsearch = "subprocess:Popen"\noptions = { args = "false" }': (
        "line 3: method.search: search must be a dataclass with a method `search`"
    ),
    '[[method]]\nname = "m"\nsearch = "GolsI"\n[method.options]\noverhoot = 3': "line 5: method.options.overhoot",
    '[[method]]\nname = "m"\nlike = "gols-i"\noptions.growth = 0.5': (
        "line 4: method.options.growth: growth must be above 1"
    ),
    'problems = ["iris"]\nmethod = "gols-j"': r"line 2: method: there is no method 'gols-j'; did you mean 'gols-i'",
    "method = 3": r"line 1: method: must be tables that begin with \[\[method\]\]",
    'seeds = 3\n[method.m]\nsearch = "GolsI"': r"line 2: method: must be tables that begin with \[\[method\]\]",
    "seeds = 1": "problems is missing: name at least one",
    '[[method]]\nname = "m"\nsearch = "GolsI"\ndirection = "adamm"': (
        r"line 4: method.direction: there is no direction 'adamm'; did you mean 'adam'"
    ),
    '[[method]]\nname = "m"\nsearch = "GolsI"\ndirection = "rprop"': (
        "line 4: method.direction: must be an optimizer whose update is proportional to its learning rate .*, got Rprop"
    ),
    '[[method]]\nname = "m"\nsearch = "GolsI"\ndirection = "lbfgs"': (
        r"line 4: method.direction: must be an optimizer whose step\(\) needs no closure .*, got LBFGS"
    ),
    '[[method]]\nname = "m"\nsearch = "GolsI"\ndirection = "adam"\ndirection_options = { lr = 1.0 }': (
        "line 5: method.direction_options.lr: there is no option of Adam 'lr'"
    ),
    '[[method]]\nname = "m"\nsearch = "GolsI"\ndirection_options = { a = 1 }': "must go with a direction",
    '[[method]]\nname = "m"\nsearch = "GolsI"\naverage = 3': "line 4: method.average: must be true or false, got 3",
    '[[method]]\nname = "m"\nlike = "prodigy"': "line 3: method.like: must be a search",
    '[[problem]]\nname = "m"\nbuilder = "nowhere"': "line 3: problem.builder: builder must be 'package",
    '[[problem]]\nname = "m"\nlike = "regression"\nhidden = [3]': "line 4: problem.hidden: there is no key 'hidden'",
    '[[setting]]\nproblem = "regresion"': "line 2: setting.problem: there is no problem 'regresion'",
    '[[setting]]\nproblem = "iris"\nbatch_sizes = [1, 2]\ntargets = [0.1]': (
        "line 4: setting.targets: must be one for each of 2 batch sizes"
    ),
    'budget = 3\n[[setting]]\nproblem = "iris"': r"line 1: budget: cannot go with \[\[setting\]\] tables",
}


ALONE = {"seeds = 1", 'problems = ["iris"]\nmethod = "gols-j"', "method = 3", 'seeds = 3\n[method.m]\nsearch = "GolsI"'}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_named_with_its_line(write, text):
    rest = '[[problem]]\nname = "p"\nlike = "iris"\n[[method]]\nname = "q"\nsearch = "GolsI"\n'
    expected = MISTAKES[text]
    whole = text if text in ALONE else f"{text}\n{rest}"
    path = write(whole)
    with pytest.raises(StudyError, match=expected) as raised:
        studies.load(path)
    assert str(raised.value).startswith(str(path))


def test_a_study_that_is_not_there(tmp_path):
    with pytest.raises(StudyError, match="there is no study 'bcdw'; did you mean 'bcwd'"):
        studies.load("bcdw")
    with pytest.raises(StudyError, match="there is no such file"):
        studies.load(tmp_path / "mine.toml")


def test_lines_of_everything():
    text = 'a = 1\nb.c = 2\n[t]\n"d e" = 3\n[[m]]\nx = 1\n[m.o]\ny = 2\n[[m]]\nx = """\nz = 3\n"""\n'
    places = {("a",): 1, ("b", "c"): 2, ("t", "d e"): 4, ("m", 0): 5, ("m", 0, "o", "y"): 8, ("m", 1, "x"): 10}
    assert {place: Value("f", text, place, None).line() for place in places} == places
    assert Value("f", text, ("m", 1, "x", "nothing"), None).line() == 10
    assert Value("f", text, ("nothing",), None).line() is None


def test_every_search_direction_and_peer_can_be_named(write):
    study = studies.load(
        write(
            """
            problems = ["bcwd-logr", "regression"]
            methods = ["angle", "prodigy", "gols-i", "mine", "averaged", "sgd"]
            batch_sizes = [10]
            seeds = 1

            [[method]]
            name = "mine"
            search = "GolsI"
            direction = "adam"
            direction_options = { betas = [0.0, 0.99] }

            [[method]]
            name = "averaged"
            like = "mine"
            average = true
            """
        )
    )
    methods = {method.name: method for method in study.methods}
    assert methods["mine"].direction == Direction.of("adam", {"betas": [0.0, 0.99]})
    assert methods["averaged"].direction == methods["mine"].direction
    assert methods["averaged"].average
    assert {"sgd-0.01", "sgd-100"} < set(methods)
    runs = plan(study)
    assert len(runs) == 2 * 10
    assert [run.method.name for run in runs if lockstep_accepts(run)] == ["gols-i"]
    for run in runs:
        assert Run.from_dict(json.loads(json.dumps(run.to_dict()))) == run


def test_one_method_can_be_named_alone(write):
    study = studies.load(write('problem = "iris"\nmethod = "angle"\nseeds = 1\n'))
    assert [method.name for method in study.methods] == ["angle"]
    assert [problem.name for problem in study.problems] == ["iris"]
