"""Compares the simulation with measurements that it does not use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.scaling import streams
from benchmarks.scaling.costs import Costs

SEED = 1
TOLERANCE = 0.15
"""The permitted error of the throughput of 64 streams at full speed. Other errors are shown only."""
ENGINE_TOKENS_PER_S = 184_000.0
"""The rate of the fake chat engine in the same run."""


@dataclass(frozen=True, slots=True)
class Check:
    what: str
    unit: str
    measured: float
    simulated: float
    tolerance: float | None = None

    @property
    def error(self) -> float:
        return self.simulated / self.measured - 1

    @property
    def holds(self) -> bool:
        return self.tolerance is None or abs(self.error) <= self.tolerance


def throughput(costs: Costs) -> Check:
    """Simulates 64 chat streams at full speed in one process."""
    seen = streams.simulate(
        [costs.chat_process], 64, seconds=2, seed=SEED, pace_s=64 / ENGINE_TOKENS_PER_S, warm_up_s=0.5
    )
    measured = costs.measured["chat_64_rate_k"]
    return Check("64 chat streams at full speed: rate", "k deltas/s", measured, seen.rate / 1e3, TOLERANCE)


def checks(costs: Costs) -> Sequence[Check]:
    """Returns all comparisons, the required one first."""
    chat = streams.simulate([costs.chat_process], 512, seconds=8, seed=SEED)
    ids = streams.simulate([costs.one_process], 256, seconds=8, seed=SEED)
    measured = costs.measured
    return (
        throughput(costs),
        Check("512 chat streams at 20 ms: CPU per token", "us", measured["chat_512_cpu_us"], chat.cpu_us_per_token),
        Check(
            "512 chat streams at 20 ms: between two tokens, p99",
            "ms",
            measured["chat_512_gap_p99_ms"],
            streams.percentile_ms(chat.gaps_s, 99),
        ),
        Check("256 streams of ids at 20 ms: CPU per token", "us", measured["ids_256_cpu_us"], ids.cpu_us_per_token),
        Check(
            "256 streams of ids at 20 ms: between two tokens, p99",
            "ms",
            measured["ids_256_gap_p99_ms"],
            streams.percentile_ms(ids.gaps_s, 99),
        ),
    )
