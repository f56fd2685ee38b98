"""The engine: each atom is one script with the keys that it touches. What the scripts do, lua/*.lua says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon_core.clock import Clock
from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.store import (
    Fence,
    History,
    Lease,
    Precondition,
    Record,
    Session,
    Stamp,
    TurnRequest,
    TurnStart,
)
from antiphon_store.backends.base import Durability, Write
from antiphon_store.backends.redis import answers, promises, scripts
from antiphon_store.backends.redis.addresses import Address, Topology
from antiphon_store.backends.redis.calls import Argument, condition_arguments, write_arguments
from antiphon_store.backends.redis.connection import Servers, connect
from antiphon_store.backends.redis.event_logs import RedisEventLogs
from antiphon_store.backends.redis.faults import translate
from antiphon_store.backends.redis.keys import Keyspace
from antiphon_store.backends.redis.link import FAULTS, Link
from antiphon_store.backends.redis.refusals import accepted
from antiphon_store.backends.redis.trees import RedisTrees


class RedisBackend(RedisEventLogs, RedisTrees):
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
        self._keys = Keyspace(address.partition, clustered=clustered)
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
        fence = write.precondition.fence
        keys = self._record_keys(tenant, write.record.id, fence, field="precondition.fence.session_id")
        answer = await self._run(scripts.PUT, tenant, keys, write_arguments(write, fence), fence=fence)
        return answers.stamp(answer)

    async def fetch(self, tenant: str, response_id: str) -> Record:
        keys = [self._keys.tree_root(tenant, response_id)]
        return answers.record(await self._run(scripts.FETCH, tenant, keys, [response_id]))

    async def remove(self, tenant: str, response_id: str, precondition: Precondition) -> None:
        fence = precondition.fence
        keys = self._record_keys(tenant, response_id, fence, field="precondition.fence.session_id")
        arguments: list[Argument] = [response_id, *condition_arguments(precondition, fence)]
        await self._run(scripts.REMOVE, tenant, keys, arguments, fence=fence)

    async def ancestry(self, tenant: str, response_id: str, *, max_depth: int, max_bytes: int) -> Sequence[Record]:
        keys = [self._keys.tree_root(tenant, response_id)]
        return answers.records(await self._run(scripts.ANCESTRY, tenant, keys, [response_id, max_depth, max_bytes]))

    # ---- Sessions ----

    async def acquire_lease(self, tenant: str, session_id: str, *, holder: str, ttl_ms: int) -> Lease:
        answer = await self._in_session(scripts.ACQUIRE_LEASE, tenant, session_id, [holder, ttl_ms])
        return answers.lease(session_id, answer)

    async def renew_lease(self, tenant: str, fence: Fence, *, ttl_ms: int) -> Lease:
        answer = await self._in_session(scripts.RENEW_LEASE, tenant, fence.session_id, [fence.token, ttl_ms])
        return answers.lease(fence.session_id, answer)

    async def release_lease(self, tenant: str, fence: Fence) -> bool:
        (released,) = await self._in_session(scripts.RELEASE_LEASE, tenant, fence.session_id, [fence.token])
        return bool(released)

    async def describe_session(self, tenant: str, session_id: str) -> Session:
        return answers.session(session_id, await self._in_session(scripts.DESCRIBE_SESSION, tenant, session_id, []))

    # ---- Turns ----

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        if request.session_id is not None:
            return await self._begin_in_session(tenant, request.session_id, request)
        if request.previous_response_id is None:
            self._opened.require_open()
            return TurnStart(History())
        response_id = request.previous_response_id
        keys = [self._keys.tree_root(tenant, response_id)]
        arguments: list[Argument] = [response_id, request.max_depth, request.max_bytes]
        answer = await self._run(scripts.BEGIN_AFTER, tenant, keys, arguments)
        return TurnStart(answers.history(response_id, answer))

    async def commit_turn(self, tenant: str, write: Write, fence: Fence | None) -> Stamp:
        if fence is None:
            return await self.put(tenant, write)
        keys = self._record_keys(tenant, write.record.id, fence, field="fence.session_id")
        answer = await self._run(scripts.COMMIT_TURN, tenant, keys, write_arguments(write, fence), fence=fence)
        return answers.stamp(answer)

    # ---- The parts ----

    @property
    def _opened(self) -> Link:
        if self._link is None:
            raise StoreUnavailable("The store is not open.")
        return self._link

    async def _begin_in_session(self, tenant: str, session_id: str, request: TurnRequest) -> TurnStart:
        self._keys.require_turns(session_id, field="session_id")
        arguments: list[Argument] = [request.holder, request.lease_ttl_ms, request.max_depth, request.max_bytes]
        answer = await self._in_session(scripts.BEGIN_IN_SESSION, tenant, session_id, arguments)
        head_id, history = answer[3].decode(), answer[4:]
        return TurnStart(answers.history(head_id, history), answers.lease(session_id, answer[:3]))

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
        fence: Fence | None = None,
        session_id: str = "",
    ) -> Sequence[Any]:
        now_ms: Argument = self._clock.now_ms() if self._clock is not None else ""
        common = (now_ms, *self._keys.around_tag(tenant))
        answer = await self._opened.run(script, keys, (*common, *arguments))
        return accepted(answer, session_id=fence.session_id if fence else session_id)

    def _record_keys(self, tenant: str, response_id: str, fence: Fence | None, *, field: str) -> list[str]:
        keys = [self._keys.tree_root(tenant, response_id)]
        if fence is not None:
            self._keys.require_together(response_id, fence.session_id, field=field)
            keys.append(self._keys.session_key(tenant, fence.session_id))
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
