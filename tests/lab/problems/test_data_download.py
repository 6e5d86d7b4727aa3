"""Downloads: over bad lines, from bad mirrors, by several processes at once."""

import errno
import gzip
import hashlib
import io
import os
import random
import socket
import subprocess
import sys
import tarfile

import numpy as np
import pytest

from gradline.lab.problems import data
from gradline.lab.problems.data import http, mnist, store
from gradline.lab.problems.data.files import part_of

CONTENT = random.Random(0).randbytes(200_000)
AT_ONCE = data.Patience(rounds=3, pause=0.0, timeout=10.0)


def file_of(path, content):
    return data.File(path, len(content), hashlib.sha256(content).hexdigest(), hashlib.md5(content).hexdigest())


@pytest.fixture
def wanted(server):
    """A file with two mirrors, of which the second is never needed unless a test says so."""
    server.files = {"/a/file.bin": CONTENT, "/b/file.bin": CONTENT}
    return data.Download(file_of("folder/file.bin", CONTENT), (server.url("/a/file.bin"), server.url("/b/file.bin")))


def get(wanted, directory, patience=AT_ONCE):
    http.download(wanted, directory, progress=False, patience=patience)
    target = wanted.file.under(directory)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]


def test_a_file_arrives_whole_in_its_folder(server, wanted, tmp_path):
    get(wanted, tmp_path)
    assert server.requests == [("/a/file.bin", None)]


def test_a_cut_connection_is_continued_where_it_was_cut(server, wanted, tmp_path):
    server.faults = {"/a/file.bin": ["cut"], "/b/file.bin": ["cut"]}
    get(wanted, tmp_path)
    assert server.requests == [
        ("/a/file.bin", None),
        ("/b/file.bin", "bytes=100000-"),
        ("/a/file.bin", "bytes=150000-"),
    ]


def test_a_long_file_that_comes_in_pieces_stays_with_its_mirror(server, tmp_path):
    content = random.Random(1).randbytes(5_000_000)
    server.files = {"/long": content, "/never": content}
    server.faults = {"/long": ["cut", "cut"]}
    wanted = data.Download(file_of("long", content), (server.url("/long"), server.url("/never")))
    http.download(wanted, tmp_path, progress=False, patience=data.Patience(rounds=1))
    assert (tmp_path / "long").read_bytes() == content
    assert server.requests == [("/long", None), ("/long", "bytes=2500000-"), ("/long", "bytes=3750000-")]


def test_a_silent_server_is_left_and_its_bytes_are_kept(server, wanted, tmp_path):
    server.faults = {"/a/file.bin": ["stall"]}
    get(wanted, tmp_path, data.Patience(rounds=1, pause=0.0, timeout=1.0))
    assert server.requests == [("/a/file.bin", None), ("/b/file.bin", "bytes=100000-")]


def test_what_a_killed_process_left_is_continued(server, wanted, tmp_path):
    part = part_of(wanted.file.under(tmp_path))
    part.parent.mkdir()
    part.write_bytes(CONTENT[:12345])
    get(wanted, tmp_path)
    assert server.requests == [("/a/file.bin", "bytes=12345-")]


def test_a_whole_part_needs_no_request(server, wanted, tmp_path):
    part = part_of(wanted.file.under(tmp_path))
    part.parent.mkdir()
    part.write_bytes(CONTENT)
    get(wanted, tmp_path)
    assert server.requests == []


@pytest.mark.parametrize("left", [b"x" * 12345, b"x" * len(CONTENT), b"x" * (len(CONTENT) + 1)])
def test_a_part_of_something_else_does_not_spoil_the_file(server, wanted, tmp_path, left):
    part = part_of(wanted.file.under(tmp_path))
    part.parent.mkdir()
    part.write_bytes(left)
    get(wanted, tmp_path)
    assert server.requests[-1] == ("/a/file.bin", None)


