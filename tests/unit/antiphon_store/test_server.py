"""The server's table and its edges. That it does what the service does: tests/contract/store/test_suites.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import AntiphonError, InvalidRequest
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import Call
from antiphon_protos.antiphon.store import v1
from antiphon_store.backends.registry import open_backend
from antiphon_store.server import handlers
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from antiphon_store.wire import to_record

CALL = Call(tenant="t", request_id="", time_remaining_s=None)
LOCK = v1.Fence(session_id="s", token=1)


@pytest.fixture
async def service(clock: ManualClock) -> AsyncIterator[StoreService]:
    backend = open_backend("memory://", clock=clock)
    await backend.open()
    yield StoreService(backend)
    await backend.close()


async def call(service: StoreService, name: str, request: object) -> Any:
    answer: Any = handlers(service)[name](request, CALL)
    return await answer


async def test_every_handler_is_an_rpc(service: StoreService) -> None:
    assert set(handlers(service)) <= set(STORE.methods)


CULPRITS: list[tuple[str, str, object]] = [
    ("Put", "record", v1.PutRequest()),
    ("Put", "record.status", v1.PutRequest(record=v1.Record(id=draft().id))),
    ("Put", "ttl_ms", v1.PutRequest(record=to_record(draft()), ttl_ms=-1)),
    ("CommitTurn", "record", v1.CommitTurnRequest()),
    ("RenewSession", "fence", v1.RenewSessionRequest()),
    ("ReleaseSession", "fence", v1.ReleaseSessionRequest()),
    ("ListItems", "order", v1.ListItemsRequest(response_id=draft().id, order=v1.Order(9))),
    ("ListItems", "limit", v1.ListItemsRequest(response_id=draft().id, limit=4_000_000_000)),
    ("Chain", "max_bytes", v1.ChainRequest(id=draft().id, max_bytes=2**63)),
    ("AcquireSession", "wait_ms", v1.AcquireSessionRequest(session_id="s", holder="h", wait_ms=-1)),
]


@pytest.mark.parametrize(("rpc", "field", "request_"), CULPRITS)
async def test_what_a_foreign_client_gets_wrong_is_named(
    service: StoreService, rpc: str, field: str, request_: object
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await call(service, rpc, request_)
    assert caught.value.field == field


async def test_zero_means_the_default(service: StoreService, clock: ManualClock) -> None:
    record = draft()
    await call(service, "Put", v1.PutRequest(record=to_record(record)))
    page = await call(service, "ListItems", v1.ListItemsRequest(response_id=record.id))
    assert page.first_id
    chain = await call(service, "Chain", v1.ChainRequest(id=record.id))
    assert len(chain.records) == 1
    answer = await call(service, "AcquireSession", v1.AcquireSessionRequest(session_id="s", holder="h"))
    assert answer.lease.expires_at_ms == clock.now_ms() + 30_000
    clock.advance(10)
    answer = await call(service, "RenewSession", v1.RenewSessionRequest(fence=LOCK))
    assert answer.lease.expires_at_ms == clock.now_ms() + 30_000
    await call(service, "AbortTurn", v1.AbortTurnRequest())


async def test_the_tenant_is_that_of_the_call(service: StoreService) -> None:
    record = draft()
    await service.put("t", record)
    answer = await call(service, "Get", v1.GetRequest(id=record.id))
    assert answer.record.id == record.id
    other = Call(tenant="other", request_id="", time_remaining_s=None)
    hidden: Any = handlers(service)["Get"](v1.GetRequest(id=record.id), other)
    with pytest.raises(AntiphonError, match="not found"):
        await hidden
