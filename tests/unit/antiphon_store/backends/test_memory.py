"""What only the memory backend can show: that nothing dead stays. Its behaviour: tests/contract/store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.ports.store import NO_PRECONDITION, Record
from antiphon_store.backends.base import Durability, Write
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.testing.subject import draft


@pytest.fixture
async def backend(clock: ManualClock) -> AsyncIterator[MemoryBackend]:
    backend = MemoryBackend(clock)
    await backend.open()
    yield backend
    await backend.close()


async def put_line(backend: MemoryBackend, length: int, parent: Record | None = None) -> list[Record]:
    line: list[Record] = []
    for _ in range(length):
        parent = draft(parent)
        await backend.put("t", Write(parent))
        line.append(parent)
    return line


async def test_it_says_that_it_forgets(backend: MemoryBackend) -> None:
    assert backend.durability is Durability.MEMORY


async def test_deleting_a_line_from_its_root_leaves_nothing(backend: MemoryBackend) -> None:
    line = await put_line(backend, 5)
    fork = await put_line(backend, 2, parent=line[2])
    for record in (*line, *fork):
        assert backend._nodes
        await backend.remove("t", record.id, NO_PRECONDITION)
    assert not backend._nodes


async def test_a_dead_branch_goes_without_its_trunk(backend: MemoryBackend) -> None:
    line = await put_line(backend, 3)
    fork = await put_line(backend, 2, parent=line[0])
    for record in fork:
        await backend.remove("t", record.id, NO_PRECONDITION)
    assert {key[1] for key in backend._nodes} == {record.id for record in line}
    assert len(backend._nodes["t", line[0].id].children) == 1


async def test_a_deleted_head_goes_when_the_session_moves_on(backend: MemoryBackend) -> None:
    record = draft()
    for _ in range(2):
        lease = await backend.acquire_lease("t", "s", holder="a", ttl_ms=1000)
        record = draft(session_id="s")
        await backend.commit_turn("t", Write(record), lease.fence)
        assert len(backend._nodes) == 1
        await backend.remove("t", record.id, NO_PRECONDITION)
        assert len(backend._nodes) == 1
    assert backend._heads == {("t", record.id): 1}
