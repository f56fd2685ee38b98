from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import Ids, RandomIds, SequentialIds
from antiphon_edge.routes.turn_headers import ids_under, key_of


def request(key: str) -> web.Request:
    return make_mocked_request("POST", "/", headers={"Idempotency-Key": key})


def test_key_is_read_from_its_header() -> None:
    assert key_of(make_mocked_request("POST", "/")) is None
    for key in ("a", "x" * 255, "schlüssel 1"):
        assert key_of(request(key)) == key


@pytest.mark.parametrize("key", ["", "x" * 256, "ü" * 128])
def test_empty_or_too_long_key_is_rejected(key: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        key_of(request(key))
    assert (caught.value.field, caught.value.code) == ("Idempotency-Key", "invalid_value")


def test_two_keys_are_rejected() -> None:
    """A proxy in front may have used the other key."""
    headers = CIMultiDict([("Idempotency-Key", "a"), ("Idempotency-Key", "b")])
    with pytest.raises(InvalidRequest) as caught:
        key_of(make_mocked_request("POST", "/", headers=headers))
    assert (caught.value.field, caught.value.code) == ("Idempotency-Key", "invalid_value")


def test_repeated_keyed_request_gets_the_same_ids() -> None:
    def name(ids: Ids) -> str:
        return ids.hex(48)

    first = name(ids_under("k", RandomIds(), "items", "acme"))
    assert name(ids_under("k", RandomIds(), "items", "acme")) == first
    others = [("k2", "items", "acme"), ("k", "items", "other"), ("k", "conversation", "acme")]
    names = {name(ids_under(key, RandomIds(), *scope)) for key, *scope in others}
    assert len(names | {first}) == 4


def test_request_without_a_key_gets_new_ids() -> None:
    ids = SequentialIds()
    assert ids_under(None, ids, "items") is ids
