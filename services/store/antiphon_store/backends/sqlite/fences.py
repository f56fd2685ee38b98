"""Whether a fence still holds, whatever lease it is the proof of."""

from __future__ import annotations

import sqlite3

from antiphon_core.ports.store import Fence
from antiphon_store.backends import job_states, leases
from antiphon_store.backends.sqlite import job_rows, sessions


def require(connection: sqlite3.Connection, tenant: str, fence: Fence | None, now_ms: int) -> None:
    """StaleFence unless the lease of the fence lives: that of a job, when there is one of this id, or a session. No
    fence is always good."""
    if fence is None:
        return
    stored = job_rows.find(connection, tenant, fence.session_id)
    job = job_states.as_of(stored.job, now_ms) if stored is not None else None
    if job is not None:
        job_states.require(job, fence)
    else:
        leases.require(sessions.read(connection, tenant, fence.session_id), fence, now_ms)
