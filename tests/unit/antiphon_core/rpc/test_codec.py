from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_core.rpc.codec import decode, encode
from antiphon_core.rpc.methods import STORE
from antiphon_protos.antiphon.store import v1

GET = STORE.methods["Get"].request


def test_a_message_survives() -> None:
    assert decode(GET, encode(GET, v1.GetRequest(id="resp_1"))) == v1.GetRequest(id="resp_1")


def test_the_bytes_are_those_of_betterproto2() -> None:
    request = v1.PutRequest(record=v1.Record(id="resp_1", status=v1.ResponseStatus.FAILED), ttl_ms=-1)
    assert encode(STORE.methods["Put"].request, request) == bytes(request)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(bytes(v1.GetRequest(id="resp_1"))[:-1], id="truncated"),
        pytest.param(b"\xff\xff\xff\xff", id="garbage"),
    ],
)
def test_truncated_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="Not a valid GetRequest"):
        decode(GET, data)


@given(st.binary(max_size=40))
def test_random_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        message = decode(GET, data)
    except InvalidRequest:
        return
    assert isinstance(message.id, str)
