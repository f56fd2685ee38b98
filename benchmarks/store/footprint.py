"""Measures the space of a stored response: ten thousand responses in conversations of twenty, compared with the payload
and with the raw engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from benchmarks.measuring import Call, print_table, time_calls
from benchmarks.store.deployments import Deployment
from benchmarks.store.sides import Side
from benchmarks.store.subjects import line_of, new_line, response

RESPONSES = 10_000
LENGTH = 20
AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes per response."""

    payload: float
    store: float
    raw: float

    @property
    def ratios(self) -> tuple[float, float]:
        """The store's footprint as a multiple of the payload, and of the raw engine's footprint."""
        return self.store / self.payload, self.store / self.raw


async def footprint_of(deployment: Deployment) -> Footprint:
    async with deployment.at(deployment.durabilities[0]) as (store, raw):
        return Footprint(
            payload=response().size_bytes,
            store=await _grown(store, deployment.store_bytes),
            raw=await _grown(raw, deployment.raw_bytes),
        )


async def _grown(side: Side, measure: Callable[[], int]) -> float:
    before = measure()
    await time_calls(lambda: _conversation(side), RESPONSES // LENGTH, AT_ONCE)
    return (measure() - before) / RESPONSES


def _conversation(side: Side) -> Call:
    return partial(side.fill, new_line(), list(line_of(LENGTH)))


def print_footprints(footprints: Mapping[str, Footprint]) -> None:
    payload = max(each.payload for each in footprints.values())
    rows = [
        [name, *(f"{value:,.0f}" for value in (each.store, each.raw)), *(f"{ratio:.2f}" for ratio in each.ratios)]
        for name, each in footprints.items()
    ]
    print_table(
        f"Space for a response of {payload:,.0f} bytes: {RESPONSES:,} of them in conversations of {LENGTH}",
        ["", "bytes", "raw bytes", "x payload", "x raw"],
        rows,
    )
