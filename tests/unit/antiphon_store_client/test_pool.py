from __future__ import annotations

import pytest
from google.protobuf import descriptor_pool

from antiphon_protos.antiphon.store import v1 as other
from antiphon_store_client import v1
from antiphon_store_client.pool import POOL


def test_messages_are_not_in_the_pool_that_all_packages_share() -> None:
    assert POOL.FindMessageTypeByName("antiphon.store.v1.Lease") is v1.Lease.DESCRIPTOR
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("antiphon.store.v1.Lease")


def test_messages_of_the_server_have_the_same_bytes() -> None:
    data = v1.Lease(holder="me", expires_at_ms=7).SerializeToString()
    assert other.Lease.parse(data) == other.Lease(holder="me", expires_at_ms=7)
