"""The engine: each atom is one script with the keys that it touches. What the scripts do, lua/*.lua says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon_core.clock import Clock
from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.store import (
    Fence,
    Lease,
    Precondition,
    Record,
    Session,
    Stamp,
)
from antiphon_store.backends.base import Durability, Write
from antiphon_store.backends.redis import answers, promises, scripts
from antiphon_store.backends.redis.addresses import Address, Topology
from antiphon_store.backends.redis.calls import (
    PRECONDITION_FENCE,
    Argument,
    condition_arguments,
    fence_arguments,
    write_arguments,
)
from antiphon_store.backends.redis.catalogue import RedisCatalogue
from antiphon_store.backends.redis.connection import Servers, connect
from antiphon_store.backends.redis.conversations import RedisConversations
from antiphon_store.backends.redis.event_logs import RedisEventLogs
from antiphon_store.backends.redis.faults import translate
from antiphon_store.backends.redis.forks import RedisForks
from antiphon_store.backends.redis.idempotency import RedisIdempotency
from antiphon_store.backends.redis.jobs import RedisJobs
from antiphon_store.backends.redis.keys import Keyspace
from antiphon_store.backends.redis.link import FAULTS, Link
from antiphon_store.backends.redis.refusals import accepted
from antiphon_store.backends.redis.retention import Announcements, RedisRetention
from antiphon_store.backends.redis.spending import RedisSpending
from antiphon_store.backends.redis.trees import RedisTrees
from antiphon_store.backends.redis.turns import RedisTurns


class RedisBackend(
    RedisCatalogue,
    RedisConversations,
    RedisEventLogs,
    RedisForks,
    RedisIdempotency,
    RedisJobs,
    RedisRetention,
    RedisSpending,
    RedisTrees,
    RedisTurns,
):
    """Implements `base.Backend`. Any number of processes may use the same servers.

    The servers' clock decides. `clock` is for tests alone, which move time by hand: with it, every client that shares
    data must share the clock.
    """

    def __init__(
        self, address: Address, *, durability: Durability = Durability.DISK, clock: Clock | None = None
    ) -> None:
        clustered = address.topology is Topology.CLUSTER
        if clustered and durability is Durability.QUORUM:
            raise SettingsError("Durability 'quorum' is not available on a Redis Cluster; 'disk' is.")
        self.durability = durability
        self._address = address
        self._clock = clock
        self._keys = Keyspace(address.partition)
        self._announcements = Announcements()
        self._link: Link | None = None

    async def open(self) -> None:
        servers = connect(self._address)
        try:
            replicas = await self._check(servers)
        except FAULTS as error:
            await servers.close()
            raise translate(error) from error
        except StoreUnavailable:
            await servers.close()
            raise
        self._link = Link(servers, replicas=replicas)

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()

    async def ready(self) -> None:
        await self._opened.ready()

    # ---- Records ----

    async def put(self, tenant: str, write: Write) -> Stamp:
        if write.record.session_id is not None:
            self._keys.require_together(write.record.id, write.record.session_id, field="record.session_id")
        keys = self._record_keys(tenant, write.record.id, (write.precondition.fence, PRECONDITION_FENCE))
        return answers.stamp(await self._run(scripts.PUT, tenant, keys, write_arguments(write)))

    async def fetch(self, tenant: str, response_id: str) -> Record:
        keys = [self._keys.tree_root(tenant, response_id)]
        return answers.record(await self._run(scripts.FETCH, tenant, keys, [response_id]))

    async def remove(self, tenant: str, response_id: str, precondition: Precondition) -> None:
        keys = self._record_keys(tenant, response_id, (precondition.fence, PRECONDITION_FENCE))
        await self._run(scripts.REMOVE, tenant, keys, [response_id, *condition_arguments(precondition)])

    async def ancestry(self, tenant: str, response_id: str, *, max_depth: int, max_bytes: int) -> Sequence[Record]:
        keys = [self._keys.tree_root(tenant, response_id)]
        return answers.records(await self._run(scripts.ANCESTRY, tenant, keys, [response_id, max_depth, max_bytes]))

    # ---- Sessions ----

    async def acquire_lease(self, tenant: str, session_id: str, *, holder: str, ttl_ms: int) -> Lease:
        answer = await self._in_session(scripts.ACQUIRE_LEASE, tenant, session_id, [holder, ttl_ms])
        return answers.lease(session_id, answer)

    async def renew_lease(self, tenant: str, fence: Fence, *, ttl_ms: int) -> Lease:
        arguments = [*fence_arguments(fence), ttl_ms]
        answer = await self._in_session(scripts.RENEW_LEASE, tenant, fence.session_id, arguments)
        return answers.lease(fence.session_id, answer)

    async def release_lease(self, tenant: str, fence: Fence) -> bool:
        (released,) = await self._in_session(scripts.RELEASE_LEASE, tenant, fence.session_id, [fence.token])
        return bool(released)

    async def describe_session(self, tenant: str, session_id: str) -> Session:
        return answers.session(session_id, await self._in_session(scripts.DESCRIBE_SESSION, tenant, session_id, []))

    # ---- Turns ----

    async def commit_turn(self, tenant: str, write: Write, fence: Fence | None) -> Stamp:
        if fence is None:
            return await self.put(tenant, write)
        fences = (fence, "fence.session_id"), (write.precondition.fence, PRECONDITION_FENCE)
        keys = self._record_keys(tenant, write.record.id, *fences)
        arguments = [*write_arguments(write), *fence_arguments(fence)]
        return answers.stamp(await self._run(scripts.COMMIT_TURN, tenant, keys, arguments))

    # ---- The parts ----

    @property
    def _opened(self) -> Link:
        if self._link is None:
            raise StoreUnavailable("The store is not open.")
        return self._link

    async def _in_session(
        self, script: scripts.Script, tenant: str, session_id: str, arguments: Sequence[Argument]
    ) -> Sequence[Any]:
        keys = [self._keys.session_key(tenant, session_id)]
        return await self._run(script, tenant, keys, arguments, session_id=session_id)

    async def _run(
        self,
        script: scripts.Script,
        tenant: str,
        keys: Sequence[str],
        arguments: Sequence[Argument],
        *,
        session_id: str = "",
    ) -> Sequence[Any]:
        now_ms: Argument = self._clock.now_ms() if self._clock is not None else ""
        common = (now_ms, *self._keys.around_tag(tenant))
        link = self._opened
        call = (script, keys, (*common, *arguments))
        if script.lasts and not self._keys.is_spread and self._announcements.are_due(tenant):
            with link.atom():
                await self._announcements.make(link, tenant)
                answer = await link.run(*call)
        else:
            answer = await link.run(*call)
        return accepted(answer, session_id=session_id)

    def _record_keys(self, tenant: str, response_id: str, *fences: tuple[Fence | None, str]) -> list[str]:
        """The root of a response's tree, and the keys of each fence that there is. With a fence comes the field that it
        stands in. InvalidRequest: one atom cannot cover both."""
        keys = [self._keys.tree_root(tenant, response_id)]
        for fence, field in fences:
            if fence is not None:
                self._keys.require_together(response_id, fence.session_id, field=field)
                keys += self._keys.fence_keys(tenant, fence.session_id)
        return keys

    async def _check(self, servers: Servers) -> int:
        """How many replicas a write waits for. StoreUnavailable: a server does not keep what the durability says."""
        infos = await servers.ask_masters("INFO")
        settings = await servers.ask_masters("CONFIG GET", *promises.SETTINGS)
        facts = [promises.ServerFacts.of(*pair) for pair in zip(infos, settings, strict=True)]
        for each in facts:
            promises.require(each, self.durability)
        if self.durability is not Durability.QUORUM:
            return 0
        return max(promises.replicas_to_wait_for(each) for each in facts)
