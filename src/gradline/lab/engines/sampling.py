"""Which batches a run draws: for its probes, and for its directions where these have batches of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradline.lab.engines import lockstep_accepts
from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.methods import SearchMethod
from gradline.lab.problems.sampling import Batches, Purpose
from gradline.protocol import Moments, Record, observes
from gradline.searches.arguments import require

if TYPE_CHECKING:
    from gradline.lab.problems.networks import Data


def reuses(run: Run) -> bool:
    """Whether the accepted probe's gradient begins the next search."""
    return run.sampling is not Sampling.STATIC and run.direction_batch_size is None


def probe_batches(run: Run, samples: int) -> Batches:
    """The batches of a run's probes."""
    size, repetition = (samples, False) if run.sampling is Sampling.FULL else (run.batch_size, run.repetition)
    return Batches(seed=run.seed, purpose=Purpose.PROBES, samples=samples, size=size, repetition=repetition)


def direction_batches(run: Run, samples: int) -> Batches | None:
    """The batches that give a run's directions, where they are others."""
    if run.direction_batch_size is None:
        return None
    return Batches(
        seed=run.seed,
        purpose=Purpose.DIRECTIONS,
        samples=samples,
        size=run.direction_batch_size,
        repetition=run.repetition,
    )


def ends_in_stall(run: Run, samples: int) -> bool:
    """Return whether a run ends when it is `stuck`: no evaluation is random, and its directions have no memory.

    Args:
        run: the run.
        samples: how many there are to train on.
    """
    batches = probe_batches(run, samples), direction_batches(run, samples)
    return lockstep_accepts(run) and all(source is None or source.whole for source in batches)


def stuck(record: Record[Any, Any]) -> bool:
    """Return whether a search left everything as it was: no step, and nothing new in its memory.

    On full batches every search after it would do the same, so the rest of the budget would change nothing.
    """
    return record.outcome.step == 0.0 and bool(record.outcome.memory == record.memory)


def check_variances(run: Run, data: Data | int | None) -> None:
    """Refuse a run whose search needs variances and whose batches have none.

    Args:
        run: the run.
        data: what it is trained on, or how many samples that are; `None`: its problem says it.
    """
    if isinstance(run.method, SearchMethod) and observes(run.method.search) is Moments:
        samples = run.problem.samples if data is None else data if isinstance(data, int) else len(data.train_inputs)
        batches = direction_batches(run, samples) or probe_batches(run, samples)
        require(
            batches.size > 1,
            "batch_size",
            f"at least 2 with {run.method.name}",
            "a variance is estimated from how samples differ",
            batches.size,
        )
