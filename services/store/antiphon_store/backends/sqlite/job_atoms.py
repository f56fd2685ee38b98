"""The atoms of `roles.jobs` as functions of a connection and the time; see atoms.py."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from antiphon_core.errors import AlreadyExists, JobNotFound
from antiphon_core.ports.jobs import Job, JobDescription, JobDraft, JobOutcome, JobPulse
from antiphon_core.ports.store import Fence
from antiphon_store.backends import job_states
from antiphon_store.backends.sqlite import job_rows as rows
from antiphon_store.backends.sqlite.job_rows import JobRow

_Connection = sqlite3.Connection


def enqueue(connection: _Connection, tenant: str, draft: JobDraft, *, retention_ms: int, now_ms: int) -> None:
    stored = rows.find(connection, tenant, draft.id)
    if stored is not None and job_states.as_of(stored.job, now_ms) is not None:
        payload = rows.read_payload(connection, stored.row, draft.id)
        if (stored.job.queue, payload) != (draft.queue, draft.payload):
            raise AlreadyExists.of(draft.id)
        return
    if stored is not None:
        rows.drop(connection, stored.row)
    job = job_states.enqueued(draft, retention_ms=retention_ms, now_ms=now_ms)
    rows.insert(connection, tenant, job, draft.payload)


def claim(
    connection: _Connection, tenant: str, queues: Sequence[str], *, holder: str, lease_ttl_ms: int, now_ms: int
) -> Job | None:
    job_id = rows.next_for(connection, tenant, queues, holder, now_ms)
    if job_id is None:
        return None
    row, job = _require(connection, tenant, job_id, now_ms)
    job = job_states.claimed(job, holder=holder, lease_ttl_ms=lease_ttl_ms, now_ms=now_ms)
    rows.update(connection, row, job)
    return job_states.granted(job, rows.read_payload(connection, row, job_id))


def heartbeat(connection: _Connection, tenant: str, fence: Fence, *, lease_ttl_ms: int, now_ms: int) -> JobPulse:
    row, job = _require(connection, tenant, fence.session_id, now_ms)
    job_states.require(job, fence)
    job = job_states.extended(job, lease_ttl_ms=lease_ttl_ms, now_ms=now_ms)
    rows.update(connection, row, job)
    return job_states.pulse(job)


def settle(
    connection: _Connection, tenant: str, fence: Fence, outcome: JobOutcome, reason: str, *, now_ms: int
) -> None:
    row, job = _require(connection, tenant, fence.session_id, now_ms)
    rows.update(connection, row, job_states.settled(job, fence, outcome, reason, now_ms=now_ms))


def cancel(connection: _Connection, tenant: str, job_id: str, *, now_ms: int) -> bool:
    row, job = _require(connection, tenant, job_id, now_ms)
    job = job_states.cancelled(job, now_ms=now_ms)
    rows.update(connection, row, job)
    return job_states.heeds_cancellation(job)


def describe(connection: _Connection, tenant: str, job_id: str, *, now_ms: int) -> JobDescription:
    return job_states.describe(_require(connection, tenant, job_id, now_ms).job)


def _require(connection: _Connection, tenant: str, job_id: str, now_ms: int) -> JobRow:
    """The job as of now. JobNotFound."""
    stored = rows.find(connection, tenant, job_id)
    job = job_states.as_of(stored.job, now_ms) if stored is not None else None
    if stored is None or job is None:
        raise JobNotFound.of(job_id)
    return JobRow(stored.row, job)
