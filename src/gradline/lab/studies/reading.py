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
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast

from gradline.lab.jobs.runs import Sampling
from gradline.lab.methods import GROUPS, METHODS, Direction, Method, SearchMethod
from gradline.lab.methods.searching import directions, find_direction, find_search
from gradline.lab.problems import PROBLEMS, Activation, Built, Loss, Network, Problem
from gradline.lab.studies import MOST_SEEDS, Setting, Study, Tuned
from gradline.lab.studies.toml import Place, StudyError, Toml, unknown
from gradline.lab.tools.names import require_name
from gradline.searches import search_classes

E = TypeVar("E", bound=Enum)
V = TypeVar("V")

_STUDY = {field.name for field in dataclasses.fields(Study)} - {"settings"} | {"problem", "method", "setting", "shares"}
_NETWORK = {field.name for field in dataclasses.fields(Network)} | {"like"}
_BUILT = {field.name for field in dataclasses.fields(Built)} | {"like"}
_METHOD = {"name", "search", "options", "like", "direction", "direction_options", "average"}
_SETTING = {"problem", "batch_sizes", "budgets", "targets", "held_out", "points"}
POINTS = 60
"""How often a run of a setting is measured, about, where it says nothing else."""
PARTS = {"tune": False, "held-out": True}
"""Names that stand for the settings whose problems are not held out, and for those that are."""


