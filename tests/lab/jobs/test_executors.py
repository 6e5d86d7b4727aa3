"""Worker processes: one that dies breaks its own task only."""

import os
import signal
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress

import pytest
from lab.helping import wait_until

from gradline.lab.jobs.executors import Processes, died, open_executor


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_dies_breaks_its_own_task_only(tmp_path):
    with open_executor("processes", 2) as (executor, workers):
        assert workers == 2
        tasks = [executor.submit(call, *arguments) for call, *arguments in ((abs, -1), (die,), (abs, -2), (abs, -3))]
        assert [tasks[place].result() for place in (0, 2, 3)] == [1, 2, 3]
        error = tasks[1].exception()
        assert isinstance(error, BrokenProcessPool)
        assert died(error)
        assert not died(ZeroDivisionError())
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result()


def test_a_process_that_dies_while_it_is_idle_is_replaced():
    executor = Processes(1)
    try:
        before = executor.submit(os.getpid).result()
        os.kill(before, signal.SIGKILL)
        (pool,) = executor._pools
        wait_until(lambda: pool._broken)
        assert executor.submit(os.getpid).result() != before
    finally:
        executor.shutdown()
    with pytest.raises(RuntimeError):
        executor.submit(os.getpid)


def test_an_error_kills_the_processes(tmp_path):
    begun = tmp_path / "begun"
    with suppress(KeyboardInterrupt), open_executor("processes", 1) as (executor, _):
        task, waiting = executor.submit(_hang, begun), executor.submit(abs, -1)
        wait_until(begun.exists)
        raise KeyboardInterrupt
    assert isinstance(task.exception(), BrokenProcessPool)
    assert waiting.cancelled() or isinstance(waiting.exception(), BrokenProcessPool)


def _hang(begun):
    begun.touch()
    signal.pause()


def test_a_script_without_a_guard_is_told_to_have_one(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from gradline.lab.jobs.executors import open_executor\n"
        "with open_executor('processes', 1) as (executor, _):\n"
        "    executor.submit(abs, -1).exception()\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert 'must be called under `if __name__ == "__main__":`' in done.stderr
