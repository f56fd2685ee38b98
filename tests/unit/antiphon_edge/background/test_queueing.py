from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_core import events
from antiphon_core.ports.jobs import Job
from antiphon_core.ports.store import Lease, Precondition, Record, Status, TurnCommit, TurnRequest
from antiphon_core.ports.translator import Turn
from antiphon_edge.background import queueing
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService

RESPONSE_ID = "resp_" + "a" * 48
TURN = Turn(RESPONSE_ID, 1_700_000_000, b'{"model":"m","temperature":0.1}', b'[{"id":"msg_1"}]', '["ä"]'.encode())


@pytest.fixture
async def store() -> AsyncIterator[StoreService]:
    backend = row_backend("memory://")
    await backend.open()
    yield StoreService(backend)
    await backend.close()


async def claimed(store: StoreService, tenant: str) -> Job:
    job = await store.claim_job(tenant, [queueing.QUEUE], holder="test")
    assert job is not None
    return job


def queued(accepted: AcceptedTurn) -> TurnCommit:
    record = Record(RESPONSE_ID, Status.QUEUED, b"{}")
    return TurnCommit(record, precondition=Precondition(fence=accepted.fence), job=queueing.job_of(accepted))


async def test_job_of_an_unknown_tenant_is_claimed_once_though_committed_twice(store: StoreService) -> None:
    for _ in range(2):
        await store.commit_turn("acme", queued(AcceptedTurn("acme", TURN)))
    job = await claimed(store, queueing.DISPATCH_TENANT)
    assert (job.tenant, job.id) == ("acme", RESPONSE_ID)
    assert await store.claim_job(queueing.DISPATCH_TENANT, [queueing.QUEUE], holder="other") is None


async def test_a_turn_that_waits_for_a_worker_keeps_its_session(store: StoreService) -> None:
    talk = "conv_" + RESPONSE_ID.removeprefix("resp_")
    start = await store.begin_turn("acme", TurnRequest(session_id=talk, holder=RESPONSE_ID))
    assert start.lease is not None
    await store.commit_turn("acme", queued(AcceptedTurn("acme", TURN, lease=start.lease)))
    lease = (await store.describe_session("acme", talk)).lease
    assert isinstance(lease, Lease)
    assert lease.holder == RESPONSE_ID
    assert lease.expires_at_ms >= start.lease.expires_at_ms + queueing.WAITING_LEASE_MS // 2


def test_a_stream_opens_with_created_and_queued() -> None:
    queued = {"id": RESPONSE_ID, "status": "queued"}
    start = queueing.opening(RESPONSE_ID, queued)
    told = events.decode(start.frames)
    assert (start.expected_position, start.count) == (0, queueing.OPENING_EVENTS)
    assert [(event["type"], event["sequence_number"]) for event in told] == [(events.CREATED, 0), (events.QUEUED, 1)]
    assert all(event["response"] == queued for event in told)
