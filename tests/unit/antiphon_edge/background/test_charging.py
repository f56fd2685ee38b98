from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.ports.quotas import Draw, QuotaRequest
from antiphon_edge.background.charging import StoreCharges
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService

TOKENS = Draw("tokens", 0, 0, 60, 60)


async def level(store: StoreService) -> float:
    (found,) = (await store.take_quota("acme", QuotaRequest([TOKENS]))).levels
    return found.level


async def test_tokens_are_charged_to_the_bucket_once_an_edge_has_created_it() -> None:
    backend = row_backend("memory://", clock=ManualClock())
    await backend.open()
    store = StoreService(backend)
    charges = StoreCharges(store)
    charges.charge("acme", 100)  # no edge has described the bucket
    await charges.settle()
    assert await level(store) == 60
    for tokens in (100, 0, 7):
        charges.charge("acme", tokens)
    await charges.settle()
    assert await level(store) == 60 - 107


async def test_charge_with_an_unavailable_store_is_logged_and_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    charges = StoreCharges(StoreService(row_backend("memory://")))
    charges.charge("acme", 5)
    await charges.settle()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["5 tokens of acme were not counted"]
