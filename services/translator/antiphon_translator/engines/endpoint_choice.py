"""The choice of an endpoint for the next generation: rules only, no I/O, time as an argument.

* Cache affinity: requests that share a `cache_key` go to one endpoint, whose cache then holds their common beginning.
  Rendezvous hashing chooses it: when an endpoint goes, only its own keys move. The loads are bounded: an endpoint that
  has LOAD_BOUND times its share of the generations in flight is skipped for the next one in the key's order.
* Other requests go to the endpoint with the fewest generations in flight; among equals to the least recently used one.
* Ejection: an endpoint that could not be reached, timed out, or answered with FAULTS_TO_EJECT errors in a row gets no
  generations for a while, twice as long after each further failure. Then the endpoint is due for a probe, and in use
  again when the probe succeeds, so that no generation waits for a server that may still hang. When all endpoints are
  ejected, the one that is due first is taken: a wrong guess costs less than rejecting the request.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from math import ceil

LOAD_BOUND = 1.25
EJECT_FIRST_S = 1.0
EJECT_MAX_S = 60.0
FAULTS_TO_EJECT = 5
"""Errors in a row; a single one may be the request's own fault."""


@dataclass(eq=False)
class Endpoint:
    """The state of one endpoint: its load, and whether it is ejected. Times are of a monotonic clock, in seconds."""

    name: str
    in_flight: int = 0
    ejections: int = 0
    ejected_until: float = 0.0
    is_ejected: bool = False
    faults: int = 0
    last_used: int = 0

    def rank(self, cache_key: str) -> bytes:
        """The rank of the endpoint for a cache key; the highest comes first."""
        return blake2b(f"{cache_key}\0{self.name}".encode(), digest_size=8).digest()

    def eject(self, now: float) -> float:
        """Ejects the endpoint. Returns the seconds until it is due."""
        self.is_ejected = True
        pause_s = min(EJECT_FIRST_S * 2.0**self.ejections, EJECT_MAX_S)
        if now >= self.ejected_until:  # several generations that fail at once count as one failure
            self.ejections += 1
            self.ejected_until = now + pause_s
        return self.ejected_until - now

    def is_due(self, now: float) -> bool:
        """Whether the endpoint is ejected, and has been for long enough to be probed."""
        return self.is_ejected and now >= self.ejected_until

    def fault(self) -> bool:
        """Counts an error that the endpoint answered with. Returns whether these are FAULTS_TO_EJECT in a row, and the
        endpoint must be ejected; then the count starts anew."""
        self.faults = (self.faults + 1) % FAULTS_TO_EJECT
        return self.faults == 0

    def note_success(self) -> None:
        """Ends the ejection and forgets all errors, after a success."""
        self.faults = self.ejections = 0
        self.ejected_until = 0.0
        self.is_ejected = False


class EndpointChoice:
    """The endpoints of one model."""

    def __init__(self, names: Sequence[str]) -> None:
        self.endpoints = tuple(Endpoint(name) for name in names)
        self._uses = count(1)

    def available(self) -> list[Endpoint]:
        """The endpoints that are not ejected; when all are, the one that is due first."""
        found = [endpoint for endpoint in self.endpoints if not endpoint.is_ejected]
        return found or [min(self.endpoints, key=lambda endpoint: endpoint.ejected_until)]

    def choose(self, *, cache_key: str | None = None, without: Collection[str] = ()) -> Endpoint | None:
        """Chooses the endpoint for the next generation, none of `without`. None: there is no other."""
        found = [endpoint for endpoint in self.available() if endpoint.name not in without]
        found = found or [endpoint for endpoint in self.endpoints if endpoint.name not in without]
        if not found:
            return None
        chosen = self._by_key(found, cache_key) if cache_key else None
        chosen = chosen or min(found, key=lambda endpoint: (endpoint.in_flight, endpoint.last_used))
        chosen.last_used = next(self._uses)
        return chosen

    def _by_key(self, found: Sequence[Endpoint], cache_key: str) -> Endpoint | None:
        running = 1 + sum(endpoint.in_flight for endpoint in found)
        most = ceil(LOAD_BOUND * running / len(found))
        ordered = sorted(found, key=lambda endpoint: endpoint.rank(cache_key), reverse=True)
        return next((endpoint for endpoint in ordered if endpoint.in_flight < most), None)
