from __future__ import annotations

import re
import sqlite3
from dataclasses import replace

import pytest

from antiphon_core.errors import InternalError
from antiphon_core.ports.jobs import JobOutcome, JobState
from antiphon_store.backends.job_states import Ending, Settlement, StoredJob
from antiphon_store.backends.sqlite import job_rows as rows

JOB = StoredJob("j", "q", max_attempts=2, retention_ms=1000, available_at_ms=10)


@pytest.mark.parametrize("name", rows.QUERIES)
def test_every_statement_fits_the_schema_and_scans_nothing(connection: sqlite3.Connection, name: str) -> None:
    parameters = dict.fromkeys(re.findall(r":(\w+)", rows.QUERIES[name]), 1)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {rows.QUERIES[name]}", parameters)]
    assert not [step for step in plan if step.startswith("SCAN")], plan


def test_choosing_a_claimable_job_sorts_nothing(connection: sqlite3.Connection) -> None:
    statement = rows.QUERIES["claimable_job"]
    plan = [
        row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", {"tenant": 1, "queue": 1, "now_ms": 1})
    ]
    assert len(plan) == 1
    assert "job_by_queue" in plan[0]


def test_a_job_is_written_and_overwritten(connection: sqlite3.Connection) -> None:
    rows.insert(connection, "t", JOB, b"payload")
    found = rows.find(connection, "t", "j")
    assert found is not None
    assert found.job == JOB
    for job in (
        replace(JOB, attempts=1, holder="a", lease_expires_at_ms=99, cancel_requested=True),
        replace(JOB, settlement=Settlement(1, JobOutcome.FAILED, "r"), ending=Ending(JobState.FAILED, "r", 5)),
    ):
        rows.update(connection, found.row, job)
        assert rows.find(connection, "t", "j") == (found.row, job)
    assert rows.find(connection, "other", "j") is None
    assert rows.read_payload(connection, found.row, "j") == b"payload"


def test_a_dropped_job_leaves_no_row(connection: sqlite3.Connection) -> None:
    before = list(connection.iterdump())
    rows.insert(connection, "t", JOB, b"payload")
    found = rows.find(connection, "t", "j")
    assert found is not None
    rows.drop(connection, found.row)
    assert list(connection.iterdump()) == before


def test_a_damaged_payload_is_noticed(connection: sqlite3.Connection) -> None:
    rows.insert(connection, "t", JOB, b"payload")
    connection.execute("UPDATE job_payload SET payload = x'00'")
    with pytest.raises(InternalError):
        rows.read_payload(connection, 1, "j")
