"""Conformance tests of line searches: check each rule of [`gradline.protocol`][gradline.protocol]."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from gradline.protocol import (
    Heading,
    Moments,
    Origin,
    Pending,
    Record,
    Search,
    Slope,
    Value,
    candidates,
    observes,
    observes_at_probes,
)
from gradline.testing.functions import ZOO, Function


def check_line_search(search: Search[Any, Any], *, functions: Sequence[Function] = ZOO, max_probes: int = 1000) -> None:
    """Check that a search obeys the rules that drivers rely on; raise an `AssertionError` that names a violated rule.

    On each function the search runs three times in a row, each time with the memory of the previous run. Checked are:

    * it ends within `max_probes` and does not raise;
    * its steps are finite and not negative;
    * its outcome is valid and never accepts a non-finite point;
    * its memory consists of numbers, strings, `None` and tuples of these, nested as in `start()`, so that it can be
      saved;
    * it uses only what `observes` and `observes_at_probes` declare, and takes the same steps if given more;
    * the accepted probe is the last one, or was among its `candidates` since it was made;
    * it is pure: equal observations give equal steps, also while or after other searches run, and the search object is
      not changed;
    * it can be pickled and replayed at any time and continues with the same steps.

    A search that runs forever without yielding a step is not detected.

    ```python
    from gradline.searches import GolsI
    from gradline.testing import check_line_search

    check_line_search(GolsI())
    try:
        check_line_search(GolsI(), max_probes=3)
    except AssertionError as error:
        assert "a search must end, but it asks for more than 3 probes" in str(error)
    ```

    Args:
        search: the search to check.
        functions: the functions to run it on. Default: all of `ZOO`.
        max_probes: largest number of probes per search. The default is generous: over the 15 orders of magnitude from
            the smallest to the largest step, halving takes 50 probes and a factor of 0.9 takes 328.
    """
    trials = [_Trial(search, function, max_probes) for function in functions]
    for trial, other in zip(trials, trials[1:] + trials[:1], strict=True):
        before = trial.pickled(search)
        memory = trial.start()
        for _ in range(3):
            record = trial.run(memory)
            trial.check_pure(record, memory, other)
            trial.check_declared(record, memory)
            trial.check_replay(record, memory)
            trial.check_memory(record.outcome.memory)
            memory = record.outcome.memory
        if trial.pickled(search) != before:
            trial.fail("a search must not keep state in itself, but its attributes have changed since it was made")


@dataclass(frozen=True)
class _Trial:
    """One search on one function."""

    search: Search[Any, Any]
    function: Function
    max_probes: int

    def fail(self, broken: str, transcript: Sequence[tuple[float, Slope]] = ()) -> NoReturn:
        """Raise an `AssertionError` with the violated rule, the function and the last probes."""
        last = "".join(f"\n  step {step!r}: {seen}" for step, seen in transcript[-6:])
        probes = f" After {len(transcript)} probes, the last of them:{last}" if transcript else ""
        raise AssertionError(f"{broken}. This is {self.search!r} on the function '{self.function}'.{probes}")

    @contextmanager
    def catching(self, transcript: Sequence[tuple[float, Slope]] = ()) -> Iterator[None]:
        """Turn exceptions of the search or of `Pending` into failures."""
        try:
            yield
        except AssertionError:
            raise
        except AttributeError as error:
            if isinstance(error.obj, Slope):
                self.fail(
                    f"a search must declare what it observes (`observes = Value` or `Moments`), but where it declares "
                    f"{type(error.obj).__name__} it reads .{error.name}",
                    transcript,
                )
            self.fail(f"a search must not raise, but it raised {error!r}", transcript)
        except Exception as error:
            frame = error.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            if frame is not None and frame.tb_frame.f_globals.get("__name__") == "gradline.protocol":
                self.fail(str(error), transcript)
            self.fail(f"a search must not raise, but it raised {error!r}", transcript)

    def start(self) -> Any:
        """Return the first memory; fail if two calls differ."""
        if not (callable(getattr(self.search, "start", None)) and callable(getattr(self.search, "search", None))):
            self.fail("a search must have start() and a generator search(origin, memory)")
        with self.catching():
            memory = self.search.start()
            again = self.search.start()
        if repr(again) != repr(memory):
            self.fail(f"start() must always give the same memory, but it gave {memory!r} and then {again!r}")
        self.check_memory(memory)
        return memory

    def begin(self, memory: Any, kind: type[Slope] | None = None) -> tuple[Pending[Any, Any], Callable[[float], Slope]]:
        """Return a search in progress and its evaluator, which returns only the declared observation type."""
        at_zero, at_probes = kind or observes(self.search), kind or observes_at_probes(self.search)
        if observes(self.search) is Heading:
            at_zero = Heading  # there is no richer type
        for name, declared in (("observes", at_zero), ("observes_at_probes", at_probes)):
            if declared not in (Slope, Value, Moments, Heading):
                self.fail(f"{name} must be Slope, Value, Moments or Heading, got {declared!r}")
        phi = self.function.phi()
        zero = _as(phi(0.0), at_zero)
        with self.catching():
            pending = Pending(self.search, Origin(zero, self.function.norm), memory)
            return pending, lambda step: _as(phi(step), at_probes)
        raise AssertionError  # unreachable: `catching` has raised

    def run(self, memory: Any, kind: type[Slope] | None = None) -> Record[Any, Any]:
        """Run one search to its end with checks, and return its record."""
        pending, see = self.begin(memory, kind)
        wanted: list[set[int]] = []
        while pending.outcome is None:
            transcript = pending.transcript
            if len(transcript) >= self.max_probes:
                self.fail(f"a search must end, but it asks for more than {self.max_probes} probes", transcript)
            with self.catching(transcript):
                pending.tell(see(pending.step))
                wanted.append(set(candidates(self.search, list(transcript))))
        outcome = pending.outcome
        if type(outcome.step) not in (float, int):
            self.fail(f"the step of an outcome must be a plain float, got {outcome}", pending.transcript)
        self._check_candidates(pending.record, wanted)
        return pending.record

    def _check_candidates(self, record: Record[Any, Any], wanted: list[set[int]]) -> None:
        accepted = record.outcome.probe
        if accepted is None:
            return
        for probe in range(accepted, len(wanted) - 1):  # after the last probe candidates are not needed
            if accepted not in wanted[probe]:
                self.fail(
                    f"a search must accept its last probe or one of its candidates (the gradients of others are gone), "
                    f"but it accepted probe {accepted}, and after probe {probe} its candidates were "
                    f"{sorted(wanted[probe])}",
                    record.transcript,
                )

    def check_memory(self, memory: Any) -> None:
        """Check that memory can be saved and restored."""
        if not _plain(memory):
            self.fail(
                f"memory must be made of plain numbers, strings, None and tuples of them (it is saved), got {memory!r}"
            )
        first = self.search.start()
        if _nesting(memory) != _nesting(first):
            self.fail(
                f"memory must be nested as start() is (it is restored by that pattern), "
                f"but start() gives {first!r} and the search returned {memory!r}"
            )

    def check_declared(self, record: Record[Any, Any], memory: Any) -> None:
        """Check that richer observations than declared, if all finite, do not change the steps."""
        shown = self.run(memory, Moments)
        if all(seen.finite for _, seen in shown.transcript):
            self._same(record, shown, "a search must use only what it declares, but it takes other steps if given more")

    def check_pure(self, record: Record[Any, Any], memory: Any, other: _Trial) -> None:
        """Check that a repeated search takes equal steps: alone, beside another search, and after it."""
        self._same(record, self.run(memory), "a search must be pure, but a second time it asked for other steps")
        start = self.search.start()
        alone = other.run(start)
        both = [(self, record, *self.begin(memory)), (other, alone, *other.begin(start))]
        for probe in range(max(record.evaluations, alone.evaluations)):
            for trial, expected, pending, see in both:
                if pending.outcome is None and probe < expected.evaluations:
                    with trial.catching(pending.transcript):
                        pending.tell(see(pending.step))
        for trial, expected, pending, _ in both:
            broken = "a search must be pure, but with another one in progress it asked for other steps"
            if pending.outcome is None:
                trial.fail(broken, pending.transcript)
            trial._same(expected, pending.record, broken)
        broken = (
            f"a search must be pure, but after another one had ended (on '{other.function}') it asked for other steps"
        )
        self._same(record, self.run(memory), broken)

    def check_replay(self, record: Record[Any, Any], memory: Any) -> None:
        """Check that a search replayed or unpickled at several probes continues with equal steps."""
        transcript = record.transcript
        for cut in sorted({0, 1, 2, 3, len(transcript) // 2, len(transcript) - 1, len(transcript)}):
            if not 0 <= cut <= len(transcript):
                continue
            with self.catching(transcript):
                replayed = Pending.replay(self.search, record.origin, memory, transcript[:cut])
            unpickled = pickle.loads(self.pickled(replayed))
            for pending, how in ((replayed, "replayed"), (unpickled, "pickled and unpickled")):
                for _, seen in transcript[cut:]:
                    if pending.outcome is not None:
                        break
                    with self.catching(pending.transcript):
                        pending.tell(seen)
                broken = f"a search must continue as before, but {how} after {cut} probes it asked for other steps"
                if pending.outcome is None:
                    self.fail(broken, pending.transcript)
                self._same(record, pending.record, broken)

    def pickled(self, thing: Any) -> bytes:
        """Return the pickle of a search or of a search in progress; fail if it cannot be pickled."""
        try:
            return pickle.dumps(thing)
        except Exception as error:
            self.fail(f"a search must pickle (so that training can be saved), but it raised {error!r}")

    def _same(self, record: Record[Any, Any], other: Record[Any, Any], broken: str) -> None:
        for probe, ((step, _), (step_of_other, _)) in enumerate(zip(record.transcript, other.transcript, strict=False)):
            if step != step_of_other:
                self.fail(f"{broken}: at probe {probe} {step_of_other!r} in place of {step!r}", record.transcript)
        if len(record.transcript) != len(other.transcript):
            self.fail(
                f"{broken}: {len(other.transcript)} of them in place of {len(record.transcript)}", record.transcript
            )
        if repr(record.outcome) != repr(other.outcome):  # by repr: NaN is not equal to itself
            self.fail(f"{broken}: it ended as {other.outcome} in place of {record.outcome}", record.transcript)


def _as(seen: Moments, kind: type[Slope]) -> Slope:
    if kind is Heading:  # on a line the displacement is along the line
        return Heading(seen.slope, seen.slope, abs(seen.slope))
    return kind(*(getattr(seen, field.name) for field in fields(kind)))


def _plain(memory: Any) -> bool:
    """Whether memory has only plain types; numpy's floats do not pass `torch.load(weights_only=True)`."""
    if isinstance(memory, tuple):
        return all(map(_plain, memory))
    return memory is None or type(memory) in (bool, int, float, str)


def _nesting(memory: Any) -> Any:
    return (type(memory), *map(_nesting, memory)) if isinstance(memory, tuple) else None
