"""Results of queueing theory that the simulation is held against."""

from __future__ import annotations


def erlang_c(servers: int, load: float) -> float:
    """The part of arrivals that waits in M/M/c; `load` is in busy servers. ValueError: the queue grows for ever."""
    if not 0 <= load < servers:
        raise ValueError(f"{servers} servers cannot carry a load of {load:g}.")
    term, lower = 1.0, 0.0
    for count in range(servers):
        lower += term
        term *= load / (count + 1)
    upper = term * servers / (servers - load)
    return upper / (lower + upper)


def mmc_wait_s(rate: float, service_s: float, servers: int) -> float:
    """The mean wait for a server in M/M/c."""
    load = rate * service_s
    return erlang_c(servers, load) * service_s / (servers - load)


def md1_wait_s(rate: float, service_s: float) -> float:
    """The mean wait in M/D/1: service always takes the same time."""
    load = rate * service_s
    return load * service_s / (2 * (1 - load))


def little(rate: float, time_s: float) -> float:
    """How many are in a system that they enter at `rate` and stay in for `time_s`."""
    return rate * time_s
