"""A small deterministic engine: what it computes is a function of the run's key alone, so any resume can be checked.

What it should suffer is in its environment: GRADLINE_FAKE_PACE (seconds of a round), GRADLINE_FAKE_KILL (a file; the
engine kills its process once for each letter of it, at its second round), GRADLINE_FAKE_RAISE (a seed that raises),
GRADLINE_FAKE_LOG (a file for the keys of finished runs), GRADLINE_FAKE_HOLD (a file; while it is there, the engine
stays in its eighth round).
"""

import hashlib
import os
import signal
import time
from pathlib import Path

import numpy as np

from gradline.lab.jobs.result import COLUMNS, Result


def key(run):
    return run.problem.name


def make(runs, state):
    return FakeEngine(runs, state)


def iteration(run, number):
    """The row of an iteration, from a hash."""
    digest = hashlib.sha256(f"{run.key}/{number}".encode()).digest()
    numbers = [byte / 255 for byte in digest]
    measured = number % 3 == 0
    return {
        "iteration": number,
        "probes": 0 if number == 0 else 1 + digest[0] % 4,
        "step": 0.0 if number == 0 else numbers[1],
        "stop": "" if number == 0 else ("SIGN_CHANGE", "ACCEPTED_AT_ONCE")[digest[2] % 2],
        "slope": -numbers[3],
        "norm": numbers[4],
        "train_loss": numbers[5] if measured else float("nan"),
        "train_error": round(numbers[6], 1) if measured else float("nan"),
        "test_loss": numbers[7] if measured else float("nan"),
        "test_error": numbers[8] if measured else float("nan"),
        "angle": float("nan"),
        "seconds": float("nan"),
        "cpu_seconds": float("nan"),
        "validation_loss": numbers[5] + numbers[7] if measured else float("nan"),
        "validation_error": float("nan"),
    }


def whole_table(run):
    """What a run must come to."""
    rows, evaluations = [], 1
    while not rows or evaluations < run.budget:
        row = iteration(run, len(rows))
        evaluations += row["probes"]
        rows.append(row | {"evaluations": evaluations})
    return {name: np.array([row[name] for row in rows], dtype=kind) for name, kind in COLUMNS.items()}


def result_of(run):
    return Result(run, 0.5, "fake", columns=whole_table(run))


class FakeEngine:
    def __init__(self, runs, state):
        self.runs = {run.key: run for run in runs}
        self.done = []
        if state is None:
            state = {"rows": {run.key: [] for run in runs}, "evaluations": {run.key: 1 for run in runs}, "gone": 0}
        self.rows = {name: [dict(row) for row in rows] for name, rows in state["rows"].items()}
        self.counts = dict(state["evaluations"])
        self.gone = state["gone"]
        self.rounds = 0

    @property
    def active(self):
        return len(self.rows)

    @property
    def evaluations(self):
        return self.gone + sum(self.counts.values())

    def advance(self):
        time.sleep(float(os.environ.get("GRADLINE_FAKE_PACE", "0")))
        self.rounds += 1
        if self.rounds == 2:
            kill_if_told()
        while self.rounds == 8 and Path(os.environ.get("GRADLINE_FAKE_HOLD", "nowhere")).exists():
            time.sleep(0.02)
        for name in list(self.rows):
            run = self.runs[name]
            if os.environ.get("GRADLINE_FAKE_RAISE") == str(run.seed) and len(self.rows[name]) == 3:
                raise ZeroDivisionError(f"seed {run.seed} divides by zero")
            row = iteration(run, len(self.rows[name]))
            self.counts[name] += row["probes"]
            self.rows[name].append(row | {"evaluations": self.counts[name]})
            if self.counts[name] >= run.budget:
                rows = self.rows.pop(name)
                self.gone += self.counts.pop(name)
                columns = {
                    column: np.array([row[column] for row in rows], dtype=kind) for column, kind in COLUMNS.items()
                }
                log(name)
                self.done.append(Result(run, 0.5, "fake", columns=columns))

    def finished(self):
        done, self.done = self.done, []
        return done

    def state_dict(self):
        return {
            "rows": {name: [dict(row) for row in rows] for name, rows in self.rows.items()},
            "evaluations": dict(self.counts),
            "gone": self.gone,
        }


def log(name):
    if place := os.environ.get("GRADLINE_FAKE_LOG"):
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")


def kill_if_told():
    """Die if the file has a letter, and take the letter away before."""
    place = os.environ.get("GRADLINE_FAKE_KILL")
    if place and (lines := Path(place).read_text(encoding="utf-8")):
        Path(place).write_text(lines[1:], encoding="utf-8")
        os.kill(os.getpid(), signal.SIGKILL)
