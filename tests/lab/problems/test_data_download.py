"""Downloads: over bad lines, from bad mirrors, and archives."""

import hashlib
import io
import random
import socket
import sys
import tarfile

import numpy as np
import pytest

from gradline.lab.problems import data
from gradline.lab.problems.data import files
from gradline.lab.tools.formatting import size

pooch = pytest.importorskip("pooch")
CONTENT = random.Random(0).randbytes(200_000)


def file_of(path, content):
    return data.File(path, len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """Pauses between attempts, which tests do not wait for."""
    slept = []
    monkeypatch.setattr(pooch.core.time, "sleep", slept.append)
    return slept


@pytest.fixture
def wanted(server):
    """A file with two mirrors, of which the second is never needed unless a test says so."""
    server.files = {"/a/file.bin": CONTENT, "/b/file.bin": CONTENT}
    return data.Download(file_of("folder/file.bin", CONTENT), (server.url("/a/file.bin"), server.url("/b/file.bin")))


def get(wanted, directory):
    files.download(wanted, directory, progress=False)
    target = wanted.file.under(directory)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]


def test_a_file_arrives_whole_in_its_folder(server, wanted, tmp_path, capfd):
    get(wanted, tmp_path)
    assert server.requests == [("/a/file.bin", None)]
    assert capfd.readouterr() == ("", "")


def test_a_cut_connection_is_tried_again_and_then_another_mirror(server, wanted, tmp_path, pauses):
    server.faults = {"/a/file.bin": ["cut", 503, "cut"]}
    get(wanted, tmp_path)
    assert [path for path, _ in server.requests] == ["/a/file.bin"] * 3 + ["/b/file.bin"]
    assert pauses == [1, 2]


@pytest.mark.parametrize("fault", [404, 403, "other content", "other length", "no length"])
def test_a_mirror_without_the_file_is_passed_over(server, wanted, tmp_path, fault):
    if fault == "no length":
        server.files["/a/file.bin"] = CONTENT[:-4] + b"else"  # too long as well, and no header says so
    server.faults = {"/a/file.bin": [fault] * 3}
    get(wanted, tmp_path)
    assert server.requests[-1][0] == "/b/file.bin"


def test_wrong_content_everywhere_is_refused_and_deleted(server, wanted, tmp_path):
    server.faults = {path: ["other content"] * 3 for path in ("/a/file.bin", "/b/file.bin")}
    with pytest.raises(data.DownloadError, match="does not match the known hash") as caught:
        get(wanted, tmp_path)
    assert all(url in str(caught.value) for url in wanted.urls)
    assert list((tmp_path / "folder").iterdir()) == []


