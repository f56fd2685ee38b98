"""The intervals, timeouts and retries of running turns, in one place. Tests pass shorter ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon_core.limits import LEASE_TTL_MS_DEFAULT
from antiphon_edge.turns.lease_keeper import RenewalPace
from antiphon_edge.turns.store_retry import RetryPolicy

JOB_LEASE_MS = 6_000


@dataclass(frozen=True, slots=True)
class TurnTiming:
    """Seconds, unless the name says otherwise."""

    session_pace: RenewalPace = field(default=RenewalPace(every_s=LEASE_TTL_MS_DEFAULT / 1000 / 3, retry_s=1.0))
    """Renewing a session's lease: after a failure there are two more periods in which the store can come back."""
    job_lease_ms: int = JOB_LEASE_MS
    """So long after the death of an edge or a worker another one takes its jobs over."""
    job_pace: RenewalPace = field(default=RenewalPace(every_s=JOB_LEASE_MS / 1000 / 3, retry_s=0.5))
    """Renews the lease of a keyed turn's job."""
    key_pace: RenewalPace = field(default=RenewalPace(every_s=60.0, retry_s=5.0))
    """Claiming an idempotency key again: a turn may take longer than a claim lasts."""
    cancel_pace: RenewalPace = field(default=RenewalPace(every_s=0.5, retry_s=0.5))
    """Renewing the lease of a background job. The answer tells that a client wants it cancelled."""
    cancel_timeout_s: float = 3.0
    """How long a caller who cancels waits until the worker has stopped."""

    commit_retry: RetryPolicy = field(default=RetryPolicy(for_s=10.0))
    """Retries of a commit go on for longer than a restart of the store takes: a finished generation is not given up."""
    append_retry: RetryPolicy = field(default=RetryPolicy(for_s=3.0))
    """One append to an event log; the next batch, and the end of the turn, try again."""
    engine_retry: RetryPolicy = field(default=RetryPolicy(for_s=300.0, first_s=0.5, most_s=15.0))
    """Pauses between the attempts at a background turn whose translator or engine is away. `for_s`: their sum, before
    the turn ends as failed."""
    look_again: RetryPolicy = field(default=RetryPolicy(for_s=10.0, first_s=0.05, most_s=0.25))
    """Something that another process is about to write, a log or a job; and the store, for a reader in mid-stream."""

    linger_s: float = 0.05
    """How long an event waits for more at most, before it is appended to an event log."""
    silence_s: float = 1.0
    """How long a keyed turn that runs elsewhere may be silent before its job is looked at."""
    watch_s: float = 5.0
    """How often the follower of a background response looks whether anybody still works on it."""
    stale_key_s: float = 10.0
    """How long a first request may leave nothing behind before its key is released."""


DEFAULT_TIMING = TurnTiming()