def read(
    path: Path,
    *,
    problems: Sequence[str] = (),
    methods: Sequence[str] = (),
    batch_sizes: Sequence[int] = (),
    seeds: int | None = None,
    budget: int | None = None,
) -> Study:
    """The study of a file; what is given beside it takes the place of the file's."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path}: cannot be read: {error}") from None
    reader = _Reader(Toml(str(path), text))
    values = reader.values
    _refuse_unknown(reader.toml, (), values, _STUDY, "key")
    own_problems = reader.tables("problem", PROBLEMS, reader.problem)
    own_methods = reader.tables("method", METHODS, reader.method)
    fields: dict[str, Any] = {
        "name": reader.name(("name",), values.get("name", path.stem)),
        "title": reader.text("title", ""),
    }
    if "setting" in values:
        settings = reader.settings(PROBLEMS | own_problems)
        fields["settings"] = _chosen(settings, problems, batch_sizes, budget)
        fields["problems"] = tuple(dict.fromkeys(setting.problem for setting in fields["settings"]))
        batch_sizes, budget = (), None
    else:
        fields["problems"] = reader.named("problems", PROBLEMS | own_problems, own_problems, problems)
    tuned = reader.tuned()
    if "tuning_seed" in values:
        fields["tuning_seed"] = reader.whole("tuning_seed", 0)
    fields["methods"] = reader.named("methods", METHODS | own_methods, own_methods, methods, GROUPS)
    fields["methods"], fields["tuned"] = _tuned_apart(fields["methods"], tuned, asked=bool(methods))
    if batch_sizes or "batch_sizes" in values:
        fields["batch_sizes"] = tuple(batch_sizes) or reader.sizes("batch_sizes")
    if budget is not None or "budget" in values:
        fields["budget"] = _count(budget) if budget is not None else reader.whole("budget", 1)
    if seeds is not None or "seeds" in values:
        fields["seeds"] = tuple(range(_count(seeds, "seeds", MOST_SEEDS))) if seeds is not None else reader.seeds()
    if "sampling" in values:
        modes = values["sampling"] if isinstance(values["sampling"], list) else [values["sampling"]]
        fields["sampling"] = tuple(reader.choice(("sampling",), Sampling, mode) for mode in modes)
    if "direction_batch_sizes" in values:
        fields["direction_batch_sizes"] = reader.sizes("direction_batch_sizes", or_same=True)
    if "record_every" in values:
        fields["record_every"] = reader.whole("record_every", 1)
    for name in ("repetition", "diagonal", "angle", "benchmark"):
        if name in values:
            fields[name] = reader.flag(name)
    for name in ("batch_sizes", "seeds", "sampling", "direction_batch_sizes"):
        if name in fields and not fields[name]:
            raise reader.toml.error((name,), "must have at least one entry (nothing would be run), got []")
    return Study(**fields)


class _Reader:
    """The values of one file, each checked where it is taken out."""

    def __init__(self, toml: Toml) -> None:
        self.toml = toml
        self.values = toml.values

    def text(self, name: str, default: str) -> str:
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise self.toml.error((name,), f"must be a text in quotes, got {value!r}")
        return value

    def name(self, place: Place, value: Any) -> str:
        try:
            require_name("name", value)
        except ValueError as error:
            raise self.toml.error(place, str(error).removeprefix("name ")) from None
        return str(value)

    def whole(self, name: str, least: int) -> int:
        return self._whole((name,), self.values[name], least)

    def flag(self, name: str) -> bool:
        value = self.values[name]
        if not isinstance(value, bool):
            raise self.toml.error((name,), f"must be true or false, got {value!r}")
        return value

    def sizes(self, name: str, *, or_same: bool = False) -> tuple[Any, ...]:
        return tuple(
            None if or_same and value == "same" else self._whole((name,), value, 1, or_same=or_same)
            for value in self._list((name,), self.values[name])
        )

    def seeds(self) -> tuple[int, ...]:
        value = self.values["seeds"]
        if isinstance(value, list):
            return tuple(self._whole(("seeds",), seed, 0) for seed in value)
        return tuple(range(self._whole(("seeds",), value, 1, most=MOST_SEEDS)))

    def tuned(self) -> tuple[Tuned, ...]:
        """Read the groups of methods of which the best is chosen."""
        names = self._list(("tuned",), self.values.get("tuned", []))
        for name in names:
            if not isinstance(name, str) or name not in GROUPS:
                raise self.toml.error(("tuned",), unknown("group of methods", name, GROUPS, plural="groups"))
        return tuple(Tuned(name, tuple(METHODS[one] for one in GROUPS[name])) for name in names)

    def choice(self, place: Place, kind: type[E], value: object) -> E:
        options = {str(option.value): option for option in kind}
        if value not in options:
            raise self.toml.error(place, unknown(kind.__name__.lower(), value, options, plural="choices"))
        return options[str(value)]

    def named(
        self,
        name: str,
        known: Mapping[str, V],
        own: Mapping[str, V],
        instead: Sequence[str],
        groups: Mapping[str, tuple[str, ...]] | None = None,
    ) -> tuple[V, ...]:
        """What a list of names stands for: the caller's, or the file's, or else all that the file defines."""
        kind, groups = name.removesuffix("s"), groups or {}
        there = [*known, *groups]

        def found(names: Sequence[str]) -> tuple[V, ...]:
            return tuple(known[one] for one in dict.fromkeys(x for name in names for x in groups.get(name, (name,))))

        for wanted in instead:
            if wanted not in there:
                raise StudyError(unknown(kind, wanted, there))
        if instead:
            return found(instead)
        if isinstance(self.values.get(kind), str):  # method = "angle"
            if self.values[kind] not in there:
                raise self.toml.error((kind,), unknown(kind, self.values[kind], there))
            return found([self.values[kind]])
        if name not in self.values:
            if not own:
                raise self.toml.error((), f"{name} is missing: name at least one, or define a [[{kind}]]")
            return tuple(own.values())
        wanteds = self._list((name,), self.values[name])
        for wanted in wanteds:
            if not isinstance(wanted, str) or wanted not in there:
                raise self.toml.error((name,), unknown(kind, wanted, there))
        if not wanteds:
            raise self.toml.error((name,), "must have at least one entry (nothing would be run), got []")
        return found(wanteds)

    def tables(
        self, kind: str, shipped: Mapping[str, V], make: Callable[[Place, dict[str, Any], Mapping[str, V]], V]
    ) -> dict[str, V]:
        """The `[[problem]]` or `[[method]]` tables; each may be like one before it."""
        own: dict[str, V] = {}
        tables = self.values.get(kind, [])
        if isinstance(tables, str):  # the name of the only one, as in method = "angle"
            return own
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise self.toml.error((kind,), f"must be tables that begin with [[{kind}]], got {tables!r}")
        for position, table in enumerate(tables):
            place = (kind, position)
            if "name" not in table:
                raise self.toml.error(place, "name is missing (runs and files are named by it)")
            name = self.name((*place, "name"), table["name"])
            if name in shipped or name in own:
                raise self.toml.error((*place, "name"), f"must be a new name (there is a {kind} of it), got {name!r}")
            own[name] = make(place, table, {**shipped, **own})
        return own

    def problem(self, place: Place, table: dict[str, Any], known: Mapping[str, Problem]) -> Problem:
        base = self._like(place, table, known, "problem")
        kind: Any = type(base) if base is not None else Built if "builder" in table else Network
        _refuse_unknown(self.toml, place, table, _BUILT if kind is Built else _NETWORK, "key")
        values = {name: value for name, value in table.items() if name != "like"}
        for name, options in (("activation", Activation), ("loss", Loss)):
            if name in values:
                values[name] = self.choice((*place, name), options, values[name])
        for name in ("hidden", "batch_sizes"):
            if name in values:
                values[name] = tuple(self._list((*place, name), values[name]))
        if kind is Network:
            if base is None and "data" not in values:
                raise self.toml.error(place, "data is missing (or like, which names a problem to start from)")
            self._data(place, values)
        try:
            made: Problem = dataclasses.replace(cast(Any, base), **values) if base is not None else kind(**values)
        except (TypeError, ValueError) as error:
            raise self._within(place, table, error) from None
        return made

    def method(self, place: Place, table: dict[str, Any], known: Mapping[str, Method]) -> Method:
        _refuse_unknown(self.toml, place, table, _METHOD, "key")
        base = self._like(place, table, known, "method")
        if (base is None) == ("search" not in table):
            raise self.toml.error(place, "must have either search or like (which search it is)")
        if base is not None and not isinstance(base, SearchMethod):
            raise self.toml.error((*place, "like"), f"must be a search (others have fixed settings), got {base.name!r}")
        options = self._options(place, table, "options", "growth = 4.0")
        try:
            kind: Any = type(base.search) if base is not None else find_search(table["search"])
        except (ValueError, TypeError, ImportError, AttributeError) as error:
            named = isinstance(table["search"], str) and ":" in table["search"]
            text = str(error) if named else unknown("search", table["search"], search_classes(), plural="searches")
            raise self.toml.error((*place, "search"), text) from None
        fields = {field.name for field in dataclasses.fields(kind) if field.init}
        _refuse_unknown(self.toml, (*place, "options"), options, fields, f"option of {kind.__name__}", plural="options")
        try:
            search: Any = dataclasses.replace(cast(Any, base.search), **options) if base else kind(**options)
        except (TypeError, ValueError) as error:
            raise self._within((*place, "options"), options, error) from None
        average = table.get("average", base.average if base else False)
        if not isinstance(average, bool):
            raise self.toml.error((*place, "average"), f"must be true or false, got {average!r}")
        return SearchMethod(table["name"], search, self._direction(place, table, base), average=average)

    def _direction(self, place: Place, table: dict[str, Any], base: SearchMethod | None) -> Direction | None:
        before = base.direction if base is not None else None
        if "direction" not in table and "direction_options" not in table:
            return before
        name = table.get("direction", before.name if before else None)
        if name is None:
            raise self.toml.error((*place, "direction_options"), "must go with a direction (they are its options)")
        options = self._options(place, table, "direction_options", "betas = [0.9, 0.99]")
        try:
            kind = find_direction(name)
        except (ValueError, TypeError, ImportError, AttributeError) as error:
            named = isinstance(name, str) and ":" in name
            text = str(error) if named else unknown("direction", name, directions())
            raise self.toml.error((*place, "direction"), text) from None
        import inspect

        takes = {one for one in inspect.signature(kind).parameters if one not in ("params", "lr")}
        where = (*place, "direction_options")
        _refuse_unknown(self.toml, where, options, takes, f"option of {kind.__name__}", plural="options")
        return Direction.of(name, options)

    def _options(self, place: Place, table: dict[str, Any], name: str, example: str) -> dict[str, Any]:
        options = table.get(name, {})
        if not isinstance(options, dict):
            raise self.toml.error((*place, name), f"must be a table such as {{ {example} }}, got {options!r}")
        return options

    def settings(self, known: Mapping[str, Problem]) -> tuple[Setting, ...]:
        """The `[[setting]]` tables: each a problem with some batch sizes, their budgets and targets."""
        for name in ("problems", "batch_sizes", "budget", "record_every"):
            if name in self.values:
                raise self.toml.error((name,), "cannot go with [[setting]] tables (each has its own)")
        tables = self.values["setting"]
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise self.toml.error(("setting",), f"must be tables that begin with [[setting]], got {tables!r}")
        found: list[Setting] = []
        for position, table in enumerate(tables):
            place = ("setting", position)
            _refuse_unknown(self.toml, place, table, _SETTING, "key")
            if not isinstance(table.get("problem"), str) or table["problem"] not in known:
                raise self.toml.error((*place, "problem"), unknown("problem", table.get("problem"), known))
            problem = known[table["problem"]]
            sizes = self._list((*place, "batch_sizes"), table.get("batch_sizes", list(problem.batch_sizes)))
            sizes = [self._whole((*place, "batch_sizes"), size, 1) for size in sizes]
            budgets = self._each(place, table, "budgets", sizes, problem.budget)
            targets = self._each(place, table, "targets", sizes, None)
            points = self._whole((*place, "points"), table.get("points", POINTS), 1)
            held_out = table.get("held_out", False)
            if not isinstance(held_out, bool):
                raise self.toml.error((*place, "held_out"), f"must be true or false, got {held_out!r}")
            for size, budget, target in zip(sizes, budgets, targets, strict=True):
                count = self._whole((*place, "budgets"), budget, 1)
                if target is not None and (isinstance(target, bool) or not isinstance(target, float | int)):
                    raise self.toml.error(
                        (*place, "targets"), f"must be losses (they are to be reached), got {target!r}"
                    )
                found.append(
                    Setting(
                        problem=problem,
                        batch_size=size,
                        budget=count,
                        record_every=max(count // points, 1),
                        target=target,
                        held_out=held_out,
                    )
                )
        if len({setting.name for setting in found}) < len(found):
            raise self.toml.error(("setting",), "must differ in problem or batch size (methods are compared on each)")
        shares = self._list(("shares",), self.values.get("shares", [1]))
        for share in shares:
            if isinstance(share, bool) or not isinstance(share, float | int) or not 0.0 < share <= 1.0:
                raise self.toml.error(
                    ("shares",), f"must be above 0 and at most 1 (they are of budgets), got {share!r}"
                )
        return tuple(_shorter(setting, share) for setting in found for share in shares)

    def _each(self, place: Place, table: dict[str, Any], name: str, sizes: list[int], default: Any) -> list[Any]:
        """A value for each batch size: a list, or one for all."""
        value = table.get(name, default)
        if not isinstance(value, list):
            return [value] * len(sizes)
        if len(value) != len(sizes):
            raise self.toml.error((*place, name), f"must be one for each of {len(sizes)} batch sizes, got {value!r}")
        return value

    def _like(self, place: Place, table: dict[str, Any], known: Mapping[str, V], kind: str) -> V | None:
        if "like" not in table:
            return None
        if not isinstance(table["like"], str) or table["like"] not in known:
            raise self.toml.error((*place, "like"), unknown(kind, table["like"], known))
        return known[table["like"]]

    def _data(self, place: Place, values: dict[str, Any]) -> None:
        from gradline.lab.problems.data import SOURCES
        from gradline.lab.problems.data.registry import find

        name = values.get("data", next(iter(SOURCES)))
        if isinstance(name, str) and ":" in name:
            try:
                find(name)
            except (ValueError, TypeError) as error:
                raise self.toml.error((*place, "data"), str(error)) from error
        elif not isinstance(name, str) or name not in SOURCES:
            raise self.toml.error((*place, "data"), unknown("data set", name, SOURCES))

    def _within(self, place: Place, table: dict[str, Any], error: Exception) -> StudyError:
        """An error of a constructor, at the line of the argument that its message begins with."""
        name = str(error).split(" ", 1)[0]
        return self.toml.error((*place, name) if name in table else place, str(error))

    def _list(self, place: Place, value: object) -> list[Any]:
        if not isinstance(value, list):
            raise self.toml.error(place, f"must be a list in brackets, got {value!r}")
        return value

    def _whole(self, place: Place, value: object, least: int, *, most: int | None = None, or_same: bool = False) -> int:
        if type(value) is not int or value < least:
            rule = f'whole numbers from {least} on or "same"' if or_same else f"whole, and at least {least}"
            raise self.toml.error(place, f"must be {rule}, got {value!r}")
        if most is not None and value > most:
            raise self.toml.error(place, f"must be at most {most:,} (each is a run to be planned), got {value}")
        return value


def _shorter(setting: Setting, share: float) -> Setting:
    """Return the setting with a share of its budget, measured as often."""
    budget = max(round(setting.budget * share), 1)
    return dataclasses.replace(setting, budget=budget, record_every=max(round(setting.record_every * share), 1))


def _refuse_unknown(
    toml: Toml, place: Place, table: Iterable[str], known: Iterable[str], kind: str, *, plural: str = "keys"
) -> None:
    for name in table:
        if name not in known:
            raise toml.error((*place, name), unknown(kind, name, known, plural=plural))


def _tuned_apart(
    methods: tuple[Method, ...], tuned: tuple[Tuned, ...], *, asked: bool
) -> tuple[tuple[Method, ...], tuple[Tuned, ...]]:
    """Methods to be run as they are, and those to choose from; of the latter only those that the caller asks for."""
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
    """The settings that the caller asks for: by problem, problem/batch size, tune or held-out; and by batch size."""
    names = [*PARTS, *dict.fromkeys(setting.problem.name for setting in settings)]
    for wanted in problems:
        if wanted not in names and wanted not in {setting.name for setting in settings}:
            raise StudyError(unknown("problem", wanted, [*names, *(setting.name for setting in settings)]))

    def fits(setting: Setting) -> bool:
        part = next(name for name, held_out in PARTS.items() if held_out == setting.held_out)
        named = not problems or not {setting.problem.name, setting.name, part}.isdisjoint(problems)
        return named and (not batch_sizes or setting.batch_size in batch_sizes)

    found = tuple(setting for setting in settings if fits(setting))
    if not found:
        raise StudyError(f"batch sizes must be some of the study's for these problems, got {list(batch_sizes)}")
    if budget is None:
        return found
    count = _count(budget)
    # A case of the study with this budget is taken as it is, in the place of longer ones.
    found = tuple(setting for setting in found if setting.budget == count or not _has(found, setting.name, count))
    shorter = (
        setting
        if setting.budget == count
        else dataclasses.replace(
            setting, budget=count, record_every=max(count * setting.record_every // setting.budget, 1)
        )
        for setting in found
    )
    return tuple(dict.fromkeys(shorter))


def _has(settings: Iterable[Setting], name: str, budget: int) -> bool:
    return any(setting.name == name and setting.budget == budget for setting in settings)


def _count(value: int, name: str = "budget", most: int | None = None) -> int:
    if type(value) is not int or value < 1:
        raise StudyError(f"{name} must be a whole number above 0, got {value!r}")
    if most is not None and value > most:
        raise StudyError(f"{name} must be at most {most:,} (each is a run to be planned), got {value}")
    return value
