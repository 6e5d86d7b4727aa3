"""A study is a value: which runs belong together. `plan` lists its runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.methods import Method
from gradline.lab.problems import Problem
from gradline.lab.studies.toml import StudyError
from gradline.lab.tools.arguments import require_name
from gradline.searches.arguments import require


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What methods are compared on: a problem with a batch size, a budget, and a training loss to be reached.

    Args:
        problem: what is trained.
        batch_size: samples of an evaluation.
        budget: evaluations of one run.
        record_every: as in [`Run`][gradline.lab.jobs.runs.Run].
        target: the training loss that counts as reached; `None`: there is none.
        held_out: whether the problem is kept apart while methods are designed and tuned.
    """

    problem: Problem
    batch_size: int
    budget: int
    record_every: int = 10
    target: float | None = None
    held_out: bool = False

    @property
    def name(self) -> str:
        """Problem and batch size, as on the command line."""
        return f"{self.problem.name}/{self.batch_size}"


class Tuned(NamedTuple):
    """Methods of which the best is chosen for each setting, by its validation loss on the tuning seed."""

    name: str
    """Name of the chosen one in results."""
    candidates: tuple[Method, ...]
    """Methods to be run on the tuning seed."""
    others: tuple[Method, ...] = ()
    """Methods that are not run, but can be chosen if their results are there."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """Every problem with every method, batch size, sampling, direction batch size and seed.

    ```python
    from gradline.lab.methods import METHODS
    from gradline.lab.problems import PROBLEMS
    from gradline.lab.studies import Study, plan

    study = Study(name="two", problems=(PROBLEMS["bcwd-logr"],), methods=(METHODS["gols-i"],), batch_sizes=(10, 50))
    assert len(plan(study)) == 2 * 10
    ```

    Args:
        name: name of the study; files are named by it.
        title: one line that says what the study is about.
        problems: problems to train; with `settings`, the problems of these.
        methods: methods that train them.
        batch_sizes: numbers of samples in a mini-batch; `None`: each problem's own.
        seeds: seeds; each gives one run.
        budget: gradient evaluations of one run; `None`: each problem's own.
        sampling: which samples an evaluation uses.
        direction_batch_sizes: samples of a separate evaluation that gives the direction; a `None` among them: no such
            evaluation.
        repetition: as in [`Run`][gradline.lab.jobs.runs.Run].
        diagonal: as in `Run`.
        record_every: as in `Run`.
        angle: as in `Run`.
        benchmark: as in `Run`.
        settings: list of problems, each with its batch size and budget, in place of `batch_sizes`, `budget` and
            `record_every`.
        tuned: methods to choose from. Each candidate has one run for each setting, on the tuning seed; the chosen one
            has a run for each of `seeds` (see `gradline.lab.studies.running`).
        tuning_seed: the seed on which candidates are compared. It must not be among `seeds`.
    """

    name: str
    title: str = ""
    problems: tuple[Problem, ...]
    methods: tuple[Method, ...]
    batch_sizes: tuple[int, ...] | None = None
    seeds: tuple[int, ...] = tuple(range(10))
    budget: int | None = None
    sampling: tuple[Sampling, ...] = (Sampling.DYNAMIC,)
    direction_batch_sizes: tuple[int | None, ...] = (None,)
    repetition: bool = False
    diagonal: bool = True
    record_every: int = 10
    angle: bool = False
    benchmark: bool = False
    settings: tuple[Setting, ...] = ()
    tuned: tuple[Tuned, ...] = ()
    tuning_seed: int = 1000

    def __post_init__(self) -> None:
        require_name("name", self.name)
        for name in ("problems", "seeds", "sampling", "direction_batch_sizes"):
            require(bool(getattr(self, name)), name, "at least one", "nothing would be run", getattr(self, name))
        require(bool(self.methods or self.tuned), "methods", "at least one", "nothing would be run", self.methods)
        apart = not self.tuned or self.tuning_seed not in self.seeds
        reason = "what is chosen on a seed is not reported on it"
        require(apart, "tuning_seed", "none of seeds", reason, self.tuning_seed)
        require(self.batch_sizes != (), "batch_sizes", "at least one, or None", "nothing would be run", ())


def plan(study: Study) -> list[Run]:
    """Return all runs of a study that are known before any of them is made, each once.

    Those of methods that are chosen by results are in `plan_tuned`. With full sampling the batch size is the number of
    training samples, whatever the study's are.
    """
    runs: dict[str, Run] = {}
    candidates = [method for tuned in study.tuned for method in tuned.candidates]
    pairs = [*itertools.product(study.methods, study.seeds), *((method, study.tuning_seed) for method in candidates)]
    for setting, (method, seed) in itertools.product(settings_of(study), pairs):
        runs |= {run.key: run for run in runs_of(study, setting, method, seed)}
    return list(runs.values())


def plan_tuned(study: Study, choose: Callable[[Setting, Tuned], Method | None]) -> list[Run]:
    """Return the runs of the candidates that `choose` chooses for settings; `None`: there is none yet."""
    runs: dict[str, Run] = {}
    for setting, tuned in itertools.product(settings_of(study), study.tuned):
        if (method := choose(setting, tuned)) is not None:
            for seed in study.seeds:
                runs |= {run.key: run for run in runs_of(study, setting, method, seed)}
    return list(runs.values())


def runs_of(study: Study, setting: Setting, method: Method, seed: int) -> Iterator[Run]:
    """Yield the runs of a method on a setting: one for each sampling and batch size of directions."""
    same = {name: getattr(study, name) for name in ("repetition", "diagonal", "angle", "benchmark")}
    for sampling, direction in itertools.product(study.sampling, study.direction_batch_sizes):
        yield Run(
            problem=setting.problem,
            method=method,
            batch_size=setting.problem.samples if sampling is Sampling.FULL else setting.batch_size,
            seed=seed,
            budget=setting.budget,
            sampling=sampling,
            direction_batch_size=direction,
            record_every=setting.record_every,
            **same,
        )


def settings_of(study: Study) -> tuple[Setting, ...]:
    """Return every problem with its batch sizes and budgets."""
    every = study.record_every
    return study.settings or tuple(
        Setting(problem=problem, batch_size=size, budget=study.budget or problem.budget, record_every=every)
        for problem in study.problems
        for size in study.batch_sizes or problem.batch_sizes
    )


def validate(runs: Iterable[Run]) -> None:
    """Raise a `StudyError` for what a run's problem or method makes impossible.

    A batch cannot have more samples than there are, and a method must be installed.
    """
    for run in runs:
        if (reason := run.method.unavailable()) is not None:
            raise StudyError(f"method {run.method.name} cannot be run: {reason}")
        for name in ("batch_size", "direction_batch_size"):
            size = getattr(run, name)
            if size is not None and not run.repetition and size > (samples := run.problem.samples):
                raise StudyError(
                    f"{name} must be at most {samples} for {run.problem.name} (a batch holds each training sample at "
                    f"most once, and there are {samples}; repetition = true would draw samples again), got {size}"
                )
