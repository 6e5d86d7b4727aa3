"""The page as text: what it says, that nothing in it is taken for markup, and what becomes of errors."""

import html.parser
import itertools
import re
import stat
from dataclasses import replace

import pandas as pd
import pytest

from gradline.lab import Store, report, run_study, summary
from gradline.lab.cli import main
from gradline.lab.engines.recorder import watch
from gradline.lab.figures import FIGURES, labels
from gradline.lab.findings.reading import pack_runs
from gradline.lab.methods import METHODS, SearchMethod
from gradline.lab.problems import PROBLEMS
from gradline.lab.report.overview import endings, overview
from gradline.lab.report.searches import searches
from gradline.lab.report.tables import results_table
from gradline.lab.studies import Study

OF_RUNS = {name for name, figure in FIGURES.items() if figure.needs and not figure.compares and name != "study_today"}
"""Figures of runs; those of `today` need other packages, and are not in the small store of the tests."""


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
    assert set(reader.ids) >= OF_RUNS
    assert reader.text.count("is left out") == 1  # that of the study `today`


def test_tables_have_the_medians(reader, store):
    rows = summary(store, problem="mnist-net1", method="gols-i", batch_size=10)
    assert f"{rows['probes_mean'].mean():.2f} (up to {rows['probes_max'].max()})" in reader.text


def test_a_picture_comes_before_any_prose(page_file):
    text = page_file.read_text(encoding="utf-8")
    assert text.index('class="chart"') < text.index("<p>")
    assert (
        text.index('id="overview"') < text.index('id="claims"') < text.index('id="charts"') < text.index('id="results"')
    )


def test_the_best_of_each_row_is_marked(store):
    table = summary(store, problem="bcwd-netpi", sampling="static", batch_size=10)
    found = overview(table)
    (losses,) = [measure for measure in found["measures"] if measure["name"] == "final_train_loss"]
    medians = table.groupby("method", observed=True)["final_train_loss"].median()
    (best,) = losses["best"][0]
    assert found["methods"][best]["label"] == labels.method(medians.idxmin())
    assert len(found["methods"]) == 4
    for place, method in enumerate(found["methods"]):
        name = next(name for name, label in labels.METHODS.items() if label == method["label"])
        assert losses["cells"][0][place]["value"] == medians[name]
    rows = results_table(table).rows
    column = results_table(table).header.index("train loss")
    assert [row[column].best for row in rows] == [row[column].value == medians.min() for row in rows]


def test_an_error_that_was_not_measured_is_a_dash(store):
    table = summary(store, problem="bcwd-netpi", batch_size=10).assign(final_test_error=float("nan"))
    found = results_table(table)
    assert {row[found.header.index("test error")].text for row in found.rows} == {"–"}


def test_equal_ones_are_all_best_and_one_alone_is_not():
    rows = {"problem": "p", "batch_size": 1, "sampling": "dynamic", "direction_batch_size": None, "budget": 1}
    rows |= {"repetition": False, "diagonal": True, "loss": "", "final_train_loss": [2.0, 2.0, 3.0], "seed": 0}
    rows |= dict.fromkeys(("final_train_error", "final_test_error", "final_test_loss", "zero_error_at"), float("nan"))
    frame = pd.DataFrame({**rows, "method": ["a", "b", "c"]})
    (measure,) = overview(frame)["measures"]
    assert measure["best"] == [[0, 1]]
    (measure,) = overview(frame[:1])["measures"]
    assert measure["best"] == [[]]
    frame.loc[2, "problem"] = "q"
    found = overview(frame)
    assert found["settings"] == ["p, B = 1", "q, B = 1"]  # a setting of one method has a row too
    assert found["measures"][0]["best"] == [[0, 1], []]


