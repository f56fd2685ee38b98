"""The limit of responses per session. The fixtures are `rows`, an open row backend, and `elapse` as in Subject."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antiphon_core.errors import AntiphonError, LimitExceeded
from antiphon_core.ports.store import Precondition, Record, TurnCommit
from antiphon_store.rows.backend import RowBackend
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.subject import draft, new_session_id

MOST = 3
TTL_MS = 500
ROUNDS = 10


class SessionLimitSuite:
    @pytest.fixture
    def store(self, rows: RowBackend) -> StoreService:
        return StoreService(rows, StoreSettings(max_session_responses=MOST))

    @pytest.fixture
    def tenant(self) -> str:
        return f"tenant-{secrets.token_hex(4)}"

    async def fill(self, store: StoreService, tenant: str, session_id: str, **members: Any) -> list[Record]:
        """Puts as many responses as the session may have."""
        records = [draft(session_id=session_id) for _ in range(MOST)]
        for record in records:
            await store.put(tenant, record, **members)
        return records

    async def test_a_response_over_the_session_limit_is_rejected(
        self, rows: RowBackend, store: StoreService, tenant: str
    ) -> None:
        session_id = new_session_id()
        await self.fill(store, tenant, session_id)
        late = draft(session_id=session_id)
        with pytest.raises(LimitExceeded) as caught:
            await store.put(tenant, late)
        assert (caught.value.field, caught.value.facts["limit"]) == ("record.session_id", str(MOST))
        await store.put(tenant, draft(session_id=new_session_id()))
        await store.put(tenant, draft())
        await StoreService(rows).put(tenant, late)

    async def test_a_turn_over_the_session_limit_keeps_its_lease(self, store: StoreService, tenant: str) -> None:
        session_id = new_session_id()
        await self.fill(store, tenant, session_id)
        lease = await store.acquire_session(tenant, session_id, holder="a", ttl_ms=30_000)
        with pytest.raises(LimitExceeded):
            await store.commit_turn(tenant, TurnCommit(draft(session_id=session_id), lease.fence))
        session = await store.describe_session(tenant, session_id)
        assert (session.head_id, session.lease) == (None, lease)

    async def test_a_full_session_allows_repeated_puts_and_replacements(self, store: StoreService, tenant: str) -> None:
        records = await self.fill(store, tenant, new_session_id())
        assert (await store.put(tenant, records[0])).version == 1
        assert (await store.put(tenant, records[0], precondition=Precondition(version=1))).version == 2

    async def test_a_deleted_response_makes_room_in_a_full_session(self, store: StoreService, tenant: str) -> None:
        session_id = new_session_id()
        records = await self.fill(store, tenant, session_id)
        await store.delete(tenant, records[1].id)
        await store.put(tenant, draft(session_id=session_id))
        with pytest.raises(LimitExceeded):
            await store.put(tenant, draft(session_id=session_id))

    async def test_expired_responses_make_room_in_a_full_session(
        self, store: StoreService, tenant: str, elapse: Callable[[int], Awaitable[None]]
    ) -> None:
        session_id = new_session_id()
        await self.fill(store, tenant, session_id, ttl_ms=TTL_MS)
        await elapse(TTL_MS)
        await self.fill(store, tenant, session_id)

    async def test_concurrent_writes_do_not_exceed_the_session_limit(self, store: StoreService, tenant: str) -> None:
        for _ in range(ROUNDS):
            session_id = new_session_id()
            puts = [store.put(tenant, draft(session_id=session_id)) for _ in range(3 * MOST)]
            answers = await asyncio.gather(*puts, return_exceptions=True)
            refused = [answer for answer in answers if isinstance(answer, AntiphonError)]
            assert len(answers) - len(refused) == MOST
            assert all(isinstance(each, LimitExceeded) for each in refused)
