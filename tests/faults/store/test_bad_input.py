"""Malformed messages of a foreign client, as bytes: each is rejected with a status that names the field, and none
causes an internal error.

The store is in memory, because backends see none of these messages. The kit (`testing/arguments.py` and others) checks
the messages that our own client can send.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.descriptor import FieldDescriptor
from grpc import StatusCode

from antiphon_core import limits
from antiphon_core.clock import ManualClock
from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_core.ids import RandomIds, new_conversation_id
from antiphon_core.jsons import dumps
from antiphon_core.rpc.call_metadata import TENANT_KEY
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import RpcServer
from antiphon_core.rpc.status import from_grpc_error
from antiphon_store.backends.registry import row_backend
from antiphon_store.server import handlers
from antiphon_store.service import StoreService
from antiphon_store.testing.event_logs import frame
from antiphon_store.testing.subject import draft, new_session_id
from tests.support.grpc_statuses import lean_error
from tests.support.wire_types import tagged, varint, wrong_wire_types

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 2**20
SESSION = new_session_id()
STORED = draft(tag=SESSION, session_id=SESSION)  # the store has these records when a test begins
CHILD = draft(STORED)
NEW = draft()
CONVERSATION = new_conversation_id(RandomIds())
FENCE = {"session_id": SESSION, "token": 1}
JOB_FENCE = {"session_id": NEW.id, "token": 1}
RECORD = {"id": NEW.id, "status": 3, "body": NEW.body, "input_items": NEW.input_items, "output_items": NEW.output_items}

# One valid request of every RPC: the fields that have an example, unless the request is written out below.
EXAMPLES: dict[str, Any] = {"id": STORED.id, "session_id": SESSION, "holder": "h", "fence": FENCE}
GOOD: dict[str, dict[str, Any]] = {
    name: {field: EXAMPLES[field] for field in method.request.strict.DESCRIPTOR.fields_by_name if field in EXAMPLES}
    for name, method in STORE.methods.items()
} | {
    "PutResponseRecord": {"record": RECORD},
    "BatchGetResponseRecords": {"ids": [STORED.id]},
    "UpdateResponseRecordStatus": {"id": STORED.id, "status": 4},
    "DeleteResponseRecord": {"id": CHILD.id},
    "ListInputItems": {"response_id": STORED.id},
    "ResolveItems": {"item_ids": ["item"]},
    "Fork": {"up_to_response_id": STORED.id},
    "ListSiblings": {"id": CHILD.id},
    "BeginTurn": {"previous_response_id": STORED.id},
    "CommitTurn": {"record": RECORD},
    "CreateConversation": {"id": CONVERSATION},
    "GetConversation": {"id": CONVERSATION},
    "UpdateConversation": {"id": CONVERSATION, "metadata": b"{}"},
    "DeleteConversation": {"id": CONVERSATION},
    "AddConversationItems": {"conversation_id": CONVERSATION, "items": b'[{"type":"message"}]'},
    "ListConversationItems": {"conversation_id": CONVERSATION},
    "GetConversationItem": {"conversation_id": CONVERSATION, "item_id": "item"},
    "DeleteConversationItem": {"conversation_id": CONVERSATION, "item_id": "item"},
    "AppendEvents": {"response_id": NEW.id, "count": 1, "frames": frame(0)},
    "AppendToLogs": {"appends": [{"response_id": NEW.id, "count": 1, "frames": frame(0)}]},
    "ReadEvents": {"response_id": NEW.id},
    "EnqueueJob": {"id": NEW.id, "queue": "q", "payload": b"p"},
    "ClaimJob": {"queues": ["q"], "holder": "h"},
    "HeartbeatJob": {"fence": JOB_FENCE},
    "SettleJob": {"fence": JOB_FENCE, "outcome": 1},
    "TakeQuota": {
        "draws": [{"name": "requests", "amount": 1, "at_least": 1, "capacity": 20, "per_minute": 20}],
        "hold": {"ids": ["a"], "most": 1, "ttl_ms": 1000},
        "release_ids": ["b"],
    },
}


@dataclass(frozen=True, slots=True)
class Wire:
    """A channel that sends bytes as they are."""

    channel: grpc.aio.Channel
    tenant: str

    async def send(self, rpc: str, data: bytes) -> bytes:
        """Returns the first answer. Raises the AntiphonError of the server, or of the transport's status."""
        method, metadata = STORE.methods[rpc], [(TENANT_KEY, self.tenant)]
        try:
            if method.is_streaming:
                stream: Any = self.channel.unary_stream(method.path)
                return bytes(await stream(data, metadata=metadata).read() or b"")
            call: Any = self.channel.unary_unary(method.path)
            return bytes(await call(data, metadata=metadata, timeout=30))
        except grpc.aio.AioRpcError as error:
            told = from_grpc_error(lean_error(error), StoreUnavailable)
            told.facts["status"] = error.code().name
            raise told from error

    async def outcome(self, rpc: str, data: bytes) -> tuple[str, str | None]:
        """The status and the named field."""
        try:
            await self.send(rpc, data)
        except AntiphonError as error:
            return error.facts["status"], error.field
        return "OK", None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[tuple[StoreService, grpc.aio.Channel]]:
    """A store behind its server, and a channel to it, shared by all tests. Each test has its own tenant."""
    async with AsyncExitStack() as stack:
        backend, server = row_backend("memory://", clock=ManualClock()), RpcServer()
        await backend.open()
        store = StoreService(backend)
        server.add(STORE, handlers(store), ready=store.ready)
        port = await server.start("127.0.0.1", 0)
        stack.push_async_callback(server.drain, 0)
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options)
        yield store, await stack.enter_async_context(channel)


