"""The data sets as they are loaded: sizes, scaling, targets, folders, the registry."""

import gzip
import hashlib
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from gradline.lab.problems import data
from gradline.lab.problems.data import cifar10
from gradline.lab.problems.data.dataset import BLOCK, z_scored


def check_scaled(loaded, *, fitted=None, tolerance=1e-10):
    """Means 0 and deviations 1 over the fitted rows; constant columns all 0."""
    rows = (loaded.train_inputs if fitted is None else fitted).astype(np.float64)
    constant = (rows == 0).all(axis=0)
    np.testing.assert_allclose(rows.mean(axis=0), 0.0, atol=tolerance)
    np.testing.assert_allclose(rows.std(axis=0, ddof=1)[~constant], 1.0, atol=tolerance)
    assert not loaded.test_inputs[:, constant].any()
    assert np.isfinite(loaded.test_inputs).all()
    return int(constant.sum())


def check_one_hot(targets):
    assert np.array_equal(targets.sum(axis=1), np.ones(len(targets)))
    assert set(np.unique(targets)) <= {0.0, 1.0}


def counts(targets):
    return targets.sum(axis=0).astype(int).tolist()


def test_iris():
    iris = data.load("iris")
    assert iris.train_inputs.shape == (150, 4)
    assert iris.test_inputs.shape == (0, 4)
    assert iris.test_targets.shape == (0, 3)
    assert counts(iris.train_targets) == [50, 50, 50]
    assert iris.classes == ("setosa", "versicolor", "virginica")
    assert iris.train_inputs.dtype == iris.train_targets.dtype == np.float64
    assert check_scaled(iris) == 0
    raw = load_iris().data
    np.testing.assert_allclose(iris.train_inputs, (raw - raw.mean(axis=0)) / raw.std(axis=0, ddof=1), atol=1e-13)


def test_bcwd():
    bcwd = data.load("bcwd")
    assert bcwd.train_inputs.shape == (400, 30)
    assert bcwd.test_inputs.shape == (169, 30)
    assert bcwd.train_targets.shape == (400, 2)
    check_one_hot(bcwd.train_targets)
    check_one_hot(bcwd.test_targets)
    assert check_scaled(bcwd) == 0
    assert np.abs(bcwd.test_inputs.mean(axis=0)).max() > 1e-3  # fitted on the training rows alone
    assert repr(bcwd) == "<DataSet bcwd: 400 training and 169 test samples, 30 inputs, 2 outputs, float64>"


def test_bcwd_has_the_rows_of_the_papers_programs():
    theirs = np.load(Path(__file__).parents[2] / "golden" / "bcwd.npz")
    ours = data.load("bcwd", z_score="all")
    in_order = theirs["X_train"][np.lexsort(theirs["X_train"].T)]
    np.testing.assert_allclose(ours.train_inputs[np.lexsort(ours.train_inputs.T)], in_order, atol=1e-12)
    assert counts(ours.train_targets) == counts(theirs["Y_train"][:, ::-1]) == [152, 248]
    assert counts(ours.test_targets) == [60, 109]
    raw = data.load("bcwd", z_score="none")
    everything = np.vstack([raw.train_inputs, raw.test_inputs])
    assert len(np.unique(everything, axis=0)) == 569


def test_all_rows_may_be_fitted():
    bcwd = data.load("bcwd", z_score="all")
    check_scaled(bcwd, fitted=np.vstack([bcwd.train_inputs, bcwd.test_inputs]))
    assert np.abs(bcwd.train_inputs.mean(axis=0)).max() > 1e-3


def test_inputs_may_be_left_as_they_are():
    assert np.array_equal(data.load("iris", z_score="none").train_inputs, load_iris().data)


def test_the_type_may_be_chosen():
    small, large = data.load("bcwd", dtype=np.float32), data.load("bcwd")
    assert {getattr(small, f"{part}_{kind}").dtype for part in ("train", "test") for kind in ("inputs", "targets")} == {
        np.dtype(np.float32)
    }
    assert np.array_equal(small.train_inputs, large.train_inputs.astype(np.float32))


# Scaling


@pytest.mark.parametrize("value", [0.0, 0.1, 255.0, 1e300, -1e-300])
def test_a_constant_column_becomes_zero_everywhere(value):
    rows = np.column_stack([np.full(1000, value), np.arange(1000.0)])
    others = np.array([[value, 0.0], [value + 7.0, 1.0], [-3.0, 2.0]])
    rows_scaled, others_scaled = z_scored([rows, others], [rows], np.float64)
    assert not rows_scaled[:, 0].any()
    assert not others_scaled[:, 0].any()
    assert np.isfinite(others_scaled).all()


def test_a_spread_too_small_to_square_becomes_zero():
    fitted = np.array([[0.0], [1e-200]])
    assert z_scored([np.array([[0.0], [1.0]])], [fitted], np.float64)[0].tolist() == [[0.0], [0.0]]


def test_a_single_row_becomes_zero():
    assert z_scored([np.array([[3.0, 5.0]])], [np.array([[3.0, 4.0]])], np.float64)[0].tolist() == [[0.0, 0.0]]


