"""64 concurrent children of each of many parents, through two replicas: each is stored once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.ports.store import Record
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from tests.faults.store.conftest import BACKENDS
from tests.support.volume import volume

PARENTS, CHILDREN = volume(8, 200), 64
AT_ONCE = 128


@pytest.fixture(params=BACKENDS)
async def stores(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path, long_timeouts: None
) -> AsyncIterator[list[StoreService]]:
    """Two replicas over one database; memory can have only one."""
    backends = [BACKENDS[request.param](clock, tmp_path) for _ in range(1 if request.param == "memory" else 2)]
    for backend in backends:
        await backend.open()
    yield [StoreService(backend) for backend in backends]
    for backend in backends:
        await backend.close()


async def test_concurrent_children_are_all_kept_once(stores: list[StoreService], tenant: str) -> None:
    parents = [draft() for _ in range(PARENTS)]
    await put_all(stores, tenant, parents)
    children = {parent.id: [draft(parent) for _ in range(CHILDREN)] for parent in parents}
    crowd = [child for each in children.values() for child in each]
    random.Random(7).shuffle(crowd)
    await put_all(stores, tenant, crowd)
    for parent_id, expected in children.items():
        ids = {child.id for child in expected}
        page = await stores[0].children(tenant, parent_id)
        assert Counter(node.id for node in page.nodes) == Counter(ids)
        assert page.next_cursor is None
        tree = await stores[-1].tree(tenant, parent_id)
        assert Counter(node.id for node in tree.nodes) == Counter({parent_id} | ids)
        assert {(node.parent_id, node.depth) for node in tree.nodes if node.id != parent_id} == {(parent_id, 1)}


async def put_all(stores: list[StoreService], tenant: str, records: list[Record]) -> None:
    """Puts records concurrently, alternating between the replicas."""
    waiting = iter(enumerate(records))

    async def put() -> None:
        for number, record in waiting:
            assert (await stores[number % len(stores)].put(tenant, record)).version == 1

    await asyncio.gather(*(put() for _ in range(AT_ONCE)))
