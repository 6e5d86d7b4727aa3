"""Functions run in real processes that talk to each other by gloo.

One pool of processes serves a whole test session: starting Python and torch takes far longer than the tests. For the
same reason they are forked from one process that has imported torch and done nothing else (no threads, no locks held).
"""

from __future__ import annotations

import datetime
import gc
import os
import tempfile
import traceback
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

PRELOADED = [
    "torch",
    "torch._dynamo",  # DistributedDataParallel imports it
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "gradline.torch",
    "pytest",
]
PATIENCE = 240.0
"""Seconds after which a rank that does not answer is a failure of the test, not of the whole session."""


class Failure(str):
    """What a rank said when it failed."""


class World:
    """Some processes, a rank each, that run a function after another."""

    def __init__(self, size):
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self.size = size
        self._folder = tempfile.TemporaryDirectory(prefix="gradline-ranks-")
        store = str(Path(self._folder.name) / "store")
        self._tasks = [context.SimpleQueue() for _ in range(size)]
        self._answers = context.Queue()
        self._processes = [
            context.Process(target=_serve, args=(rank, size, store, self._tasks[rank], self._answers), daemon=True)
            for rank in range(size)
        ]
        for process in self._processes:
            process.start()

    def run(self, function, *arguments):
        """The answers of all ranks, in their order. A failure is an answer too: `Failure`."""
        for task in self._tasks:
            task.put((function, arguments))
        answers = dict(self._answers.get(timeout=PATIENCE) for _ in range(self.size))
        return [answers[rank] for rank in range(self.size)]

    def __call__(self, function, *arguments):
        """The answers of all ranks, none of which may fail."""
        answers = self.run(function, *arguments)
        failures = [f"rank {rank}: {answer}" for rank, answer in enumerate(answers) if isinstance(answer, Failure)]
        assert not failures, "\n".join(failures)
        return answers

    def close(self):
        for process in self._processes:
            process.kill()
            process.join()
        self._folder.cleanup()


def _serve(rank, size, store, tasks, answers):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60)
    )
    gc.freeze()  # optimizers look through what Python may collect for the modules around their parameters
    while True:
        function, arguments = tasks.get()
        try:
            answer = function(rank, size, *arguments)
        except Exception:
            answer = Failure(traceback.format_exc())
        answers.put((rank, answer))


def launched(rank, size):
    """The variables that a launcher sets, for trainers that look for them: `torchrun`, `accelerate launch`."""
    found = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "NODE_RANK": 0}
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}  # never used: the processes have a group already
    return mock.patch.dict(os.environ, {**{name: str(number) for name, number in found.items()}, **where})
