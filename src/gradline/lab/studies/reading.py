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
direction = "adam"                     # any of torch.optim; default: steepest descent
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
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from gradline.lab.jobs.runs import Sampling
from gradline.lab.methods import GROUPS, METHODS, Direction, Method, SearchMethod
from gradline.lab.methods.searching import directions, find_direction, find_search
from gradline.lab.problems import PROBLEMS, Activation, Built, Loss, Network, Problem
from gradline.lab.studies.study import Setting, Study, Tuned
from gradline.lab.studies.toml import Place, StudyError, Toml, unknown
from gradline.lab.tools.arguments import require_name
from gradline.searches import search_classes

E = TypeVar("E", bound=Enum)
V = TypeVar("V")

_STUDY = {field.name for field in dataclasses.fields(Study)} - {"settings"} | {"problem", "method", "setting", "shares"}
_METHOD = {"name", "search", "options", "like", "direction", "direction_options", "average"}
_SETTING = {"problem", "batch_sizes", "budgets", "targets", "held_out", "points"}
POINTS = 60
"""Measurements of a run of a setting, about, where the file gives no other number."""
PARTS = {"tune": False, "held-out": True}
"""Names that stand for the settings whose problems are not held out, and for those that are."""
MOST_SEEDS = 100_000
"""Largest number of seeds of a study: its runs are planned in memory."""
_EMPTY = "must have at least one entry (nothing would be run), got []"


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
    path = _path(study)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: cannot be read: {error}") from None
    reader = _Reader(Toml(str(path), text))
    fields = {"name": reader.name(("name",), reader.values.get("name", path.stem))} | reader.plain()
    own_problems = reader.tables("problem", PROBLEMS, reader.problem)
    own_methods = reader.tables("method", METHODS, reader.method)
    if "setting" in reader.values:
        settings = reader.settings(PROBLEMS | own_problems)
        fields["settings"] = _chosen(settings, problems, batch_sizes, budget)
        fields["problems"] = tuple(dict.fromkeys(setting.problem for setting in fields["settings"]))
    else:
        fields["problems"] = reader.named("problems", PROBLEMS | own_problems, own_problems, problems)
        if batch_sizes:
            fields["batch_sizes"] = tuple(batch_sizes)
        if budget is not None:
            fields["budget"] = _count(budget, "budget")
    tuned = tuple(
        Tuned(name, tuple(METHODS[one] for one in reader.known(("tuned",), name, GROUPS, "group of methods", "groups")))
        for name in reader.listed(("tuned",), reader.values.get("tuned", []))
    )
    chosen = reader.named("methods", METHODS | own_methods, own_methods, methods, GROUPS)
    fields["methods"], fields["tuned"] = _tuned_apart(chosen, tuned, asked=bool(methods))
    if seeds is not None:
        fields["seeds"] = tuple(range(_count(seeds, "seeds", MOST_SEEDS)))
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


