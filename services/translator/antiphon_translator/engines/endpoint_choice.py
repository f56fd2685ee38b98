"""The choice of an endpoint for the next generation: rules only, no I/O, time as an argument.

* Placement: a prompt goes to the endpoint where its first token is expected soonest, and stays where an earlier turn of
  its conversation left its beginning unless another endpoint is much better (placement_cost.py, endpoint_cache.py). The
  hints come with the request, so all translators choose alike. A hint at an ejected endpoint does not count.
* A prompt without a hint that counts and with a `cache_key` goes to the endpoint of its key. Rendezvous hashing chooses
  it: when an endpoint goes, only its own keys move. The loads are bounded: an endpoint that has LOAD_BOUND times its
  share of the generations in flight is skipped for the next one in the key's order.
* Among endpoints of equal cost, the one with the fewest generations in flight is taken; among equals the least recently
  used one.
* Ejection: an endpoint that could not be reached, timed out, or answered with FAULTS_TO_EJECT errors in a row gets no
  generations for a while, twice as long after each further failure. Then the endpoint is due for a probe, and in use
  again when the probe succeeds, so that no generation waits for a server that may still hang. When all endpoints are
  ejected, the one that is due first is taken: a wrong guess costs less than rejecting the request.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from math import ceil

from antiphon_translator.engines.endpoint_cache import EndpointCache, LoadReport
from antiphon_translator.engines.placement_cost import NOTHING_HELD, Held, PlacementCosts, rank
from antiphon_translator.generation import GenerationRequest
from antiphon_translator.placement import placement_of

LOAD_BOUND = 1.25
EJECT_FIRST_S = 1.0
EJECT_MAX_S = 60.0
FAULTS_TO_EJECT = 5
"""Errors in a row; a single one may be the request's own fault."""
COST_STEP_S = 0.005
"""Costs that differ by less are equal: a prefill of a hundred tokens takes as long."""


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
    cache: EndpointCache = field(default_factory=EndpointCache)

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


class Outcome(Enum):
    """The outcome of a prompt's placement. The values are those of the label of a metric."""

    KEPT = "kept"
    """It stays at the endpoint that holds most of it."""
    MOVED_LOAD = "moved_load"
    """Another endpoint is expected to answer much sooner."""
    MOVED_DEAD = "moved_dead"
    """The endpoint of its longest beginning is not in use."""
    ROOT = "root"
    """No earlier turn is known to have left a beginning anywhere."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The endpoint of a generation. `held` is the part of the prompt that its cache is taken to hold."""

    endpoint: Endpoint
    outcome: Outcome
    held: Held = NOTHING_HELD


class EndpointChoice:
    """The endpoints of one model. `translators` is the number of processes that choose among them."""

    def __init__(self, names: Sequence[str], *, translators: int = 1) -> None:
        self.endpoints = tuple(Endpoint(name) for name in names)
        self._placements = {placement_of(name): name for name in names}
        self._translators = translators
        self._uses = count(1)

    def available(self) -> list[Endpoint]:
        """The endpoints that are not ejected; when all are, the one that is due first."""
        found = [endpoint for endpoint in self.endpoints if not endpoint.is_ejected]
        return found or [min(self.endpoints, key=lambda endpoint: endpoint.ejected_until)]

    def choose(
        self, request: GenerationRequest, *, now_s: float, now_ms: int, without: Collection[str] = ()
    ) -> Chosen | None:
        """Chooses the endpoint for the next generation, none of `without`. None: there is no other. `now_s` is of the
        monotonic clock, `now_ms` Unix time."""
        found = [endpoint for endpoint in self.available() if endpoint.name not in without]
        found = found or [endpoint for endpoint in self.endpoints if endpoint.name not in without]
        if not found:
            return None
        caches = {endpoint.name: endpoint.cache for endpoint in found}
        costs = PlacementCosts(
            request, caches, self._placements, now_s=now_s, now_ms=now_ms, translators=self._translators
        )
        chosen = self._by_key(found, request.cache_key) if request.cache_key and costs.home() is None else None
        chosen = chosen or self._by_cost(found, costs)
        chosen.last_used = next(self._uses)
        return Chosen(chosen, _outcome(costs, chosen), costs.share_at(chosen.name))

    def can_prewarm(self, request: GenerationRequest, *, now_s: float, now_ms: int) -> bool:
        """Whether a prompt that is read in advance goes to the endpoint of its longest beginning, and no other prompt
        waits there. At another endpoint its next turn would not find it."""
        caches = {endpoint.name: endpoint.cache for endpoint in self.available()}
        costs = PlacementCosts(
            request, caches, self._placements, now_s=now_s, now_ms=now_ms, translators=self._translators
        )
        home = costs.home()
        return home is not None and caches[home].waiting_tokens(now_s, self._translators) < 1

    def note_load(self, name: str, report: LoadReport) -> None:
        """Notes what an endpoint reports of its load."""
        next(endpoint for endpoint in self.endpoints if endpoint.name == name).cache.note_load(report)

    def _by_key(self, found: Sequence[Endpoint], cache_key: str) -> Endpoint | None:
        running = 1 + sum(endpoint.in_flight for endpoint in found)
        most = ceil(LOAD_BOUND * running / len(found))
        ordered = sorted(found, key=lambda endpoint: rank(cache_key, endpoint.name), reverse=True)
        return next((endpoint for endpoint in ordered if endpoint.in_flight < most), None)

    def _by_cost(self, found: Sequence[Endpoint], costs: PlacementCosts) -> Endpoint:
        best = min(found, key=lambda each: (_steps(costs.with_pressure(each.name)), each.in_flight, each.last_used))
        home = costs.home()
        if home is None or costs.is_worth_a_move(home, best.name):
            return best
        return next(endpoint for endpoint in found if endpoint.name == home)


def _outcome(costs: PlacementCosts, chosen: Endpoint) -> Outcome:
    if costs.is_home_gone:
        return Outcome.MOVED_DEAD
    if (home := costs.home()) is None:
        return Outcome.ROOT
    return Outcome.KEPT if chosen.name == home else Outcome.MOVED_LOAD


def _steps(cost_s: float) -> int:
    """A cost in steps of COST_STEP_S; smaller differences say nothing."""
    return round(cost_s / COST_STEP_S)
