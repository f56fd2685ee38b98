"""Rows of jobs, as `job_states.StoredJob`. Tables and columns: migrations/*_jobs.sql.

Functions here are parts of atoms: they run inside the transaction of their caller.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

from antiphon_core.ports.jobs import JobOutcome, JobState
from antiphon_store.backends import job_states, named_queries
from antiphon_store.backends.job_states import Ending, Settlement, StoredJob
from antiphon_store.backends.node_rows import require_intact

QUERIES = named_queries.load("antiphon_store.backends.sqlite", "jobs.sql")

_READ = QUERIES["read_job"]
_INSERT = QUERIES["insert_job"]
_UPDATE = QUERIES["update_job"]
_HELD = QUERIES["held_job"]
_CLAIMABLE = QUERIES["claimable_job"]
_INSERT_PAYLOAD = QUERIES["insert_payload"]
_READ_PAYLOAD = QUERIES["read_payload"]
_DROP_PAYLOAD = QUERIES["drop_payload"]
_DROP = QUERIES["drop_job"]


class JobRow(NamedTuple):
    """A job and where it is stored."""

    row: int
    job: StoredJob


def find(connection: sqlite3.Connection, tenant: str, job_id: str) -> JobRow | None:
    """A job as it is stored, whatever time has done with it since."""
    row = connection.execute(_READ, {"tenant": tenant, "job_id": job_id}).fetchone()
    return JobRow(row[0], _to_job(row[1:])) if row else None


def insert(connection: sqlite3.Connection, tenant: str, job: StoredJob, payload: bytes) -> None:
    columns = {
        "tenant": tenant,
        "job_id": job.id,
        "queue": job.queue,
        "max_attempts": job.max_attempts,
        "retention_ms": job.retention_ms,
        **_changing(job),
    }
    row = connection.execute(_INSERT, columns).lastrowid
    connection.execute(_INSERT_PAYLOAD, {"job": row, "crc": _checksum(job.id, payload), "payload": payload})


def update(connection: sqlite3.Connection, row: int, job: StoredJob) -> None:
    connection.execute(_UPDATE, {"job": row, **_changing(job)})


def drop(connection: sqlite3.Connection, row: int) -> None:
    connection.execute(_DROP_PAYLOAD, {"job": row})
    connection.execute(_DROP, {"job": row})


def read_payload(connection: sqlite3.Connection, row: int, job_id: str) -> bytes:
    """InternalError: its bytes are not those that were written."""
    crc, payload = connection.execute(_READ_PAYLOAD, {"job": row}).fetchone()
    require_intact(job_id, crc, _checksum(job_id, payload))
    return bytes(payload)


def next_for(
    connection: sqlite3.Connection, tenant: str, queues: Sequence[str], holder: str, now_ms: int
) -> str | None:
    """The id of the job that a claim gets: the one that the holder has, else the one claimable for longest."""
    for statement in (_HELD, _CLAIMABLE):
        found = []
        for queue in queues:
            parameters = {"tenant": tenant, "queue": queue, "holder": holder, "now_ms": now_ms}
            found.extend(connection.execute(statement, parameters).fetchall())
        if found:
            _since_ms, _row, job_id = min(found)
            return str(job_id)
    return None


def _changing(job: StoredJob) -> dict[str, Any]:
    settlement, ending = job.settlement, job.ending
    return {
        "available_at_ms": job.available_at_ms,
        "attempts": job.attempts,
        "holder": job.holder,
        "lease_expires_at_ms": job.lease_expires_at_ms,
        "cancel_requested": int(job.cancel_requested),
        "settled_attempt": settlement.attempt if settlement else None,
        "settled_outcome": settlement.outcome.value if settlement else None,
        "settled_reason": settlement.reason if settlement else None,
        "ended_as": ending.state.value if ending else None,
        "ended_reason": ending.reason if ending else None,
        "ended_at_ms": ending.at_ms if ending else None,
        "claimable_at_ms": job_states.claimable_at_ms(job),
        "forgettable_at_ms": job_states.forgettable_at_ms(job),
    }


def _to_job(columns: Sequence[Any]) -> StoredJob:
    plain, cancel_requested = columns[:8], bool(columns[8])
    attempt, outcome, settled_reason, ended_as, ended_reason, ended_at_ms = columns[9:]
    settlement = Settlement(attempt, JobOutcome(outcome), settled_reason) if attempt is not None else None
    ending = Ending(JobState(ended_as), ended_reason, ended_at_ms) if ended_as is not None else None
    known: tuple[Any, ...] = (*plain, cancel_requested, settlement, ending)
    return StoredJob(*known)


def _checksum(job_id: str, payload: bytes) -> int:
    """CRC-32 of a payload. It begins with the job's id, so that another job's bytes are noticed as well."""
    return crc32(payload, crc32(job_id.encode()))
