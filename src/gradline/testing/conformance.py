"""The conformance suite of line searches: the rules of [`gradline.protocol`][gradline.protocol], checked one by one."""

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
    """Run a search through every rule that drivers rely on; an `AssertionError` says which one it breaks, and where.

    On each function of the zoo the search runs three times in a row, each time with the memory of the time before:

    * it ends, within `max_probes`, and raises nothing;
    * its steps are finite and not negative;
    * its outcome is well formed, and never accepts a non-finite point;
    * its memory consists of numbers, strings, `None` and tuples of these, nested as in `start()`, because it is saved;
    * it looks at nothing but what its `observes` and `observes_at_probes` declare, and does the same where it is shown
      more;
    * the probe it accepts was the last one, or among its `candidates` ever since it was probed;
    * it is pure: the same observations give the same steps, also with another search under way at the same time and
      after others have ended, and the search object stays as it was;
    * it can be pickled and replayed at any moment, and goes on as if nothing had happened.

    A search that computes forever without asking for a step cannot be caught.

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
        search: any search.
        functions: where to try it; by default everything in the zoo.
        max_probes: how many probes a search may take. The default is generous: over the 15 orders of magnitude from the
            smallest to the largest step, halving takes 50 probes and a factor of 0.9 takes 328.
    """
    trials = [_Trial(search, function, max_probes) for function in functions]
    for trial, other in zip(trials, trials[1:] + trials[:1], strict=True):
        before = trial.pickled(search)
        memory = trial.start()
        for _ in range(3):
            record = trial.run(memory)
            trial.check_pure(record, memory, other)
            trial.check_looks(record, memory)
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

    def fail(self, broken: str, told: Sequence[tuple[float, Slope]] = ()) -> NoReturn:
        """Say which rule is broken, on which function, with the numbers."""
        last = "".join(f"\n  step {step!r}: {seen}" for step, seen in told[-6:])
        probes = f" After {len(told)} probes, the last of them:{last}" if told else ""
        raise AssertionError(f"{broken}. This is {self.search!r} on the function '{self.function}'.{probes}")

    @contextmanager
    def catching(self, told: Sequence[tuple[float, Slope]] = ()) -> Iterator[None]:
        """Turn whatever the search or `Pending` raises into a sentence."""
        try:
            yield
        except AssertionError:
            raise
        except AttributeError as error:
            if isinstance(error.obj, Slope):
                self.fail(
                    f"a search must declare what it looks at (`observes = Value` or `Moments`), but where it declares "
                    f"{type(error.obj).__name__} it reads .{error.name}",
                    told,
                )
            self.fail(f"a search must not raise, but it raised {error!r}", told)
        except Exception as error:
            frame = error.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            if frame is not None and frame.tb_frame.f_globals.get("__name__") == "gradline.protocol":
                self.fail(str(error), told)
            self.fail(f"a search must not raise, but it raised {error!r}", told)

    def start(self) -> Any:
        """The first memory, the same each time."""
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
        """A search that waits to be told, and the evaluator for it: it shows what is declared and nothing more."""
        at_zero, at_probes = kind or observes(self.search), kind or observes_at_probes(self.search)
        if observes(self.search) is Heading:
            at_zero = Heading  # there is nothing that has more
        for name, declared in (("observes", at_zero), ("observes_at_probes", at_probes)):
            if declared not in (Slope, Value, Moments, Heading):
                self.fail(f"{name} must be Slope, Value, Moments or Heading, got {declared!r}")
        phi = self.function.phi()
        zero = _shown(phi(0.0), at_zero)
        with self.catching():
            pending = Pending(self.search, Origin(zero, self.function.norm), memory)
            return pending, lambda step: _shown(phi(step), at_probes)
        raise AssertionError  # never: `catching` has raised

    def run(self, memory: Any, kind: type[Slope] | None = None) -> Record[Any, Any]:
        """One search to its end, watched."""
        pending, see = self.begin(memory, kind)
        wanted: list[set[int]] = []
        while pending.outcome is None:
            told = pending.transcript
            if len(told) >= self.max_probes:
                self.fail(f"a search must end, but it asks for more than {self.max_probes} probes", told)
            with self.catching(told):
                pending.tell(see(pending.step))
                wanted.append(set(candidates(self.search, list(told))))
        outcome = pending.outcome
        if type(outcome.step) not in (float, int):
            self.fail(f"the step of an outcome must be a plain float, got {outcome}", pending.transcript)
        self._check_candidates(pending.record, wanted)
        return pending.record

    def _check_candidates(self, record: Record[Any, Any], wanted: list[set[int]]) -> None:
        accepted = record.outcome.probe
        if accepted is None:
            return
        for probe in range(accepted, len(wanted) - 1):  # at the last one the search ended: nobody asked any more
            if accepted not in wanted[probe]:
                self.fail(
                    f"a search must accept its last probe or one of its candidates (the gradients of others are gone), "
                    f"but it accepted probe {accepted}, and after probe {probe} its candidates were "
                    f"{sorted(wanted[probe])}",
                    record.transcript,
                )

    def check_memory(self, memory: Any) -> None:
        """Memory must be such that it can be saved and brought back."""
        if not _plain(memory):
            self.fail(
                f"memory must be made of plain numbers, strings, None and tuples of them (it is saved), got {memory!r}"
            )
        first = self.search.start()
        if _nesting(memory) != _nesting(first):
            self.fail(
                f"memory must be nested as start() is (it is brought back by that pattern), "
                f"but start() gives {first!r} and the search handed on {memory!r}"
            )

    def check_looks(self, record: Record[Any, Any], memory: Any) -> None:
        """More to see than was declared must change nothing (where all of it is finite: else it may)."""
        shown = self.run(memory, Moments)
        if all(seen.finite for _, seen in shown.transcript):
            self._same(
                record, shown, "a search must look only at what it declares, but it behaves otherwise if told more"
            )

    def check_pure(self, record: Record[Any, Any], memory: Any, other: _Trial) -> None:
        """The same again, then side by side with another search, then after that one has ended."""
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
            broken = "a search must be pure, but with another one under way it asked for other steps"
            if pending.outcome is None:
                trial.fail(broken, pending.transcript)
            trial._same(expected, pending.record, broken)
        broken = (
            f"a search must be pure, but after another one had ended (on '{other.function}') it asked for other steps"
        )
        self._same(record, self.run(memory), broken)

    def check_replay(self, record: Record[Any, Any], memory: Any) -> None:
        """Stop anywhere, come back by transcript and by pickle, and go on."""
        told = record.transcript
        for cut in sorted({0, 1, 2, 3, len(told) // 2, len(told) - 1, len(told)}):
            if not 0 <= cut <= len(told):
                continue
            with self.catching(told):
                replayed = Pending.replay(self.search, record.origin, memory, told[:cut])
            unpickled = pickle.loads(self.pickled(replayed))
            for pending, how in ((replayed, "replayed"), (unpickled, "pickled and unpickled")):
                for _, seen in told[cut:]:
                    if pending.outcome is not None:
                        break
                    with self.catching(pending.transcript):
                        pending.tell(seen)
                broken = f"a search must go on as before, but {how} after {cut} probes it asked for other steps"
                if pending.outcome is None:
                    self.fail(broken, pending.transcript)
                self._same(record, pending.record, broken)

    def pickled(self, thing: Any) -> bytes:
        """The bytes of a search, or of one under way."""
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


def _shown(seen: Moments, kind: type[Slope]) -> Slope:
    if kind is Heading:  # on a line the way is the line itself
        return Heading(seen.slope, seen.slope, abs(seen.slope))
    return kind(*(getattr(seen, field.name) for field in fields(kind)))


def _plain(memory: Any) -> bool:
    """Exact types: numpy's numbers pass for floats, but not through `torch.load(weights_only=True)`."""
    if isinstance(memory, tuple):
        return all(map(_plain, memory))
    return memory is None or type(memory) in (bool, int, float, str)


def _nesting(memory: Any) -> Any:
    return (type(memory), *map(_nesting, memory)) if isinstance(memory, tuple) else None
