"""Sealed rows on each database: a second store over the same data reads everything of a tenant unchanged."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from antiphon_core.clock import SystemClock
from antiphon_core.sealing_keys import SealingKeys
from antiphon_store.encryption.configured_rows import seal_rows
from antiphon_store.rows.model import Applied, Get, Kind, Partition, Payload, Program, Ref
from antiphon_store.service import StoreService
from tests.contract.store.row_backends import OPENED_ONCE, ROW_BACKENDS
from tests.support.stored_tenant import StoredTenant
from tests.support.stores import tree_of


@pytest.mark.parametrize("name", sorted(ROW_BACKENDS))
async def test_a_sealed_store_returns_content_and_stores_it_encrypted(name: str, tmp_path: Path) -> None:
    keys, stored = SealingKeys.ephemeral(), StoredTenant(f"sealed-{secrets.token_hex(4)}")
    inner = ROW_BACKENDS[name](SystemClock(), tmp_path)
    peer = inner if name in OPENED_ONCE else ROW_BACKENDS[name](SystemClock(), tmp_path)
    stores = [StoreService(seal_rows(rows, keys)) for rows in (inner, peer)]
    for store in stores:
        await store.open()
    await stored.fill(stores[0])
    assert await stored.answers(stores[0]) == await stored.answers(stores[1])
    for record in stored.line:
        assert (await stores[1].get(stored.tenant, record.id)).body == record.body
        place = Partition(stored.tenant, tree_of(record.id))
        found = await inner.transact(place, Program(reads=[Get(Ref(Kind.NODE, record.id), Payload.ALL)]))
        assert isinstance(found, Applied)
        assert record.body not in found.answers[0].body
        assert record.output_items[1:-1] not in found.answers[0].items
    for store in stores:
        await store.close()
