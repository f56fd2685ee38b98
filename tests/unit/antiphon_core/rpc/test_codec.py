from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_core.rpc.codec import decode
from antiphon_core.rpc.methods import STORE
from antiphon_protos.antiphon.store import v1

GET = STORE.methods["Get"].request


def test_a_message_survives() -> None:
    assert decode(GET, bytes(v1.GetRequest(id="resp_1"))) == v1.GetRequest(id="resp_1")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(bytes(v1.GetRequest(id="resp_1"))[:-1], id="truncated"),
        pytest.param(b"\xff\xff\xff\xff", id="garbage"),
    ],
)
def test_what_betterproto2_alone_would_accept_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="Not a valid GetRequest"):
        decode(GET, data)


@given(st.binary(max_size=40))
def test_random_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        message = decode(GET, data)
    except InvalidRequest:
        return
    assert isinstance(message.id, str)
