"""The figures of a run and their targets: rows of a table, each with limits that are met or missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.gateway.subjects import Column

Cell = tuple[str, Column]
"""A row's key, and a column."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The upper or lower bound of the value in one column: a multiple of the cell `of`, or a number by itself. Of the
    value, `beyond` is not counted."""

    column: Column
    bound: float
    of: Cell | None = None
    beyond: float = 0
    stretch: float | None = None
    is_least: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of all subjects."""

    key: str
    name: str
    unit: str
    limits: Sequence[Limit] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A limit beside the measurement. `measured` is the value, or its multiple of the other cell."""

    limit: Limit
    measured: float

    @property
    def is_met(self) -> bool:
        return self._holds(self.limit.bound)

    @property
    def is_stretch_met(self) -> bool | None:
        return None if self.limit.stretch is None else self._holds(self.limit.stretch)

    def _holds(self, bound: float) -> bool:
        return self.measured >= bound if self.limit.is_least else self.measured <= bound


@dataclass(slots=True)
class Board:
    """Values by cell. `problems` are failed requests and missing measurements."""

    values: dict[Cell, float] = field(default_factory=dict)
    parts: dict[Cell, Mapping[str, float]] = field(default_factory=dict)
    """The shares of a value by process, for subjects of several processes."""
    problems: list[str] = field(default_factory=list)

    def put(self, key: str, column: Column, value: float) -> None:
        self.values[key, column] = value

    def verdicts(self, row: Row) -> list[Verdict]:
        """Returns the verdicts of the limits for which all values were measured."""
        found = []
        for limit in row.limits:
            value = self.values.get((row.key, limit.column))
            base = 1.0 if limit.of is None else self.values.get(limit.of)
            if value is not None and base:
                found.append(Verdict(limit, (value - limit.beyond) / base))
        return found
