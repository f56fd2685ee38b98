"""A backend that breaks when told to: before an atom, after it (the fault that everybody forgets), or by being slow.

For tests of whoever stands above a backend. Nothing in a running system uses it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_core.ports.store import Fence, Lease, Precondition, Record, Session, Stamp, TurnRequest, TurnStart
from antiphon_store.backends.base import Backend, Durability, Write

_Answer = TypeVar("_Answer")


class When(Enum):
    BEFORE = auto()  # the atom does not happen
    AFTER = auto()  # the atom happens, its answer gets lost


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one call of `atom` (a method's name, or "*" for any)."""

    atom: str
    when: When
    error: type[AntiphonError] | None = StoreUnavailable  # None: the atom is only slow
    delay_s: float = 0.0


class FaultyBackend:
    """Implements `base.Backend` around another one. Faults are used up in the order in which they were planned."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self._planned: deque[Fault] = deque()

    def plan(self, *faults: Fault) -> None:
        self._planned.extend(faults)

    @property
    def durability(self) -> Durability:
        return self._inner.durability

    async def open(self) -> None:
        await self._inner.open()

    async def close(self) -> None:
        await self._inner.close()

    async def ready(self) -> None:
        await self._run("ready", self._inner.ready)

    async def put(self, tenant: str, write: Write) -> Stamp:
        return await self._run("put", lambda: self._inner.put(tenant, write))

    async def fetch(self, tenant: str, response_id: str) -> Record:
        return await self._run("fetch", lambda: self._inner.fetch(tenant, response_id))

    async def remove(self, tenant: str, response_id: str, precondition: Precondition) -> None:
        await self._run("remove", lambda: self._inner.remove(tenant, response_id, precondition))

    async def ancestry(self, tenant: str, response_id: str, *, max_depth: int, max_bytes: int) -> Sequence[Record]:
        return await self._run(
            "ancestry",
            lambda: self._inner.ancestry(tenant, response_id, max_depth=max_depth, max_bytes=max_bytes),
        )

    async def acquire_lease(self, tenant: str, session_id: str, *, holder: str, ttl_ms: int) -> Lease:
        return await self._run(
            "acquire_lease",
            lambda: self._inner.acquire_lease(tenant, session_id, holder=holder, ttl_ms=ttl_ms),
        )

    async def renew_lease(self, tenant: str, fence: Fence, *, ttl_ms: int) -> Lease:
        return await self._run("renew_lease", lambda: self._inner.renew_lease(tenant, fence, ttl_ms=ttl_ms))

    async def release_lease(self, tenant: str, fence: Fence) -> bool:
        return await self._run("release_lease", lambda: self._inner.release_lease(tenant, fence))

    async def describe_session(self, tenant: str, session_id: str) -> Session:
        return await self._run("describe_session", lambda: self._inner.describe_session(tenant, session_id))

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        return await self._run("begin_turn", lambda: self._inner.begin_turn(tenant, request))

    async def commit_turn(self, tenant: str, write: Write, fence: Fence | None) -> Stamp:
        return await self._run("commit_turn", lambda: self._inner.commit_turn(tenant, write, fence))

    async def _run(self, atom: str, run: Callable[[], Awaitable[_Answer]]) -> _Answer:
        fault = self._next_fault(atom)
        if fault is None:
            return await run()
        await asyncio.sleep(fault.delay_s)
        if fault.when is When.BEFORE and fault.error is not None:
            raise fault.error("An injected fault.")
        answer = await run()
        if fault.error is not None:
            raise fault.error("An injected fault.")
        return answer

    def _next_fault(self, atom: str) -> Fault | None:
        if self._planned and self._planned[0].atom in ("*", atom):
            return self._planned.popleft()
        return None
