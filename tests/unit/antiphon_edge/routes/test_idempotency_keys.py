from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import Ids, RandomIds, SequentialIds
from antiphon_edge.routes.idempotency_keys import ids_under, key_of


def request(key: str) -> web.Request:
    return make_mocked_request("POST", "/", headers={"Idempotency-Key": key})


def test_a_request_has_the_key_that_it_brings() -> None:
    assert key_of(make_mocked_request("POST", "/")) is None
    for key in ("a", "x" * 255, "schlüssel 1"):
        assert key_of(request(key)) == key


@pytest.mark.parametrize("key", ["", "x" * 256, "ü" * 128])
def test_a_key_that_cannot_be_kept_is_refused(key: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        key_of(request(key))
    assert (caught.value.field, caught.value.code) == ("Idempotency-Key", "invalid_value")


def test_two_keys_are_refused() -> None:
    """A proxy may have gone by the other one."""
    headers = CIMultiDict([("Idempotency-Key", "a"), ("Idempotency-Key", "b")])
    with pytest.raises(InvalidRequest) as caught:
        key_of(make_mocked_request("POST", "/", headers=headers))
    assert (caught.value.field, caught.value.code) == ("Idempotency-Key", "invalid_value")


def test_under_a_key_the_same_request_names_the_same_things() -> None:
    def name(ids: Ids) -> str:
        return ids.hex(48)

    first = name(ids_under("k", RandomIds(), "items", "acme"))
    assert name(ids_under("k", RandomIds(), "items", "acme")) == first
    others = [("k2", "items", "acme"), ("k", "items", "other"), ("k", "conversation", "acme")]
    names = {name(ids_under(key, RandomIds(), *scope)) for key, *scope in others}
    assert len(names | {first}) == 4


def test_without_a_key_everything_is_new() -> None:
    ids = SequentialIds()
    assert ids_under(None, ids, "items") is ids