def test_a_large_mean_costs_no_digits():
    rows = 1e9 + np.random.default_rng(0).standard_normal((500, 3))
    (scaled,) = z_scored([rows], [rows], np.float64)
    np.testing.assert_allclose(scaled.std(axis=0, ddof=1), 1.0, atol=1e-9)


def test_blocks_do_not_show():
    rows = np.random.default_rng(0).integers(0, 256, (2 * BLOCK + 5, 7)).astype(np.uint8)
    rows[:, 3] = 9
    wide = rows.astype(np.float64)
    with np.errstate(invalid="ignore"):
        expected = np.nan_to_num((wide - wide.mean(axis=0)) / wide.std(axis=0, ddof=1))
    for parts in ([rows], [rows[:10], rows[10:]]):
        (scaled,) = z_scored([rows], parts, np.float32)
        assert scaled.dtype == np.float32
        np.testing.assert_allclose(scaled, expected, atol=1e-6)


# The registry


def read_corners(directory):
    corners = np.array([[0, 0, 5], [0, 1, 5], [1, 0, 5], [1, 1, 5]], dtype=np.int8)
    return data.Samples(corners, np.array([0, 1, 1, 0]), corners[:2], np.array([0, 2]))


@pytest.fixture
def corners():
    data.register("corners", data.Source(read_corners))
    yield "corners"
    del data.SOURCES["corners"]


def test_a_data_set_can_be_added(corners):
    loaded = data.load(corners)
    assert loaded.name == "corners"
    assert loaded.train_targets.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert loaded.test_targets.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert check_scaled(loaded) == 1


def test_a_name_is_not_taken_twice_by_mistake(corners):
    with pytest.raises(ValueError, match="name must be new, or replace=True"):
        data.register(corners, data.Source(read_corners))
    data.register(corners, data.Source(read_corners, dtype=np.float32), replace=True)
    assert data.load(corners).train_inputs.dtype == np.float32


@pytest.mark.parametrize("name", ["", "../x", "A", "a b", ".x"])
def test_names_are_plain(name):
    with pytest.raises(ValueError, match="name must be small letters"):
        data.register(name, data.Source(read_corners))


def test_targets_may_be_given_as_they_are(monkeypatch):
    values = np.array([[0.25], [-3.0]])
    source = data.Source(lambda directory: data.Samples(np.eye(2), values))
    monkeypatch.setitem(data.SOURCES, "curve", source)
    loaded = data.load("curve")
    assert loaded.train_targets.tolist() == values.tolist()
    assert loaded.test_targets.shape == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "imagenet"}, "name must be one of iris, bcwd, mnist, mnist-60000, cifar10"),
        ({"name": "iris", "z_score": "test"}, "z_score must be 'train', 'all' or 'none'"),
        ({"name": "iris", "dtype": np.int64}, "dtype must be float32 or float64"),
    ],
)
def test_nonsense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        data.load(**options)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ((np.zeros((0, 2)), np.zeros(0, int)), "train_inputs must be at least one row"),
        ((np.zeros(3), np.zeros(3, int)), "train_inputs must be two-dimensional"),
        ((np.zeros((3, 2)), np.zeros(2, int)), "train_labels must be 3 class numbers"),
        ((np.array([[np.nan]]), np.zeros(1, int)), "train_inputs must be finite"),
        ((np.array([["a"]]), np.zeros(1, int)), "train_inputs must be real numbers"),
        ((np.ones((1, 1)), np.zeros(1)), "labels must be whole numbers"),
        ((np.ones((1, 1)), np.array([-1])), "labels must be between 0 and"),
        ((np.ones((1, 1)), np.array([[np.inf]])), "targets must be finite"),
        ((np.ones((1, 1)), np.array([0]), np.ones((1, 1))), "must be given together"),
        ((np.ones((1, 1)), np.array([0]), np.ones((1, 2)), np.array([0])), "test_inputs must be of the shape"),
        ((np.ones((1, 1)), np.array([0]), np.ones((1, 1)), np.array([[0]])), "test_labels must be of the shape"),
        ((np.ones((1, 1)), np.array([2]), None, None, ("a", "b")), "labels must be between 0 and 1"),
    ],
)
def test_samples_are_checked(samples, message, monkeypatch):
    monkeypatch.setitem(data.SOURCES, "odd", data.Source(lambda directory: data.Samples(*samples)))
    with pytest.raises(ValueError, match=message):
        data.load("odd")


# The folder


