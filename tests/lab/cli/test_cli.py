"""The command line: what it prints, what it returns, and that its errors are one sentence."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from lab.helping import has_state, wait_until

from gradline.lab import studies
from gradline.lab.cli import main, terminal
from gradline.lab.cli.app import NAMES, app
from gradline.lab.cli.verbs.trace import HALF, bar
from gradline.lab.methods import METHODS
from gradline.lab.problems import PROBLEMS
from gradline.lab.tools.formatting import clock, count, duration, number, percent, ranges, size

SMALL = ["--problem", "bcwd-logr", "--method", "gols-i", "--batch-size", "50", "--seeds", "2", "--budget", "60"]


def gradline(*arguments, **environment):
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "gradline", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The directory of a small study, made by the command."""
    directory = tmp_path_factory.mktemp("cli") / "out"
    done = gradline("run", "bcwd", *SMALL, "--out", directory, "--backend", "inline")
    assert done.returncode == 0, done.stderr
    return directory, done


def test_bare_shows_help():
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0
    assert len(NAMES) >= 10
    for verb in NAMES:
        assert f"\n  {verb} " in result.output


@pytest.mark.parametrize("verb", [*([name] for name in NAMES), ["data", "fetch"]])
def test_every_verb_has_help_with_examples(verb):
    result = CliRunner().invoke(app, [*verb, "--help"], prog_name="gradline")
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: gradline {verb[0]} ")
    assert "Examples:" in result.output or verb == ["data", "fetch"]
    assert max(map(len, result.output.splitlines())) <= 80


def test_help_imports_nothing_slow():
    program = (
        "import sys, gradline.lab.cli; code = gradline.lab.cli.main(['--help']); print(code, *sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert loaded[0] == "0"
    assert not {"torch", "pandas", "pyarrow", "sklearn", "rich", "distributed"} & set(loaded)


def test_the_command_is_installed_under_its_name():
    scripts = Path(__file__).parents[3] / "pyproject.toml"
    assert 'gradline = "gradline.lab.cli:main"' in scripts.read_text(encoding="utf-8")


@pytest.mark.parametrize("module", ["click", "rich"])
def test_a_missing_extra_is_named(module):
    program = f"import sys; sys.modules['{module}'] = None; from gradline.lab.cli import main; sys.exit(main(['list']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install '.[study]' in a clone of gradline" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def narrow(monkeypatch, *arguments):
    """What a verb prints on a terminal of 80 columns."""
    shown = io.StringIO()
    shown.isatty = lambda: True
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(terminal, "WIDE", 80)
    assert main(list(arguments)) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue()).splitlines()


def test_a_narrow_terminal_shows_every_name_that_one_types(monkeypatch):
    lines = narrow(monkeypatch, "list")
    assert max(map(len, lines)) <= 80
    words = {word for line in lines for word in line.split()}
    for name in (*studies.available(), *PROBLEMS, *METHODS):
        assert name in words


def test_a_narrow_terminal_shows_the_methods_of_a_comparison(monkeypatch):
    packed = str(Path(__file__).parents[3] / "results" / "compare.json.gz")
    lines = narrow(monkeypatch, "results", packed, "--problem", "regression/10")
    assert max(len(line.rstrip()) for line in lines) <= 80
    header = next(line for line in lines if line.startswith("method"))
    assert "train" in lines[lines.index(header) - 1]
    assert "loss" in header
    rows = [line.split()[0] for line in lines[lines.index(header) + 1 :] if line]
    assert {"angle", "prodigy", "torchzero-backtracking"} <= set(rows)
    assert any(line.startswith("A wider terminal also shows: ") for line in lines)


@pytest.mark.parametrize(("file", "optional"), [("train", "95% interval"), ("paper", "steps")])
def test_a_narrow_terminal_cuts_no_cell_of_results(monkeypatch, file, optional):
    packed = str(Path(__file__).parents[3] / "results" / f"{file}.json.gz")
    lines = narrow(monkeypatch, "results", packed)
    assert max(len(line.rstrip()) for line in lines) <= 80
    words = {word for line in lines for word in line.split()}
    names = {"train": ("schedule-free", "adamw-tuned", "text-transformer/16,"), "paper": ("golden-section", "gols-i")}
    assert {*names[file], "method", "error"} <= words
    assert any(line.startswith("A wider terminal also shows: ") and optional in line for line in lines)


