from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InternalError, JobNotFound
from antiphon_core.ports.jobs import JobDraft, JobOutcome
from antiphon_store.backends import job_states
from antiphon_store.backends.base import Durability
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.postgres.jobs import _job_of
from antiphon_store.backends.postgres.server import Connection

RETENTION_MS = 1000
LEASE_MS = 300


@pytest.fixture
async def backend(url: str, schema: str, clock: ManualClock) -> AsyncIterator[PostgresBackend]:
    backend = PostgresBackend(url, database_schema=schema, durability=Durability.PROCESS, clock=clock)
    await backend.open()
    yield backend
    await backend.close()


async def claim(backend: PostgresBackend, holder: str) -> str | None:
    job = await backend.claim_job("t", ["q"], holder=holder, lease_ttl_ms=LEASE_MS)
    return job.id if job else None


async def test_each_job_is_claimed_once(backend: PostgresBackend) -> None:
    for number in range(40):
        await backend.enqueue_job("t", JobDraft(f"job-{number}", "q", b"{}"), retention_ms=RETENTION_MS)
    claimed = await asyncio.gather(*(claim(backend, f"holder-{number}") for number in range(40)))
    assert sorted(filter(None, claimed)) == sorted(f"job-{number}" for number in range(40))
    assert await claim(backend, "another") is None


async def test_the_database_foresees_what_the_rules_say(
    backend: PostgresBackend, connection: Connection, clock: ManualClock
) -> None:
    """Its generated columns are `job_states.claimable_at_ms` and `forgettable_at_ms`, whatever happened to a job."""

    async def require_agreement() -> None:
        columns = (
            "job_id, queue, max_attempts, retention_ms, available_at_ms, attempts, holder, lease_expires_at_ms, "
            "cancel_requested, settled_attempt, settled_outcome, settled_reason, ended_as, ended_reason, ended_at_ms"
        )
        statement = f"SELECT claimable_at_ms, forgettable_at_ms, {columns} FROM job"
        for claimable, forgettable, *rest in await (await connection.execute(statement, binary=True)).fetchall():
            job = _job_of(rest)
            assert (claimable, forgettable) == (job_states.claimable_at_ms(job), job_states.forgettable_at_ms(job))

    await backend.enqueue_job("t", JobDraft("a", "q", b"{}", max_attempts=2), retention_ms=RETENTION_MS)
    await backend.enqueue_job("t", JobDraft("b", "q", b"{}", run_after_ms=50), retention_ms=RETENTION_MS)
    await require_agreement()
    for _ in range(4):
        job = await backend.claim_job("t", ["q"], holder="h", lease_ttl_ms=LEASE_MS)
        await require_agreement()
        if job is not None:
            await backend.settle_job("t", job.fence, JobOutcome.RETRY, "ü\0")
            await require_agreement()
        clock.advance(0.1)
    await backend.cancel_job("t", "b")
    await require_agreement()


async def test_a_forgotten_id_can_be_used_again(backend: PostgresBackend, clock: ManualClock) -> None:
    await backend.enqueue_job("t", JobDraft("a", "q", b"1"), retention_ms=RETENTION_MS)
    await backend.cancel_job("t", "a")
    clock.advance(RETENTION_MS / 1000)
    with pytest.raises(JobNotFound):
        await backend.describe_job("t", "a")
    await backend.enqueue_job("t", JobDraft("a", "q", b"2"), retention_ms=RETENTION_MS)
    assert await claim(backend, "h") == "a"


async def test_damage_is_an_error_that_names_the_job(backend: PostgresBackend, connection: Connection) -> None:
    await backend.enqueue_job("t", JobDraft("a", "q", b"1"), retention_ms=RETENTION_MS)
    await connection.execute("UPDATE job_payload SET payload = '2'")
    with pytest.raises(InternalError, match="'a'"):
        await claim(backend, "h")
