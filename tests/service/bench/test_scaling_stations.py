"""Compares the simulation's stations and event loops with queueing theory, with a fixed seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator

import pytest
import simpy

from benchmarks.scaling import closed_forms
from benchmarks.scaling.costs import Part
from benchmarks.scaling.event_loop import EventLoop
from benchmarks.scaling.stations import Station
from tests.support.volume import volume

SERVICE_S = 0.01
CALLS = volume(25_000, 100_000)


def served(servers: int, load: float, service: Callable[[random.Random], float]) -> tuple[Station, float, float]:
    """Simulates a station with random arrivals that load each server to `load`. Returns the station, its rate of calls,
    and how long it was open."""
    env, chance = simpy.Environment(), random.Random(7)
    station, rate = Station(env, servers), load * servers / SERVICE_S

    def arrivals() -> Generator[simpy.Event, None, None]:
        for _ in range(CALLS):
            yield env.timeout(chance.expovariate(rate))
            env.process(station.serve(service(chance)))

    env.process(arrivals())
    env.run()
    return station, rate, env.now


def exponential(chance: random.Random) -> float:
    return chance.expovariate(1 / SERVICE_S)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (1, 0.8), (3, 0.7), (8, 0.7)])
def test_the_mean_wait_matches_the_mmc_formula(servers: int, load: float) -> None:
    station, rate, _ = served(servers, load, exponential)
    mean_s = sum(station.waits_s) / len(station.waits_s)
    assert mean_s == pytest.approx(closed_forms.mmc_wait_s(rate, SERVICE_S, servers), rel=0.15)


def test_constant_service_time_halves_the_mean_wait() -> None:
    station, rate, _ = served(1, 0.8, lambda _: SERVICE_S)
    mean_s = sum(station.waits_s) / len(station.waits_s)
    assert mean_s == pytest.approx(closed_forms.md1_wait_s(rate, SERVICE_S), rel=0.1)
    assert closed_forms.md1_wait_s(rate, SERVICE_S) == pytest.approx(closed_forms.mmc_wait_s(rate, SERVICE_S, 1) / 2)


def test_the_mean_number_of_calls_follows_littles_law() -> None:
    station, _, open_s = served(3, 0.7, exponential)
    spent_s = sum(station.waits_s) / CALLS + station.busy_s / CALLS
    assert station.mean_inside() == pytest.approx(closed_forms.little(CALLS / open_s, spent_s), rel=1e-6)
    assert station.served == CALLS


def test_erlang_c_of_an_overloaded_queue_raises_value_error() -> None:
    with pytest.raises(ValueError, match="2 servers cannot carry a load of 2"):
        closed_forms.erlang_c(2, 2.0)
    assert closed_forms.erlang_c(1, 0.3) == pytest.approx(0.3)


def test_a_station_that_is_closed_begins_no_call() -> None:
    env = simpy.Environment()
    station = Station(env, 1)
    env.process(station.close_for(5.0))
    env.run(1.0)
    env.process(station.serve(SERVICE_S))
    env.run()
    assert station.waits_s == [pytest.approx(4.0)]


def test_a_call_that_gives_up_leaves_the_queue() -> None:
    env = simpy.Environment()
    station = Station(env, 1)
    env.process(station.serve(10.0))

    def short() -> Generator[simpy.Event, None, None]:
        waiting = env.process(_defused(station))
        yield env.timeout(1.0)
        waiting.interrupt()

    env.process(short())
    env.run()
    assert (station.served, env.now) == (1, 10.0)
    assert station.mean_inside() == pytest.approx(1.1)


def _defused(station: Station) -> Generator[simpy.Event, None, None]:
    try:
        yield from station.serve(1.0)
    except simpy.Interrupt:
        return


def test_the_loop_reads_all_waiting_tokens_of_a_stream_at_once() -> None:
    env, passed = simpy.Environment(), list[tuple[float, int, int]]()
    loop = EventLoop(env, Part(1e6, 1e5, 0.0), lambda stream, count: passed.append((env.now, stream, count)))
    loop.tokens(1, 1)
    env.run(0.5)
    for _ in range(3):
        loop.tokens(2, 1)
    env.run(10)
    assert [(round(at_s, 6), stream, count) for at_s, stream, count in passed] == [(1.1, 1, 1), (2.4, 2, 3)]
    assert loop.busy_s == pytest.approx(2.4)


def test_the_loop_serves_later_arrivals_in_its_next_iteration() -> None:
    env, passed = simpy.Environment(), list[int]()
    loop = EventLoop(env, Part(0.0, 1e6, 0.0), lambda stream, _count: passed.append(stream))
    loop.tokens(1, 1)
    loop.tokens(2, 1)
    env.run(0.5)
    loop.tokens(1, 1)
    done = loop.job(1.0)
    env.run(done)
    assert env.now == pytest.approx(3.0)
    assert passed == [1, 2]
    env.run(10)
    assert passed == [1, 2, 1]
