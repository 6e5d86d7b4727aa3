"""Rows whose batches have the same size, evaluated together; each in its own iteration and phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gradline.lab.engines.lockstep.factored import Factored
from gradline.lab.engines.lockstep.layers import Layers, Pass, variances_of_means
from gradline.lab.engines.lockstep.measures import Measures
from gradline.lab.engines.lockstep.points import Points
from gradline.lab.engines.lockstep.rows import ORIGIN, PROBE, Row
from gradline.protocol import Record


class Group:
    """Some rows and their points. `round` makes one evaluation for each row."""

    def __init__(self, rows: list[Row], points: Points | Factored, layers: Layers, measures: Measures) -> None:
        self.rows = rows
        self.points = points
        self.seconds = 0.0  # of each row that is there
        self._layers = layers
        self._measures = measures
        self._note_rows()

    def _note_rows(self) -> None:
        """Note whether a row observes values, and whether all batches have one size."""
        self._valued = any(row.valued for row in self.rows)
        self._one_size = all(row.directions is None for row in self.rows)

    def start(self) -> None:
        for row, point in zip(self.rows, self.points.x0, strict=True):
            self._measures.add(row.run, row.table, point, float("nan"))

    def round(self) -> list[Row]:
        """Evaluate every row at its step, pass the results to its search, and return the rows that have finished."""
        rows, points = self.rows, self.points
        points.go([row.driver.step for row in rows])
        passes = [(places, self._evaluate(places, number)) for number, places in enumerate(self._by_size())]
        measured = points.measure()
        values: list[float | None] = [None] * len(rows)
        taken: list[int] = []
        for places, seen in passes:
            if seen.losses is not None:
                for place, value in zip(places, seen.losses.mean(dim=1).tolist(), strict=True):
                    values[place] = value if rows[place].valued else None
            taken += self._tell(places, measured, values, seen)
        points.take(taken)
        return self._leave()

    def _by_size(self) -> list[Sequence[int]]:
        """Return the places of the rows, grouped by the sizes of their next batches."""
        if self._one_size:
            return [range(len(self.rows))]
        by_size: dict[tuple[int, bool], list[int]] = {}
        for place, row in enumerate(self.rows):
            source = row.source
            by_size.setdefault((source.size, source.whole), []).append(place)
        return list(by_size.values())

    def _evaluate(self, places: Sequence[int], number: int) -> Pass:
        """Evaluate rows whose batches have one size."""
        rows = [self.rows[place] for place in places]
        if rows[0].source.whole:
            samples = self._layers.whole(len(rows))
        else:
            batches = [row.batch() for row in rows]
            indices = np.concatenate(batches) if len(batches) > 1 else batches[0]
            samples = self._layers.gather(torch.from_numpy(indices), len(rows), number)
        if len(rows) == len(self.rows):
            return self.points.evaluate(samples, values=self._valued, number=number)
        assert isinstance(self.points, Points)
        return self.points.evaluate_some(places, samples, values=self._valued, number=number)

    def _tell(
        self, places: Sequence[int], measured: list[tuple[float, float]], values: list[float | None], seen: Pass
    ) -> list[int]:
        """Pass observations to rows and begin new searches; return the places whose point and gradient are accepted."""
        begin: list[int] = []
        taken: list[int] = []
        for place in places:
            row = self.rows[place]
            phase = row.driver.phase
            if phase is PROBE:
                outcome = row.tell(measured[place][0], values[place])
                if outcome is None:
                    continue
                if outcome.probe is None:
                    self._end(row, place, row.driver.accept(), moved=False)
                    continue
                if outcome.probe != row.probes_made - 1:
                    if row.reuse and not row.spent:
                        continue  # its gradient is evaluated once more before it is accepted
                    self.points.go_one(place, outcome.step)
            elif phase is ORIGIN:
                row.count()
                begin.append(place)
                continue
            self._end(row, place, row.driver.accept(), moved=True)
            taken.append(place)
            if row.reuse and not row.over:
                begin.append(place)
        if not begin:
            return taken
        variances = self._variances([place for place in begin if self.rows[place].noisy], places, seen)
        early = frozenset(taken)  # these are taken whether a search begins or not
        for place in begin:
            row, moments = self.rows[place], variances.get(place, (0.0, 0.0))
            begun = row.begin(measured[place][1], values[place], *moments, early=place in early)
            if place in early:
                continue  # if no search began, the next iteration evaluates anew
            if begun:
                taken.append(place)
            else:
                self._end(row, place, row.driver.last, moved=False)  # type: ignore[arg-type]
        return taken

    def _variances(self, noisy: list[int], places: Sequence[int], seen: Pass) -> dict[int, tuple[float, float]]:
        """Return the variances of value and slope along the new directions of some rows, by their places."""
        if not noisy:
            return {}
        part, g = seen.only([places.index(place) for place in noisy]), self.points.g
        if g is not None and len(noisy) < len(self.rows):
            g = g.index_select(0, torch.tensor(noisy))
        slope_vars = self._layers.slope_variances(part, g)
        assert part.losses is not None
        value_vars = variances_of_means(part.losses)
        pairs = torch.stack((value_vars, slope_vars.to(value_vars.dtype)), dim=1).tolist()
        return {place: (pair[0], pair[1]) for place, pair in zip(noisy, pairs, strict=True)}

    def _end(self, row: Row, place: int, record: Record[Any, Any], *, moved: bool) -> None:
        """Record the end of a search and measure if due; x0 and g0 are still those that it began from."""
        if row.end(record):
            angle = float("nan")
            if row.run.angle and record.transcript:
                angle = self._measures.angle(self.points.x0[place], self.points.g0[place])
            self._measures.add(row.run, row.table, (self.points.x if moved else self.points.x0)[place], angle)

    def _leave(self) -> list[Row]:
        done = [row for row in self.rows if row.over]
        if done:
            stay = [place for place, row in enumerate(self.rows) if not row.over]
            self.rows = [self.rows[place] for place in stay]
            if stay:
                assert isinstance(self.points, Points)
                self.points.keep(stay)
            self._note_rows()
        return done