def test_a_server_that_ignores_range_sends_all_of_it_again(server, wanted, tmp_path):
    server.faults = {"/a/file.bin": ["cut", "no range"], "/b/file.bin": [404]}
    get(wanted, tmp_path)
    assert server.requests[-1] == ("/a/file.bin", "bytes=100000-")


@pytest.mark.parametrize("fault", [404, 403, "other content", "other length", "no length"])
def test_a_mirror_without_the_file_is_passed_over_and_not_asked_again(server, wanted, tmp_path, fault):
    if fault == "no length":
        server.files["/a/file.bin"] = CONTENT[:-4] + b"else"  # too long as well, and no header says so
    server.faults = {"/a/file.bin": [fault], "/b/file.bin": [503]}
    get(wanted, tmp_path)
    assert server.requests == [("/a/file.bin", None), ("/b/file.bin", None), ("/b/file.bin", None)]


def test_an_answer_with_another_part_of_the_file_is_refused(server, wanted, tmp_path):
    server.faults = {"/a/file.bin": ["cut", "other range"], "/b/file.bin": [503, "cut"]}
    get(wanted, tmp_path)
    assert [path for path, _ in server.requests] == [f"/{m}/file.bin" for m in "ababb"]


def test_a_rest_that_the_server_does_not_have_begins_again(server, wanted, tmp_path):
    part = part_of(wanted.file.under(tmp_path))
    part.parent.mkdir()
    part.write_bytes(b"x" * 150_000)
    server.files["/a/file.bin"] = CONTENT[:100]
    get(wanted, tmp_path)
    assert server.requests[:2] == [("/a/file.bin", "bytes=150000-"), ("/b/file.bin", None)]


def test_wrong_content_everywhere_is_refused_and_deleted(server, wanted, tmp_path):
    server.faults = {"/a/file.bin": ["other content"], "/b/file.bin": ["other content"]}
    with pytest.raises(data.DownloadError, match="what came is not the published file: its sha256 is") as caught:
        get(wanted, tmp_path)
    assert str(caught.value).count("\n") == 1  # a line for each mirror
    assert list((tmp_path / "folder").iterdir()) == []
    assert len(server.requests) == 2


def test_a_line_that_is_cut_for_good_leaves_what_came(server, wanted, tmp_path):
    server.faults = {path: ["cut"] * 9 for path in ("/a/file.bin", "/b/file.bin")}
    with pytest.raises(data.DownloadError, match="the answer ended after 196,875 of 200,000 bytes"):
        get(wanted, tmp_path)
    assert part_of(wanted.file.under(tmp_path)).read_bytes() == CONTENT[:196_875]
    assert len(server.requests) == 6


def test_the_pause_grows_from_round_to_round(server, wanted, tmp_path, monkeypatch):
    slept = []
    monkeypatch.setattr(http.time, "sleep", slept.append)
    server.faults = {path: [503] * 9 for path in ("/a/file.bin", "/b/file.bin")}
    with pytest.raises(data.DownloadError, match="HTTP 503"):
        get(wanted, tmp_path, data.Patience(rounds=4, pause=0.5))
    assert slept == [0.5, 1.0, 2.0]


def test_a_full_disk_is_not_blamed_on_the_mirror(server, wanted, tmp_path, monkeypatch, source):
    def full(stream):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(http.os, "fsync", full)
    with pytest.raises(data.DataError, match=r"cannot be written there \(.*No space left on device\)"):
        data.fetch(source, tmp_path, progress=False)
    assert len(server.requests) == 1


