"""Checks that a server's settings keep a durability.

The store checks every master when it opens, because Redis loses data without an error: without an append-only file it
loses everything with the process, and a memory policy that evicts deletes responses before they expire.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from antiphon_core.errors import StoreUnavailable
from antiphon_store.rows.backend import Durability

VERSION_MIN = (7, 0)
SETTINGS = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "min-replicas-to-write")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The settings of one master, as it reports them."""

    version: str
    appendonly: str
    appendfsync: str
    maxmemory: int
    maxmemory_policy: str
    min_replicas_to_write: int
    replicas: int

    @classmethod
    def of(cls, info: Mapping[str, object], settings: Mapping[str, str]) -> ServerFacts:
        return cls(
            version=str(info["redis_version"]),
            appendonly=settings["appendonly"],
            appendfsync=settings["appendfsync"],
            maxmemory=int(settings["maxmemory"]),
            maxmemory_policy=settings["maxmemory-policy"],
            min_replicas_to_write=int(settings["min-replicas-to-write"]),
            replicas=int(str(info.get("connected_slaves", 0))),
        )


def require(facts: ServerFacts, durability: Durability) -> None:
    """StoreUnavailable: its message names the settings of redis.conf to change."""
    reasons = list(_reasons(facts, durability))
    if reasons:
        raise StoreUnavailable(f"This Redis cannot keep durability '{durability}': {'; '.join(reasons)}.")


def replicas_to_wait_for(facts: ServerFacts) -> int:
    """How many replicas must have a write before it is acknowledged: with the master a majority of the copies, so that
    a write survives the loss of a machine and does not need every machine; more if min-replicas-to-write is more."""
    return max(facts.min_replicas_to_write, (facts.replicas + 1) // 2)


def _reasons(facts: ServerFacts, durability: Durability) -> Iterator[str]:
    if _version(facts.version) < VERSION_MIN:
        yield f"version {facts.version} is older than {'.'.join(map(str, VERSION_MIN))}"
    if durability is Durability.MEMORY:
        return
    if facts.maxmemory and facts.maxmemory_policy != "noeviction":
        yield f"maxmemory-policy is {facts.maxmemory_policy}, and must be noeviction"
    if durability is Durability.QUORUM:
        if facts.min_replicas_to_write < 1:
            yield "min-replicas-to-write must be at least 1, or an isolated master continues to accept writes"
        if facts.replicas < facts.min_replicas_to_write:
            yield f"{facts.replicas} replicas are connected, min-replicas-to-write is {facts.min_replicas_to_write}"
    elif facts.appendonly != "yes":
        yield "appendonly must be yes"
    elif durability is Durability.DISK and facts.appendfsync != "always":
        yield f"appendfsync is {facts.appendfsync}, and must be always (everysec is enough for durability 'process')"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
