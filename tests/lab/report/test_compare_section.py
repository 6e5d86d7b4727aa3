"""The section of a page that compares gradline with other optimizers, from a directory and from a packed file."""

import re
from dataclasses import replace

import pytest
from lab.compare_cases import trace

from gradline.lab import report, studies
from gradline.lab.cli import main
from gradline.lab.findings.packed import Packed, pack
from gradline.lab.jobs.result import Status


@pytest.fixture
def source(tmp_path):
    """A packed file in which `gols-i` ends with half of the loss of `prodigy`, which fails in one run."""
    made = []
    chosen = studies.load("compare", problems=["regression/10", "pinn"], methods=["gols-i", "prodigy"], seeds=2)
    for run in studies.plan(chosen):
        failed = run.method.name == "prodigy" and run.setting == "pinn/16" and run.seed == 1
        status = Status.FAILED if failed else Status.DONE
        last = 0.01 if run.method.name == "gols-i" else 0.02
        made.append(replace(trace("x", [9.0, last], status=status, reason="<b>no</b>" if failed else ""), run=run))
    targets = {setting.name: setting.target for setting in chosen.settings}
    return pack(Packed(tuple(made), targets), tmp_path / "compare.json.gz")


def test_the_section_has_two_pictures_and_a_table(one_run, source, tmp_path):
    page = report.write(one_run, tmp_path / "a.html", illustrations=False, compare=source).read_text(encoding="utf-8")
    assert '<h2 id="peers">How it compares with other optimizers</h2>' in page
    assert '<a href="#peers">' in page
    assert "16 runs of a comparison" in page
    assert page.count('src="data:image/png;base64,') == 2 * 2, "each for light and for dark pages"
    plain = re.sub(r' data-label="[^"]*"', "", page)  # for narrow screens
    first, second = plain.split('aria-label="Other optimizers"')[1].split('<th scope="row">')[1:3]
    assert first.startswith("gols-i</th><td>1.00×</td>")
    # Twice the loss in three settings and a failure in the fourth, which counts as a hundredfold: (8 * 100) ** (1 / 4).
    assert second.startswith("prodigy</th><td>5.3×</td>")


def test_a_packed_file_of_a_comparison_alone_has_a_page(source, tmp_path, capsys):
    assert main(["report", str(source), "--out", str(tmp_path / "a.html"), "--no-illustrations"]) == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<title>Line searches: compare.json.gz</title>" in page
    assert '<h2 id="peers">How it compares with other optimizers</h2>' in page
    assert page.count('src="data:image/png;base64,') == 2 * 2, "each for light and for dark pages"
    assert "16 runs of a comparison" in page
    assert "linear regression whose Hessian" in page, "runs of a file have their whole configuration"


def test_there_is_no_such_section_without_runs_to_compare(page_file):
    assert 'id="peers"' not in page_file.read_text(encoding="utf-8")


def test_a_directory_without_runs_is_told(one_run, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    out = tmp_path / "a.html"
    assert main(["report", str(one_run), "--out", str(out), "--compare", str(tmp_path / "empty")]) == 2
    assert "empty has no runs of a comparison; `gradline run compare --out" in capsys.readouterr().err
    assert not out.exists()


def test_a_file_that_is_no_packed_one_is_told(one_run, tmp_path, capsys):
    (tmp_path / "a.json.gz").write_text("runs")
    assert (
        main(["report", str(one_run), "--out", str(tmp_path / "a.html"), "--compare", str(tmp_path / "a.json.gz")]) == 2
    )
    assert "a.json.gz is not a file that `gradline results --pack` wrote" in capsys.readouterr().err
