"""Lineage's RPCs at their edges. That they do what the service does: tests/contract/store/test_suites.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InvalidRequest
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import Call
from antiphon_protos.antiphon.store import v1
from antiphon_store.backends.registry import open_backend
from antiphon_store.lineage.server import handlers
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft, new_session_id

SESSION = new_session_id()

CALL = Call(tenant="t", request_id="", time_remaining_s=None)


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


async def test_zero_means_the_default(service: StoreService) -> None:
    record = draft(tag=SESSION, session_id=SESSION)
    await service.put("t", record)
    assert len((await call(service, "Tree", v1.TreeRequest(id=record.id))).nodes) == 1
    assert len((await call(service, "List", v1.ListRequest(session_id=SESSION))).records) == 1
    for name in ("Children", "Siblings", "Leaves"):
        request = getattr(v1, f"{name}Request")(id=record.id)
        assert (await call(service, name, request)).nodes == []


async def test_without_a_name_the_store_chooses_one(service: StoreService) -> None:
    record = draft()
    await service.put("t", record)
    made = await call(service, "Fork", v1.ForkRequest(up_to_response_id=record.id))
    assert made.session_id.startswith("conv_")
    assert made.head_response_id == record.id


CULPRITS: list[tuple[str, str, object]] = [
    ("UpdateStatus", "status", v1.UpdateStatusRequest(id=draft().id)),
    ("UpdateStatus", "status", v1.UpdateStatusRequest(id=draft().id, status=v1.ResponseStatus(77))),
    ("List", "order", v1.ListRequest(session_id="s", order=v1.Order(9))),
    ("List", "limit", v1.ListRequest(session_id="s", limit=4_000_000_000)),
    ("Tree", "max_nodes", v1.TreeRequest(id=draft().id, max_nodes=4_000_000_000)),
    ("Fork", "session_id", v1.ForkRequest()),
]


@pytest.mark.parametrize(("rpc", "field", "request_"), CULPRITS)
async def test_what_a_foreign_client_gets_wrong_is_named(
    service: StoreService, rpc: str, field: str, request_: object
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await call(service, rpc, request_)
    assert caught.value.field == field
