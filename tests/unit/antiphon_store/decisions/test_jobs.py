"""A job as a value. `antiphon_store.testing.jobs` tests jobs through a store."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import AlreadyExists, JobNotFound, StaleFence
from antiphon_core.ports.jobs import ATTEMPTS_EXHAUSTED, JobDraft, JobOutcome, JobState
from antiphon_core.ports.store import Fence
from antiphon_store.decisions import jobs
from antiphon_store.rows.local_rows import change_fields
from antiphon_store.rows.model import Condition, Index, Kind, Now, Row
from antiphon_store.rows.view import View
from tests.support.rows import NOW_MS, answered, decided, fields_of, guards_on, row, shown, view_of

JOB, FENCE = (Kind.JOB, "j"), Fence("j", 1)
DRAFT = JobDraft("j", "q", b"payload", max_attempts=2, run_after_ms=7)
LATER = NOW_MS + 100
TICKET = (Index.QUEUE, "q", "j")
HOLDING = (Index.HOLDER, "q a", "j")
ENDS = (Index.ENDS, "", "job/j")
enqueue = partial(jobs.enqueue, draft=DRAFT, retention_ms=1000)
claim = partial(jobs.claim, job_id="j", queue="q", holder="a", lease_ttl_ms=100)


def job(**fields: Any) -> Row:
    """A queued job, changed by `fields`."""
    defaults: dict[str, Any] = {
        "queue": "q",
        "max_attempts": 2,
        "retention": 1000,
        "available": 10,
        "attempts": 0,
        "holder": "",
        "lease_until": 0,
        "cancel": 0,
        "settled": None,
        "ended": None,
    }
    return row(body=b"payload", **(defaults | fields))


def held(**fields: Any) -> Row:
    return job(**({"attempts": 1, "holder": "a", "lease_until": LATER} | fields))


def ended(state: JobState = JobState.SUCCEEDED, at: int = NOW_MS, **fields: Any) -> Row:
    return job(**({"attempts": 1, "ended": [state.value, "r", at]} | fields))


def state_of(found: Row) -> JobState:
    return answered(partial(jobs.describe, job_id="j"), {JOB: found}).state


# ---- Enqueueing ----


def test_a_job_is_enqueued_in_one_program() -> None:
    program = decided(enqueue)
    assert guards_on(program, Kind.JOB) == [(Condition.ABSENT, "", None)]
    assert shown(program) == [("put", *JOB), ("file", *TICKET)]
    assert fields_of(program, Kind.JOB)["available"] == Now(7)


@pytest.mark.parametrize("there", [job(), held(), ended()])
def test_enqueueing_a_job_again_changes_nothing_and_a_different_one_is_rejected(there: Row) -> None:
    answered(enqueue, {JOB: there})
    for other in (there._replace(body=b"other"), job(queue="other")):
        with pytest.raises(AlreadyExists):
            decided(enqueue, {JOB: other})


def test_the_id_of_a_job_past_its_retention_can_be_enqueued_again() -> None:
    assert decided(enqueue, {JOB: ended(at=NOW_MS - 1000, queue="other")}).changes


# ---- Claiming ----

CLAIMS = [
    (job(), 1, Now(100)),
    (job(attempts=1), 2, Now(100)),
    (held(), 1, LATER),  # claimed again by its holder
    (held(lease_until=LATER + 1), 1, LATER + 1),
    (held(holder="b", lease_until=NOW_MS), 2, Now(100)),  # its lease has expired
]


@pytest.mark.parametrize(("there", "attempts", "until"), CLAIMS)
def test_a_claim_adds_an_attempt_unless_its_holder_repeats_it(there: Row, attempts: int, until: object) -> None:
    program = decided(claim, {JOB: there})
    fields = fields_of(program, Kind.JOB)
    assert (fields["attempts"], fields["holder"], fields["lease_until"]) == (attempts, "a", until)
    assert "v" not in fields
    filed = [each for each in shown(program)[1:] if each[0] == "file"]
    assert filed == [("file", *TICKET), ("file", *HOLDING), ("file", *ENDS)]


def test_a_job_claimed_after_lease_expiry_leaves_the_list_of_its_old_holder() -> None:
    program = decided(claim, {JOB: held(holder="b", lease_until=NOW_MS)})
    assert ("unfile", Index.HOLDER, "q b", "j") in shown(program)


MOVED = [
    (job(available=NOW_MS + 5), NOW_MS + 5),
    (held(holder="b"), LATER),
]


@pytest.mark.parametrize(("there", "due_at"), MOVED)
def test_the_ticket_of_a_job_that_is_not_due_is_moved(there: Row, due_at: int) -> None:
    program = decided(claim, {JOB: there})
    assert shown(program) == [("file", *TICKET)]
    assert program.changes[0].at == due_at  # type: ignore[union-attr]


DISCARDED = [None, ended(), ended(at=NOW_MS - 1000), job(queue="other")]


@pytest.mark.parametrize("there", DISCARDED)
def test_a_ticket_without_a_claimable_job_is_removed(there: Row | None) -> None:
    view = view_of({JOB: there})
    assert claim(view)(()) is None
    assert shown(view.program()) == [("unfile", *TICKET)]


def test_a_claim_of_a_job_without_attempts_left_ends_it_as_failed() -> None:
    program = decided(claim, {JOB: held(attempts=2, lease_until=NOW_MS)})
    assert fields_of(program, Kind.JOB)["ended"] == [JobState.FAILED.value, ATTEMPTS_EXHAUSTED, NOW_MS]
    assert ("unfile", *HOLDING) in shown(program)
    assert ("file", *ENDS) in shown(program)


@pytest.mark.parametrize("there", [None, job(), held(holder="b"), ended(), held(lease_until=NOW_MS)])
def test_claiming_only_own_jobs_changes_no_other_job(there: Row | None) -> None:
    assert answered(partial(claim, only_own=True), {JOB: there}) is None
    assert decided(partial(claim, only_own=True), {JOB: held()}).changes


def test_a_claim_is_answered_from_the_row_after_the_change() -> None:
    granted = claim(view_of({JOB: job()}))([held()])
    assert granted is not None
    assert (granted.fence, granted.payload, granted.lease_expires_at_ms) == (FENCE, b"payload", LATER)


# ---- Heartbeats ----


@pytest.mark.parametrize(("ttl_ms", "until"), [(1, LATER), (100, LATER), (101, Now(101))])
def test_a_heartbeat_never_shortens_a_lease(ttl_ms: int, until: object) -> None:
    program = decided(partial(jobs.heartbeat, fence=FENCE, lease_ttl_ms=ttl_ms), {JOB: held()})
    assert fields_of(program, Kind.JOB) == {"lease_until": until, "stamp": Now()}


# ---- A clock that was set back ----

AHEAD = NOW_MS + 3_600_000


def test_a_heartbeat_after_a_clock_step_back_extends_the_lease_from_now() -> None:
    there = held(lease_until=AHEAD + 100, stamp=AHEAD)
    program = decided(partial(jobs.heartbeat, fence=FENCE, lease_ttl_ms=100), {JOB: there})
    assert fields_of(program, Kind.JOB) == {"lease_until": Now(100), "stamp": Now()}


def test_a_job_lease_from_before_a_clock_step_back_is_expired() -> None:
    there = held(lease_until=AHEAD + 100, stamp=AHEAD)
    assert state_of(there) is JobState.QUEUED
    assert fields_of(decided(partial(claim, holder="b"), {JOB: there}), Kind.JOB)["attempts"] == 2


def test_a_due_job_stays_due_after_a_clock_step_back() -> None:
    assert fields_of(decided(claim, {JOB: job(available=AHEAD, stamp=AHEAD)}), Kind.JOB)["attempts"] == 1


def test_a_delayed_job_keeps_its_delay_after_a_clock_step_back() -> None:
    program = decided(claim, {JOB: job(available=AHEAD + 7_000, stamp=AHEAD)})
    fields = fields_of(program, Kind.JOB)
    assert (fields["available"], fields["stamp"], fields["attempts"]) == (NOW_MS + 7_000, Now(), 0)


def test_a_clock_step_back_of_less_than_a_second_is_ignored() -> None:
    assert state_of(held(stamp=NOW_MS + 900)) is JobState.RUNNING


@pytest.mark.parametrize("there", [job(), held(attempts=2), held(attempts=0), ended(), held(lease_until=NOW_MS)])
def test_a_stale_fence_is_refused(there: Row) -> None:
    for decision in (
        partial(jobs.heartbeat, fence=FENCE, lease_ttl_ms=1),
        partial(jobs.settle, fence=FENCE, outcome=JobOutcome.FAILED, reason=""),
    ):
        with pytest.raises(StaleFence):
            decided(decision, {JOB: there})


@pytest.mark.parametrize("there", [None, ended(at=NOW_MS - 1000)])
def test_a_missing_job_or_one_past_its_retention_is_not_found(there: Row | None) -> None:
    for decision in (
        partial(jobs.heartbeat, fence=FENCE, lease_ttl_ms=1),
        partial(jobs.settle, fence=FENCE, outcome=JobOutcome.FAILED, reason=""),
        partial(jobs.cancel, job_id="j"),
        partial(jobs.describe, job_id="j"),
    ):
        with pytest.raises(JobNotFound):
            decided(decision, {JOB: there})


# ---- Ends ----


def settle(outcome: JobOutcome, reason: str = "r") -> Any:
    return partial(jobs.settle, fence=FENCE, outcome=outcome, reason=reason)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (JobOutcome.SUCCEEDED, JobState.SUCCEEDED),
        (JobOutcome.FAILED, JobState.FAILED),
        (JobOutcome.CANCELLED, JobState.CANCELLED),
    ],
)
def test_a_settlement_ends_the_job_and_is_remembered(outcome: JobOutcome, state: JobState) -> None:
    program = decided(settle(outcome), {JOB: held()})
    fields = fields_of(program, Kind.JOB)
    assert fields["ended"] == [state.value, "r", NOW_MS]
    assert shown(program)[1:] == [("unfile", *HOLDING), ("unfile", *TICKET), ("file", *ENDS)]
    settled = Row({**fields, "v": 2})
    answered(settle(outcome), {JOB: settled})
    for other in (settle(outcome, "other"), settle(JobOutcome.RETRY)):
        with pytest.raises(StaleFence):
            decided(other, {JOB: settled})


RETRIES = [
    (held(), None, [("unfile", *HOLDING), ("file", *TICKET)]),
    (held(attempts=1, max_attempts=1), JobState.FAILED, [("unfile", *HOLDING), ("unfile", *TICKET), ("file", *ENDS)]),
    (held(cancel=1), JobState.CANCELLED, [("unfile", *HOLDING), ("unfile", *TICKET), ("file", *ENDS)]),
]


@pytest.mark.parametrize(("there", "state", "changes"), RETRIES)
def test_a_retry_requeues_the_job_or_ends_it(there: Row, state: JobState | None, changes: Any) -> None:
    program = decided(settle(JobOutcome.RETRY), {JOB: there})
    found = fields_of(program, Kind.JOB)["ended"]
    assert (found[0] if found else None) == (state.value if state else None)
    assert shown(program)[1:] == changes


def test_cancelling_marks_a_running_job_and_ends_a_queued_one() -> None:
    assert fields_of(decided(partial(jobs.cancel, job_id="j"), {JOB: held()}), Kind.JOB)["cancel"] == 1
    assert fields_of(decided(partial(jobs.cancel, job_id="j"), {JOB: held()}), Kind.JOB)["ended"] is None
    queued = fields_of(decided(partial(jobs.cancel, job_id="j"), {JOB: job()}), Kind.JOB)
    assert queued["ended"] == [JobState.CANCELLED.value, "", NOW_MS]


@pytest.mark.parametrize(("state", "was_in_time"), [(JobState.CANCELLED, True), (JobState.FAILED, False)])
def test_an_ended_job_can_be_cancelled_no_more(state: JobState, was_in_time: bool) -> None:
    assert answered(partial(jobs.cancel, job_id="j"), {JOB: ended(state)}) is was_in_time


# ---- Time ----


@pytest.mark.parametrize(
    ("there", "state"),
    [
        (job(), JobState.QUEUED),
        (held(), JobState.RUNNING),
        (held(lease_until=NOW_MS), JobState.QUEUED),
        (held(lease_until=NOW_MS, attempts=2), JobState.FAILED),
        (held(lease_until=NOW_MS, cancel=1), JobState.CANCELLED),
        (ended(), JobState.SUCCEEDED),
    ],
)
def test_an_expired_lease_requeues_a_job_or_ends_it(there: Row, state: JobState) -> None:
    assert state_of(there) is state


@given(st.lists(st.sampled_from(["claim", "retry", "cancel", "wait"]), max_size=12), st.integers(1, 3))
def test_a_job_is_forgotten_exactly_at_its_announced_time(steps: list[str], max_attempts: int) -> None:
    stored, now_ms = job(max_attempts=max_attempts), 10
    for step in steps:
        if step == "wait":
            now_ms += 60
        stored = _stepped(stored, step, now_ms)
        end = jobs.forgettable_at(stored.fields)
        if end is not None:
            assert jobs.as_of(stored.fields, end - 1) is not None
            assert jobs.as_of(stored.fields, end) is None


def _stepped(stored: Row, step: str, now_ms: int) -> Row:
    """The job after a step; unchanged if the step is not possible."""
    decisions: dict[str, Any] = {
        "claim": claim,
        "retry": partial(jobs.settle, fence=Fence("j", stored.fields["attempts"]), outcome=JobOutcome.RETRY, reason=""),
        "cancel": partial(jobs.cancel, job_id="j"),
    }
    view: View = view_of({JOB: stored}, now_ms=now_ms)
    try:
        decisions[step](view) if step != "wait" else None
    except (JobNotFound, StaleFence):
        return stored
    sets = [each for each in view.program().changes if getattr(each, "ref", None) == JOB]
    return Row(change_fields(stored.fields, sets[0].fields, now_ms)) if sets else stored  # type: ignore[union-attr]
