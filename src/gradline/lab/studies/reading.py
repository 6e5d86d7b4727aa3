"""Reading a study from TOML, with an error for everything that is not understood.

```toml
title = "GOLS-I that grows by 4, on a wider network"
problems = ["wide", "bcwd-netpi"]      # default: the [[problem]] tables of this file
methods = ["eager", "gols-i"]          # default: the [[method]] tables of this file
batch_sizes = [10, 100]                # default: each problem's
seeds = 5                              # 0 to 4; or a list
budget = 1000                          # default: each problem's
sampling = ["dynamic", "static"]
direction_batch_sizes = ["same", 400]

[[problem]]
name = "wide"
like = "bcwd-netpi"
hidden = [256]

[[problem]]
name = "mine"
builder = "my_package.my_module:build" # takes a seed, returns a gradline.lab.problems.task.Task

[[method]]
name = "eager"
search = "GolsI"                       # or "package.module:Class"
options = { growth = 4.0 }
direction = "adam"                     # of torch.optim, or "package.module:Class"; default: steepest descent
direction_options = { betas = [0.0, 0.999] }
average = true                         # judge the model by an average of its points
```

`tuned = ["adamw-tuned"]` names groups of methods of which the best is chosen for each setting on `tuning_seed`, by its
validation loss, as in `train.toml`.

`problems` may be missing where a file has `[[setting]]` tables, each a problem with its own batch sizes, budgets and
target losses, as in `compare.toml`. `shares = [1, 0.25]` runs each of them with these shares of its budget.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gradline.lab.jobs.runs import Sampling
from gradline.lab.methods import GROUPS, METHODS, Direction, Method, SearchMethod
from gradline.lab.methods.searching import directions, find_direction, find_search
from gradline.lab.problems import PROBLEMS, Activation, Built, Loss, Network, Problem
from gradline.lab.problems.data import registry
from gradline.lab.studies.study import Setting, Study, Tuned
from gradline.lab.studies.toml import StudyError, Value, parse, unknown
from gradline.lab.tools.arguments import require_count
from gradline.searches import search_classes

V = TypeVar("V")

_STUDY = {field.name for field in dataclasses.fields(Study)} - {"settings"} | {"problem", "method", "setting", "shares"}
_METHOD = {"name", "search", "options", "like", "direction", "direction_options", "average"}
_SETTING = {"problem", "batch_sizes", "budgets", "targets", "held_out", "points"}
POINTS = 60
"""Measurements of a run of a setting, about, where the file gives no other number."""
PARTS = {"tune": False, "held-out": True}
"""Names that stand for the settings whose problems are not held out, and for those that are."""


def available() -> dict[str, Path]:
    """Return the studies that come with gradline: name and file."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.toml"), key=lambda path: path.stem)}


