from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.redis.promises import replicas_to_wait_for, require
from antiphon_store.rows.backend import Durability

SAFE = {
    "redis_version": "7.0.15",
    "connected_slaves": 2,
    "appendonly": "yes",
    "appendfsync": "always",
    "maxmemory": "0",
    "maxmemory-policy": "noeviction",
    "min-replicas-to-write": "1",
}


@pytest.mark.parametrize("durability", Durability)
def test_a_safely_configured_server_is_accepted_for_every_durability(durability: Durability) -> None:
    require(SAFE, durability)


@pytest.mark.parametrize(
    ("durability", "facts", "words"),
    [
        (Durability.MEMORY, {"redis_version": "6.2.5"}, "6.2.5 is older than 7.0"),
        (Durability.PROCESS, {"appendonly": "no"}, "appendonly must be yes"),
        (Durability.DISK, {"appendonly": "no"}, "appendonly must be yes"),
        (Durability.DISK, {"appendfsync": "everysec"}, "must be always"),
        (Durability.DISK, {"maxmemory": "1", "maxmemory-policy": "volatile-ttl"}, "noeviction"),
        (Durability.QUORUM, {"min-replicas-to-write": "0"}, "min-replicas-to-write must be at least 1"),
        (Durability.QUORUM, {"connected_slaves": 0}, "0 replicas are connected"),
    ],
)
def test_a_server_that_cannot_keep_the_durability_is_rejected(
    durability: Durability, facts: dict[str, Any], words: str
) -> None:
    with pytest.raises(StoreUnavailable, match=words):
        require(SAFE | facts, durability)


def test_settings_that_the_durability_does_not_need_are_not_required() -> None:
    require(SAFE | {"appendfsync": "everysec"}, Durability.PROCESS)
    require(SAFE | {"appendonly": "no"}, Durability.QUORUM)
    require(SAFE | {"appendonly": "no", "maxmemory": "1", "maxmemory-policy": "allkeys-lru"}, Durability.MEMORY)


@pytest.mark.parametrize(("replicas", "least", "copies"), [(1, 1, 1), (2, 1, 1), (3, 1, 2), (4, 1, 2), (2, 2, 2)])
def test_a_write_waits_for_a_majority_of_copies_or_the_configured_minimum(
    replicas: int, least: int, copies: int
) -> None:
    facts = SAFE | {"connected_slaves": replicas, "min-replicas-to-write": str(least)}
    assert replicas_to_wait_for(facts) == copies
