"""A job as a value. Through a store: `antiphon_store.testing.jobs`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import StaleFence
from antiphon_core.ports.jobs import ATTEMPTS_EXHAUSTED, JobDraft, JobOutcome, JobState
from antiphon_core.ports.store import Fence
from antiphon_store.backends import job_states
from antiphon_store.backends.job_states import StoredJob

QUEUED = StoredJob("j", "q", max_attempts=2, retention_ms=1000, available_at_ms=10)
HELD = job_states.claimed(QUEUED, holder="a", lease_ttl_ms=100, now_ms=50)
FENCE = Fence("j", 1)


def state_of(job: StoredJob | None) -> JobState | None:
    return job_states.describe(job).state if job else None


def test_a_delayed_job_is_claimable_later() -> None:
    job = job_states.enqueued(JobDraft("j", "q", b"", run_after_ms=7), retention_ms=1, now_ms=3)
    assert (job.available_at_ms, job_states.claimable_at_ms(job)) == (10, 10)


def test_a_claim_is_one_more_attempt_unless_the_holder_has_it() -> None:
    assert (HELD.attempts, HELD.holder, HELD.lease_expires_at_ms) == (1, "a", 150)
    again = job_states.claimed(HELD, holder="a", lease_ttl_ms=100, now_ms=60)
    assert again == replace(HELD, lease_expires_at_ms=160)
    assert job_states.claimed(HELD, holder="a", lease_ttl_ms=1, now_ms=60) == HELD


def test_time_gives_a_job_back() -> None:
    assert job_states.as_of(HELD, 149) == HELD
    free = job_states.as_of(HELD, 150)
    assert state_of(free) is JobState.QUEUED
    assert free is not None
    assert (free.available_at_ms, free.holder) == (150, "")


def test_time_ends_a_job_whose_attempts_are_used_up() -> None:
    job = replace(HELD, attempts=2)
    ended = job_states.as_of(job, 9_999) if job_states.as_of(job, 1149) is None else job_states.as_of(job, 1149)
    assert ended is not None
    assert ended.ending == job_states.Ending(JobState.FAILED, ATTEMPTS_EXHAUSTED, 150)
    assert job_states.as_of(job, 1150) is None


def test_time_ends_a_job_that_was_cancelled() -> None:
    job = job_states.cancelled(HELD, now_ms=60)
    assert (state_of(job), job.cancel_requested) == (JobState.RUNNING, True)
    assert state_of(job_states.as_of(job, 150)) is JobState.CANCELLED


def test_a_settlement_is_remembered() -> None:
    settled = job_states.settled(HELD, FENCE, JobOutcome.SUCCEEDED, "r", now_ms=60)
    assert state_of(settled) is JobState.SUCCEEDED
    assert job_states.settled(settled, FENCE, JobOutcome.SUCCEEDED, "r", now_ms=70) == settled
    for outcome, reason in ((JobOutcome.FAILED, "r"), (JobOutcome.SUCCEEDED, "other")):
        with pytest.raises(StaleFence):
            job_states.settled(settled, FENCE, outcome, reason, now_ms=70)


@pytest.mark.parametrize("job", [QUEUED, replace(HELD, attempts=2), replace(HELD, attempts=0)])
def test_a_stale_fence_is_refused(job: StoredJob) -> None:
    with pytest.raises(StaleFence):
        job_states.require(job, FENCE)


def test_an_ended_job_can_be_cancelled_no_more() -> None:
    settled = job_states.settled(HELD, FENCE, JobOutcome.FAILED, "", now_ms=60)
    assert job_states.cancelled(settled, now_ms=70) == settled
    assert not job_states.heeds_cancellation(settled)
    assert job_states.heeds_cancellation(job_states.cancelled(QUEUED, now_ms=70))


@given(st.lists(st.sampled_from(["claim", "retry", "cancel", "wait"]), max_size=12), st.integers(1, 3))
def test_what_an_engine_sorts_by_is_what_time_does(steps: list[str], max_attempts: int) -> None:
    """A job is claimable, or forgotten, from exactly the moment on that the stored columns said beforehand."""
    job, now_ms = replace(QUEUED, max_attempts=max_attempts), 10
    for step in steps:
        current = job_states.as_of(job, now_ms)
        if current is None:
            return
        job = current
        if step == "claim" and not job.is_held and job.ending is None:
            assert job.attempts < max_attempts
            job = job_states.claimed(job, holder="a", lease_ttl_ms=100, now_ms=now_ms)
        elif step == "retry" and job.is_held:
            job = job_states.settled(job, Fence("j", job.attempts), JobOutcome.RETRY, "", now_ms=now_ms)
        elif step == "cancel":
            job = job_states.cancelled(job, now_ms=now_ms)
        else:
            now_ms += 60
        claimable, forgettable = job_states.claimable_at_ms(job), job_states.forgettable_at_ms(job)
        assert (claimable is None) != (forgettable is None)
        if claimable is not None and claimable > now_ms:
            assert state_of(job_states.as_of(job, claimable - 1)) in (JobState.RUNNING, JobState.QUEUED)
            assert state_of(job_states.as_of(job, claimable)) is JobState.QUEUED
        if forgettable is not None:
            assert job_states.as_of(job, forgettable - 1) is not None
            assert job_states.as_of(job, forgettable) is None
