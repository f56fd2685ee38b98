"""Checks that a server's settings keep a durability.

The store checks every master when it opens, because Redis loses data without an error: without an append-only file it
loses everything with the process, and a memory policy that evicts deletes responses before they expire.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from antiphon_core.errors import StoreUnavailable
from antiphon_store.rows.backend import Durability

VERSION_MIN = (7, 0)
SETTINGS = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "min-replicas-to-write")

Facts = Mapping[str, Any]
"""The answer of one master to INFO, and its SETTINGS."""


def require(facts: Facts, durability: Durability) -> None:
    """StoreUnavailable: its message names the settings of redis.conf to change."""
    reasons = list(_reasons(facts, durability))
    if reasons:
        raise StoreUnavailable(f"This Redis cannot keep durability '{durability}': {'; '.join(reasons)}.")


def replicas_to_wait_for(facts: Facts) -> int:
    """How many replicas must have a write before it is acknowledged: with the master a majority of the copies, so that
    a write survives the loss of a machine and does not need every machine; more if min-replicas-to-write is more."""
    return max(int(facts["min-replicas-to-write"]), (_replicas(facts) + 1) // 2)


def _reasons(facts: Facts, durability: Durability) -> Iterator[str]:
    version = str(facts["redis_version"])
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < VERSION_MIN:
        yield f"version {version} is older than {'.'.join(map(str, VERSION_MIN))}"
    if durability is Durability.MEMORY:
        return
    if int(facts["maxmemory"]) and facts["maxmemory-policy"] != "noeviction":
        yield f"maxmemory-policy is {facts['maxmemory-policy']}, and must be noeviction"
    if durability is Durability.QUORUM:
        least = int(facts["min-replicas-to-write"])
        if least < 1:
            yield "min-replicas-to-write must be at least 1, or an isolated master continues to accept writes"
        if _replicas(facts) < least:
            yield f"{_replicas(facts)} replicas are connected, min-replicas-to-write is {least}"
    elif facts["appendonly"] != "yes":
        yield "appendonly must be yes"
    elif durability is Durability.DISK and facts["appendfsync"] != "always":
        always = "must be always (everysec is enough for durability 'process')"
        yield f"appendfsync is {facts['appendfsync']}, and {always}"


def _replicas(facts: Facts) -> int:
    return int(facts.get("connected_slaves", 0))
