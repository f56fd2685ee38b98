from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from antiphon_core.rpc import message_types
from antiphon_core.rpc.message_types import STRICT, MessageType, message_type
from antiphon_core.rpc.methods import APIS, STORE
from antiphon_protos.antiphon.store import v1
from antiphon_protos.antiphon.store.internal import v1 as internal

VALUES: dict[int, Any] = {
    FieldDescriptor.CPPTYPE_INT64: -(2**63),
    FieldDescriptor.CPPTYPE_UINT32: 2**32 - 1,
    FieldDescriptor.CPPTYPE_UINT64: 2**64 - 1,
    FieldDescriptor.CPPTYPE_DOUBLE: -0.25,
    FieldDescriptor.CPPTYPE_BOOL: True,
    FieldDescriptor.CPPTYPE_ENUM: 2,
    FieldDescriptor.CPPTYPE_INT32: -7,
    FieldDescriptor.CPPTYPE_STRING: "ä\0",
}
KINDS = {
    kind.strict.DESCRIPTOR.full_name: kind
    for api in APIS
    for method in api.methods.values()
    for kind in (method.request, method.response)
}
COLD = {name: kind for name, kind in KINDS.items() if not name.startswith(STRICT)}


def filled(descriptor: Any) -> dict[str, Any]:
    """A value for every field."""
    values = {}
    for field in descriptor.fields:
        if field.message_type is not None:
            value: Any = filled(field.message_type)
        else:
            value = b"\xff" if field.type == FieldDescriptor.TYPE_BYTES else VALUES[field.cpp_type]
        values[field.name] = [value, value] if field.is_repeated else value
    return values


@pytest.mark.parametrize("kind", COLD.values(), ids=COLD)
def test_every_field_is_copied(kind: MessageType) -> None:
    strict = kind.strict(**filled(kind.strict.DESCRIPTOR))
    message = kind.from_strict(strict)
    assert kind.to_strict(message) == strict
    assert kind.strict.FromString(bytes(message)) == strict, "betterproto2 reads other values in it"


@pytest.mark.parametrize("kind", COLD.values(), ids=COLD)
def test_absent_fields_are_as_betterproto2_has_them(kind: MessageType) -> None:
    message = kind.from_strict(kind.strict())
    assert message == kind.message()
    assert kind.to_strict(message) == kind.strict()


def copying(descriptor: Any, monkeypatch: pytest.MonkeyPatch) -> MessageType:
    """The type of a message of the store, if it were not strict."""
    monkeypatch.setattr(message_types, "STRICT", ())
    message_type.cache_clear()
    kind = message_type(descriptor)
    message_type.cache_clear()
    return kind


def test_optional_fields_keep_zero_and_absence_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = copying(v1.Precondition.DESCRIPTOR, monkeypatch)
    for version in (None, 0, 7):
        assert kind.from_strict(kind.to_strict(v1.Precondition(version=version))).version == version


def test_an_empty_message_differs_from_none(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = copying(internal.CommitTurnRequest.DESCRIPTOR, monkeypatch)
    for fence in (None, v1.Fence()):
        assert kind.from_strict(kind.to_strict(internal.CommitTurnRequest(fence=fence))).fence == fence


def test_enums_are_read_as_enums(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = copying(v1.PutResponseRecordRequest.DESCRIPTOR, monkeypatch)
    request = v1.PutResponseRecordRequest(
        record=v1.ResponseRecord(status=v1.ResponseStatus.FAILED),
        precondition=v1.Precondition(statuses=[v1.ResponseStatus.QUEUED, v1.ResponseStatus(99)]),
    )
    copy = kind.from_strict(kind.to_strict(request))
    assert copy == request
    assert isinstance(copy.record.status, v1.ResponseStatus)
    assert [type(status) for status in copy.precondition.statuses] == [v1.ResponseStatus] * 2


def test_strict_messages_are_not_copied() -> None:
    strict = [kind for name, kind in KINDS.items() if name.startswith(STRICT)]
    assert {kind.name for kind in strict} >= {"GenerateResponse", "AppendEventsRequest", "CommitTurnRequest"}
    for kind in strict:
        message = kind.message()
        assert kind.message is kind.strict
        assert kind.to_strict(message) is message
        assert kind.from_strict(message) is message


def test_a_strict_message_may_be_sent_as_the_generated_class() -> None:
    kind = STORE.methods["GetResponseRecord"].request
    assert kind.to_strict(v1.GetResponseRecordRequest(id="resp_1")) == kind.strict(id="resp_1")


def test_a_message_of_another_class_is_not_sent() -> None:
    for name in ("GetResponseRecord", "AppendEvents"):
        with pytest.raises(TypeError, match="is sent as"):
            STORE.methods[name].request.to_strict(v1.ListInputItemsRequest())


def test_a_number_that_the_wire_cannot_carry_is_not_sent() -> None:
    with pytest.raises(ValueError, match="out of range"):
        STORE.methods["ListInputItems"].request.to_strict(v1.ListInputItemsRequest(page_size=-1))
