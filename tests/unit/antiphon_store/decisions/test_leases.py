"""Programs of leases, and decisions about known rows. `antiphon_store.testing.leases` tests leases through a store."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import AntiphonError, SessionLocked, StaleFence
from antiphon_core.ports.store import Fence, Lease
from antiphon_store.decisions import leases
from antiphon_store.decisions.leases import CLOCK_STEP_MS, set_back_ms
from antiphon_store.rows.local_rows import change_fields
from antiphon_store.rows.model import Add, Condition, Kind, Now, Row
from antiphon_store.rows.view import UnknownRow, View
from antiphon_store.testing.subject import draft
from tests.support.rows import NOW_MS, answered, decided, fields_of, guards_on, pins, row, view_of

SESSION = (Kind.SESSION, "s")
FENCE = Fence("s", 7)
HELD = row(head="head", fence=7, holder="a", lease_until=NOW_MS + 100)
OVER = row(head="head", fence=7, holder="a", lease_until=NOW_MS)
JOB = draft().id
RUNNING = row(attempts=2, lease_until=NOW_MS + 100)
acquire = partial(leases.acquire, session_id="s", holder="a", ttl_ms=50)


def test_a_lease_is_taken_in_one_program_if_it_is_free() -> None:
    program = decided(acquire)
    assert guards_on(program, Kind.SESSION) == [(Condition.BEHIND, "lease_until", None)]
    assert fields_of(program, Kind.SESSION) == {
        "fence": Add(1),
        "holder": "a",
        "lease_until": Now(50),
        "stamp": Now(),
    }


@pytest.mark.parametrize("session", [None, OVER, row(fence=7, holder="", lease_until=0), row(head="forked")])
def test_a_known_free_session_is_leased_with_the_next_fence(session: Row | None) -> None:
    assert fields_of(decided(acquire, {SESSION: session}), Kind.SESSION)["fence"] == Add(1)


@pytest.mark.parametrize(("ttl_ms", "until"), [(50, NOW_MS + 100), (100, NOW_MS + 100), (101, Now(101))])
def test_a_renewed_lease_keeps_its_fence_and_is_never_shortened(ttl_ms: int, until: object) -> None:
    for decision in (partial(acquire, ttl_ms=ttl_ms), partial(leases.renew, fence=FENCE, ttl_ms=ttl_ms)):
        program = decided(decision, {SESSION: HELD})
        assert fields_of(program, Kind.SESSION) == {"lease_until": until, "stamp": Now()}
        assert pins(program)


def test_a_lease_renewed_after_a_clock_step_back_counts_from_the_new_time() -> None:
    ahead = NOW_MS + 3_600_000
    held = Row({**HELD.fields, "lease_until": ahead + 100, "stamp": ahead})
    program = decided(partial(leases.renew, fence=FENCE, ttl_ms=50), {SESSION: held})
    assert fields_of(program, Kind.SESSION)["lease_until"] == Now(50)
    taken = fields_of(decided(partial(acquire, holder="b"), {SESSION: held}), Kind.SESSION)
    assert (taken["holder"], taken["fence"]) == ("b", Add(1))


def test_a_lease_of_another_holder_is_refused() -> None:
    with pytest.raises(SessionLocked):
        decided(partial(acquire, holder="b"), {SESSION: HELD})


def test_a_granted_lease_is_read_from_the_row_after_the_change() -> None:
    view = View({})
    stored = row(fence=8, holder="a", lease_until=70)
    assert acquire(view)([stored]) == Lease(Fence("s", 8), "a", 70)


STALE = [None, OVER, row(fence=8, holder="a", lease_until=NOW_MS + 1), row(fence=7, holder="", lease_until=0)]


@pytest.mark.parametrize("session", STALE)
def test_a_stale_fence_cannot_renew_release_or_prove_a_lease(session: Row | None) -> None:
    rows = {SESSION: session}
    for decision in (partial(leases.renew, fence=FENCE, ttl_ms=1), partial(leases.require_fence, fence=FENCE)):
        with pytest.raises(StaleFence):
            decided(decision, rows)
    assert not answered(partial(leases.release, fence=FENCE), rows)


def test_a_release_takes_one_program_and_keeps_head_and_fence() -> None:
    for rows in ({}, {SESSION: HELD}):
        program = decided(partial(leases.release, fence=FENCE), rows)
        assert fields_of(program, Kind.SESSION) == {"holder": "", "lease_until": 0}
    assert guards_on(decided(partial(leases.release, fence=FENCE)), Kind.SESSION) == [
        (Condition.IS, "fence", 7),
        (Condition.AHEAD, "lease_until", None),
    ]


def test_a_fence_with_a_response_id_is_checked_against_the_job_first() -> None:
    program = decided(partial(leases.require_fence, fence=Fence(JOB, 2)))
    assert guards_on(program, Kind.JOB) == [(Condition.IS, "attempts", 2), (Condition.AHEAD, "lease_until", None)]
    assert not guards_on(program, Kind.SESSION)


@pytest.mark.parametrize(
    "job",
    [row(attempts=1, lease_until=NOW_MS + 1), row(attempts=2, lease_until=NOW_MS), row(attempts=2, lease_until=0)],
)
def test_an_existing_job_alone_decides_about_a_fence_with_its_id(job: Row) -> None:
    decided(partial(leases.require_fence, fence=Fence(JOB, 2)), {(Kind.JOB, JOB): RUNNING})
    with pytest.raises(StaleFence):
        decided(partial(leases.require_fence, fence=Fence(JOB, 2)), {(Kind.JOB, JOB): job})


def test_a_fence_with_a_response_id_without_job_is_checked_against_the_session() -> None:
    program = decided(partial(leases.require_fence, fence=Fence(JOB, 2)), {(Kind.JOB, JOB): None})
    assert guards_on(program, Kind.SESSION) == [(Condition.IS, "fence", 2), (Condition.AHEAD, "lease_until", None)]


def test_renewing_a_lease_reads_the_session_first() -> None:
    with pytest.raises(UnknownRow):
        decided(partial(leases.renew, fence=FENCE, ttl_ms=1))


@given(st.lists(st.tuples(st.sampled_from("abr"), st.integers(0, 150)), max_size=20))
def test_two_holders_never_have_the_same_fence(steps: list[tuple[str, int]]) -> None:
    """Holders a and b acquire, r releases, and time passes. Each fence belongs to one holder, and fences grow."""
    fields, now_ms, granted = dict[str, Any](), NOW_MS, list[tuple[int, str]]()
    for step, passed_ms in steps:
        now_ms += passed_ms
        view = view_of({SESSION: Row(fields) if fields else None}, now_ms=now_ms)
        try:
            if step == "r":
                leases.give_back(view, "s")
            else:
                leases.take(view, "s", holder=step, ttl_ms=100)
        except AntiphonError:
            continue
        fields = change_fields(fields or None, fields_of(view.program(), Kind.SESSION), now_ms)
        if step != "r":
            granted.append((fields["fence"], step))
    assert granted == sorted(granted, key=lambda grant: grant[0])
    assert len({token for token, _ in set(granted)}) == len(set(granted))


@pytest.mark.parametrize("stamp", [None, 0, NOW_MS - 1, NOW_MS, NOW_MS + CLOCK_STEP_MS])
def test_a_stamp_that_is_not_ahead_shows_no_clock_step_back(stamp: int | None) -> None:
    assert set_back_ms({"stamp": stamp}, NOW_MS) == 0


def test_a_row_without_a_stamp_shows_no_clock_step_back() -> None:
    assert set_back_ms({}, NOW_MS) == 0


def test_a_stamp_ahead_of_the_clock_shows_the_length_of_the_step_back() -> None:
    assert set_back_ms({"stamp": NOW_MS + 3_600_000}, NOW_MS) == 3_600_000