@pytest_asyncio.fixture(loop_scope="module")
async def wire(served: tuple[StoreService, grpc.aio.Channel], tenant: str) -> Wire:
    store, channel = served
    for record in (STORED, CHILD):
        await store.put(tenant, record)
    return Wire(channel, tenant)


def message(rpc: str, changes: Mapping[str, Any] | None = None) -> Any:
    """The valid request of an RPC, changed at dotted paths. Protobuf's own class accepts values that ours rejects."""
    made = STORE.methods[rpc].request.strict(**GOOD[rpc])
    for path, value in (changes or {}).items():
        *parents, name = path.split(".")
        holder = made
        for parent in parents:
            holder = getattr(holder, parent)
        if isinstance(value, list):
            del getattr(holder, name)[:]
            getattr(holder, name).extend(value)
        else:
            setattr(holder, name, value)
    return made


def encoded(rpc: str, changes: Mapping[str, Any] | None = None) -> bytes:
    return bytes(message(rpc, changes).SerializeToString())


def with_varint(rpc: str, name: str, value: int) -> bytes:
    """The valid request, followed by a number that the field's type cannot hold. -1 has the encoding of a C client."""
    number = message(rpc).DESCRIPTOR.fields_by_name[name].number
    return encoded(rpc) + varint(number << 3) + varint(value % 2**64)


def fields(descriptor: Any, prefix: str = "") -> Iterator[tuple[str, FieldDescriptor]]:
    """All fields of a message and of its submessages, by dotted path."""
    for field in descriptor.fields:
        if field.message_type is None:
            yield prefix + field.name, field
        elif not field.is_repeated:
            yield from fields(field.message_type, f"{prefix}{field.name}.")


async def test_every_rpc_has_a_good_request() -> None:
    assert set(GOOD) == set(STORE.methods)


# ---- Bytes that are no valid message ----


@pytest.mark.parametrize("rpc", [rpc for rpc in GOOD if GOOD[rpc]])
async def test_a_broken_protobuf_message_is_rejected(wire: Wire, rpc: str) -> None:
    good = encoded(rpc)
    for data in (good[:-1], b"\xff" * 8, b"\x0a", good + b"\x07", b"\x0b" * 200):
        assert (await wire.outcome(rpc, data))[0] == "INVALID_ARGUMENT", data


@pytest.mark.parametrize("rpc", GOOD)
async def test_text_that_is_no_unicode_is_refused(wire: Wire, rpc: str) -> None:
    """Tries every string field of every request."""
    for path, field in fields(message(rpc).DESCRIPTOR):
        if field.type == FieldDescriptor.TYPE_STRING:
            marked = encoded(rpc, {path: ["@@"] if field.is_repeated else "@@"})
            assert marked.count(b"@@") == 1
            status, _field = await wire.outcome(rpc, marked.replace(b"@@", b"\xff\xfe"))
            assert status == "INVALID_ARGUMENT", path


@pytest.mark.parametrize("rpc", [rpc for rpc in GOOD if GOOD[rpc]])
async def test_a_field_of_the_wrong_wire_type_is_refused_by_its_name(wire: Wire, rpc: str) -> None:
    """Appends one wrong field at a time to a valid request."""
    for field in message(rpc).DESCRIPTOR.fields:
        for wire_type in wrong_wire_types(field):
            data = encoded(rpc) + tagged(field.number, wire_type)
            assert await wire.outcome(rpc, data) == ("INVALID_ARGUMENT", field.name), data


# ---- Invalid values ----

