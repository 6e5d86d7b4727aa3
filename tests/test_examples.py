"""Every example runs, and does what it says."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gradline

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


BESIDE_THE_CHECKOUT = Path(__file__).parents[1].parent / "shared" / "data"


@pytest.fixture
def cifar10(monkeypatch):
    """The published files of CIFAR10, where the example looks for them."""
    folder = Path(os.environ.get("GRADLINE_DATA") or BESIDE_THE_CHECKOUT)
    if not (folder / "cifar-10-batches-py").is_dir():
        pytest.skip("CIFAR10 is not here: set GRADLINE_DATA to a folder that has it")
    monkeypatch.setenv("GRADLINE_DATA", str(folder))


def test_every_example_has_a_test():
    here = Path(__file__).read_text()
    assert all(f'load("{path.stem}")' in here for path in EXAMPLES.glob("*.py"))


def test_training_loop():
    assert load("training_loop").main() < 0.12


def test_closure():
    losses = load("closure").main()
    assert losses.keys() == {"Angle", "GOLS-I, dynamic", "GOLS-I, static", "GOLS-I, full"}
    assert all(loss < 0.3 for loss in losses.values())


def test_resume():
    assert load("resume").main(evaluations=151)


def test_own_search():
    assert load("own_search").main() < 1e-3


def test_prls(tmp_path):
    losses = load("prls").main(picture=tmp_path / "search.png")
    assert all(loss < 0.2 for loss in losses.values())
    assert (tmp_path / "search.png").stat().st_size > 1000


def test_cifar10_conv(cifar10):
    assert load("cifar10_conv").main(["--samples", "600", "--steps", "70", "--batch-size", "50"]) > 0.2


def test_cifar10_conv_says_how_to_get_the_images(monkeypatch, tmp_path):
    monkeypatch.setenv("GRADLINE_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=r"(?s)cifar10 needs files that are not in .*gradline data fetch cifar10"):
        load("cifar10_conv").main([])


def test_char_transformer(tmp_path):
    example = load("char_transformer")
    assert example.documentation().count("Return ") > 100
    text = tmp_path / "text.txt"
    text.write_text("the slope changes its sign from minus to plus. " * 40)
    size = ["--context", "16", "--width", "16", "--layers", "1", "--steps", "120"]
    loss, sample = example.main(["--file", str(text), *size])
    assert loss < 1.5  # a guess among its letters is 2.9
    assert len(sample) == 300
    assert set(sample) <= set(text.read_text())


def test_vae(tmp_path):
    loss, drawn = load("vae").main(["--steps", "400", "--hidden", "64", "--save", str(tmp_path / "vae.pt")])
    assert loss < 28.0
    assert drawn.shape == (5, 8, 8)
    assert torch.load(tmp_path / "vae.pt", weights_only=True)["decoder.0.weight"].shape == (64, 6)


def test_pinn():
    errors = load("pinn").main(["--evaluations", "80"])
    assert len(errors) == 8
    assert errors["wolfe-lbfgs"] < errors["adam"]
    assert errors["lbfgs"] < errors["adam"]


def test_the_quasi_newton_direction_of_pinn_solves_a_narrow_valley():
    example = load("pinn")
    x = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    widths = torch.tensor([1.0, 30.0, 1000.0], dtype=torch.float64)
    optimizer = gradline.LineSearchOptimizer(
        [x], gradline.searches.StrongWolfe(), direction=example.QuasiNewton, reuse_gradient=True
    )

    def closure():
        optimizer.zero_grad()
        loss = (widths * x.square()).sum()
        loss.backward()
        return loss

    for _ in range(25):
        loss = optimizer.step(closure)
    assert loss < 1e-10  # steepest descent is still above 0.1


def test_fine_tuning():
    pretrained, head, unfrozen = load("fine_tuning").main(["--steps", "100"])
    assert pretrained < 0.2
    assert unfrozen < 0.5
    assert unfrozen < head


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Jupyter's own
def test_the_notebook():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(EXAMPLES / "first_training.ipynb", as_version=4)
    stored = [kinds(cell) for cell in notebook.cells]
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    assert [kinds(cell) for cell in notebook.cells] == stored  # what the repository shows
    text = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))
    assert float(re.search(r"test loss (\S+);", text)[1]) < 0.3
    assert "the same parameters, bit for bit" in text


def kinds(cell):
    """The kinds of the outputs of a cell."""
    return [sorted(output.get("data", {})) or output.output_type for output in cell.get("outputs", ())]


@pytest.mark.slow
def test_ddp(tmp_path):
    checkpoint = tmp_path / "checkpoint.pt"
    assert load("ddp").main(["--epochs", "4", "--checkpoint", str(checkpoint)]) < 0.4
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    example = [str(EXAMPLES / "ddp.py"), "--epochs", "6", "--checkpoint", str(checkpoint)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*torchrun, *example], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "resuming after epoch 4" in done.stdout
    steps = dict(re.findall(r"rank (\d): (\d+ steps, the last .*)", done.stdout))
    assert steps.keys() == {"0", "1"}
    assert steps["0"] == steps["1"]
