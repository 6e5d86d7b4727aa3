"""Where tasks run: executors with the interface of `concurrent.futures`.

| backend | |
|---|---|
| `processes` | processes of this machine; one that dies takes only its own task with it |
| `inline` | this very process, one task after another: for debuggers |
| `dask` | a Dask cluster of this machine's processes |
| `tcp://host:port` | an existing Dask scheduler; its workers must see the study's directory under the same path |
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any

from gradline.lab.tools.extras import import_extra
from gradline.searches.arguments import require


class Inline(Executor):
    """Runs each task at once in the calling thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Processes(Executor):
    """Freshly started processes. Each has a pool of its own, so that a process that dies breaks only its own task.

    That task's future raises `BrokenProcessPool`; a new process takes the place of the dead one.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._lock = threading.RLock()
        self._idle: list[ProcessPoolExecutor] = []
        self._all: list[ProcessPoolExecutor] = []
        self._queue: deque[tuple[Future[Any], partial[Any]]] = deque()
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it as soon as a process is free."""
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the executor is shut down: it takes no more tasks")
            self._queue.append((future, partial(fn, *args, **kwargs)))
        self._start()
        return future

    def _start(self) -> None:
        with self._lock:
            while self._queue and not self._closed and (self._idle or len(self._all) < self._workers):
                future, call = self._queue.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                self._begin(future, call)

    def _begin(self, future: Future[Any], call: partial[Any]) -> None:
        while True:
            pool = self._idle.pop() if self._idle else self._new()
            try:
                inner = pool.submit(call)
            except BrokenProcessPool:  # it died while it was idle
                self._drop(pool)
                continue
            inner.add_done_callback(partial(self._finished, pool, future))
            return

    def _new(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begin_worker)
        self._all.append(pool)
        return pool

    def _drop(self, pool: ProcessPoolExecutor) -> None:
        self._all.remove(pool)
        pool.shutdown(wait=False)

    def _finished(self, pool: ProcessPoolExecutor, future: Future[Any], inner: Future[Any]) -> None:
        error = inner.exception()
        with self._lock:
            if isinstance(error, BrokenProcessPool):
                self._drop(pool)
            elif not self._closed:
                self._idle.append(pool)
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(inner.result())
        self._start()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks, and end the processes when they are done with theirs."""
        with self._lock:
            self._closed = self._closed or cancel_futures or not self._queue
            if cancel_futures:
                for future, _ in self._queue:
                    future.cancel()
                self._queue.clear()
            pools = list(self._all)
        for pool in pools:
            pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def kill(self) -> None:
        """End the processes now."""
        self._closed = True
        for pool in list(self._all):
            for process in list((pool._processes or {}).values()):
                process.kill()


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, which asks for checkpoints first; and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: Any) -> None:
    parent.join()
    os._exit(1)  # nothing to tidy: results and checkpoints are there whole or not at all


def default_workers() -> int:
    """As many as this process has cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_backend(backend: str) -> str:
    """Refuse a backend that does not exist."""
    known = backend in ("processes", "inline", "dask") or backend.startswith(("tcp://", "tls://", "ucx://"))
    require(known, "backend", "processes, inline, dask or tcp://host:port", "it says where runs are made", backend)
    return backend


@contextmanager
def open_executor(backend: str, workers: int | None = None) -> Iterator[tuple[Executor, int]]:
    """The executor of a backend, and how many tasks it works on at once (`None`: as many as it has cores).

    An error on the way out of the context ends its processes at once.
    """
    if check_backend(backend) == "inline":
        yield Inline(), 1
    elif backend == "processes":
        count = workers or default_workers()
        processes = Processes(count)
        try:
            yield processes, count
        except BaseException:
            processes.kill()
            raise
        finally:
            processes.shutdown(wait=True, cancel_futures=True)
    else:
        with _dask(backend, workers) as opened:
            yield opened


@contextmanager
def _dask(backend: str, workers: int | None) -> Iterator[tuple[Executor, int]]:
    distributed = import_extra("distributed", f"backend {backend!r}", "cluster")
    if backend == "dask":
        count = workers or default_workers()
        with (
            distributed.LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            client.run(_ignore_interrupts)
            yield client.get_executor(pure=False), count
    else:
        with distributed.Client(backend, timeout="15s") as client:
            yield client.get_executor(pure=False), workers or max(sum(client.nthreads().values()), 1)


def _ignore_interrupts() -> None:
    # A worker's tasks run in a thread of it, and only the main thread may do this: so it is done from outside of them.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def died(error: BaseException) -> bool:
    """Whether an error says that the worker died, rather than that its task failed."""
    return isinstance(error, BrokenProcessPool) or type(error).__name__ == "KilledWorker"