def test_progress_is_shown_on_a_terminal(server, wanted, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    files.download(wanted, tmp_path, progress=True)
    assert "100%" in capsys.readouterr().err


@pytest.fixture
def source(wanted, monkeypatch):
    """The file as a registered data set."""

    def read(directory):
        content = np.frombuffer(data.read_verified(wanted.choices[0], directory)[1], dtype=np.uint8)
        return data.Samples(content.reshape(-1, 10), np.arange(len(content) // 10) % 2)

    monkeypatch.setitem(data.SOURCES, "noise", data.Source(read, (wanted,)))
    return "noise"


def test_load_downloads_what_is_missing_once(server, source, tmp_path):
    for _ in range(2):
        assert data.load(source, directory=tmp_path, progress=False).train_inputs.shape == (20_000, 10)
    assert len(server.requests) == 1


def test_load_may_be_told_not_to_download(server, source, tmp_path):
    with pytest.raises(data.DownloadError, match="were not to be downloaded"):
        data.load(source, directory=tmp_path / "none", download=False)
    assert server.requests == []
    assert not (tmp_path / "none").exists()


def test_load_names_a_damaged_file_and_fetch_replaces_it(server, source, wanted, tmp_path):
    place = wanted.file.under(tmp_path)
    place.parent.mkdir()
    place.write_bytes(CONTENT[:-1])
    with pytest.raises(data.DataError, match=r"file\.bin is damaged: its sha256 .*\. .*fetch\('noise'\) replaces it"):
        data.load(source, directory=tmp_path)
    assert place.read_bytes() == CONTENT[:-1]
    assert data.fetch(source, tmp_path, progress=False) == tmp_path
    assert place.read_bytes() == CONTENT
    place.write_bytes(CONTENT[:-1] + b"\0")
    data.fetch(source, tmp_path, progress=False)
    assert place.read_bytes() == CONTENT
    data.fetch(source, tmp_path, progress=False)
    assert len(server.requests) == 2


def test_status_follows_a_file(source, wanted, tmp_path):
    def line():
        return next(line for line in data.status(tmp_path) if line.data_set == source)

    place = wanted.file.under(tmp_path)
    place.parent.mkdir()
    assert line() == data.FileStatus(source, place, data.FileState.MISSING, 200_000)
    place.write_bytes(bytes(200_000))
    assert line() == data.FileStatus(source, place, data.FileState.DAMAGED, 200_000)
    place.write_bytes(CONTENT)
    assert line() == data.FileStatus(source, place, data.FileState.VERIFIED, 200_000)


def test_offline_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    offline = tuple(
        data.Download(wanted.file, (f"http://127.0.0.1:{port}/x",), wanted.unpacked)
        for wanted in data.SOURCES["mnist"].downloads
    )
    monkeypatch.setitem(data.SOURCES, "mnist", data.Source(print, offline))
    with pytest.raises(data.DownloadError) as caught:
        data.fetch("mnist", tmp_path)
    said = str(caught.value)
    for wanted in offline:
        assert f"{wanted.file.path} ({size(wanted.file.size)}) from http://127.0.0.1:{port}/x" in said
    assert f"http://127.0.0.1:{port}/x: HTTPConnectionPool" in said
    assert f"Put them into {tmp_path} under these names" in said
    assert "GRADLINE_DATA" in said


def test_a_folder_that_cannot_be_written_is_named(source, tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(data.DataError, match=r"cannot be written there .* GRADLINE_DATA"):
        data.fetch(source, tmp_path / "taken")


# Archives


def tar_of(members, mode="w:gz"):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def archived(server, monkeypatch):
    """Register an archive of which in/one and in/two are wanted."""

    def register(packed):
        server.files = {"/packed.tar.gz": packed}
        wanted = data.Download(
            file_of("packed.tar.gz", packed),
            (server.url("/packed.tar.gz"),),
            (file_of("in/one", b"1" * 1000), file_of("in/two", b"2" * 3000)),
            unpack=True,
        )
        monkeypatch.setitem(data.SOURCES, "packed", data.Source(print, (wanted,)))

    return register


GOOD = [("other", b"o" * 99), ("in/two", b"2" * 3000), ("../outside", b"x"), ("in/one", b"1" * 1000)]


def everything(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_only_the_wanted_members_come_out(server, archived, tmp_path):
    archived(tar_of(GOOD))
    folder = tmp_path / "data"
    data.fetch("packed", folder, progress=False)
    assert set(everything(tmp_path)) == {"data/in/one", "data/in/two", "data/packed.tar.gz"}
    assert (folder / "in/one").read_bytes() == b"1" * 1000
    data.fetch("packed", folder, progress=False)
    assert len(server.requests) == 1


def test_an_archive_that_is_there_is_used_and_stays(server, archived, tmp_path):
    archived(tar_of(GOOD))
    (tmp_path / "packed.tar.gz").write_bytes(tar_of(GOOD))
    archived((tmp_path / "packed.tar.gz").read_bytes())
    data.fetch("packed", tmp_path, progress=False)
    assert server.requests == []
    assert set(everything(tmp_path)) == {"packed.tar.gz", "in/one", "in/two"}


@pytest.mark.parametrize(
    "packed",
    [b"not an archive" * 100, tar_of(GOOD)[:60], tar_of(GOOD[:2])],
    ids=["text", "cut off", "a member is missing"],  # an archive's own bytes hold the time, and workers must agree
)
def test_an_archive_that_cannot_be_unpacked_is_named(archived, tmp_path, packed):
    archived(packed)
    with pytest.raises(data.DataError, match=r"packed.tar.gz cannot be unpacked"):
        data.fetch("packed", tmp_path, progress=False)
