from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_core.rpc import culprits
from antiphon_core.rpc.codec import decode
from antiphon_core.rpc.message_types import MessageType
from antiphon_core.rpc.methods import APIS, STORE
from antiphon_protos.antiphon.store import v1
from tests.support.cases import in_one_test
from tests.support.wire_types import LENGTH, WIRE_TYPES, tagged, wrong_wire_types

Put = v1.PutResponseRecordRequest
PUT = STORE.methods["PutResponseRecord"].request
MESSAGES = {
    kind.name: kind for api in APIS for method in api.methods.values() for kind in (method.request, method.response)
}


def broken(message: Put) -> bytes:
    """The message with bytes that are not UTF-8 in the place of each `??`."""
    return bytes(message).replace(b"??", b"\xff\xfe")


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (Put(idempotency_key="??"), "idempotency_key"),
        (
            Put(ttl_ms=300, record=v1.ResponseRecord(id="resp_", parent_id="a??b")),
            "record.parent_id",
        ),
        (
            Put(precondition=v1.Precondition(fence=v1.Fence(session_id="??"))),
            "precondition.fence.session_id",
        ),
    ],
)
def test_a_string_that_is_not_utf8_is_named(message: Put, path: str) -> None:
    with pytest.raises(InvalidRequest, match="not UTF-8") as caught:
        decode(PUT, broken(message))
    assert caught.value.field == path


def test_a_bytes_field_that_is_not_utf8_is_accepted() -> None:
    data = broken(Put(record=v1.ResponseRecord(id="r", body=b"??")))
    assert decode(PUT, data).record.body == b"\xff\xfe"
    assert culprits.not_utf8(PUT.strict.DESCRIPTOR, data) is None


@given(st.binary(max_size=60))
def test_searching_arbitrary_bytes_for_invalid_utf8_does_not_fail(data: bytes) -> None:
    found = culprits.not_utf8(PUT.strict.DESCRIPTOR, data)
    assert found is None or not data.isascii()


@in_one_test("kind", MESSAGES)
def test_every_field_of_a_wrong_wire_type_is_named(kind: MessageType) -> None:
    for path, data in mistyped_fields(kind.strict.DESCRIPTOR):
        with pytest.raises(InvalidRequest) as caught:
            decode(kind, data)
        assert (caught.value.field, caught.value.code) == (path, "invalid_type"), data


@in_one_test("kind", MESSAGES)
def test_a_field_that_no_declaration_knows_is_passed_over(kind: MessageType) -> None:
    for wire_type in WIRE_TYPES:
        assert culprits.find_mistyped(kind, kind.strict.FromString(tagged(1_000, wire_type))) is None


def mistyped_fields(descriptor: Descriptor) -> Iterator[tuple[str, bytes]]:
    """Every field with every wire type that is not its own, alone in a message: path and bytes."""
    for field in descriptor.fields:
        for wire_type in wrong_wire_types(field):
            yield field.name, tagged(field.number, wire_type)
        for path, data in mistyped_fields(field.message_type) if field.message_type is not None else ():
            yield f"{field.name}.{path}", tagged(field.number, LENGTH, data)