def test_progress_is_shown_on_a_terminal(server, wanted, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    server.faults = {"/a/file.bin": ["cut"]}
    http.download(wanted, tmp_path, progress=True, patience=AT_ONCE)
    assert "file.bin: 100%" in capsys.readouterr().err


@pytest.fixture
def source(wanted, monkeypatch):
    """The file as a registered data set."""

    def read(directory):
        content = np.frombuffer(wanted.file.under(directory).read_bytes(), dtype=np.uint8)
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
    with pytest.raises(data.DataError, match=r"199,999 bytes instead of 200,000\. .*fetch\('noise'\) replaces it"):
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
    assert line() == data.FileStatus(source, place, data.FileState.MISSING, None, 200_000)
    part_of(place).write_bytes(CONTENT[:7])
    assert line() == data.FileStatus(source, place, data.FileState.PARTIAL, 7, 200_000)
    place.write_bytes(bytes(200_000))
    assert line() == data.FileStatus(source, place, data.FileState.DAMAGED, 200_000, 200_000)
    place.write_bytes(CONTENT)
    assert line() == data.FileStatus(source, place, data.FileState.VERIFIED, 200_000, 200_000)


def test_two_processes_fetch_once(server, wanted, tmp_path):
    server.faults = {"/a/file.bin": ["hold"]}
    program = f"""
from gradline.lab.problems import data
data.register("noise", data.Source(print, ({wanted!r},)))
print("ready", flush=True)
data.fetch("noise", {str(tmp_path)!r}, progress=False)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", f"from gradline.lab.problems.data import Download, File\n{program}"]
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    server.released.set()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert server.requests == [("/a/file.bin", None)]
    assert wanted.file.under(tmp_path).read_bytes() == CONTENT


def test_who_waits_is_told_so(source, tmp_path, capsys, monkeypatch):
    filelock = pytest.importorskip("filelock")
    held = filelock.FileLock(str(tmp_path / ".noise.lock"))
    held.acquire()
    released = []

    def release(*arguments, **options):
        print(*arguments, **options)
        released.append(arguments)
        held.release()

    monkeypatch.setattr(store, "print", release, raising=False)
    data.fetch(source, tmp_path)
    assert released == [("another process is fetching noise: waiting for it",)]


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
        data.fetch("mnist", tmp_path, patience=AT_ONCE)
    said = str(caught.value)
    for wanted in offline:
        assert f"{wanted.file.path} ({wanted.file.size / 1e6:.1f} MB) from http://127.0.0.1:{port}/x" in said
    assert f"http://127.0.0.1:{port}/x: [Errno" in said
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
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                name, content = member
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


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
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def test_only_the_wanted_members_come_out(server, archived, tmp_path):
    archived(tar_of(GOOD))
    folder = tmp_path / "data"
    data.fetch("packed", folder, progress=False)
    assert everything(tmp_path) == {"data/in/one": b"1" * 1000, "data/in/two": b"2" * 3000}
    data.fetch("packed", folder, progress=False)
    assert len(server.requests) == 1


def test_an_archive_that_is_there_is_used_and_stays(server, archived, tmp_path):
    archived(tar_of(GOOD))
    (tmp_path / "packed.tar.gz").write_bytes(tar_of(GOOD))
    archived((tmp_path / "packed.tar.gz").read_bytes())
    (line_one, line_two, line_archive) = [line for line in data.status(tmp_path) if line.data_set == "packed"]
    assert line_one.state is line_two.state is data.FileState.MISSING
    assert line_archive.state is data.FileState.VERIFIED
    data.fetch("packed", tmp_path, progress=False)
    assert server.requests == []
    assert set(everything(tmp_path)) == {"packed.tar.gz", "in/one", "in/two"}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("in/two", b"2" * 3000)], "lacks in/one"),
        ([("in/one", b"1" * 1000), ("in/two", b"2" * 2999)], "in/two is no file of 3,000 bytes"),
        ([("in/one", b"1" * 1000), ("in/two", b"3" * 3000)], "in/two: its sha256 is"),
        ([link("in/one", "/etc/passwd")], "in/one is no file"),
        ([link("in/one", "in/two", tarfile.LNKTYPE), ("in/two", b"2" * 3000)], "in/one is no file"),
        ([link("in", ".."), ("in/two", b"2" * 3000)], "lacks in/one"),
    ],
)
def test_an_archive_with_something_else_in_it_is_refused(archived, tmp_path, members, message):
    archived(tar_of(members))
    with pytest.raises(data.DataError, match=message):
        data.fetch("packed", tmp_path, progress=False)
    assert not (tmp_path / "in" / "one").is_symlink()
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize(
    "packed",
    [b"not an archive" * 100, tar_of(GOOD)[:60], b"\x1f\x8b\x08" + bytes(100)],
    ids=["text", "cut off", "damaged"],  # an archive's own bytes hold the time, and workers must agree on names
)
def test_what_is_no_archive_is_refused(archived, tmp_path, packed):
    archived(packed)
    with pytest.raises(data.DataError, match="cannot be read as a tar archive"):
        data.fetch("packed", tmp_path, progress=False)


def bombs():
    """Archives with far more in them than they say, before what is wanted: a member, and a header that is kept."""
    member = tarfile.TarInfo("zeros")
    member.size = 10**9
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 10**9
    for info in (member, header):
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as zipped:
            zipped.write(info.tobuf(tarfile.GNU_FORMAT))
            for _ in range(160):
                zipped.write(bytes(2**20))
        yield packed.getvalue()


@pytest.mark.parametrize("which", [0, 1], ids=["a member", "a header"])
def test_an_archive_that_unpacks_to_far_more_is_left(archived, tmp_path, which, monkeypatch):
    read = []
    real = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", lambda self, size=-1: read.append(size) or real(self, size))
    archived(list(bombs())[which])
    with pytest.raises(data.DataError, match=r"what is in it must have at most 67,112,864 bytes when it is unpacked"):
        data.fetch("packed", tmp_path, progress=False)
    assert 0 <= min(read) <= max(read) <= 2**27


def test_a_compressed_file_that_unpacks_to_far_more_is_refused(tmp_path):
    packed = gzip.compress(bytes(5000))
    wanted = data.Download(file_of("x.gz", packed), ("http://nowhere/x.gz",), (file_of("x", bytes(4999)),))
    (tmp_path / "x.gz").write_bytes(packed)
    with pytest.raises(data.DataError, match=r"x.gz cannot be unpacked: what is in it must have at most 4,999 bytes"):
        mnist._content(wanted, tmp_path)
    wanted = data.Download(file_of("x.gz", packed), ("http://nowhere/x.gz",), (file_of("x", bytes(5000)),))
    assert mnist._content(wanted, tmp_path) == bytes(5000)


# Arguments


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data.File("/etc/passwd", 1, md5="0" * 32), "path must lead into the data directory"),
        (lambda: data.File("a/../../b", 1, md5="0" * 32), "path must lead into the data directory"),
        (lambda: data.File("C:\\b", 1, md5="0" * 32), "path must lead into the data directory"),
        (lambda: data.File("", 1, md5="0" * 32), "path must lead into the data directory"),
        (lambda: data.File("a", 0, md5="0" * 32), "size must be at least 1 byte"),
        (lambda: data.File("a", 1), "must have a sha256 or an md5"),
        (lambda: data.File("a", 1, sha256="abc"), "sha256 must be 64 small hexadecimal digits"),
        (lambda: data.File("a", 1, md5="G" * 32), "md5 must be 32 small hexadecimal digits"),
        (lambda: data.Download(data.File("a", 1, md5="0" * 32), ()), "urls must be one or more"),
        (lambda: data.Download(data.File("a", 1, md5="0" * 32), ("file:///etc/passwd",)), "urls must be one or more"),
        (lambda: data.Download(data.File("a", 1, md5="0" * 32), ("http://a",), unpack=True), "unpacked must name"),
        (lambda: data.Patience(rounds=0), "rounds must be at least 1"),
        (lambda: data.Patience(pause=-1.0), "pause must be at least 0"),
        (lambda: data.Patience(timeout=0.0), "timeout must be above 0"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
