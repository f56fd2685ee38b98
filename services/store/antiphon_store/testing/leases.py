"""Leases: one holder at a time, growing tokens, renewal and expiry."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio

import pytest

from antiphon_core.errors import SessionLocked, StaleFence
from antiphon_core.ports.store import Fence, Lease
from antiphon_store.testing.subject import SOON_S, Subject, draft, new_session_id

HOUR_MS = 3_600_000
TTL_MS = 500
LONG_TTL_MS = 30_000


class LeaseSuite:
    async def acquire(
        self, subject: Subject, session_id: str, *, holder: str = "a", ttl_ms: int = LONG_TTL_MS, wait_ms: int = 0
    ) -> Lease:
        return await subject.store.acquire_session(
            subject.tenant, session_id, holder=holder, ttl_ms=ttl_ms, wait_ms=wait_ms
        )

    async def test_a_session_that_was_never_used_is_empty(self, subject: Subject) -> None:
        session_id = new_session_id()
        session = await subject.store.describe_session(subject.tenant, session_id)
        assert (session.id, session.head_id, session.last_fence, session.lease) == (session_id, None, 0, None)

    async def test_the_first_lease_has_the_first_token(self, subject: Subject) -> None:
        session_id = new_session_id()
        lease = await self.acquire(subject, session_id)
        assert (lease.fence, lease.holder) == (Fence(session_id, 1), "a")
        session = await subject.peer.describe_session(subject.tenant, session_id)
        assert (session.last_fence, session.lease) == (1, lease)

    async def test_a_held_session_is_locked_for_others(self, subject: Subject) -> None:
        session_id = new_session_id()
        lease = await self.acquire(subject, session_id)
        with pytest.raises(SessionLocked) as caught:
            await subject.peer.acquire_session(subject.tenant, session_id, holder="b")
        assert caught.value.facts["session_id"] == session_id
        assert (await subject.store.describe_session(subject.tenant, session_id)).lease == lease

    async def test_a_holder_that_acquires_again_keeps_its_fence(self, subject: Subject) -> None:
        session_id = new_session_id()
        lease = await self.acquire(subject, session_id)
        await subject.elapse(5)
        again = await self.acquire(subject, session_id)
        assert again.fence == lease.fence
        assert again.expires_at_ms > lease.expires_at_ms

    async def test_acquiring_or_renewing_again_never_shortens_a_lease(self, subject: Subject) -> None:
        session_id = new_session_id()
        lease = await self.acquire(subject, session_id)
        assert (await self.acquire(subject, session_id, ttl_ms=TTL_MS)) == lease
        assert (await subject.store.renew_session(subject.tenant, lease.fence, ttl_ms=TTL_MS)) == lease

    async def test_tokens_grow_over_release_and_expiry(self, subject: Subject) -> None:
        session_id = new_session_id()
        tokens = []
        for holder in ("a", "a", "b"):
            lease = await self.acquire(subject, session_id, holder=holder)
            tokens.append(lease.fence.token)
            assert await subject.store.release_session(subject.tenant, lease.fence)
        for holder in ("a", "a", "b"):
            tokens.append((await self.acquire(subject, session_id, holder=holder, ttl_ms=TTL_MS)).fence.token)
            await subject.elapse(TTL_MS)
        assert tokens == [1, 2, 3, 4, 5, 6]
        assert (await subject.store.describe_session(subject.tenant, session_id)).last_fence == 6

    async def test_a_lease_ends_on_time(self, subject: Subject) -> None:
        session_id = new_session_id()
        lease = await self.acquire(subject, session_id, ttl_ms=TTL_MS)
        await subject.elapse(TTL_MS)
        assert (await subject.store.describe_session(subject.tenant, session_id)).lease is None
        with pytest.raises(StaleFence):
            await subject.store.renew_session(subject.tenant, lease.fence)
        assert not await subject.store.release_session(subject.tenant, lease.fence)
        other = await self.acquire(subject, session_id, holder="b")
        assert other.fence.token == 2

    async def test_renewing_keeps_a_lease(self, subject: Subject) -> None:
        session_id = new_session_id()
        lease = await self.acquire(subject, session_id, ttl_ms=TTL_MS)
        renewed = await subject.store.renew_session(subject.tenant, lease.fence, ttl_ms=4 * TTL_MS)
        assert renewed.fence == lease.fence
        assert renewed.expires_at_ms > lease.expires_at_ms
        await subject.elapse(2 * TTL_MS)
        with pytest.raises(SessionLocked):
            await self.acquire(subject, session_id, holder="b")

    async def test_renewal_and_release_with_a_stale_fence_do_nothing(self, subject: Subject) -> None:
        session_id = new_session_id()
        stale = await self.acquire(subject, session_id, ttl_ms=TTL_MS)
        await subject.elapse(TTL_MS)
        current = await self.acquire(subject, session_id, holder="b")
        with pytest.raises(StaleFence) as caught:
            await subject.store.renew_session(subject.tenant, stale.fence)
        assert caught.value.facts == {"session_id": session_id, "token": "1"}
        assert not await subject.store.release_session(subject.tenant, stale.fence)
        assert (await subject.store.describe_session(subject.tenant, session_id)).lease == current

    async def test_releasing_twice_is_no_error(self, subject: Subject) -> None:
        lease = await self.acquire(subject, new_session_id())
        assert await subject.store.release_session(subject.tenant, lease.fence)
        assert not await subject.store.release_session(subject.tenant, lease.fence)
        assert not await subject.store.release_session(subject.tenant, Fence(new_session_id(), 1))

    async def test_sessions_do_not_lock_one_another(self, subject: Subject) -> None:
        for _ in range(3):
            assert (await self.acquire(subject, new_session_id())).fence.token == 1

    async def test_a_waiting_holder_gets_the_lease_after_its_release(self, subject: Subject) -> None:
        session_id = new_session_id()
        lease = await self.acquire(subject, session_id)
        waiting = asyncio.create_task(self.acquire(subject, session_id, holder="b", wait_ms=20_000))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        await subject.store.release_session(subject.tenant, lease.fence)
        assert (await asyncio.wait_for(waiting, SOON_S)).fence.token == 2

    async def test_a_waiting_holder_gets_a_lease_released_by_another_client(self, subject: Subject) -> None:
        session_id = new_session_id()
        lease = await subject.peer.acquire_session(subject.tenant, session_id, holder="a")
        waiting = asyncio.create_task(self.acquire(subject, session_id, holder="b", wait_ms=20_000))
        await asyncio.sleep(0.02)
        await subject.peer.release_session(subject.tenant, lease.fence)
        assert (await asyncio.wait_for(waiting, SOON_S)).holder == "b"

    async def test_a_waiting_request_ends_at_its_timeout(self, subject: Subject) -> None:
        session_id = new_session_id()
        await self.acquire(subject, session_id)
        with pytest.raises(SessionLocked):
            await asyncio.wait_for(self.acquire(subject, session_id, holder="b", wait_ms=50), SOON_S)

    async def test_every_waiting_holder_gets_the_lease(self, subject: Subject) -> None:
        session_id = new_session_id()
        tokens: list[int] = []

        async def take_and_give(holder: str) -> None:
            lease = await self.acquire(subject, session_id, holder=holder, wait_ms=20_000)
            tokens.append(lease.fence.token)
            await subject.put(draft())
            await subject.store.release_session(subject.tenant, lease.fence)

        await asyncio.wait_for(asyncio.gather(*(take_and_give(f"h{number}") for number in range(8))), SOON_S)
        assert tokens == list(range(1, 9))

    async def test_a_clock_that_is_set_back_strands_no_lease(self, subject: Subject) -> None:
        dead, living = new_session_id(), new_session_id()
        await self.acquire(subject, dead, holder="dead")
        lease = await self.acquire(subject, living, holder="a")
        await subject.elapse(-HOUR_MS)
        renewed = await subject.store.renew_session(subject.tenant, lease.fence)
        assert renewed.expires_at_ms < lease.expires_at_ms
        with pytest.raises(SessionLocked):
            await self.acquire(subject, living, holder="b")
        assert (await self.acquire(subject, dead, holder="b")).fence.token == 2
        await subject.elapse(HOUR_MS)
