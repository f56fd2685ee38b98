"""A sweep leaves no row behind. What it may reclaim: `antiphon_store.testing.sweeping`."""

from __future__ import annotations

import re
import sqlite3

import pytest

from antiphon_store.backends.base import Write
from antiphon_store.backends.sqlite import atoms, event_log_atoms, job_atoms, sweeping
from antiphon_store.testing.event_logs import append_at, new_id
from antiphon_store.testing.jobs import new_draft
from antiphon_store.testing.subject import draft


@pytest.mark.parametrize("name", sweeping.QUERIES)
def test_every_statement_fits_the_schema_and_scans_nothing(connection: sqlite3.Connection, name: str) -> None:
    parameters = dict.fromkeys(re.findall(r":(\w+)", sweeping.QUERIES[name]), 1)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sweeping.QUERIES[name]}", parameters)]
    of_tables = [step for step in plan if not step.startswith("SCAN of_")]  # those are steps of the statement itself
    assert not [step for step in of_tables if step.startswith("SCAN")], plan


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_nothing_is_left_of_what_expired(connection: sqlite3.Connection, limit: int) -> None:
    before = list(connection.iterdump())
    root = draft()
    for record in (root, first := draft(root), draft(root), draft(first), draft(first)):
        atoms.put(connection, "t", Write(record, ttl_ms=100), 0)
    event_log_atoms.append(connection, "t", append_at(new_id(), 0, 3), None, ttl_ms=100, now_ms=0)
    job = new_draft()
    job_atoms.enqueue(connection, "t", job, retention_ms=100, now_ms=0)
    job_atoms.cancel(connection, "t", job.id, now_ms=0)
    assert sweeping.sweep(connection, "t", limit=limit, now_ms=99).records == 0
    swept = 0
    for _ in range(7):
        swept += sweeping.sweep(connection, "t", limit=limit, now_ms=100).records
    assert swept == 7
    assert list(connection.iterdump()) == before
