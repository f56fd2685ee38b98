"""Which forks may be. What they make of a store: `antiphon_store.testing.lineage_forks`."""

from __future__ import annotations

import pytest

from antiphon_core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    PreviousResponseNotReady,
    ResponseNotFound,
    SessionLocked,
)
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import Status
from antiphon_store.backends import forking
from antiphon_store.backends.leases import SessionState
from antiphon_store.testing.subject import draft

RESPONSE, HEAD = draft().id, draft().id


def head_of(
    source: ForkSource,
    *,
    session_head_id: str | None = HEAD,
    status: Status | None = Status.COMPLETED,
    made_in: str | None = "s",
) -> str:
    return forking.head_of(source, session_head_id=session_head_id, status=status, made_in=made_in)


def test_a_session_is_forked_at_its_head() -> None:
    assert head_of(ForkSource("s"), status=None) == HEAD
    with pytest.raises(NotFound):
        head_of(ForkSource("s"), session_head_id=None)


def test_a_response_is_forked_when_it_is_readable_and_has_ended() -> None:
    assert head_of(ForkSource(None, RESPONSE), made_in=None) == RESPONSE
    with pytest.raises(ResponseNotFound):
        head_of(ForkSource(None, RESPONSE), status=None)
    with pytest.raises(PreviousResponseNotReady) as caught:
        head_of(ForkSource(None, RESPONSE), status=Status.IN_PROGRESS)
    assert caught.value.field == "up_to_response_id"


def test_a_response_belongs_to_the_session_that_is_named() -> None:
    assert head_of(ForkSource("s", RESPONSE)) == RESPONSE
    assert head_of(ForkSource("s", HEAD), made_in="another") == HEAD
    with pytest.raises(InvalidRequest):
        head_of(ForkSource("s", RESPONSE), made_in=None)


def test_a_tagged_session_is_of_its_heads_tree() -> None:
    forking.require_kinship("free", RESPONSE)
    forking.require_kinship("conv_" + RESPONSE.removeprefix("resp_"), RESPONSE)
    with pytest.raises(InvalidRequest):
        forking.require_kinship("conv_" + "0" * 48, RESPONSE)


def test_a_free_session_has_neither_head_nor_holder() -> None:
    held = SessionState(holder="a", last_fence=1, lease_expires_at_ms=10)
    forking.require_free("s", held, head_id=None, now_ms=10)
    with pytest.raises(SessionLocked):
        forking.require_free("s", held, head_id=None, now_ms=9)
    with pytest.raises(AlreadyExists):
        forking.require_free("s", SessionState(), head_id=HEAD, now_ms=0)
