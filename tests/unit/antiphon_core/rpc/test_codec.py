from __future__ import annotations

import pytest
from grpc_health.v1 import health_pb2
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest, ServiceFault, TooLarge
from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc import codec
from antiphon_core.rpc.codec import FIELDS_MAX, decode, decode_answer, decode_plain, encode, encode_request
from antiphon_core.rpc.culprits import PACKED_BYTES_MAX
from antiphon_core.rpc.methods import STORE
from antiphon_protos.antiphon.store import v1

GET = STORE.methods["GetResponseRecord"].request


def test_a_message_survives_encoding_and_decoding() -> None:
    for message in (v1.GetResponseRecordRequest(id="resp_1"), GET.message(id="resp_1")):
        assert decode(GET, encode(GET, message)) == GET.message(id="resp_1")


def test_the_bytes_are_those_of_betterproto2() -> None:
    record = v1.ResponseRecord(id="resp_1", status=v1.ResponseStatus.FAILED)
    request = v1.PutResponseRecordRequest(record=record, ttl_ms=-1)
    assert encode(STORE.methods["PutResponseRecord"].request, request) == bytes(request)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(bytes(v1.GetResponseRecordRequest(id="resp_1"))[:-1], id="truncated"),
        pytest.param(b"\xff\xff\xff\xff", id="garbage"),
    ],
)
def test_truncated_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="Not a valid GetResponseRecordRequest"):
        decode(GET, data)


@given(st.binary(max_size=40))
def test_random_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        message = decode(GET, data)
    except InvalidRequest:
        return
    assert isinstance(message.id, str)


def test_a_message_of_grpcs_own_services_is_read_or_refused() -> None:
    asked = health_pb2.HealthCheckRequest(service="a")
    assert decode_plain(health_pb2.HealthCheckRequest, asked.SerializeToString()) == asked
    with pytest.raises(InvalidRequest):
        decode_plain(health_pb2.HealthCheckRequest, b"\xff")


def test_an_answer_that_cannot_be_read_is_a_fault_of_the_service() -> None:
    kind = STORE.methods["GetResponseRecord"].response
    with pytest.raises(ServiceFault, match="cannot be read"):
        decode_answer(kind, b"\xff\xff")


def test_a_request_that_no_service_receives_is_too_large() -> None:
    kind = STORE.methods["GetResponseRecord"].request
    with pytest.raises(TooLarge):
        encode_request(kind, v1.GetResponseRecordRequest(id="x" * RPC_MESSAGE_BYTES_MAX))


SMALL_FIELDS: dict[str, tuple[str, bytes]] = {
    "unknown numbers": ("GetResponseRecord", b"\xa0\x06\x01"),
    "unknown texts": ("GetResponseRecord", b"\xa2\x06\x00"),
    "unknown groups": ("GetResponseRecord", b"\xa3\x06\xa4\x06"),
    "a field that repeats itself": ("GetResponseRecord", b"\x0a\x00"),
    "empty elements": ("AppendToLogs", b"\x0a\x00"),
    "empty texts": ("ResolveItems", b"\x0a\x00"),
}


@pytest.mark.parametrize("fields", SMALL_FIELDS)
def test_a_request_with_thousands_of_small_fields_is_rejected_before_protobuf_parses_it(
    monkeypatch: pytest.MonkeyPatch, fields: str
) -> None:
    rpc, field = SMALL_FIELDS[fields]
    kind = STORE.methods[rpc].request
    decode(kind, field * 500)
    monkeypatch.setattr(codec, "_parse_message", None)
    with pytest.raises(InvalidRequest, match="more than 10,000 fields"):
        decode(kind, field * (FIELDS_MAX + 1))


def test_fields_of_messages_in_a_request_count() -> None:
    kind = STORE.methods["PutResponseRecord"].request
    inner = b"\xa0\x06\x01" * (FIELDS_MAX + 1)
    length = bytes([len(inner) & 127 | 128, len(inner) >> 7 & 127 | 128, len(inner) >> 14])
    with pytest.raises(InvalidRequest, match="more than 10,000 fields"):
        decode(kind, b"\x0a" + length + inner)


def test_a_long_list_of_numbers_is_rejected() -> None:
    kind = STORE.methods["AppendEvents"].request
    append = kind.message(response_id="resp", checkpoint={"token_ids": [1] * (PACKED_BYTES_MAX + 1)})
    with pytest.raises(InvalidRequest, match="list of numbers"):
        decode(kind, append.SerializeToString())


def test_a_large_request_with_few_fields_and_a_large_answer_with_many_are_read() -> None:
    put = STORE.methods["PutResponseRecord"].request
    assert decode(put, put.message(record={"body": b"x" * 2**20}).SerializeToString()).record.body
    tree = STORE.methods["ListTree"].response
    answer = tree.message(nodes=[{"id": "resp", "depth": 1}] * FIELDS_MAX).SerializeToString()
    assert len(decode_answer(tree, answer).nodes) == FIELDS_MAX