def load(
    study: str | os.PathLike[str],
    *,
    problems: Sequence[str] = (),
    methods: Sequence[str] = (),
    batch_sizes: Sequence[int] = (),
    seeds: int | None = None,
    budget: int | None = None,
) -> Study:
    """Return a study by its name, or by the path of its TOML file; other arguments replace what the file has.

    ```python
    from gradline.lab import studies

    quick = studies.load("bcwd", problems=["bcwd-logr"], seeds=2, budget=100)
    assert len(studies.plan(quick)) == 4 * 2 * 2
    ```

    Raises `StudyError`, which names the file, the line and the key.
    """
    require_count("seeds", seeds, "runs", optional=True)
    require_count("budget", budget, "evaluations", optional=True)
    path = _path(study)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: cannot be read: {error}") from None
    file = parse(str(path), text)
    file.only(_STUDY)
    fields: dict[str, Any] = {"name": file.get("name", path.stem).name()}
    fields |= {name: read(file[name]) for name, read in _PLAIN.items() if name in file}
    own_problems = _own(file, "problem", PROBLEMS, _problem)
    own_methods = _own(file, "method", METHODS, _method)
    known_problems, known_methods = PROBLEMS | own_problems, METHODS | own_methods
    if "setting" in file:
        fields["settings"] = _chosen(_settings(file, known_problems), problems, batch_sizes, budget)
        fields["problems"] = tuple(dict.fromkeys(setting.problem for setting in fields["settings"]))
    else:
        names = problems or _listed(file, "problem", known_problems, own_problems)
        fields["problems"] = named("problem", names, known_problems, {})
        if batch_sizes:
            fields["batch_sizes"] = tuple(batch_sizes)
        if budget is not None:
            fields["budget"] = budget
    tuned = tuple(
        Tuned(name.value, tuple(METHODS[one] for one in name.known(GROUPS, "group of methods", "groups")))
        for name in file.get("tuned", []).entries()
    )
    names = methods or _listed(file, "method", {**known_methods, **GROUPS}, own_methods)
    chosen = named("method", names, known_methods, GROUPS)
    fields["methods"], fields["tuned"] = _tuned_apart(chosen, tuned, asked=bool(methods))
    if seeds is not None:
        fields["seeds"] = tuple(range(seeds))
    return Study(**fields)


def _path(study: str | os.PathLike[str]) -> Path:
    shipped, path = available(), Path(study)
    if isinstance(study, str) and study in shipped:
        return shipped[study]
    if path.is_file():
        return path
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise StudyError(f"{path}: there is no such file")
    text = unknown("study", str(study), shipped, plural="studies")
    raise StudyError(f"{text}; a path to a TOML file of your own works too")


# ---- keys of the study


def _seeds(value: Value) -> tuple[int, ...]:
    listed = isinstance(value.value, list)
    return tuple(seed.whole(0) for seed in value.several()) if listed else tuple(range(value.whole()))


def _direction_size(value: Value) -> int | None:
    good = value.value == "same" or (type(value.value) is int and value.value > 0)
    size = value.expect(good, 'whole numbers from 1 on or "same"')
    return None if size == "same" else int(size)


_PLAIN: dict[str, Callable[[Value], Any]] = {
    "title": Value.text,
    "batch_sizes": lambda value: tuple(size.whole() for size in value.entries(filled=True)),
    "budget": Value.whole,
    "record_every": Value.whole,
    "seeds": _seeds,
    "tuning_seed": lambda value: value.whole(0),
    "sampling": lambda value: tuple(mode.choice(Sampling) for mode in value.several()),
    "direction_batch_sizes": lambda value: tuple(_direction_size(size) for size in value.entries(filled=True)),
    **dict.fromkeys(("repetition", "diagonal", "angle", "benchmark"), Value.flag),
}
"""The fields of a study that need no names to be looked up, and what reads them."""


