"""Counters, gauges and histograms, each with one child for each combination of label values.

Observing a value is an addition to a plain attribute: 0.1 us for a histogram. prometheus_client takes 1.6 us, and 0.3
us for a counter, while a whole delta of a stream takes 20 to 40 us (docs/adr/0074). Values are written in the event
loop's thread and read by scrapes in another thread, without a lock.

The module needs no library. `exposition.py` writes the text that Prometheus reads.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

LABEL_SETS_MAX = 2_000
"""Children of one instrument, at most. All further combinations share one child: a label with an unbounded number of
values is a bug, but it must not exhaust the memory of the process."""
OVERFLOW = "other"
"""The value of every label of the child that all combinations beyond LABEL_SETS_MAX share."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The name, meaning and labels of an instrument. `targets` are the kinds of processes that have it."""

    name: str
    meaning: str
    targets: tuple[str, ...]
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Exemplar:
    """An observed value and the trace that it was observed in."""

    trace_id: str
    value: float
    at_s: float
    """Unix time."""


class CounterChild:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, amount: float = 1) -> None:
        self.value += amount


class GaugeChild:
    """A number that goes up and down, or that a function returns at each scrape."""

    __slots__ = ("_function", "_value")

    def __init__(self) -> None:
        self._value = 0.0
        self._function: Callable[[], float] | None = None

    @property
    def value(self) -> float:
        return self._value if self._function is None else self._function()

    def add(self, amount: float = 1) -> None:
        self._value += amount

    def set(self, value: float) -> None:
        self._value = value

    def set_function(self, function: Callable[[], float]) -> None:
        """Sets a function that returns the value at each scrape."""
        self._function = function


class HistogramChild:
    """Counts of observed values by bucket. `counts` is not cumulative; its last number is for values above all
    bounds."""

    __slots__ = ("_bounds", "counts", "exemplars", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self.exemplars: dict[int, Exemplar] = {}

    def observe(self, value: float, trace_id: str = "") -> None:
        """Counts a value. `trace_id` is that of the sampled trace in which it was observed, if there is one."""
        bucket = bisect_left(self._bounds, value)
        self.counts[bucket] += 1
        self.sum += value
        if trace_id:
            self.exemplars[bucket] = Exemplar(trace_id, value, time.time())

    def observe_all(self, values: Iterable[float]) -> None:
        """Counts many values, in two thirds of the time of as many calls of `observe`."""
        bounds, counts = self._bounds, self.counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
            self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)


Child = TypeVar("Child", bound="CounterChild | GaugeChild | HistogramChild")


class Instrument(Generic[Child]):
    """A declared instrument and its children by label values."""

    def __init__(self, declaration: Declaration, make: Callable[[], Child], *, most: int = LABEL_SETS_MAX) -> None:
        self.declaration = declaration
        self._make = make
        self._most = most
        self._children: dict[tuple[str, ...], Child] = {}
        if not declaration.labels:
            self.of()

    def of(self, *values: str) -> Child:
        """The child with these label values, which are in the order of the declared labels."""
        child = self._children.get(values)
        return child if child is not None else self._add_child(values)

    def _add_child(self, values: tuple[str, ...]) -> Child:
        if len(values) != len(self.declaration.labels):
            raise TypeError(f"{self.declaration.name} has the labels {self.declaration.labels}, not {values}")
        if len(self._children) >= self._most:
            values = (OVERFLOW,) * len(values)
        return self._children.setdefault(values, self._make())

    def children(self) -> Mapping[tuple[str, ...], Child]:
        """A copy of the children by label values, which does not change while a scrape reads it."""
        return self._children.copy()

    def forget(self, *values: str) -> None:
        """Removes the child with these label values."""
        self._children.pop(values, None)


Counter = Instrument[CounterChild]
Gauge = Instrument[GaugeChild]
Histogram = Instrument[HistogramChild]


def counter(name: str, meaning: str, *, targets: Iterable[str], labels: Sequence[str] = ()) -> Counter:
    """A counter. Its name ends in `_total`."""
    if not name.endswith("_total"):
        raise TypeError(f"{name}: the name of a counter ends in _total")
    return Instrument(Declaration(name, meaning, tuple(targets), tuple(labels)), CounterChild)


def gauge(name: str, meaning: str, *, targets: Iterable[str], labels: Sequence[str] = ()) -> Gauge:
    """A gauge. Its name ends in the thing that it counts or in its unit."""
    return Instrument(Declaration(name, meaning, tuple(targets), tuple(labels)), GaugeChild)


def histogram(
    name: str, meaning: str, *, targets: Iterable[str], buckets: Sequence[float], labels: Sequence[str] = ()
) -> Histogram:
    """A histogram of seconds."""
    if not name.endswith("_seconds") or list(buckets) != sorted(set(buckets)):
        raise TypeError(f"{name}: a histogram's name ends in _seconds, and its buckets grow")
    declaration = Declaration(name, meaning, tuple(targets), tuple(labels), tuple(buckets))
    return Instrument(declaration, lambda: HistogramChild(declaration.buckets))