def test_list():
    result = CliRunner().invoke(app, ["list"])
    for name in ("bcwd-fixed", "mnist-net2-as-published", "golden-section", "cifar10", "static-vs-dynamic"):
        assert name in result.output
    assert "240" in result.output
    only = CliRunner().invoke(app, ["list", "methods"]).output
    assert "gols-back" in only
    assert "mnist-net2" not in only


def test_check_measures_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["check", "bcwd", *SMALL, "--workers", "2"], catch_exceptions=False)
    assert "2 runs of 60 evaluations, 120 in all" in result.output
    assert "with 2 workers" in result.output
    assert "The study can be run." in result.output
    assert list(tmp_path.iterdir()) == []


def test_check_finds_what_cannot_be(tmp_path, capsys):
    study = tmp_path / "mine.toml"
    study.write_text('problems = ["bcwd-logr"]\nmethods = ["gols-i"]\nbatch_sizes = [401]\n', encoding="utf-8")
    assert main(["check", str(study)]) == 2
    assert "batch_size must be at most 400 for bcwd-logr" in capsys.readouterr().err
    study.write_text('problems = ["bcwd-logr"]\n\nmethods = ["gols-j"]\n', encoding="utf-8")
    assert main(["check", str(study)]) == 2
    assert f"{study}, line 3: methods: there is no method 'gols-j'; did you mean 'gols-i'?" in capsys.readouterr().err


def test_check_says_which_data_are_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GRADLINE_DATA", str(tmp_path))
    assert main(["check", "mnist-net1"]) == 2
    assert "`gradline data fetch mnist` gets it" in capsys.readouterr().err


def test_run_says_what_it_did(finished):
    directory, done = finished
    assert "2 runs, 120 evaluations" in done.stderr
    assert "2 runs made in" in done.stderr
    assert f"gradline results {directory}" in done.stderr
    assert len(list((directory / "runs").glob("*.parquet"))) == 2
    assert sorted(path.name for path in directory.iterdir()) == [".lock", "commands.txt", "runs"]


def test_run_again_does_what_is_missing(finished, capfd):
    directory, _ = finished
    assert main(["run", "bcwd", *SMALL, "--out", str(directory), "--backend", "inline"]) == 0
    assert "All 2 runs are in" in capfd.readouterr().err
    more = [*SMALL[:-4], "--seeds", "3", "--budget", "60"]
    assert main(["run", "bcwd", *more, "--out", str(directory), "--backend", "inline"]) == 0
    told = capfd.readouterr().err
    assert "3 runs, of which 2 are there: 1 to make" in told
    assert "1 run made" in told
    assert "2 runs had been there before" in told


def test_quiet_is_quiet(tmp_path, capfd):
    assert main(["run", "bcwd", *SMALL, "--out", str(tmp_path), "--backend", "inline", "--quiet"]) == 0
    seen = capfd.readouterr()
    assert seen.out == seen.err == ""