ODD = {
    FieldDescriptor.CPPTYPE_INT32: (-1, 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-1, -(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (1, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (1, 2**63, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-1, 99),
    FieldDescriptor.CPPTYPE_BOOL: (True,),
}
ODD_TEXTS = ("", " ", "x" * 100_000, "\0", "../..", "😀", "%s", "' OR 1=1 --")
OURS = {"INTERNAL", "UNKNOWN", "DATA_LOSS", "UNAVAILABLE", "DEADLINE_EXCEEDED"}


def odd_values(field: FieldDescriptor) -> Iterator[Any]:
    if field.type == FieldDescriptor.TYPE_BYTES:
        values: tuple[Any, ...] = (*map(str.encode, ODD_TEXTS), b"\xff\xfe", b"[" * 500, b"[[],{},1]")
    elif field.type == FieldDescriptor.TYPE_STRING:
        values = ODD_TEXTS
    else:
        values = ODD[field.cpp_type]
    for value in values:
        yield [value] * 2 if field.is_repeated else value


@pytest.mark.parametrize("rpc", GOOD)
async def test_an_odd_value_in_any_field_is_never_an_internal_error(wire: Wire, rpc: str) -> None:
    """Puts one odd value at a time into a valid request: it is served, or rejected as the client's mistake."""
    for path, field in fields(message(rpc).DESCRIPTOR):
        if path in {"wait_ms", "follow"}:  # the maximum is legal, and waits
            continue
        for value in odd_values(field):
            status, named = await wire.outcome(rpc, encoded(rpc, {path: value}))
            assert status not in OURS, (path, value)
            assert status != "INVALID_ARGUMENT" or named, (path, value)


def wrong(rpc: str, path: str, value: Any) -> tuple[str, str, bytes]:
    """The valid request with a wrong value in one field."""
    return rpc, path, encoded(rpc, {path: value})


def out_of_range(rpc: str, name: str, value: int) -> tuple[str, str, bytes]:
    return rpc, name, with_varint(rpc, name, value)


CULPRITS: list[tuple[str, str, bytes]] = [
    *(out_of_range(rpc, "page_size", value)
      for rpc in ("ListResponseRecords", "ListInputItems", "ListChildren", "ListSiblings", "ListLeaves", "ListTree",
                  "ListConversationItems")
      for value in (-1, -(2**31), 2**32 - 1)),
    out_of_range("Sweep", "limit", -1),
    out_of_range("GetChain", "max_depth", -1),
    out_of_range("GetChain", "max_bytes", -1),
    out_of_range("BeginTurn", "max_depth", -1),
    out_of_range("BeginTurn", "max_bytes", -1),
    out_of_range("AppendEvents", "count", -1),
    out_of_range("AppendEvents", "expected_position", -1),
    wrong("AppendToLogs", "appends", []),
    out_of_range("ReadEvents", "after", -1),
    out_of_range("EnqueueJob", "max_attempts", -1),
    out_of_range("UpdateConversation", "expected_version", -1),
    wrong("PutResponseRecord", "ttl_ms", -1),
    wrong("CommitTurn", "ttl_ms", -(2**63)),
    wrong("CreateConversation", "ttl_ms", -1),
    wrong("AcquireSession", "ttl_ms", -1),
    wrong("AcquireSession", "wait_ms", -1),
    wrong("RenewSession", "ttl_ms", -1),
    wrong("ClaimJob", "wait_ms", -1),
    wrong("ClaimJob", "lease_ttl_ms", -1),
    wrong("HeartbeatJob", "lease_ttl_ms", -1),
    wrong("EnqueueJob", "run_after_ms", -1),
    wrong("EnqueueJob", "lease_ttl_ms", -1),
    wrong("CommitTurn", "ends_job", True),
    wrong("PutResponseRecord", "precondition.version", 2**63),
    ("CommitTurn", "precondition.fence.token", encoded("CommitTurn", {"precondition.fence.session_id": SESSION})),
    # unknown values of enums
    wrong("PutResponseRecord", "record.status", 99),
    wrong("PutResponseRecord", "record.status", 0),
    wrong("CommitTurn", "record.status", -1),
    wrong("PutResponseRecord", "precondition.statuses", [3, 99]),
    wrong("DeleteResponseRecord", "precondition.unless_statuses", [0]),
    wrong("UpdateResponseRecordStatus", "status", 99),
    wrong("ListResponseRecords", "order", 99),
    wrong("ListInputItems", "order", -1),
    wrong("ListConversationItems", "order", 3),
    wrong("SettleJob", "outcome", 99),
    wrong("SettleJob", "outcome", 0),
    # text in JSON that is no Unicode
    wrong("PutResponseRecord", "record.body", b'{"a":"\xff"}'),
    wrong("PutResponseRecord", "record.input_items", b'[{"id":"\xc3"}]'),
    wrong("UpdateConversation", "metadata", b'{"a":"\xff"}'),
    wrong("AddConversationItems", "items", b'[{"a":"\xff"}]'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rpc", "field", "data"), CULPRITS, ids=[f"{n}-{rpc}.{field}" for n, (rpc, field, _) in enumerate(CULPRITS)]
)
async def test_a_wrong_value_is_rejected_with_its_field(wire: Wire, rpc: str, field: str, data: bytes) -> None:
    assert await wire.outcome(rpc, data) == ("INVALID_ARGUMENT", field)


# ---- Bodies ----


def body_of(size_bytes: int) -> bytes:
    return b'{"t":"' + b"x" * (size_bytes - 8) + b'"}'


async def test_a_body_of_11_mb_is_served(wire: Wire) -> None:
    """A response with its items may be larger than a request: the limit of records exceeds the limit of HTTP bodies."""
    body = body_of(11 * MIB)
    await wire.send("PutResponseRecord", encoded("PutResponseRecord", {"record.body": body}))
    data = await wire.send("GetResponseRecord", encoded("GetResponseRecord", {"id": NEW.id}))
    answer = STORE.methods["GetResponseRecord"].response.strict.FromString(data)
    assert answer.record.body == body


@pytest.mark.parametrize(
    ("rpc", "field", "changes"),
    [
        ("PutResponseRecord", "record", {"record.body": body_of(limits.RECORD_BYTES_MAX)}),
        ("CommitTurn", "record", {"record.body": body_of(limits.RECORD_BYTES_MAX)}),
        ("AddConversationItems", "items", {"items": dumps([{"text": "x" * limits.RECORD_BYTES_MAX}])}),
        ("AppendEvents", "frames", {"frames": b"x" * (limits.APPEND_BYTES_MAX + 1)}),
        ("EnqueueJob", "payload", {"payload": b"x" * (limits.JOB_PAYLOAD_BYTES_MAX + 1)}),
    ],
)
async def test_a_field_over_its_size_limit_is_named(wire: Wire, rpc: str, field: str, changes: dict[str, Any]) -> None:
    if rpc == "AddConversationItems":
        await wire.send("CreateConversation", encoded("CreateConversation"))
    assert await wire.outcome(rpc, encoded(rpc, changes)) == ("RESOURCE_EXHAUSTED", field)


async def test_a_message_over_the_rpc_limit_is_rejected_by_the_transport(wire: Wire) -> None:
    data = encoded("PutResponseRecord", {"record.body": b"x" * limits.RPC_MESSAGE_BYTES_MAX})
    assert await wire.outcome("PutResponseRecord", data) == (StatusCode.RESOURCE_EXHAUSTED.name, None)


# ---- Cycles and foreign cursors ----


@pytest.mark.parametrize(
    ("rpc", "record"), [(rpc, record) for rpc in ("PutResponseRecord", "CommitTurn") for record in (STORED, CHILD)]
)
async def test_a_response_cannot_continue_itself_or_its_descendant(wire: Wire, rpc: str, record: Any) -> None:
    """Tries a replaced response, and a deleted one that stays because of its child."""
    cycle = {"record.id": STORED.id, "record.parent_id": record.id}
    replaced = {**cycle, "precondition.version": 1}
    assert await wire.outcome(rpc, encoded(rpc, replaced)) == ("INVALID_ARGUMENT", "record.parent_id")
    await wire.send("DeleteResponseRecord", encoded("DeleteResponseRecord", {"id": STORED.id}))
    status, field = await wire.outcome(rpc, encoded(rpc, cycle))
    assert (status, field) in {("INVALID_ARGUMENT", "record.parent_id"), ("ALREADY_EXISTS", None)}
    chain = await wire.send("GetChain", encoded("GetChain", {"id": CHILD.id}))
    assert len(STORE.methods["GetChain"].response.strict.FromString(chain).records) == 2


async def test_a_cursor_of_another_request_is_rejected(wire: Wire) -> None:
    other = draft(STORED)
    changes = {"record.id": other.id, "record.parent_id": STORED.id}
    await wire.send("PutResponseRecord", encoded("PutResponseRecord", changes))
    page = STORE.methods["ListChildren"].response.strict.FromString(
        await wire.send("ListChildren", encoded("ListChildren", {"page_size": 1}))
    )
    assert page.next_page_token
    cursor = {"page_token": page.next_page_token}
    await wire.send("ListChildren", encoded("ListChildren", cursor))
    token = page.next_page_token
    for rpc, foreign in [
        ("ListChildren", {"id": CHILD.id}), ("ListLeaves", {}), ("ListSiblings", {}), ("ListTree", {}),
        ("ListResponseRecords", {}), ("ListChildren", {"page_token": token[:-2]}),
        ("ListChildren", {"page_token": token.swapcase()}),
    ]:  # fmt: skip
        assert await wire.outcome(rpc, encoded(rpc, {**cursor, **foreign})) == ("INVALID_ARGUMENT", "page_token"), rpc
