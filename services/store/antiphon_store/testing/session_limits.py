"""How many responses a session may have made. The fixture is `backend`, opened, and `elapse`: see `JobStateSuite`."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable

import pytest

from antiphon_core.errors import AntiphonError, LimitExceeded
from antiphon_core.ports.store import Precondition, Record
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.testing.subject import draft, new_session_id
from antiphon_store.values import Write

MOST = 3
TTL_MS = 500
ROUNDS = 10


def write(record: Record, **members: object) -> Write:
    return Write(record, session_responses_max=MOST, **members)  # type: ignore[arg-type]


class SessionLimitSuite:
    @pytest.fixture
    def tenant(self) -> str:
        return f"tenant-{secrets.token_hex(4)}"

    async def fill(self, backend: StoreEngine, tenant: str, session_id: str, **members: object) -> list[Record]:
        """As many responses as the session may make."""
        records = [draft(session_id=session_id) for _ in range(MOST)]
        for record in records:
            await backend.put(tenant, write(record, **members))
        return records

    async def test_one_more_is_refused(self, backend: StoreEngine, tenant: str) -> None:
        session_id = new_session_id()
        await self.fill(backend, tenant, session_id)
        late = draft(session_id=session_id)
        with pytest.raises(LimitExceeded) as caught:
            await backend.put(tenant, write(late))
        assert (caught.value.field, caught.value.facts["limit"]) == ("record.session_id", str(MOST))
        await backend.put(tenant, write(draft(session_id=new_session_id())))
        await backend.put(tenant, write(draft()))
        await backend.put(tenant, Write(late))

    async def test_a_refused_turn_keeps_its_lease(self, backend: StoreEngine, tenant: str) -> None:
        session_id = new_session_id()
        await self.fill(backend, tenant, session_id)
        lease = await backend.acquire_lease(tenant, session_id, holder="a", ttl_ms=30_000)
        with pytest.raises(LimitExceeded):
            await backend.commit_turn(tenant, write(draft(session_id=session_id)), lease.fence)
        session = await backend.describe_session(tenant, session_id)
        assert (session.head_id, session.lease) == (None, lease)

    async def test_what_is_there_can_be_repeated_and_replaced(self, backend: StoreEngine, tenant: str) -> None:
        records = await self.fill(backend, tenant, new_session_id())
        assert (await backend.put(tenant, write(records[0]))).version == 1
        again = write(records[0], precondition=Precondition(version=1))
        assert (await backend.put(tenant, again)).version == 2

    async def test_what_was_deleted_makes_room(self, backend: StoreEngine, tenant: str) -> None:
        session_id = new_session_id()
        records = await self.fill(backend, tenant, session_id)
        await backend.remove(tenant, records[1].id)
        await backend.put(tenant, write(draft(session_id=session_id)))
        with pytest.raises(LimitExceeded):
            await backend.put(tenant, write(draft(session_id=session_id)))

    async def test_what_expired_makes_room(
        self, backend: StoreEngine, tenant: str, elapse: Callable[[int], Awaitable[None]]
    ) -> None:
        session_id = new_session_id()
        await self.fill(backend, tenant, session_id, ttl_ms=TTL_MS)
        await elapse(TTL_MS)
        await self.fill(backend, tenant, session_id)

    async def test_of_many_at_once_no_more_get_in(self, backend: StoreEngine, tenant: str) -> None:
        for _ in range(ROUNDS):
            session_id = new_session_id()
            puts = [backend.put(tenant, write(draft(session_id=session_id))) for _ in range(3 * MOST)]
            answers = await asyncio.gather(*puts, return_exceptions=True)
            refused = [answer for answer in answers if isinstance(answer, AntiphonError)]
            assert len(answers) - len(refused) == MOST
            assert all(isinstance(each, LimitExceeded) for each in refused)