def test_failed_runs_are_listed(tmp_path, capfd, monkeypatch):
    (tmp_path / "broken.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass Broken:\n    def start(self): return 0.0\n"
        "    def search(self, origin, memory):\n        raise ArithmeticError('no idea')\n        yield 1.0\n",
        encoding="utf-8",
    )
    (tmp_path / "mine.toml").write_text(
        'problems = ["iris"]\nmethods = ["broken", "gols-i"]\nbatch_sizes = [10]\nseeds = 2\nbudget = 30\n'
        '[[method]]\nname = "broken"\nsearch = "broken:Broken"\n',
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = ["run", str(tmp_path / "mine.toml"), "--backend", "inline"]
    assert main([*run, "--out", str(tmp_path / "out")]) == 1
    told = capfd.readouterr().err
    assert "2 runs failed" in told
    assert "2 × ArithmeticError: no idea" in told
    assert "iris_broken_b10_s1_" in told
    assert "2 runs made" in told
    assert main([*run, "--method", "broken", "--out", str(tmp_path / "none")]) == 1
    told = capfd.readouterr().err
    assert "2 runs failed" in told
    assert "gradline results" not in told  # there are none to look at


def test_results_table(finished):
    directory, _ = finished
    output = CliRunner().invoke(app, ["results", str(directory)]).output
    assert "bcwd-logr" in output
    assert "gols-i" in output
    each = CliRunner().invoke(app, ["results", str(directory), "--runs"]).output
    assert len(each.splitlines()) == len(output.splitlines()) + each.count("gols-i") - 1


def test_results_as_csv_and_json(finished, tmp_path):
    directory, _ = finished
    file = tmp_path / "out.csv"
    assert CliRunner().invoke(app, ["results", str(directory), "--csv", str(file)]).exit_code == 0
    frame = pd.read_csv(file)
    assert {"problem", "method", "seed", "final_train_loss", "stop.SIGN_CHANGE"} <= set(frame)
    rows = json.loads(CliRunner().invoke(app, ["results", str(directory), "--json"]).stdout)
    assert [row["key"] for row in rows] == frame["key"].tolist()
    assert rows[0]["final_train_loss"] == pytest.approx(frame.final_train_loss[0])


def test_trace_shows_the_search(finished):
    result = CliRunner().invoke(app, ["trace", "--problem", "bcwd-logr", "--iteration", "1"], catch_exceptions=False)
    lines = result.output.splitlines()
    assert "bcwd-logr, gols-i, batch size 50, dynamic sampling, seed 0, iteration 1" in lines[0]
    probes = [line for line in lines if line.strip() and line.split()[0].isdigit()]
    assert float(probes[0].split()[1]) == 1e-8
    assert "accepted" in probes[-1]
    assert f"after {len(probes)} probes: " in lines[-1]


def test_trace_shows_values_where_the_search_sees_them():
    arguments = ["trace", "--method", "prls", "--iteration", "2", "--iteration", "3", "--sampling", "static"]
    output = CliRunner().invoke(app, arguments, catch_exceptions=False).output
    assert sum(line.split()[:4] == ["probe", "step", "slope", "value"] for line in output.splitlines()) == 2
    assert "iteration 2" in output
    assert "iteration 3" in output


def test_bars():
    assert bar(-1.0, 1.0).startswith("[green]" + "█" * HALF)
    assert bar(1.0, 1.0).endswith("[red]" + "█" * HALF + "[/]")
    assert "[red]█[/]" in bar(1e-9, 1.0)
    assert "█[/][dim]│" in bar(-1e-9, 1.0)
    assert "not finite" in bar(float("nan"), 1.0)
    assert "█" not in bar(0.0, 0.0)


def test_data_status_and_fetch(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GRADLINE_DATA", str(tmp_path))  # --data sets it, and it is to be as before afterwards
    output = CliRunner().invoke(app, ["data", "--data", str(tmp_path)], catch_exceptions=False).output
    assert output.count("missing") >= 5
    assert "comes with scikit-learn" in output
    assert main(["data", "fetch", "iris"]) == 0
    assert "nothing to fetch" in capsys.readouterr().out
    assert main(["data", "fetch", "mnits"]) == 2
    assert "did you mean 'mnist'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["rnu"], "there is no verb 'rnu'; did you mean 'run'?"),
        (["run"], "Missing argument 'STUDY'"),
        (["run", "bcdw"], "did you mean 'bcwd'?"),
        (["run", "bcwd", "--seed", "3"], "Did you mean '--seeds'?"),
        (["run", "bcwd", "--workers", "0"], "Invalid value for '--workers': 0 is not in the range x>=1"),
        (["run", "bcwd", "--seeds", "two"], "Invalid value for '--seeds': 'two' is not a valid integer"),
        (["run", "bcwd", "--checkpoint-every", "-1"], "-1.0 is not in the range x>0.0"),
        (["run", "bcwd", "--checkpoint-every", "soon"], "'soon' is not a valid float"),
        (["claims", "."], "has no results"),
        (["run", "bcwd", "--method", "golsi"], "did you mean 'gols-i'?"),
        (["run", "bcwd", "--backend", "slurm"], "backend must be processes, inline, dask or tcp://host:port"),
        (["run", "nowhere.toml"], "there is no such file"),
        (["results", "nowhere"], "nowhere does not exist"),
        (["trace", "--problem", "bcwd-logr", "--method", "fixed-1", "--batch-size", "401"], "at most 400"),
    ],
)
def test_errors_are_one_sentence_and_exit_code_2(arguments, text, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    seen = capfd.readouterr()
    assert seen.out == ""
    last = seen.err.splitlines()[-1]
    assert last.startswith("gradline: ")
    assert text in last
    assert "Traceback" not in seen.err
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_where(capfd):
    assert main(["run", "--debug", "bcdw"]) == 2
    assert "Traceback" in capfd.readouterr().err


def test_no_results_is_said(tmp_path, finished, capfd):
    assert main(["results", str(tmp_path)]) == 2
    assert "has no results; `gradline run STUDY" in capfd.readouterr().err
    assert main(["results", str(finished[0]), "--method", "golsi"]) == 2
    assert "has no such results, but some of problem: bcwd-logr; method: gols-i" in capfd.readouterr().err


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on_and_it_does(tmp_path):
    arguments = ["run", "bcwd", "--problem", "bcwd-netpi", "--batch-size", "50", "--seeds", "2", "--budget", "6000"]
    arguments += ["--out", tmp_path / "out", "--backend", "inline", "--checkpoint-every", "0.1"]
    command = [sys.executable, "-m", "gradline", *map(str, arguments)]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: has_state(tmp_path / "out"))
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=240)
    assert program.returncode == 130, err
    assert "To resume:" in err
    assert (
        f"gradline run bcwd --problem bcwd-netpi --batch-size 50 --seeds 2 --budget 6000 --out {tmp_path / 'out'}"
        in err
    )
    done = gradline(*arguments)
    assert done.returncode == 0, done.stderr
    assert "resuming 4 runs" in done.stderr
    assert "4 runs made" in done.stderr


