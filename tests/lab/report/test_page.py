"""The page as text: what it says, that nothing in it is taken for markup, and what becomes of errors."""

import html.parser
import itertools
import re
import stat
import zipfile
from dataclasses import replace
from importlib.resources import files

import pytest
from lab import small_store

from gradline.lab import report, run_study, summary
from gradline.lab.cli import main
from gradline.lab.figures import FIGURES
from gradline.lab.methods import METHODS, SearchMethod
from gradline.lab.problems import PROBLEMS
from gradline.lab.studies import Study


class Reader(html.parser.HTMLParser):
    """Checks that tags are closed in order, and collects them, ids and texts."""

    VOID = frozenset({"meta", "link", "input", "img", "br"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.labels, self.texts = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append((tag, values))
        if "id" in values:
            self.ids.append(values["id"])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.texts))


@pytest.fixture(scope="module")
def reader(page_file):
    return Reader(page_file.read_text(encoding="utf-8"))


def test_it_is_well_formed(reader):
    assert not reader.open
    assert len(set(reader.ids)) == len(reader.ids)
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("h1") == tags.count("main") == tags.count("title") == 1
    (language,) = (values["lang"] for tag, values in reader.tags if tag == "html")
    assert language == "en"


def test_every_control_has_a_label(reader):
    labelled = {values.get("for") for tag, values in reader.tags if tag == "label"}
    selects = [values["id"] for tag, values in reader.tags if tag == "select"]
    assert selects
    assert set(selects) <= labelled


def test_headings_do_not_skip_levels(reader):
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_nothing_is_fetched(reader):
    for tag, values in reader.tags:
        for name in ("src", "href", "action", "srcset", "data"):
            address = values.get(name, "#")
            assert address.startswith(("#", "data:")), (tag, address)


def test_every_figure_with_runs_is_there(reader):
    shown = {name for name, figure in FIGURES.items() if figure.needs}
    assert shown <= set(reader.ids)
    assert "is left out" not in reader.text


def test_tables_have_the_medians(reader, store):
    rows = summary(store, problem="mnist-net1", method="gols-i", batch_size=10)
    assert f"{rows['probes_mean'].mean():.2f} (up to {rows['probes_max'].max()})" in reader.text


def test_claims_and_versions_are_there(reader):
    import torch

    assert "PrLS breaks down at B = 10" in reader.text
    assert f"torch {torch.__version__}" in reader.text
    assert "growth = 2.0, overshoot = 0.9" in reader.text


def test_a_study_of_ones_own_is_shown_and_nothing_of_it_is_markup(tmp_path):
    name = "logr (mine, 1+1=2)"
    study = Study(
        name="mine",
        problems=(replace(PROBLEMS["bcwd-logr"], name=name),),
        methods=(SearchMethod("gols-i (growth=4)", METHODS["gols-i"].search),),
        batch_sizes=(10,),
        seeds=(0,),
        budget=30,
    )
    run_study(study, tmp_path / "store", backend="inline")
    text = report.write(
        tmp_path / "store", tmp_path / "page.html", title="</title><script>x", illustrations=False
    ).read_text(encoding="utf-8")
    reader = Reader(text)
    assert not [values for tag, values in reader.tags if tag in ("img", "b")]
    assert name in reader.text
    assert "gols-i (growth=4)" in reader.text
    assert "</title><script>x" in reader.text
    assert "other_runs" in reader.ids
    assert "figure 8 is left out: it needs runs of the study bcwd (gradline run bcwd)" in reader.text


def test_illustrations_are_pictures_with_words(store, tmp_path, monkeypatch):
    from gradline.lab.report import page

    results = {name: figure for name, figure in FIGURES.items() if figure.needs}
    monkeypatch.setattr(page, "FIGURES", {"figure_4": FIGURES["figure_4"], **results})
    reader = Reader(report.write(store, tmp_path / "page.html").read_text(encoding="utf-8"))
    ((_, picture),) = [item for item in reader.tags if item[0] == "img"]
    assert picture["src"].startswith("data:image/png;base64,")
    assert picture["alt"] == FIGURES["figure_4"].caption


def test_a_directory_without_results_says_so(tmp_path, capsys):
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 2
    assert f"{tmp_path} has no results; `gradline run STUDY --out {tmp_path}` makes some" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "none"), "--out", str(tmp_path / "page.html")]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_a_file_in_place_of_a_folder_is_refused_before_the_work(store, tmp_path, capsys):
    assert main(["report", str(store), "--out", str(tmp_path)]) == 2
    assert "out must be a file" in capsys.readouterr().err


def test_what_was_there_is_kept_when_writing_fails(store, tmp_path, monkeypatch, capsys):
    from gradline.lab.tools import files as study_files

    kept = tmp_path / "page.html"
    kept.write_text("before")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(study_files.os, "fsync", full)
    assert main(["report", str(store), "--out", str(kept), "--no-illustrations"]) == 2
    assert "No space left" in capsys.readouterr().err
    assert kept.read_text() == "before"
    assert list(tmp_path.iterdir()) == [kept]


def test_a_place_that_cannot_be_written_to_says_so(store, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["report", str(store), "--out", str(tmp_path / "file" / "page.html"), "--no-illustrations"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("gradline: ")
    assert str(tmp_path / "file") in said


def test_the_page_can_be_read_by_others(page_file):
    assert stat.S_IMODE(page_file.stat().st_mode) & stat.S_IROTH


def test_the_page_is_whole_in_the_wheel(tmp_path):
    builders = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    root = small_store.__file__.rpartition("tests")[0]
    (wheel,) = builders.WheelBuilder(root).build(directory=str(tmp_path))
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("page.html.jinja", "page.js", "page.css"):
        assert f"gradline/lab/report/{name}" in names
        assert files("gradline.lab.report").joinpath(name).is_file()