def _listed(file: Value, kind: str, known: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """Return the names of problems or methods that a file lists, or else of all that it defines."""
    several = f"{kind}s"
    if isinstance(file[kind].value, str):  # method = "angle"
        listed = [file[kind]]
    elif several in file:
        listed = file[several].entries(filled=True)
    elif own:
        return list(own)
    else:
        raise file.error(f"{several} is missing: name at least one, or define a [[{kind}]]")
    for one in listed:
        one.known(known, kind)
    return [one.value for one in listed]


def named(
    kind: str, names: Iterable[str], known: Mapping[str, V], groups: Mapping[str, Sequence[str]]
) -> tuple[V, ...]:
    """Return what names of problems or methods, or of groups of them, stand for, each once. Raises `StudyError`."""
    found: dict[str, V] = {}
    for name in names:
        if name not in known and name not in groups:
            raise StudyError(unknown(kind, name, [*known, *groups]))
        found |= {one: known[one] for one in groups.get(name, (name,))}
    return tuple(found.values())


# ---- tables


def _own(file: Value, kind: str, shipped: Mapping[str, V], make: Callable[[Value, V | None], V]) -> dict[str, V]:
    """Return the problems or methods of `[[problem]]` or `[[method]]` tables; each may be like one before it."""
    own: dict[str, V] = {}
    if isinstance(file[kind].value, str):  # the name of the only one, as in method = "angle"
        return own
    for table in file.get(kind, []).tables():
        if "name" not in table:
            raise table.error("name is missing (runs and files are named by it)")
        name, known = table["name"].name(), {**shipped, **own}
        table["name"].expect(name not in known, f"a new name (there is a {kind} of it)")
        own[name] = make(table, table["like"].known(known, kind) if "like" in table else None)
    return own


def _problem(table: Value, base: Problem | None) -> Problem:
    kind: Any = type(base) if base is not None else Built if "builder" in table else Network
    table.only({field.name for field in dataclasses.fields(kind)} | {"like"})
    values = {name: value for name, value in table.value.items() if name != "like"}
    for name, options in (("activation", Activation), ("loss", Loss)):
        if name in values:
            values[name] = table[name].choice(options)
    for name in ("hidden", "batch_sizes"):
        if name in values:
            values[name] = tuple(entry.value for entry in table[name].entries())
    if kind is Network and base is None and "data" not in values:
        raise table.error("data is missing (or like, which names a problem to start from)")
    if kind is Network and "data" in values:
        _found(table["data"], registry.find, registry.SOURCES, "data set")
    made: Problem = table.made(lambda: dataclasses.replace(base, **values) if base else kind(**values))
    return made


def _method(table: Value, base: Method | None) -> Method:
    table.only(_METHOD)
    if (base is None) == ("search" not in table):
        raise table.error("must have either search or like (which search it is)")
    if base is not None and not isinstance(base, SearchMethod):
        raise table["like"].error(f"must be a search (others have fixed settings), got {base.name!r}")
    options = table.get("options", {}).table("growth = 4.0")
    if base is not None:
        kind: Any = type(base.search)
    else:
        kind = _found(table["search"], find_search, search_classes(), "search", "searches")
    options.only({field.name for field in dataclasses.fields(kind) if field.init}, f"option of {kind.__name__}")
    old: Any = base and base.search
    search = options.made(lambda: dataclasses.replace(old, **options.value) if base else kind(**options.value))
    average = table.get("average", base is not None and base.average).flag()
    return SearchMethod(table["name"].value, search, _direction(table, base), average=average)


def _direction(table: Value, base: SearchMethod | None) -> Direction | None:
    before = base.direction if base is not None else None
    if "direction" not in table and "direction_options" not in table:
        return before
    name = table.get("direction", before.name if before else None)
    options = table.get("direction_options", {})
    if name.value is None:
        raise options.error("must go with a direction (they are its options)")
    from gradline.torch.direction import check_direction

    options.table("betas = [0.9, 0.99]")
    kind = _found(name, find_direction, directions(), "direction")
    try:
        check_direction(kind)
    except TypeError as error:
        raise name.error(str(error).removeprefix("direction ")) from None
    takes = {one for one in inspect.signature(kind).parameters if one not in ("params", "lr")}
    options.only(takes, f"option of {kind.__name__}")
    return Direction.of(name.value, options.value)


def _found(name: Value, find: Callable[[str], Any], known: Iterable[str], kind: str, plural: str | None = None) -> Any:
    """Return what a name or "package.module:attribute" stands for."""
    try:
        return find(name.value)
    except (ValueError, TypeError) as error:
        named = isinstance(name.value, str) and ":" in name.value
        raise name.error(str(error) if named else unknown(kind, name.value, known, plural=plural)) from None


# ---- settings


def _settings(file: Value, known: Mapping[str, Problem]) -> list[Setting]:
    """Return the `[[setting]]` tables: each a problem with some batch sizes, their budgets and targets."""
    for name in ("problems", "batch_sizes", "budget", "record_every"):
        if name in file:
            raise file[name].error("cannot go with [[setting]] tables (each has its own)")
    found = [setting for table in file["setting"].tables() for setting in _of_table(table, known)]
    if len({setting.name for setting in found}) < len(found):
        raise file["setting"].error("must differ in problem or batch size (methods are compared on each)")
    rule = "above 0 and at most 1 (they are of budgets)"
    shares = [share.number(rule, 0.0, 1.0) for share in file.get("shares", [1]).entries()]
    return [
        _with_budget(setting, max(round(setting.budget * share), 1), max(round(setting.record_every * share), 1))
        for setting in found
        for share in shares
    ]


def _of_table(table: Value, known: Mapping[str, Problem]) -> list[Setting]:
    """Return the settings of one table, one for each batch size."""
    table.only(_SETTING)
    problem = table["problem"].known(known, "problem")
    sizes = table.get("batch_sizes", list(problem.batch_sizes)).entries()
    points = table.get("points", POINTS).whole()

    def each(name: str, default: Any) -> list[Value]:
        """Return a value for each batch size: a list, or one for all."""
        given = table.get(name, default)
        if not isinstance(given.value, list):
            return [given] * len(sizes)
        given.expect(len(given.value) == len(sizes), f"one for each of {len(sizes)} batch sizes")
        return given.entries()

    rule = "losses (they are to be reached)"
    return [
        Setting(
            problem=problem,
            batch_size=size.whole(),
            budget=budget.whole(),
            record_every=max(budget.whole() // points, 1),
            target=None if target.value is None else target.number(rule),
            held_out=table.get("held_out", False).flag(),
        )
        for size, budget, target in zip(sizes, each("budgets", problem.budget), each("targets", None), strict=True)
    ]


def _with_budget(setting: Setting, budget: int, record_every: int) -> Setting:
    return dataclasses.replace(setting, budget=budget, record_every=record_every)


def _tuned_apart(
    methods: tuple[Method, ...], tuned: tuple[Tuned, ...], *, asked: bool
) -> tuple[tuple[Method, ...], tuple[Tuned, ...]]:
    """Divide methods into those to be run as they are and those to choose from; if asked, only the named ones."""
    candidates = {method.name for one in tuned for method in one.candidates}
    plain = tuple(method for method in methods if method.name not in candidates)
    if not asked:
        return plain, tuned
    parts = [(one, [method for method in one.candidates if method in methods]) for one in tuned]
    return plain, tuple(
        Tuned(one.name, tuple(wanted), tuple(method for method in one.candidates if method not in wanted))
        for one, wanted in parts
        if wanted
    )


def _chosen(
    settings: Sequence[Setting], problems: Sequence[str], batch_sizes: Sequence[int], budget: int | None
) -> tuple[Setting, ...]:
    """Return the settings that are asked for: by problem, problem/batch size, tune or held-out; and by batch size."""
    names = [*PARTS, *dict.fromkeys(setting.problem.name for setting in settings)]
    names += [setting.name for setting in settings]
    for wanted in problems:
        if wanted not in names:
            raise StudyError(unknown("problem", wanted, names))

    def fits(setting: Setting) -> bool:
        part = next(name for name, held_out in PARTS.items() if held_out == setting.held_out)
        named = not problems or not {setting.problem.name, setting.name, part}.isdisjoint(problems)
        return named and (not batch_sizes or setting.batch_size in batch_sizes)

    found = [setting for setting in settings if fits(setting)]
    if not found:
        raise StudyError(f"batch sizes must be some of the study's for these problems, got {list(batch_sizes)}")
    if budget is None:
        return tuple(found)
    # A setting of the study with this budget is taken as it is, in the place of longer ones.
    there = {setting.name for setting in found if setting.budget == budget}
    kept = [setting for setting in found if setting.budget == budget or setting.name not in there]
    return tuple(
        dict.fromkeys(
            _with_budget(setting, budget, max(budget * setting.record_every // setting.budget, 1)) for setting in kept
        )
    )
