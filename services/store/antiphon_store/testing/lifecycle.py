"""Opening, closing and breaking a backend. The fixture is `backend`, made but not opened; the test closes it."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.store import NO_PRECONDITION, Fence, TurnRequest
from antiphon_store.backends.base import Backend, Durability, Write
from antiphon_store.testing.subject import draft, turn_in

RECORD = draft()

ATOMS: dict[str, Callable[[Backend], Awaitable[object]]] = {
    "ready": lambda backend: backend.ready(),
    "put": lambda backend: backend.put("t", Write(RECORD)),
    "fetch": lambda backend: backend.fetch("t", RECORD.id),
    "remove": lambda backend: backend.remove("t", RECORD.id, NO_PRECONDITION),
    "ancestry": lambda backend: backend.ancestry("t", RECORD.id, max_depth=1, max_bytes=1),
    "acquire_lease": lambda backend: backend.acquire_lease("t", "s", holder="h", ttl_ms=1000),
    "renew_lease": lambda backend: backend.renew_lease("t", Fence("s", 1), ttl_ms=1000),
    "release_lease": lambda backend: backend.release_lease("t", Fence("s", 1)),
    "describe_session": lambda backend: backend.describe_session("t", "s"),
    "begin_turn": lambda backend: backend.begin_turn("t", TurnRequest(previous_response_id=RECORD.id)),
    "begin_turn in a session": lambda backend: backend.begin_turn("t", turn_in("s")),
    "commit_turn": lambda backend: backend.commit_turn("t", Write(RECORD), None),
}


class LifecycleSuite:
    @pytest.fixture
    async def opened(self, backend: Backend) -> AsyncIterator[Backend]:
        await backend.open()
        yield backend
        await backend.close()

    async def test_an_open_backend_is_ready(self, opened: Backend) -> None:
        await opened.ready()
        assert opened.durability in set(Durability)

    @pytest.mark.parametrize("atom", ATOMS)
    async def test_before_it_is_opened_it_is_unavailable(self, backend: Backend, atom: str) -> None:
        with pytest.raises(StoreUnavailable):
            await ATOMS[atom](backend)

    @pytest.mark.parametrize("atom", ATOMS)
    async def test_after_it_was_closed_it_is_unavailable(self, opened: Backend, atom: str) -> None:
        await opened.close()
        with pytest.raises(StoreUnavailable):
            await ATOMS[atom](opened)

    async def test_closing_twice_does_nothing(self, opened: Backend) -> None:
        await opened.close()
        await opened.close()

    async def test_closing_what_was_never_opened_does_nothing(self, backend: Backend) -> None:
        await backend.close()

    async def test_what_was_asked_before_closing_is_answered(self, opened: Backend) -> None:
        records = [draft() for _ in range(20)]
        writing = [asyncio.create_task(opened.put("t", Write(record))) for record in records]
        await asyncio.sleep(0)
        await opened.close()
        assert [stamp.version for stamp in await asyncio.gather(*writing)] == [1] * 20


class PersistenceSuite:
    """For backends whose data outlives them. The fixture is `reopen`: a new backend over the same data, opened."""

    async def test_records_and_sessions_survive(self, reopen: Callable[[], Awaitable[Backend]]) -> None:
        backend = await reopen()
        root = draft(session_id="s")
        lease = await backend.acquire_lease("t", "s", holder="h", ttl_ms=30_000)
        await backend.commit_turn("t", Write(root), lease.fence)
        child = draft(root)
        await backend.put("t", Write(child))
        running = await backend.acquire_lease("t", "s", holder="h", ttl_ms=30_000)
        await backend.close()

        backend = await reopen()
        assert [each.id for each in await backend.ancestry("t", child.id, max_depth=9, max_bytes=9999)] == [
            root.id,
            child.id,
        ]
        session = await backend.describe_session("t", "s")
        assert (session.head_id, session.last_fence, session.lease) == (root.id, 2, running)
        assert await backend.release_lease("t", running.fence)
        await backend.close()

        backend = await reopen()
        assert (await backend.acquire_lease("t", "s", holder="h", ttl_ms=30_000)).fence.token == 3
        await backend.close()
