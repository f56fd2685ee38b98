"""The server's table, and requests of foreign clients. tests/contract/store/test_suites.py tests the RPCs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import AntiphonError, InvalidRequest, SessionLocked
from antiphon_core.ports.event_logs import EventBatch
from antiphon_core.ports.store import Record
from antiphon_core.rpc.codec import encode
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import Call
from antiphon_store.backends.registry import row_backend
from antiphon_store.calls import OPERATIONS
from antiphon_store.server import handlers
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft, new_session_id

CALL = Call(tenant="t", time_remaining_s=None)
FENCE = {"session_id": "s", "token": 1}
ID = draft().id


@pytest.fixture
async def service(clock: ManualClock) -> AsyncIterator[StoreService]:
    backend = row_backend("memory://", clock=clock)
    await backend.open()
    yield StoreService(backend)
    await backend.close()


async def call(service: StoreService, rpc: str, call: Call = CALL, **fields: Any) -> Any:
    """The answer of a handler to a request with these fields."""
    method = STORE.methods[rpc]
    answer: Any = await handlers(service)[rpc](method.request.message(**fields), call)  # type: ignore[misc]
    return method.response.strict.FromString(encode(method.response, answer))


def stored(record: Record) -> dict[str, Any]:
    """The record as a foreign client sends it."""
    request = OPERATIONS["PutResponseRecord"].request(OPERATIONS["PutResponseRecord"].bind(("t", record), {}))
    return {"record": request.record}


async def test_every_rpc_has_a_handler(service: StoreService) -> None:
    assert set(handlers(service)) == set(STORE.methods)


CULPRITS: list[tuple[str, str, dict[str, Any]]] = [
    ("PutResponseRecord", "record", {}),
    ("PutResponseRecord", "record.status", {"record": {"id": ID}}),
    ("PutResponseRecord", "ttl_ms", {**stored(draft()), "ttl_ms": -1}),
    ("CommitTurn", "record", {}),
    ("RenewSession", "fence", {}),
    ("ReleaseSession", "fence", {}),
    ("ListInputItems", "order", {"response_id": ID, "order": 9}),
    ("ListInputItems", "page_size", {"response_id": ID, "page_size": 4_000_000_000}),
    ("GetChain", "max_bytes", {"id": ID, "max_bytes": 2**63}),
    ("AcquireSession", "wait_ms", {"session_id": "s", "holder": "h", "wait_ms": -1}),
    ("UpdateResponseRecordStatus", "status", {"id": ID}),
    ("UpdateResponseRecordStatus", "status", {"id": ID, "status": 77}),
    ("ListResponseRecords", "order", {"session_id": "s", "order": 9}),
    ("ListResponseRecords", "page_size", {"session_id": "s", "page_size": 4_000_000_000}),
    ("ListTree", "page_size", {"id": ID, "page_size": 4_000_000_000}),
    ("ListTree", "page_token", {"id": ID, "page_token": "garbled"}),
    ("Fork", "session_id", {}),
    ("SettleJob", "outcome", {"fence": {"session_id": ID, "token": 1}}),
    ("HeartbeatJob", "fence", {}),
    ("HeartbeatJob", "fence.session_id", {"fence": FENCE}),
    ("AppendToLogs", "appends", {}),
]


@pytest.mark.parametrize(("rpc", "field", "fields"), CULPRITS)
async def test_an_invalid_request_is_rejected_with_its_field(
    service: StoreService, rpc: str, field: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await call(service, rpc, **fields)
    assert caught.value.field == field


async def test_a_request_with_omitted_fields_uses_defaults(service: StoreService, clock: ManualClock) -> None:
    session_id = new_session_id()
    record = draft(tag=session_id, session_id=session_id)
    await call(service, "PutResponseRecord", **stored(record))
    assert (await call(service, "ListInputItems", response_id=record.id)).first_id
    assert len((await call(service, "GetChain", id=record.id)).records) == 1
    assert len((await call(service, "ListTree", id=record.id)).nodes) == 1
    assert len((await call(service, "ListResponseRecords", session_id=session_id)).records) == 1
    for rpc in ("ListChildren", "ListSiblings", "ListLeaves"):
        assert not (await call(service, rpc, id=record.id)).nodes
    await call(service, "AbortTurn")


@pytest.mark.parametrize("rpc", ["AcquireSession", "TryAcquireSession"])
async def test_a_lease_without_a_time_is_held_for_the_default(
    service: StoreService, clock: ManualClock, rpc: str
) -> None:
    answer = await call(service, rpc, session_id="s", holder="h")
    assert answer.lease.expires_at_ms == clock.now_ms() + 30_000
    clock.advance(10)
    answer = await call(service, "RenewSession", fence=FENCE)
    assert answer.lease.expires_at_ms == clock.now_ms() + 30_000


async def test_try_acquire_does_not_wait_for_a_lease(service: StoreService) -> None:
    await call(service, "TryAcquireSession", session_id="s", holder="h")
    with pytest.raises(SessionLocked):
        await call(service, "TryAcquireSession", session_id="s", holder="other")


async def test_a_fork_without_a_session_id_gets_one(service: StoreService) -> None:
    record = draft()
    await service.put("t", record)
    made = await call(service, "Fork", up_to_response_id=record.id)
    assert made.session_id.startswith("conv_")
    assert made.head_response_id == record.id


async def test_a_record_of_another_tenant_is_not_found(service: StoreService) -> None:
    record = draft()
    await service.put("t", record)
    assert (await call(service, "GetResponseRecord", id=record.id)).record.id == record.id
    other = Call(tenant="other", time_remaining_s=None)
    with pytest.raises(AntiphonError, match="not found"):
        await call(service, "GetResponseRecord", other, id=record.id)


async def test_a_stream_is_closed_with_its_reader(service: StoreService) -> None:
    closed = False

    async def read(_tenant: str, **_arguments: Any) -> AsyncGenerator[EventBatch, None]:
        nonlocal closed
        try:
            while True:
                yield EventBatch(0, 1, b"x")
        finally:
            closed = True

    setattr(service, "read_events", read)  # noqa: B010 - mypy sees a method there
    answers: Any = handlers(service)["ReadEvents"](STORE.methods["ReadEvents"].request.message(), CALL)
    assert (await anext(answers)).frames == b"x"
    await answers.aclose()
    assert closed
