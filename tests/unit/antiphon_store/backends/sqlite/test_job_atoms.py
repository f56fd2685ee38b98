"""Atoms leave nothing half done in rows. What they mean: `antiphon_store.testing.jobs`."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from antiphon_core.errors import AlreadyExists, StaleFence
from antiphon_core.ports.jobs import JobOutcome
from antiphon_core.ports.store import Fence
from antiphon_store.backends.sqlite import job_atoms as atoms
from antiphon_store.testing.jobs import new_draft


def test_a_repeated_or_refused_write_changes_no_row(connection: sqlite3.Connection) -> None:
    job = new_draft()
    fence = Fence(job.id, 1)
    atoms.enqueue(connection, "t", job, retention_ms=100, now_ms=0)
    atoms.claim(connection, "t", ["q"], holder="a", lease_ttl_ms=100, now_ms=0)
    atoms.settle(connection, "t", fence, JobOutcome.SUCCEEDED, "", now_ms=1)
    before = list(connection.iterdump())
    atoms.enqueue(connection, "t", job, retention_ms=100, now_ms=9)
    atoms.settle(connection, "t", fence, JobOutcome.SUCCEEDED, "", now_ms=9)
    with pytest.raises(AlreadyExists):
        atoms.enqueue(connection, "t", replace(job, payload=b""), retention_ms=100, now_ms=9)
    with pytest.raises(StaleFence):
        atoms.heartbeat(connection, "t", fence, lease_ttl_ms=100, now_ms=9)
    assert atoms.claim(connection, "t", ["q"], holder="b", lease_ttl_ms=100, now_ms=9) is None
    assert list(connection.iterdump()) == before


def test_a_forgotten_job_makes_room(connection: sqlite3.Connection) -> None:
    job = new_draft()
    for now_ms in (0, 100):
        atoms.enqueue(connection, "t", job, retention_ms=100, now_ms=now_ms)
        assert atoms.cancel(connection, "t", job.id, now_ms=now_ms)
    assert connection.execute("SELECT count(*) FROM job_payload").fetchone() == (1,)
