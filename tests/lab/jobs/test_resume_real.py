"""The real engines under the runner: a study that is killed and taken up equals one that was left alone."""

import signal

import numpy as np
import pytest
from lab.helping import assert_same_tables, has_state, python, small, wait_until

from gradline.lab.jobs.store import Store
from gradline.lab.studies import plan
from gradline.lab.studies.running import run_study

PROGRAM = """
    import sys
    from lab.helping import small
    from gradline.lab.jobs.runner import Interrupted
    from gradline.lab.studies.running import run_study

    if __name__ == "__main__":
        try:
            run_study(small(seeds=3, budget=1200, methods=("gols-i", "prls"), problems=("bcwd-netpi",)), sys.argv[1],
                      workers=1, backend="inline", checkpoint_every=0.1)
        except Interrupted:
            sys.exit(130)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_study_ends_as_if_it_had_not_been(tmp_path, number):
    study = small(seeds=3, budget=1200, methods=("gols-i", "prls"), problems=("bcwd-netpi",))
    program = python(PROGRAM, tmp_path / "killed")
    wait_until(lambda: has_state(tmp_path / "killed") or program.poll() is not None)
    program.send_signal(number)
    program.communicate()
    assert program.returncode in (-signal.SIGKILL, 130), "it ended before it could be killed"
    assert Store(tmp_path / "killed").missing(plan(study))
    heard = []

    class Listener:
        update = error = lambda self, news: None

        def message(self, text):
            heard.append(text)

    run_study(study, tmp_path / "killed", backend="inline", observer=Listener())
    assert any("resuming" in text for text in heard)
    run_study(study, tmp_path / "alone", backend="inline")
    killed, alone = Store(tmp_path / "killed"), Store(tmp_path / "alone")
    assert killed.keys() == alone.keys() == sorted(run.key for run in plan(study))
    for run in plan(study):
        assert_same_tables(killed.load(run.key).columns, alone.load(run.key).columns)


def test_groups_change_nothing_but_roundings(tmp_path):
    study = small(seeds=4, budget=200, methods=("gols-i", "prls"), problems=("bcwd-netpi",))
    run_study(study, tmp_path / "together", backend="inline")
    run_study(study, tmp_path / "apart", backend="inline", key=lambda run: run.key)
    together, apart = Store(tmp_path / "together"), Store(tmp_path / "apart")
    for run in plan(study):
        one, other = together.load(run.key).columns, apart.load(run.key).columns
        assert one["stop"][:20].tolist() == other["stop"][:20].tolist()
        for name in ("step", "slope", "norm", "train_loss"):
            np.testing.assert_allclose(one[name][:20], other[name][:20], rtol=1e-7, err_msg=name)
