"""Results of queueing theory, with which the simulation is compared."""

from __future__ import annotations


def erlang_c(servers: int, load: float) -> float:
    """Returns the share of arrivals that wait in M/M/c. `load` is the mean number of busy servers. ValueError: the
    queue grows for ever."""
    if not 0 <= load < servers:
        raise ValueError(f"{servers} servers cannot carry a load of {load:g}.")
    term, lower = 1.0, 0.0
    for count in range(servers):
        lower += term
        term *= load / (count + 1)
    upper = term * servers / (servers - load)
    return upper / (lower + upper)


def mmc_wait_s(rate: float, service_s: float, servers: int) -> float:
    """Returns the mean wait for a server in M/M/c."""
    load = rate * service_s
    return erlang_c(servers, load) * service_s / (servers - load)


def md1_wait_s(rate: float, service_s: float) -> float:
    """Returns the mean wait in M/D/1, where service takes a constant time."""
    load = rate * service_s
    return load * service_s / (2 * (1 - load))


def little(rate: float, time_s: float) -> float:
    """Returns the mean number of calls in a system by Little's law: they arrive at `rate` and stay for `time_s`."""
    return rate * time_s