class _Reader:
    """The values of one file, each checked where it is read."""

    def __init__(self, toml: Toml) -> None:
        self.toml = toml
        self.values = toml.values

    # ---- checks of one value

    def expect(self, place: Place, value: Any, good: bool, rule: str) -> Any:
        """Return a value, or raise an error that names the rule."""
        if not good:
            raise self.toml.error(place, f"must be {rule}, got {value!r}")
        return value

    def name(self, place: Place, value: Any) -> str:
        try:
            require_name("name", value)
        except ValueError as error:
            raise self.toml.error(place, str(error).removeprefix("name ")) from None
        return str(value)

    def flag(self, place: Place, value: Any) -> bool:
        return bool(self.expect(place, value, isinstance(value, bool), "true or false"))

    def whole(self, place: Place, value: Any, least: int = 1) -> int:
        good = type(value) is int and value >= least
        return int(self.expect(place, value, good, f"whole, and at least {least}"))

    def listed(self, place: Place, value: Any) -> list[Any]:
        found: list[Any] = self.expect(place, value, isinstance(value, list), "a list in brackets")
        return found

    def filled(self, place: Place, value: Any) -> list[Any]:
        """Return a list that is not empty."""
        if value == []:
            raise self.toml.error(place, _EMPTY)
        return self.listed(place, value)

    def known(self, place: Place, name: Any, known: Mapping[str, V], kind: str, plural: str | None = None) -> V:
        """Return what a name stands for."""
        if not isinstance(name, str) or name not in known:
            raise self.toml.error(place, unknown(kind, name, known, plural=plural))
        return known[name]

    def choice(self, place: Place, kind: type[E], value: Any) -> E:
        options = {str(option.value): option for option in kind}
        return self.known(place, value, options, kind.__name__.lower(), "choices")

    def table(self, place: Place, value: Any, example: str) -> dict[str, Any]:
        found: dict[str, Any] = self.expect(place, value, isinstance(value, dict), f"a table such as {{ {example} }}")
        return found

    def only(self, place: Place, table: Iterable[str], known: Iterable[str], kind: str = "key") -> None:
        """Refuse keys of a table that are not known."""
        for name in table:
            if name not in known:
                raise self.toml.error((*place, name), unknown(kind, name, known, plural=f"{kind.split()[0]}s"))

    # ---- keys of the study

    def plain(self) -> dict[str, Any]:
        """Return the fields of the study that need no names to be looked up."""
        self.only((), self.values, _STUDY)
        readers: dict[str, Callable[[Place, Any], Any]] = {
            "title": lambda place, value: self.expect(place, value, isinstance(value, str), "a text in quotes"),
            "batch_sizes": lambda place, value: tuple(self.whole(place, size) for size in self.filled(place, value)),
            "budget": self.whole,
            "record_every": self.whole,
            "seeds": self.seeds,
            "tuning_seed": lambda place, value: self.whole(place, value, 0),
            "sampling": lambda place, value: tuple(
                self.choice(place, Sampling, mode)
                for mode in (self.filled(place, value) if isinstance(value, list) else [value])
            ),
            "direction_batch_sizes": self.direction_sizes,
            **dict.fromkeys(("repetition", "diagonal", "angle", "benchmark"), self.flag),
        }
        return {name: read((name,), self.values[name]) for name, read in readers.items() if name in self.values}

    def seeds(self, place: Place, value: Any) -> tuple[int, ...]:
        if isinstance(value, list):
            return tuple(self.whole(place, seed, 0) for seed in self.filled(place, value))
        count = self.whole(place, value)
        return tuple(range(self.expect(place, count, count <= MOST_SEEDS, _most(MOST_SEEDS))))

    def direction_sizes(self, place: Place, value: Any) -> tuple[int | None, ...]:
        for size in (sizes := self.filled(place, value)):
            good = size == "same" or (type(size) is int and size > 0)
            self.expect(place, size, good, 'whole numbers from 1 on or "same"')
        return tuple(None if size == "same" else size for size in sizes)

    def named(
        self,
        name: str,
        known: Mapping[str, V],
        own: Mapping[str, V],
        instead: Sequence[str],
        groups: Mapping[str, tuple[str, ...]] | None = None,
    ) -> tuple[V, ...]:
        """Return what a list of names stands for: the caller's, or the file's, or else all that the file defines."""
        kind, groups = name.removesuffix("s"), groups or {}
        there = dict.fromkeys([*known, *groups])
        for wanted in instead:
            if wanted not in there:
                raise StudyError(unknown(kind, wanted, there))
        names: Sequence[Any] = instead
        if not instead and isinstance(self.values.get(kind), str):  # method = "angle"
            names = [self.values[kind]]
            self.known((kind,), names[0], there, kind)
        elif not instead and name in self.values:
            names = self.filled((name,), self.values[name])
            for wanted in names:
                self.known((name,), wanted, there, kind)
        elif not instead:
            if not own:
                raise self.toml.error((), f"{name} is missing: name at least one, or define a [[{kind}]]")
            return tuple(own.values())
        return tuple(known[one] for one in dict.fromkeys(x for name in names for x in groups.get(name, (name,))))

    # ---- tables

    def numbered(self, kind: str) -> list[tuple[Place, dict[str, Any]]]:
        """Return the tables `[[kind]]` and their places."""
        tables = self.values.get(kind, [])
        good = isinstance(tables, list) and all(isinstance(table, dict) for table in tables)
        self.expect((kind,), tables, good, f"tables that begin with [[{kind}]]")
        return [((kind, position), table) for position, table in enumerate(tables)]

    def tables(
        self, kind: str, shipped: Mapping[str, V], make: Callable[[Place, dict[str, Any], Mapping[str, V]], V]
    ) -> dict[str, V]:
        """Return the problems or methods of `[[problem]]` or `[[method]]` tables; each may be like one before it."""
        own: dict[str, V] = {}
        if isinstance(self.values.get(kind), str):  # the name of the only one, as in method = "angle"
            return own
        for place, table in self.numbered(kind):
            if "name" not in table:
                raise self.toml.error(place, "name is missing (runs and files are named by it)")
            name = self.name((*place, "name"), table["name"])
            new = name not in shipped and name not in own
            self.expect((*place, "name"), name, new, f"a new name (there is a {kind} of it)")
            own[name] = make(place, table, {**shipped, **own})
        return own

    def like(self, place: Place, table: dict[str, Any], known: Mapping[str, V]) -> V | None:
        """Return what a table starts from."""
        return self.known((*place, "like"), table["like"], known, str(place[0])) if "like" in table else None

    def problem(self, place: Place, table: dict[str, Any], known: Mapping[str, Problem]) -> Problem:
        base = self.like(place, table, known)
        kind: Any = type(base) if base is not None else Built if "builder" in table else Network
        self.only(place, table, {field.name for field in dataclasses.fields(kind)} | {"like"})
        values = {name: value for name, value in table.items() if name != "like"}
        for name, options in (("activation", Activation), ("loss", Loss)):
            if name in values:
                values[name] = self.choice((*place, name), options, values[name])
        for name in ("hidden", "batch_sizes"):
            if name in values:
                values[name] = tuple(self.listed((*place, name), values[name]))
        if kind is Network and base is None and "data" not in values:
            raise self.toml.error(place, "data is missing (or like, which names a problem to start from)")
        if kind is Network and "data" in values:
            self.data((*place, "data"), values["data"])
        made: Problem = self.made(place, table, lambda: _replaced(base, values) if base else kind(**values))
        return made

    def data(self, place: Place, name: Any) -> None:
        from gradline.lab.problems.data import SOURCES
        from gradline.lab.problems.data.registry import find

        if not isinstance(name, str) or ":" not in name:
            self.known(place, name, SOURCES, "data set")
            return
        try:
            find(name)
        except (ValueError, TypeError) as error:
            raise self.toml.error(place, str(error)) from error

    def method(self, place: Place, table: dict[str, Any], known: Mapping[str, Method]) -> Method:
        self.only(place, table, _METHOD)
        base = self.like(place, table, known)
        if (base is None) == ("search" not in table):
            raise self.toml.error(place, "must have either search or like (which search it is)")
        if base is not None and not isinstance(base, SearchMethod):
            raise self.toml.error((*place, "like"), f"must be a search (others have fixed settings), got {base.name!r}")
        options = self.table((*place, "options"), table.get("options", {}), "growth = 4.0")
        if base is not None:
            kind: Any = type(base.search)
        else:
            kind = self.found((*place, "search"), table["search"], find_search, search_classes(), "search", "searches")
        fields = {field.name for field in dataclasses.fields(kind) if field.init}
        where = (*place, "options")
        self.only(where, options, fields, f"option of {kind.__name__}")
        search = self.made(where, options, lambda: _replaced(base.search, options) if base else kind(**options))
        average = self.flag((*place, "average"), table.get("average", base is not None and base.average))
        return SearchMethod(table["name"], search, self.direction(place, table, base), average=average)

    def direction(self, place: Place, table: dict[str, Any], base: SearchMethod | None) -> Direction | None:
        before = base.direction if base is not None else None
        if "direction" not in table and "direction_options" not in table:
            return before
        where = (*place, "direction_options")
        name = table.get("direction", before.name if before else None)
        if name is None:
            raise self.toml.error(where, "must go with a direction (they are its options)")
        options = self.table(where, table.get("direction_options", {}), "betas = [0.9, 0.99]")
        kind = self.found((*place, "direction"), name, find_direction, directions(), "direction")
        takes = {one for one in inspect.signature(kind).parameters if one not in ("params", "lr")}
        self.only(where, options, takes, f"option of {kind.__name__}")
        return Direction.of(name, options)

    def found(
        self,
        place: Place,
        name: Any,
        find: Callable[[str], Any],
        known: Iterable[str],
        kind: str,
        plural: str | None = None,
    ) -> Any:
        """Return the class that a name or "package.module:Class" stands for."""
        try:
            return find(name)
        except (ValueError, TypeError) as error:
            named = isinstance(name, str) and ":" in name
            raise self.toml.error(place, str(error) if named else unknown(kind, name, known, plural=plural)) from None

    def made(self, place: Place, table: dict[str, Any], make: Callable[[], Any]) -> Any:
        """Return what a constructor makes; its error is at the line of the argument that the message begins with."""
        try:
            return make()
        except (TypeError, ValueError) as error:
            name = str(error).split(" ", 1)[0]
            raise self.toml.error((*place, name) if name in table else place, str(error)) from None

    def settings(self, known: Mapping[str, Problem]) -> tuple[Setting, ...]:
        """Return the `[[setting]]` tables: each a problem with some batch sizes, their budgets and targets."""
        for name in ("problems", "batch_sizes", "budget", "record_every"):
            if name in self.values:
                raise self.toml.error((name,), "cannot go with [[setting]] tables (each has its own)")
        found = [setting for place, table in self.numbered("setting") for setting in self.of_table(place, table, known)]
        if len({setting.name for setting in found}) < len(found):
            raise self.toml.error(("setting",), "must differ in problem or batch size (methods are compared on each)")
        shares = self.listed(("shares",), self.values.get("shares", [1]))
        for share in shares:
            good = _is_number(share) and 0.0 < share <= 1.0
            self.expect(("shares",), share, good, "above 0 and at most 1 (they are of budgets)")
        return tuple(_share(setting, share) for setting in found for share in shares)

    def of_table(self, place: Place, table: dict[str, Any], known: Mapping[str, Problem]) -> list[Setting]:
        """Return the settings of one table, one for each batch size."""
        self.only(place, table, _SETTING)
        problem = self.known((*place, "problem"), table.get("problem"), known, "problem")
        sizes = self.listed((*place, "batch_sizes"), table.get("batch_sizes", list(problem.batch_sizes)))
        points = self.whole((*place, "points"), table.get("points", POINTS))
        held_out = self.flag((*place, "held_out"), table.get("held_out", False))
        found = []
        budgets = self.each((*place, "budgets"), table.get("budgets", problem.budget), len(sizes))
        targets = self.each((*place, "targets"), table.get("targets"), len(sizes))
        for size, budget, target in zip(sizes, budgets, targets, strict=True):
            number = target is None or _is_number(target)
            self.expect((*place, "targets"), target, number, "losses (they are to be reached)")
            count = self.whole((*place, "budgets"), budget)
            found.append(
                Setting(
                    problem=problem,
                    batch_size=self.whole((*place, "batch_sizes"), size),
                    budget=count,
                    record_every=max(count // points, 1),
                    target=target,
                    held_out=held_out,
                )
            )
        return found

    def each(self, place: Place, value: Any, sizes: int) -> list[Any]:
        """Return a value for each batch size: a list, or one for all."""
        values = value if isinstance(value, list) else [value] * sizes
        self.expect(place, value, len(values) == sizes, f"one for each of {sizes} batch sizes")
        return values


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


def _replaced(base: Any, values: dict[str, Any]) -> Any:
    return dataclasses.replace(base, **values)


def _share(setting: Setting, share: float) -> Setting:
    """Return the setting with a share of its budget, measured as often."""
    budget, every = (max(round(count * share), 1) for count in (setting.budget, setting.record_every))
    return dataclasses.replace(setting, budget=budget, record_every=every)


def _tuned_apart(
    methods: tuple[Method, ...], tuned: tuple[Tuned, ...], *, asked: bool
) -> tuple[tuple[Method, ...], tuple[Tuned, ...]]:
    """Divide methods into those to be run as they are and those to choose from; if asked, only the named ones."""
    candidates = {method.name for one in tuned for method in one.candidates}
    plain = tuple(method for method in methods if method.name not in candidates)
    if not asked:
        return plain, tuned
    found = []
    for one in tuned:
        wanted = tuple(method for method in one.candidates if method in methods)
        if wanted:
            found.append(Tuned(one.name, wanted, tuple(method for method in one.candidates if method not in wanted)))
    return plain, tuple(found)


def _chosen(
    settings: tuple[Setting, ...], problems: Sequence[str], batch_sizes: Sequence[int], budget: int | None
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
    count = _count(budget, "budget")
    # A setting of the study with this budget is taken as it is, in the place of longer ones.
    there = {setting.name for setting in found if setting.budget == count}
    kept = [setting for setting in found if setting.budget == count or setting.name not in there]
    return tuple(dict.fromkeys(setting if setting.budget == count else _shorter(setting, count) for setting in kept))


def _shorter(setting: Setting, budget: int) -> Setting:
    every = max(budget * setting.record_every // setting.budget, 1)
    return dataclasses.replace(setting, budget=budget, record_every=every)


def _most(most: int) -> str:
    return f"at most {most:,} (each is a run to be planned)"


def _count(value: int, name: str, most: int | None = None) -> int:
    if type(value) is not int or value < 1:
        raise StudyError(f"{name} must be a whole number above 0, got {value!r}")
    if most is not None and value > most:
        raise StudyError(f"{name} must be {_most(most)}, got {value}")
    return value
