"""Bad arguments: the error names the field, in this process and over gRPC alike."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest, TooLarge
from antiphon_core.jsons import dumps
from antiphon_core.ports.store import Fence, Order, Precondition, ResponseStore, TurnCommit, TurnRequest
from antiphon_store.testing.subject import Subject, draft, turn_in

Attempt = Callable[[ResponseStore, str], Awaitable[object]]

GOOD = draft()
NO_JSON = b"{"


def put(**changes: object) -> Attempt:
    return lambda store, tenant: store.put(tenant, replace(GOOD, **changes))  # type: ignore[arg-type]


def put_with(**options: object) -> Attempt:
    return lambda store, tenant: store.put(tenant, GOOD, **options)  # type: ignore[arg-type]


def acquire(session_id: str = "s", **options: object) -> Attempt:
    arguments = {"holder": "h", **options}
    return lambda store, tenant: store.acquire_session(tenant, session_id, **arguments)  # type: ignore[arg-type]


def begin(request: TurnRequest) -> Attempt:
    return lambda store, tenant: store.begin_turn(tenant, request)


def commit(turn: TurnCommit) -> Attempt:
    return lambda store, tenant: store.commit_turn(tenant, turn)


def chain(**options: int) -> Attempt:
    return lambda store, tenant: store.chain(tenant, GOOD.id, **options)


def items(**options: object) -> Attempt:
    return lambda store, tenant: store.list_items(tenant, GOOD.id, **options)  # type: ignore[arg-type]


BAD_CALLS: list[tuple[str, Attempt]] = [
    ("tenant", lambda store, _tenant: store.get("", GOOD.id)),
    ("tenant", lambda store, _tenant: store.get("a tenant", GOOD.id)),
    ("tenant", lambda store, _tenant: store.describe_session("ü", "s")),
    ("id", lambda store, tenant: store.get(tenant, "resp_123")),
    ("id", lambda store, tenant: store.delete(tenant, "")),
    ("id", lambda store, tenant: store.chain(tenant, GOOD.id.upper())),
    ("response_id", lambda store, tenant: store.list_items(tenant, "\ud800")),
    ("record.id", put(id="resp_123")),
    ("record.parent_id", put(parent_id="")),
    ("record.parent_id", put(parent_id=GOOD.id)),
    ("record.parent_id", put(parent_id=draft().id)),
    ("record.session_id", put(session_id="")),
    ("record.session_id", put(session_id="a/b")),
    ("record.session_id", put(session_id="conv_" + draft().id.removeprefix("resp_"))),
    ("record.body", put(body=NO_JSON)),
    ("record.body", put(body=b"[]")),
    ("record.body", put(body=b'{"output":[]}')),
    ("record.body", put(body=b'{"text":"\xff"}')),
    ("record.body", put(body=b'{"a":' * 70 + b"1" + b"}" * 70)),
    ("record.input_items", put(input_items=b"")),
    ("record.input_items", put(input_items=b"{}")),
    ("record.input_items[1]", put(input_items=b'[{"id":"a"},7]')),
    ("record.output_items[0].id", put(output_items=b'[{"type":"message"}]')),
    ("record.output_items[0].id", put(output_items=b'[{"id":5}]')),
    ("record.output_items[0].id", put(output_items=b'[{"id":""}]')),
    ("record.input_items[0].id", put(input_items=dumps([{"id": "x" * (limits.ITEM_ID_BYTES_MAX + 1)}]))),
    ("ttl_ms", put_with(ttl_ms=0)),
    ("ttl_ms", put_with(ttl_ms=-1)),
    ("ttl_ms", put_with(ttl_ms=2**62)),
    ("precondition.version", put_with(precondition=Precondition(version=-1))),
    ("precondition.version", put_with(precondition=Precondition(version=2**63))),
    ("precondition.fence.token", put_with(precondition=Precondition(fence=Fence("s", 0)))),
    ("precondition.fence.session_id", put_with(precondition=Precondition(fence=Fence("", 1)))),
    ("limit", items(limit=0)),
    ("limit", items(limit=-1)),
    ("limit", items(limit=limits.PAGE_ITEMS_MAX + 1)),
    ("after", items(after="")),
    ("after", items(after="\ud800", order=Order.ASCENDING)),
    ("max_depth", chain(max_depth=0)),
    ("max_depth", chain(max_depth=-3)),
    ("max_depth", chain(max_depth=limits.CHAIN_DEPTH_MAX + 1)),
    ("max_bytes", chain(max_bytes=0)),
    ("max_bytes", chain(max_bytes=limits.CHAIN_BYTES_MAX + 1)),
    ("session_id", acquire("")),
    ("session_id", acquire("x" * 129)),
    ("holder", acquire(holder="")),
    ("holder", acquire(holder="ü" * 128)),
    ("holder", acquire(holder="\ud800")),
    ("ttl_ms", acquire(ttl_ms=limits.LEASE_TTL_MS_MIN - 1)),
    ("ttl_ms", acquire(ttl_ms=0)),
    ("ttl_ms", acquire(ttl_ms=limits.LEASE_TTL_MS_MAX + 1)),
    ("wait_ms", acquire(wait_ms=-1)),
    ("wait_ms", acquire(wait_ms=limits.LEASE_WAIT_MS_MAX + 1)),
    ("fence.token", lambda store, tenant: store.renew_session(tenant, Fence("s", 0))),
    ("fence.session_id", lambda store, tenant: store.release_session(tenant, Fence("a b", 1))),
    ("fence.token", lambda store, tenant: store.abort_turn(tenant, Fence("s", -1))),
    ("ttl_ms", lambda store, tenant: store.renew_session(tenant, Fence("s", 1), ttl_ms=1)),
    ("session_id", lambda store, tenant: store.describe_session(tenant, "")),
    ("previous_response_id", begin(TurnRequest(previous_response_id="resp_1"))),
    ("previous_response_id", begin(TurnRequest(previous_response_id=""))),
    ("session_id", begin(turn_in(""))),
    ("holder", begin(turn_in("s", holder=""))),
    ("lease_ttl_ms", begin(turn_in("s", lease_ttl_ms=0))),
    ("wait_ms", begin(turn_in("s", wait_ms=-5))),
    ("max_depth", begin(TurnRequest(max_depth=0))),
    ("max_bytes", begin(TurnRequest(max_bytes=-1))),
    ("record.id", commit(TurnCommit(replace(GOOD, id="x")))),
    ("ttl_ms", commit(TurnCommit(GOOD, ttl_ms=0))),
    ("record.body", commit(TurnCommit(replace(GOOD, body=NO_JSON)))),
    ("ends_job", commit(TurnCommit(GOOD, ends_job=True))),
    ("ends_job", commit(TurnCommit(GOOD, precondition=Precondition(fence=Fence("s", 1)), ends_job=True))),
    ("fence.session_id", commit(TurnCommit(GOOD, Fence("s", 1)))),
    ("fence.token", commit(TurnCommit(replace(GOOD, session_id="s"), Fence("s", 2**63)))),
]


class ArgumentSuite:
    @pytest.mark.parametrize(
        ("field", "attempt"), BAD_CALLS, ids=[f"{number}-{field}" for number, (field, _) in enumerate(BAD_CALLS)]
    )
    async def test_an_invalid_argument_is_rejected_with_its_field(
        self, subject: Subject, field: str, attempt: Attempt
    ) -> None:
        with pytest.raises(InvalidRequest) as caught:
            await attempt(subject.store, subject.tenant)
        assert caught.value.field == field
        assert type(caught.value) is InvalidRequest

    async def test_a_record_over_the_limit_is_too_large(self, subject: Subject) -> None:
        with pytest.raises(TooLarge) as caught:
            await subject.put(draft(text="x" * limits.RECORD_BYTES_MAX))
        assert caught.value.field == "record"

    async def test_a_rejected_record_is_not_stored(self, subject: Subject) -> None:
        record = draft()
        with pytest.raises(InvalidRequest):
            await subject.put(replace(record, output_items=NO_JSON))
        assert (await subject.put(record)).version == 1
