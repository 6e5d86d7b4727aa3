"""CIFAR10's pickles: read when they are what they should be, refused when they ask for anything else."""

import collections
import os
import pickle
import struct

import numpy as np
import pytest

from gradline.lab.problems.data import DataError
from gradline.lab.problems.data.cifar10 import DOWNLOADS, classes_of, read, samples_of
from gradline.lab.problems.data.pickles import parse_pickle


def text(content):
    """A string as Python 2 pickled it."""
    short = len(content) < 256
    head = b"U" + bytes([len(content)]) if short else b"T" + struct.pack("<i", len(content))
    return head + content


BYTE = (
    b"cnumpy\ndtype\n("
    + text(b"u1")
    + b"K\x00K\x01tR(K\x03"
    + text(b"|")
    + b"NNN"
    + b"J\xff\xff\xff\xff" * 2
    + b"K\x00tb"
)
EMPTY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"


def shape(*numbers):
    return b"(" + b"".join(b"J" + struct.pack("<i", number) for number in numbers) + b"t"


def array(content, rows, columns, *, element=BYTE, empty=EMPTY, version=b"K\x01", fortran=b"\x89"):
    return empty + b"(" + version + shape(rows, columns) + element + fortran + text(content) + b"tb"


def batch(images, labels=b"](K\x03K\x09e"):
    return b"\x80\x02}(" + text(b"data") + images + text(b"labels") + labels + b"u."


IMAGES = bytes(range(256)) * 24  # two images


def test_a_batch_is_read():
    images, labels = samples_of(parse_pickle(batch(array(IMAGES, 2, 3072)), name="a batch"), "a batch", rows=2)
    assert images.tobytes() == IMAGES
    assert images.dtype == np.uint8
    assert labels.tolist() == [3, 9]


def test_the_form_is_that_of_the_real_files(real_data):
    found = parse_pickle((real_data / "cifar-10-batches-py" / "test_batch").read_bytes(), name="test_batch")
    assert set(found) == {b"batch_label", b"labels", b"data", b"filenames"}
    assert found[b"batch_label"] == b"testing batch 1 of 1"


class Evil:
    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


class State:
    pass


def attacks():
    touch = "touch pwned"
    for protocol in range(6):
        yield f"os.system, protocol {protocol}", pickle.dumps(Evil(os.system, touch), protocol)
        yield f"eval in a list in a dict, protocol {protocol}", pickle.dumps({b"data": [Evil(eval, "1/0")]}, protocol)
        yield f"an instance, protocol {protocol}", pickle.dumps(State(), protocol)
        yield f"an ordered dict, protocol {protocol}", pickle.dumps(collections.OrderedDict(a=1), protocol)
    yield "getattr", b"\x80\x02cbuiltins\ngetattr\n."
    yield "python 2's copy_reg", b"\x80\x02ccopy_reg\n_reconstructor\n."
    yield "numpy's load", b"\x80\x02cnumpy\nload\n."
    yield "stack global", b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R."
    yield "inst", b"(" + b"S'true'\nios\nsystem\n."
    yield "obj", b"(cos\nsystem\nS'true'\no."
    yield "a persistent object", b"\x80\x02Pelsewhere\n."
    yield "an end too early", batch(array(IMAGES, 2, 3072))[:-1]
    yield "an empty file", b""
    yield "no pickle", b"\x00\x01\x02"


ATTACKS = dict(attacks())


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_not_of_the_format_is_refused(attack, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="the file"):
        parse_pickle(ATTACKS[attack], name="the file")
    assert not list(tmp_path.iterdir())


def test_the_attacks_would_work_on_an_open_reader(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickle.loads(ATTACKS["os.system, protocol 2"])
    assert (tmp_path / "pwned").exists()


def test_no_pickle_is_read_whose_bytes_are_not_the_published_ones(tmp_path):
    for download in DOWNLOADS[0].unpacked:
        place = download.under(tmp_path)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(ATTACKS["os.system, protocol 2"])
    with pytest.raises(DataError, match="is damaged"):
        read(tmp_path)


def test_a_name_is_reported():
    with pytest.raises(DataError, match=r"the file is refused: its pickle asks for os\.system"):
        parse_pickle(b"\x80\x02cos\nsystem\n.", name="the file")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x02].", "must be a dictionary with data and labels"),
        (b"\x80\x02}.", "must be a dictionary with data and labels"),
        (batch(array(IMAGES, 1, 6144)), "must hold 2 images of 3072 bytes, got uint8"),
        (batch(b"]"), "must hold 2 images of 3072 bytes, got list"),
        (batch(array(IMAGES, 1, 6144)), r"must hold 2 images of 3072 bytes, got uint8 \(1, 6144\)"),
        (batch(array(IMAGES, 2, 3072), b"](K\x03e"), "must have a list of 2 labels"),
        (batch(array(IMAGES, 2, 3072), text(b"ab")), "must have a list of 2 labels"),
        (batch(array(IMAGES, 2, 3072), b"](K\x03K\x0ae"), "must be whole numbers from 0 to 9"),
        (batch(array(IMAGES, 2, 3072), b"](K\x03J\xff\xff\xff\xffe"), "must be whole numbers from 0 to 9"),
        (batch(array(IMAGES, 2, 3072), b"](K\x03\x89e"), "must be whole numbers from 0 to 9"),
        (batch(array(IMAGES, 2, 3072), b"](K\x03" + text(b"1") + b"e"), "must be whole numbers from 0 to 9"),
    ],
)
def test_a_batch_with_other_things_in_it_is_refused(content, message):
    with pytest.raises(DataError, match=message):
        samples_of(parse_pickle(content, name="a batch"), "a batch", rows=2)


@pytest.mark.parametrize("meta", [None, {}, {b"label_names": [b"cat"]}, {b"label_names": ["cat"] * 10}])
def test_names_of_classes_are_checked(meta):
    with pytest.raises(DataError, match="must have the names of 10 classes"):
        classes_of(meta)
