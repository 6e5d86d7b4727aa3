"""Every example runs, and does what it says."""

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_every_example_has_a_test():
    here = Path(__file__).read_text()
    assert all(f'load("{path.stem}")' in here for path in EXAMPLES.glob("*.py"))


def test_bcwd(capsys):
    load("bcwd").main(["--evaluations", "300"])
    shown = capsys.readouterr().out
    assert shown.count("logistic regression") == shown.count("one hidden layer") == 4
    assert "No learning rate was chosen" in shown


def test_bcwd_refuses_nonsense(capsys):
    with pytest.raises(SystemExit):
        load("bcwd").main(["--evaluations", "0"])
    assert "--evaluations must be at least 1 (each is one gradient), got 0" in capsys.readouterr().err


def test_bcwd_learns():
    results = load("bcwd").study(1000, 0)
    assert all(result.test_error < 0.1 for result in results)


def test_training_loop():
    assert load("training_loop").main() < 0.12


def test_closure():
    assert all(loss < 0.3 for loss in load("closure").main().values())


def test_resume():
    assert load("resume").main(evaluations=151)


def test_own_search():
    assert load("own_search").main() < 1e-3


def test_prls(tmp_path):
    losses = load("prls").main(picture=tmp_path / "search.png")
    assert all(loss < 0.2 for loss in losses.values())
    assert (tmp_path / "search.png").stat().st_size > 1000
