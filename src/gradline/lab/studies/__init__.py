"""Studies: which runs belong together. A study is a value, and `plan` lists its runs.

Those that come with gradline are small TOML files beside this module (`gradline list` names them): the paper's, and the
comparison with other optimizers. Your own is a path to such a file, or a
`Study` made in Python. How a file is read is in `gradline.lab.studies.reading`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gradline.lab.jobs.runs import Run, Sampling
from gradline.lab.methods import Method
from gradline.lab.problems import Problem
from gradline.lab.studies.toml import StudyError, unknown
from gradline.lab.tools.names import require_name
from gradline.searches.arguments import require

__all__ = ["Setting", "Study", "StudyError", "Tuned", "available", "load", "plan", "plan_tuned", "validate"]

SHIPPED = Path(__file__).parent
MOST_SEEDS = 100_000
"""Of a study: its runs are planned in memory."""


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
        """As on the command line."""
        return f"{self.problem.name}/{self.batch_size}"


class Tuned(NamedTuple):
    """Methods of which the best is chosen for each setting, by its validation loss on the tuning seed."""

    name: str
    """What the chosen one is called in results."""
    candidates: tuple[Method, ...]
    """Those to be run on the tuning seed."""
    others: tuple[Method, ...] = ()
    """Those that are not, but whose results count where they are there."""


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
        name: what it is called, also on the disk.
        title: what it is about, in a line.
        problems: what is trained; with `settings`, theirs.
        methods: how.
        batch_sizes: samples of an evaluation; `None`: each problem's own.
        seeds: one run for each.
        budget: evaluations of one run; `None`: each problem's own.
        sampling: which samples an evaluation sees.
        direction_batch_sizes: samples of the evaluation that gives the direction; `None` in it: the batch size.
        repetition: as in [`Run`][gradline.lab.jobs.runs.Run].
        diagonal: as in `Run`.
        record_every: as in `Run`.
        angle: as in `Run`.
        benchmark: as in `Run`.
        settings: problems with their batch sizes and budgets one by one, in the place of `batch_sizes`, `budget` and
            `record_every`.
        tuned: methods to choose from. Each candidate has one run for each setting, on the tuning seed; the chosen one
            has a run for each of `seeds` (see `gradline.lab.studies.tuning`).
        tuning_seed: the seed of these choices, which is none of `seeds`.
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
        require(
            not self.tuned or self.tuning_seed not in self.seeds,
            "tuning_seed",
            "none of seeds",
            "what is chosen on a seed is not reported on it",
            self.tuning_seed,
        )
        require(self.batch_sizes != (), "batch_sizes", "at least one, or None", "nothing would be run", ())


def available() -> dict[str, Path]:
    """The studies that come with gradline: name and file."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.toml"), key=lambda path: path.stem)}


def load(
    study: str | os.PathLike[str],
    *,
    problems: Sequence[str] = (),
    methods: Sequence[str] = (),
    batch_sizes: Sequence[int] = (),
    seeds: int | None = None,
    budget: int | None = None,
) -> Study:
    """A study by its name, or by the path of its TOML file; what is given beside it takes the place of the study's.

    ```python
    from gradline.lab import studies

    quick = studies.load("bcwd", problems=["bcwd-logr"], seeds=2, budget=100)
    assert len(studies.plan(quick)) == 4 * 2 * 2
    ```

    Raises `StudyError`, which names the file, the line and the key.
    """
    from gradline.lab.studies.reading import read

    path = _path(study)
    return read(path, problems=problems, methods=methods, batch_sizes=batch_sizes, seeds=seeds, budget=budget)


def _path(study: str | os.PathLike[str]) -> Path:
    shipped = available()
    if isinstance(study, str) and study in shipped:
        return shipped[study]
    path = Path(study)
    if path.is_file():
        return path
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise StudyError(f"{path}: there is no such file")
    raise StudyError(
        unknown("study", str(study), shipped, plural="studies") + "; a path to a TOML file of your own works too"
    )


def plan(study: Study) -> list[Run]:
    """All runs of a study that are known before any of them is made, each once.

    Those of methods that are chosen by results are in `plan_tuned`. With full sampling the batch size is the number of
    training samples, whatever the study's are.
    """
    runs: dict[str, Run] = {}
    candidates = [method for tuned in study.tuned for method in tuned.candidates]
    pairs = [*itertools.product(study.methods, study.seeds), *((method, study.tuning_seed) for method in candidates)]
    for setting, (method, seed) in itertools.product(settings_of(study), pairs):
        runs |= {run.key: run for run in _runs(study, setting, method, seed)}
    return list(runs.values())


def plan_tuned(study: Study, choose: Callable[[Setting, Tuned], Method | None]) -> list[Run]:
    """The runs of the chosen methods.

    Args:
        study: the study.
        choose: returns the chosen candidate for a setting; `None`: there is none yet.
    """
    runs: dict[str, Run] = {}
    for setting, tuned in itertools.product(settings_of(study), study.tuned):
        if (method := choose(setting, tuned)) is not None:
            for seed in study.seeds:
                runs |= {run.key: run for run in _runs(study, setting, method, seed)}
    return list(runs.values())


def _runs(study: Study, setting: Setting, method: Method, seed: int) -> Iterator[Run]:
    for sampling, direction in itertools.product(study.sampling, study.direction_batch_sizes):
        yield Run(
            problem=setting.problem,
            method=method,
            batch_size=setting.problem.samples if sampling is Sampling.FULL else setting.batch_size,
            seed=seed,
            budget=setting.budget,
            sampling=sampling,
            direction_batch_size=direction,
            repetition=study.repetition,
            diagonal=study.diagonal,
            record_every=setting.record_every,
            angle=study.angle,
            benchmark=study.benchmark,
        )


def settings_of(study: Study) -> tuple[Setting, ...]:
    """Every problem with its batch sizes and budgets."""
    return study.settings or tuple(
        Setting(
            problem=problem,
            batch_size=size,
            budget=study.budget or problem.budget,
            record_every=study.record_every,
        )
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
        wanted: dict[str, Any] = {"batch_size": run.batch_size, "direction_batch_size": run.direction_batch_size}
        for name, size in wanted.items():
            if size is not None and not run.repetition and size > (samples := run.problem.samples):
                raise StudyError(
                    f"{name} must be at most {samples} for {run.problem.name} (a batch holds each training sample at "
                    f"most once, and there are {samples}; repetition = true would draw samples again), got {size}"
                )
