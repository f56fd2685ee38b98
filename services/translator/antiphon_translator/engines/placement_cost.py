"""The cost of a prompt at each endpoint, in seconds, and the endpoint that it should go to. Rules only, no I/O.

    cost = (tokens that wait + tokens that are not in the cache) / measured rate
         + weight * (tokens placed there of late beyond the least of any endpoint) * translators / rate

The pressure keeps endpoints from collecting the conversations of which they once had the root. A prompt stays where its
longest beginning lies unless it gains much elsewhere: its cache follows it, and the next turn would stay there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from antiphon_translator.engines.endpoint_cache import EndpointCache
from antiphon_translator.generation import GenerationRequest
from antiphon_translator.placement import endpoint_of

PRESSURE_WEIGHT = 0.3
"""With 0.1 one of eight endpoints got up to 1.9 times its share, with 0.3 up to 1.25 times (`make bench-cache`)."""
REPORTED_PRESSURE_WEIGHT = 0.45
"""Where loads are reported, an idle endpoint is known to be idle, and only the pressure spreads conversations: with 0.3
one got up to 1.36 times its share, with 0.45 up to 1.25 times (seeds 1 to 4). With 0.6 the hits become fewer."""
MOVE_GAIN_SHARE = 0.3
MOVE_GAIN_S = 0.25
"""A prompt leaves its cache only for a gain of more than this share of its cost, and of more than these seconds."""
ROOT_HOMES = 2
"""Endpoints that a root prefix has of its own, equal for all translators: the first ones in its rendezvous order."""


@dataclass(frozen=True, slots=True)
class Held:
    """The part of a prompt that is taken to be in one endpoint's cache. `age_s` is the time since an earlier turn left
    it there; None for a root prefix, whose last use is not known."""

    tokens: float = 0.0
    age_s: float | None = None


NOTHING_HELD = Held()


def rank(key: str, name: str) -> bytes:
    """The rank of an endpoint for a key in rendezvous hashing; the highest comes first."""
    return blake2b(f"{key}\0{name}".encode(), digest_size=8).digest()


class PlacementCosts:
    """The costs of one prompt at the endpoints that can take it, by their names."""

    def __init__(
        self,
        request: GenerationRequest,
        caches: Mapping[str, EndpointCache],
        placements: Mapping[str, str],
        *,
        now_s: float,
        now_ms: int,
        translators: int = 1,
    ) -> None:
        """`placements` are the names of endpoints, by their placements. `now_ms` is Unix time, as in the hints."""
        self._request = request
        self._caches = caches
        self._now_s = now_s
        self._translators = translators
        self.hinted = self._by_hints(placements, now_ms)
        """The longest beginning that is taken to be at each endpoint of a hint; none of a void hint."""
        longest = max(request.placement, key=lambda hint: hint.tokens, default=None)
        self.is_home_gone = longest is not None and placements.get(endpoint_of(longest.endpoint)) not in caches
        """Whether the endpoint of the longest beginning cannot be chosen."""
        self._root_homes = self._first_by_rank(request.root.key) if request.root is not None else ()
        self._least_pressure = min(cache.pressure(now_s) for cache in caches.values())

    def _first_by_rank(self, key: str) -> Sequence[str]:
        return sorted(self._caches, key=lambda name: rank(key, name), reverse=True)[:ROOT_HOMES]

    def _by_hints(self, placements: Mapping[str, str], now_ms: int) -> dict[str, Held]:
        found: dict[str, Held] = {}
        for hint in self._request.placement:
            name = placements.get(endpoint_of(hint.endpoint), "")
            if name not in self._caches:
                continue
            age_s = max(now_ms - hint.at_ms, 0) / 1000
            held = Held(hint.tokens * self._caches[name].chance(age_s, self._now_s), age_s)
            if held.tokens > found.get(name, NOTHING_HELD).tokens:
                found[name] = held
        return found

    def share_at(self, name: str) -> Held:
        """The part of the prompt that the endpoint holds: of an earlier turn, or the root prefix."""
        found, root = self.hinted.get(name, NOTHING_HELD), self._request.root
        is_root_held = root is not None and (
            name in self._root_homes or self._caches[name].has_root(root.key, self._now_s)
        )
        if root is None or not is_root_held or root.tokens <= found.tokens:
            return found
        return Held(root.tokens)

    def seconds(self, name: str) -> float:
        """The expected time to the first token."""
        cache = self._caches[name]
        uncached = max(self._request.prompt_tokens - self.share_at(name).tokens, 0.0)
        return (cache.waiting_tokens(self._now_s, self._translators) + uncached) / cache.rate

    def with_pressure(self, name: str) -> float:
        """The expected time, and the cost of what the prompt evicts."""
        cache = self._caches[name]
        beyond = cache.pressure(self._now_s) - self._least_pressure
        weight = REPORTED_PRESSURE_WEIGHT if cache.has_report(self._now_s) else PRESSURE_WEIGHT
        return self.seconds(name) + weight * beyond * self._translators / cache.rate

    def home(self) -> str | None:
        """The endpoint that holds most of the prompt by a hint."""
        return max(self.hinted, key=lambda name: self.hinted[name].tokens, default=None)

    def is_worth_a_move(self, home: str, other: str) -> bool:
        """Whether the prompt gains enough at another endpoint than the one that holds most of it."""
        stay_s = self.seconds(home)
        gain_s = stay_s - self.seconds(other)
        return gain_s > MOVE_GAIN_S and gain_s > MOVE_GAIN_SHARE * stay_s