def test_shares_of_endings_are_those_of_all_searches(store):
    table = summary(store, problem="bcwd-netpi-10")
    found = endings(table)
    assert [(row["problem"], row["label"]) for row in found["rows"]] == [
        ("all", "GOLS-I"),
        ("all", "PrLS"),
        ("NetPI, ten hidden layers", "B = 100, GOLS-I"),
        ("NetPI, ten hidden layers", "B = 100, PrLS"),
    ]
    for row, method in zip(found["rows"], ("gols-i", "prls", "gols-i", "prls"), strict=True):
        runs = table[table["method"] == method]
        assert sum(row["shares"]) == pytest.approx(1.0, abs=1e-4)
        assert row["searches"] == runs["iterations"].sum()
        assert row["most_later"] == runs["probes_max_later"].max()
    names = [stop["label"] for stop in found["stops"]]
    changes = table[table["method"] == "gols-i"]["stop.SIGN_CHANGE"].sum()
    assert found["rows"][0]["shares"][names.index("sign change")] == pytest.approx(
        changes / found["rows"][0]["searches"], abs=1e-5
    )


def test_single_searches_are_those_of_the_run(store):
    runs = [header.run for _, header in Store(store).headers() if header.run.problem.name == "bcwd-logr"]
    found, left_out = searches(runs)
    assert not left_out
    one = next(one for one in found if (one["method"], one["batch"]) == ("PrLS", "B = 50"))
    run = next(run for run in runs if (run.method.name, run.batch_size, run.seed) == ("prls", 50, 0))
    for shown, record in zip(one["searches"], watch(run), strict=False):
        assert [probe[0] for probe in shown["probes"]] == [0.0, *(step for step, _ in record.transcript)]
        assert shown["accepted"] == (None if record.outcome.probe is None else record.outcome.probe + 1)
        assert shown["stop"] == str(record.stop)


def test_searches_that_cannot_be_made_here_are_left_out_with_the_reason(monkeypatch, store):
    (run, *_) = [header.run for _, header in Store(store).headers() if header.run.method.name == "gols-i"]
    lost = replace(run, problem=replace(PROBLEMS["mnist-net1"], name="lost"))
    monkeypatch.setenv("GRADLINE_DATA", "/nowhere")
    found, left_out = searches([lost, run])
    assert len(found) == 1
    assert left_out[0].startswith("searches of lost are not shown: ")


@pytest.mark.slow
def test_a_packed_file_has_a_page_too(store, tmp_path):
    pack_runs(store, tmp_path / "runs.json.gz")
    reader = Reader(
        report.write(tmp_path / "runs.json.gz", tmp_path / "page.html", illustrations=False).read_text(encoding="utf-8")
    )
    assert set(reader.ids) >= OF_RUNS
    assert "growth = 2.0, overshoot = 0.9" in reader.text


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


def test_steps_that_are_fixed_are_no_searches(store):
    found = endings(summary(store, problem="bcwd-logr"))
    assert {row["label"] for row in found["rows"] if row["problem"] == "all"} == {"GOLS-I", "PrLS"}


def test_illustrations_are_pictures_with_words(one_run, tmp_path, monkeypatch):
    from gradline.lab.report import page

    results = {name: figure for name, figure in FIGURES.items() if figure.needs}
    monkeypatch.setattr(page, "FIGURES", {"figure_4": FIGURES["figure_4"], **results})
    reader = Reader(report.write(one_run, tmp_path / "page.html").read_text(encoding="utf-8"))
    pictures = [values for tag, values in reader.tags if tag == "img"]
    assert [picture["class"] for picture in pictures] == ["light", "dark"]
    assert len({picture["src"] for picture in pictures}) == 2
    for picture in pictures:
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


def test_what_was_there_is_kept_when_writing_fails(one_run, tmp_path, monkeypatch, capsys):
    from gradline.lab.tools import files as study_files

    kept = tmp_path / "page.html"
    kept.write_text("before")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(study_files.os, "fsync", full)
    assert main(["report", str(one_run), "--out", str(kept), "--no-illustrations"]) == 2
    assert "No space left" in capsys.readouterr().err
    assert kept.read_text() == "before"
    assert list(tmp_path.iterdir()) == [kept]


def test_a_place_that_cannot_be_written_to_says_so(one_run, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["report", str(one_run), "--out", str(tmp_path / "file" / "page.html"), "--no-illustrations"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("gradline: ")
    assert str(tmp_path / "file") in said


def test_the_page_can_be_read_by_others(page_file):
    assert stat.S_IMODE(page_file.stat().st_mode) & stat.S_IROTH
