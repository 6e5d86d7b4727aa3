"""Record the searches of a run probe by probe, in any engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from gradline.lab.engines import make
from gradline.lab.jobs.runs import Run
from gradline.lab.methods import SearchMethod
from gradline.lab.tools.threads import threads
from gradline.protocol import Origin, Outcome, Pending, Record


@dataclass(frozen=True)
class Recorded:
    """A search that delegates to another one and keeps a record of each search that has ended."""

    inner: Any
    records: list[Record[Any, Any]] = field(default_factory=list, compare=False)

    def __getattr__(self, name: str) -> Any:
        """Return what the search observes, its candidates and its first memory."""
        if name.startswith("__"):  # copies look for some before there is an `inner`
            raise AttributeError(name)
        return getattr(self.inner, name)

    def search(self, origin: Origin[Any], memory: Any) -> Generator[float, Any, Outcome[Any]]:
        pending: Pending[Any, Any] = Pending(self.inner, origin, memory)
        while pending.outcome is None:
            pending.tell((yield pending.step))
        self.records.append(pending.record)
        return pending.outcome


def watch(run: Run) -> Iterator[Record[Any, Any]]:
    """Yield the searches of a run, one after another: the same that the run makes in a study.

    ```python
    from gradline.lab.methods import METHODS
    from gradline.lab.problems import PROBLEMS
    from gradline.lab.jobs.runs import Run
    from gradline.lab.engines.recorder import watch

    run = Run(problem=PROBLEMS["bcwd-logr"], method=METHODS["gols-i"], batch_size=50, seed=0, budget=100)
    first = next(watch(run))
    assert first.transcript[0][0] == 1e-8 and len(first.transcript) > 20
    ```
    """
    if not isinstance(run.method, SearchMethod):
        raise TypeError(f"method must be a search (its probes are recorded), got {run.method.described}")
    recorded: Any = Recorded(run.method.search)
    with threads():
        engine = make([dataclasses.replace(run, method=dataclasses.replace(run.method, search=recorded))])
    while engine.active:
        with threads():  # not around the yield: what the caller computes there is the caller's
            engine.advance()
            engine.finished()
        while recorded.records:
            yield recorded.records.pop(0)