def test_the_folder_is_the_argument_else_the_variable_else_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("GRADLINE_DATA", str(tmp_path / "named"))
    assert data.data_directory(tmp_path / "argument") == tmp_path / "argument"
    assert data.data_directory() == tmp_path / "named"
    monkeypatch.setenv("GRADLINE_DATA", "~/named")
    assert data.data_directory() == Path.home() / "named"
    monkeypatch.setenv("GRADLINE_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert data.data_directory().parts[-2:] == ("gradline", "data")
    assert list(tmp_path.iterdir()) == []


def test_status_of_an_empty_folder(tmp_path):
    lines = data.status(tmp_path / "none")
    assert [(line.data_set, line.state) for line in lines] == [
        *[("mnist", data.FileState.MISSING)] * 4,
        *[("mnist-60000", data.FileState.MISSING)] * 4,
        *[("cifar10", data.FileState.MISSING)] * 3,
    ]
    assert lines[0].path == tmp_path / "none" / "MNIST" / "raw" / "train-images-idx3-ubyte.gz"
    assert not (tmp_path / "none").exists()


def test_no_pickle_is_read_whose_bytes_are_not_the_published_ones(tmp_path):
    for file in cifar10.DOWNLOADS[0].unpacked:
        path = file.under(tmp_path)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(pickle.dumps({b"data": []}))
    with pytest.raises(data.DataError, match="is damaged"):
        cifar10.read(tmp_path)


# The real files


def test_every_real_file_is_as_published(real_data):
    assert {line.state for line in data.status(real_data)} == {data.FileState.VERIFIED}


def test_mnist(real_data):
    loaded = data.load("mnist", directory=real_data, download=False)
    assert loaded.train_inputs.shape == (50_000, 784)
    assert loaded.test_inputs.shape == (10_000, 784)
    assert loaded.train_inputs.dtype == loaded.train_targets.dtype == np.float32
    assert counts(loaded.train_targets) == [4932, 5678, 4968, 5101, 4859, 4506, 4951, 5175, 4842, 4988]
    assert counts(loaded.test_targets) == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    check_one_hot(loaded.train_targets)
    assert check_scaled(loaded, tolerance=1e-5) == 67


def test_mnist_unpacked_by_torchvision(real_data, tmp_path):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for packed in sorted((real_data / "MNIST" / "raw").glob("*.gz")):
        content = gzip.decompress(packed.read_bytes())
        (raw / packed.name).write_bytes(b"damaged")
        (raw / packed.stem).write_bytes(content)
    loaded = data.load("mnist", directory=tmp_path, z_score="none", download=False)
    assert counts(loaded.test_targets)[0] == 980
    assert loaded.train_inputs.max() == 255.0
    assert {line.state for line in data.status(tmp_path) if line.data_set == "mnist"} == {data.FileState.VERIFIED}


def test_a_damaged_file_of_the_right_size_is_never_read(real_data, tmp_path):
    shutil.copytree(real_data / "MNIST", tmp_path / "MNIST", copy_function=shutil.copyfile)
    place = tmp_path / "MNIST" / "raw" / "t10k-labels-idx1-ubyte.gz"
    content = bytearray(place.read_bytes())
    content[1000] ^= 1
    place.write_bytes(content)
    with pytest.raises(data.DataError, match=r"t10k-labels-idx1-ubyte\.gz is damaged: its sha256 .* replaces it"):
        data.load("mnist", directory=tmp_path)


def test_cifar10(real_data):
    loaded = data.load("cifar10", directory=real_data, download=False)
    assert loaded.train_inputs.shape == loaded.test_inputs.shape == (10_000, 3072)
    assert counts(loaded.train_targets) == [1005, 974, 1032, 1016, 999, 937, 1030, 1001, 1025, 981]
    assert counts(loaded.test_targets) == [1000] * 10
    assert loaded.classes[:3] == ("airplane", "automobile", "bird")
    assert check_scaled(loaded, tolerance=1e-5) == 0


def test_the_checksums_are_those_of_the_files_inside(real_data):
    for wanted in data.SOURCES["mnist"].downloads:
        content = gzip.decompress(wanted.file.under(real_data).read_bytes())
        (inside,) = wanted.unpacked
        assert (inside.size, inside.sha256) == (len(content), hashlib.sha256(content).hexdigest())


# Imports


def run(program):
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_gradline_does_not_import_the_study():
    run("import sys, gradline; assert not [name for name in sys.modules if name.startswith('gradline.lab')]")


def test_the_data_need_no_torch_and_nothing_else_before_it_is_used():
    run(
        "import sys\n"
        "for name in ('torch', 'sklearn', 'tqdm', 'filelock', 'platformdirs', 'pooch'): sys.modules[name] = None\n"
        "import gradline.lab.problems.data"
    )


@pytest.mark.parametrize(
    ("missing", "call", "purpose"),
    [
        ("sklearn", "data.load('iris')", "the Iris data needs scikit-learn"),
        ("platformdirs", "data.load('iris')", "finding the cache folder needs platformdirs"),
        ("pooch", "data.fetch('mnist', sys.argv[0] + 'none')", "downloading needs pooch"),
    ],
)
def test_a_missing_package_is_named_with_the_way_to_get_it(missing, call, purpose, tmp_path):
    said = run(f"""
import os, sys
sys.argv[0] = {str(tmp_path)!r}
os.environ.pop("GRADLINE_DATA", None)
sys.modules[{missing!r}] = None
from gradline.lab.problems import data
try:
    {call}
except ModuleNotFoundError as error:
    print(error)
""")
    assert said == f"{purpose}, which is not installed: pip install '.[study]' in a clone of gradline"
