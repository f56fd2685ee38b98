from __future__ import annotations

import sqlite3

import pytest

from antiphon_core.errors import StaleFence
from antiphon_core.ports.store import Fence
from antiphon_store.backends.sqlite import atoms, fences, job_atoms
from antiphon_store.testing.jobs import new_draft


def test_a_session_and_a_job_have_fences(connection: sqlite3.Connection) -> None:
    job = new_draft()
    job_atoms.enqueue(connection, "t", job, retention_ms=100, now_ms=0)
    job_atoms.claim(connection, "t", ["q"], holder="a", lease_ttl_ms=100, now_ms=0)
    lease = atoms.acquire_lease(connection, "t", "s", holder="a", ttl_ms=100, now_ms=0)
    fences.require(connection, "t", None, 0)
    for fence in (lease.fence, Fence(job.id, 1)):
        fences.require(connection, "t", fence, 99)
        for tenant, token, now_ms in (("t", 2, 99), ("other", 1, 99), ("t", 1, 100)):
            with pytest.raises(StaleFence):
                fences.require(connection, tenant, Fence(fence.session_id, token), now_ms)
