from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_core.rpc import culprits
from antiphon_core.rpc.codec import decode
from antiphon_core.rpc.methods import STORE
from antiphon_protos.antiphon.store import v1

PUT = STORE.methods["Put"].request


def broken(message: v1.PutRequest) -> bytes:
    """The message with its marks `??` made bytes that are no text."""
    return bytes(message).replace(b"??", b"\xff\xfe")


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (v1.PutRequest(idempotency_key="??"), "idempotency_key"),
        (v1.PutRequest(ttl_ms=300, record=v1.Record(id="resp_", parent_id="a??b")), "record.parent_id"),
        (v1.PutRequest(precondition=v1.Precondition(fence=v1.Fence(session_id="??"))), "precondition.fence.session_id"),
    ],
)
def test_the_field_is_named(message: v1.PutRequest, path: str) -> None:
    with pytest.raises(InvalidRequest, match="not UTF-8") as caught:
        decode(PUT, broken(message))
    assert caught.value.field == path


def test_bytes_may_be_anything() -> None:
    data = broken(v1.PutRequest(record=v1.Record(id="r", body=b"??")))
    assert decode(PUT, data).record.body == b"\xff\xfe"
    assert culprits.no_text(PUT.strict.DESCRIPTOR, data) is None


@given(st.binary(max_size=60))
def test_any_bytes_can_be_walked(data: bytes) -> None:
    found = culprits.no_text(PUT.strict.DESCRIPTOR, data)
    assert found is None or found