def test_words():
    assert [number(value) for value in (0.0, 1.5, 123456.0, 1e-9, float("nan"), float("inf"), -0.02)] == [
        "0", "1.5", "1.2e+5", "1.0e-9", "-", "inf", "-0.02"
    ]  # fmt: skip
    assert [duration(seconds) for seconds in (0.5, 45, 125, 120, 1800, 7320, 300000)] == [
        "0.5 s", "45 s", "2 min 5 s", "2 min", "30 min", "2 h 2 min", "3.5 days"
    ]  # fmt: skip
    assert (clock(65), clock(3661)) == ("1:05", "1:01:01")
    assert (size(10), size(2048), size(5e7), size(3e12)) == ("10 bytes", "2.0 kB", "50.0 MB", "3.0 TB")
    assert (percent(0.0125), percent(0.5), count(12345.6)) == ("1.2", "50.0", "12,346")
    assert (ranges([0, 1, 2]), ranges([5, 3])) == ("0 to 2", "3, 5")


@pytest.mark.skipif(os.name == "nt", reason="sh")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_print_nowhere(finished, closed):
    command = f"{sys.executable} -m gradline results {finished[0]} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    assert ("bcwd-logr" in done.stdout) == (closed == "2>&-")


@pytest.mark.skipif(sys.platform != "linux", reason="paths are bytes")
def test_a_path_that_the_locale_cannot_read_is_only_a_path(finished, tmp_path):
    directory = os.fsencode(tmp_path) + "/größe".encode()
    Path(os.fsdecode(directory)).symlink_to(finished[0])
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "gradline", "results", directory]
    done = subprocess.run(command, capture_output=True, env=plain, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert b"bcwd-logr" in done.stdout


def test_characters_that_a_stream_does_not_have_are_escaped():
    done = gradline("list", "problems", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "10 \\xd7 32" in done.stdout


@pytest.mark.parametrize("verb", [["check", "bcwd"], ["run", "compare"]])
@pytest.mark.parametrize("seeds", ["99999999999999", "9" * 30])
def test_seeds_that_nobody_can_run_are_refused(verb, seeds, capsys):
    assert main([*verb, "--seeds", seeds]) == 2
    assert f"{seeds} is not in the range 1<=x<=100000" in capsys.readouterr().err


def test_too_little_memory_is_said(monkeypatch, capsys):
    def load(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("gradline.lab.studies.load", load)
    assert main(["check", "bcwd"]) == 2
    assert capsys.readouterr().err.startswith("gradline: there is not enough memory")


def test_a_verb_is_one_file(tmp_path):
    (tmp_path / "hello.py").write_text(
        "import click\n@click.command(short_help='Greet.')\ndef verb():\n    click.echo('hello')\n"
    )
    program = (
        "import sys; from gradline.lab.cli import main, verbs; verbs.__path__.append(sys.argv[1]); "
        "sys.exit(main(sys.argv[2:]))"
    )
    done = [
        subprocess.run([sys.executable, "-c", program, tmp_path, verb], capture_output=True, text=True, check=True)
        for verb in ("hello", "--help")
    ]
    assert done[0].stdout == "hello\n"
    names = re.findall(r"^  (\w+)  +[A-Z]", done[1].stdout, re.MULTILINE)
    assert " ".join(names) == "compare list check run results claims figures report trace data hello"
