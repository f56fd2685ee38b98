"""The limits that only a small one shows. What the operations do: tests/contract/store/test_suites.py."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import LimitExceeded
from antiphon_core.ids import SequentialIds
from antiphon_core.ports.lineage import ForkSource
from antiphon_store.opening import open_backend
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft


async def test_a_tree_over_the_limit_is_refused_and_its_parts_are_not(clock: ManualClock) -> None:
    backend = open_backend("memory://", clock=clock)
    await backend.open()
    store = StoreService(backend)
    line = [draft()]
    for _ in range(3):
        line.append(draft(line[-1]))
    for record in line:
        await store.put("t", record)
    backend.walk_nodes_max = 3
    for read in (store.tree, store.leaves):
        with pytest.raises(LimitExceeded) as caught:
            await read("t", line[0].id)
        assert caught.value.field == "id"
    assert len((await store.tree("t", line[1].id)).nodes) == 3
    assert len((await store.leaves("t", line[1].id)).nodes) == 1


async def test_the_store_chooses_ids_from_its_own_source(clock: ManualClock) -> None:
    backend = open_backend("memory://", clock=clock)
    await backend.open()
    store, record = StoreService(backend, ids=SequentialIds()), draft()
    await store.put("t", record)
    made = await store.fork("t", ForkSource(up_to_response_id=record.id))
    assert made.session_id == f"conv_{record.id[5:21]}{1:032x}"
