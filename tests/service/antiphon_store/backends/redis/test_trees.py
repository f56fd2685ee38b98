"""Trees as Redis answers them. What they do: the suites of lineage, in tests/contract/store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import LimitExceeded, ResponseNotFound, StatusMismatch
from antiphon_core.ports.store import NO_PRECONDITION, Precondition, Record, Status
from antiphon_store.backends.base import Write
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.backends.roles.lineage import Position
from antiphon_store.testing.subject import draft


@pytest.fixture
async def family(backend: RedisBackend, tenant: str, clock: ManualClock) -> list[Record]:
    """A root, three children of it, and a child of the first of them; born in this order."""
    root = draft()
    family = [root, draft(root), draft(root), draft(root)]
    family.append(draft(family[1]))
    for record in family:
        await backend.put(tenant, Write(record))
        clock.advance(0.001)
    return family


async def test_children_come_by_birth_and_in_pages(backend: RedisBackend, tenant: str, family: list[Record]) -> None:
    first = await backend.children(tenant, family[0].id, after=None, limit=2)
    assert [(node.id, node.child_count, node.depth) for node in first.values] == [
        (family[1].id, 1, 1),
        (family[2].id, 0, 1),
    ]
    assert first.has_more
    end = Position(1, first.values[1].created_at_ms, first.values[1].id)
    second = await backend.children(tenant, family[0].id, after=end, limit=2)
    assert ([node.id for node in second.values], second.has_more) == ([family[3].id], False)


async def test_siblings_are_the_other_children(backend: RedisBackend, tenant: str, family: list[Record]) -> None:
    await backend.remove(tenant, family[3].id, NO_PRECONDITION)
    beside = await backend.siblings(tenant, family[1].id, after=None, limit=9)
    assert [node.id for node in beside.values] == [family[2].id]
    assert not (await backend.siblings(tenant, family[0].id, after=None, limit=9)).values


async def test_a_subtree_holds_what_cannot_be_read(backend: RedisBackend, tenant: str, family: list[Record]) -> None:
    await backend.remove(tenant, family[1].id, NO_PRECONDITION)
    twigs = await backend.subtree(tenant, family[4].id, from_root=True, max_nodes=5)
    assert {twig.id: twig.is_readable for twig in twigs} == {each.id: each is not family[1] for each in family}
    assert len(await backend.subtree(tenant, family[2].id, from_root=False, max_nodes=5)) == 1
    with pytest.raises(LimitExceeded):
        await backend.subtree(tenant, family[0].id, from_root=False, max_nodes=4)
    with pytest.raises(ResponseNotFound):
        await backend.subtree(tenant, family[1].id, from_root=False, max_nodes=5)


async def test_a_status_changes_once(backend: RedisBackend, tenant: str, clock: ManualClock) -> None:
    record = replace(draft(), status=Status.IN_PROGRESS)
    await backend.put(tenant, Write(record))
    clock.advance(1)
    running = Precondition(statuses=frozenset({Status.IN_PROGRESS}))
    stamp = await backend.change_status(tenant, record.id, Status.COMPLETED, running)
    clock.advance(1)
    assert await backend.change_status(tenant, record.id, Status.COMPLETED, running) == stamp
    assert stamp.version == 2
    assert (await backend.fetch(tenant, record.id)).status is Status.COMPLETED
    with pytest.raises(StatusMismatch):
        await backend.change_status(tenant, record.id, Status.CANCELLED, running)
