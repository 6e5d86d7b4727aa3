"""Executors of tasks, with the interface of `concurrent.futures`.

| backend | |
|---|---|
| `processes` | processes on this machine; one that dies breaks only its own task |
| `inline` | this process, one task after another: for debuggers |
| `dask` | a Dask cluster of this machine's processes |
| `tcp://host:port` | an existing Dask scheduler; its workers must see the study's directory under the same path |
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from gradline.lab.tools.imports import import_extra
from gradline.searches.arguments import require


class Inline(Executor):
    """Runs each task immediately in the calling thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Processes(Executor):
    """Worker processes, each in a pool of its own, so that a process that dies breaks only its own task.

    The future of that task raises `BrokenProcessPool`, and a new process replaces the dead one. Each process belongs to
    one thread of a thread pool, which waits for its tasks.
    """

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers)
        self._of_thread = threading.local()
        self._pools: list[ProcessPoolExecutor] = []
        self._lock = threading.Lock()
        self._killed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._threads.submit(self._run, partial(fn, *args, **kwargs))

    def _run(self, call: Callable[[], Any]) -> Any:
        with self._lock:  # processes start within it, so that `kill` finds them
            if self._killed:
                raise BrokenProcessPool("the workers were killed")
            future = self._begin(call)
        return future.result()

    def _begin(self, call: Callable[[], Any]) -> Future[Any]:
        with suppress(AttributeError, BrokenProcessPool):  # this thread has no process yet, or it died
            return self._of_thread.pool.submit(call)  # type: ignore[no-any-return]
        pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_begin_worker)
        self._of_thread.pool = pool
        self._pools.append(pool)
        return pool.submit(call)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more tasks, and end the processes when their tasks are done."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        for pool in self._pools:
            pool.shutdown(wait=wait)

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            for pool in self._pools:
                for process in list((pool._processes or {}).values()):
                    process.kill()


def _begin_worker() -> None:
    """Ignore Ctrl-C, which the parent handles by asking for checkpoints, and exit when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow(parent: Any) -> None:
        parent.join()
        os._exit(1)  # nothing to clean up: results and checkpoints are renamed into place when complete

    if parent is not None:
        threading.Thread(target=follow, args=(parent,), daemon=True).start()


def default_workers() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_backend(backend: str) -> str:
    """Return `backend`, or raise a `ValueError` if it does not exist."""
    known = backend in ("processes", "inline", "dask") or backend.startswith(("tcp://", "tls://", "ucx://"))
    require(known, "backend", "processes, inline, dask or tcp://host:port", "it says where runs are made", backend)
    return backend


@contextmanager
def open_executor(backend: str, workers: int | None = None) -> Iterator[tuple[Executor, int]]:
    """Context manager with the executor of a backend and the number of tasks that it runs at once.

    An error within the context kills its processes. Without `workers` there is a process for each core.
    """
    if check_backend(backend) == "inline":
        yield Inline(), 1
    elif backend == "processes":
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise RuntimeError(
                'run_study and compare must be called under `if __name__ == "__main__":` in a script (worker processes '
                'import it), or with backend="inline"'
            )
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
    # Only the main thread may set handlers, and a worker's tasks run in another one: therefore `client.run` calls this.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def died(error: BaseException) -> bool:
    """Return whether an error means that the worker died, not that its task failed."""
    return isinstance(error, BrokenProcessPool) or type(error).__name__ == "KilledWorker"
