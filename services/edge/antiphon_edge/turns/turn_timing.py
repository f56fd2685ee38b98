"""The intervals and timeouts of running turns, in one place. Tests pass shorter ones. How failed calls are repeated is
decided in antiphon_core/retrying.py."""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon_core.limits import LEASE_TTL_MS_DEFAULT
from antiphon_core.retrying import FOLLOW, JOB, RetryPolicy
from antiphon_edge.turns.leases import RenewalPace

JOB_LEASE_MS = 6_000


@dataclass(frozen=True, slots=True)
class TurnTiming:
    """Seconds, unless the name says otherwise."""

    session_pace: RenewalPace = field(default=RenewalPace(every_s=LEASE_TTL_MS_DEFAULT / 1000 / 3, retry_s=1.0))
    """Renewals of a session's lease: three in its lifetime, so the store has two more periods to come back in."""
    job_lease_ms: int = JOB_LEASE_MS
    """The lifetime of a job's lease: so long after an edge or a worker died, another one can claim its jobs."""
    job_pace: RenewalPace = field(default=RenewalPace(every_s=JOB_LEASE_MS / 1000 / 3, retry_s=0.5))
    """Renewals of the lease of a keyed turn's job."""
    key_pace: RenewalPace = field(default=RenewalPace(every_s=60.0, retry_s=5.0))
    """New claims of a turn's idempotency key, because the turn may take longer than a claim lasts."""
    cancel_pace: RenewalPace = field(default=RenewalPace(every_s=0.5, retry_s=0.5))
    """Renewals of the lease of a background job. Their answers tell whether a client cancelled the job."""
    cancel_timeout_s: float = 3.0
    """How long the cancellation of a background response waits for its worker to stop."""

    engine_retry: RetryPolicy = JOB
    follow_retry: RetryPolicy = FOLLOW
    look_again: RetryPolicy = field(default=RetryPolicy(first_s=0.05, most_s=0.25))
    """The pauses between two looks for the record of an earlier request with the same key."""

    linger_s: float = 0.05
    """How long an event waits at most for later ones that are appended to the event log with it."""
    silence_s: float = 1.0
    """How long a keyed turn on another edge may send no event before the state of its job is read."""
    watch_s: float = 5.0
    """How long a background response may send no event before its follower checks that its job is not over."""
    stale_key_s: float = 10.0
    """How long the first request of a key may leave no job, log or record before its key is released."""
    begin_again_s: float = 0.1
    begins_max: int = 60
    """The pause before a keyed request is begun again while the turn of its key sends no events, and how often."""


DEFAULT_TIMING = TurnTiming()
