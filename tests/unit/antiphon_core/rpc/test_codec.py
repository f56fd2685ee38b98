from __future__ import annotations

import pytest
from grpc_health.v1 import health_pb2
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest, ServiceFault, TooLarge
from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc.codec import decode, decode_answer, decode_plain, encode, encode_request
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
