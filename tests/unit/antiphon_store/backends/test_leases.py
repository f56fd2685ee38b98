"""The lease as a value. Through a store: `antiphon_store.testing.leases`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import AntiphonError, SessionLocked, StaleFence
from antiphon_core.ports.store import Fence, Lease
from antiphon_store.backends import leases
from antiphon_store.backends.leases import NEVER_USED, SessionState

HELD = SessionState(head_id="head", last_fence=7, holder="a", lease_expires_at_ms=1000)


def test_a_free_session_is_taken_with_the_next_token() -> None:
    state = leases.acquire(NEVER_USED, "s", holder="a", ttl_ms=100, now_ms=50)
    assert leases.granted(state, "s") == Lease(Fence("s", 1), "a", 150)


def test_an_expired_lease_is_free_even_for_its_holder() -> None:
    for holder in ("a", "b"):
        state = leases.acquire(HELD, "s", holder=holder, ttl_ms=100, now_ms=1000)
        assert (state.last_fence, state.holder, state.head_id) == (8, holder, "head")


def test_a_held_lease_is_the_holders() -> None:
    assert leases.acquire(HELD, "s", holder="a", ttl_ms=100, now_ms=999) == replace(HELD, lease_expires_at_ms=1099)
    with pytest.raises(SessionLocked):
        leases.acquire(HELD, "s", holder="b", ttl_ms=100, now_ms=999)


def test_a_lease_is_never_shortened() -> None:
    assert leases.acquire(HELD, "s", holder="a", ttl_ms=1, now_ms=0) == HELD
    assert leases.renew(HELD, Fence("s", 7), ttl_ms=1, now_ms=0) == HELD


@pytest.mark.parametrize(("token", "now_ms"), [(6, 0), (8, 0), (7, 1000)])
def test_a_stale_fence_is_refused(token: int, now_ms: int) -> None:
    fence = Fence("s", token)
    assert not leases.holds(HELD, fence, now_ms)
    with pytest.raises(StaleFence):
        leases.require(HELD, fence, now_ms)
    with pytest.raises(StaleFence):
        leases.renew(HELD, fence, ttl_ms=1, now_ms=now_ms)


def test_a_released_lease_is_nobodys() -> None:
    state = leases.released(HELD)
    assert not leases.holds(state, Fence("s", 7), 0)
    assert leases.lease_of(state, "s", 0) is None
    assert (state.head_id, state.last_fence) == ("head", 7)


@given(st.lists(st.tuples(st.sampled_from("abr"), st.integers(0, 150)), max_size=20))
def test_two_holders_never_have_the_same_token(steps: list[tuple[str, int]]) -> None:
    """a and b acquire, r releases, with time passing in between: each token belongs to one holder, and they grow."""
    state, now_ms, granted = NEVER_USED, 0, list[tuple[int, str]]()
    for step, passed_ms in steps:
        now_ms += passed_ms
        if step == "r":
            state = leases.released(state)
            continue
        try:
            state = leases.acquire(state, "s", holder=step, ttl_ms=100, now_ms=now_ms)
        except AntiphonError:
            continue
        granted.append((state.last_fence, step))
    assert granted == sorted(granted, key=lambda grant: grant[0])
    assert len({token for token, _ in set(granted)}) == len(set(granted))
