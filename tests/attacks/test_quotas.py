"""A tenant asks for more than its share. It is rejected with an error that names the limit, before any work is done."""

from __future__ import annotations

import pytest

from antiphon_core.errors import LimitExceeded, RequestRateExceeded
from antiphon_core.ids import RandomIds, new_conversation_id, new_response_id
from antiphon_core.ports.jobs import DISPATCH_QUEUE, JobDraft, JobOutcome
from antiphon_core.ports.quotas import Quotas
from antiphon_core.ports.store import Record, Status, TurnCommit, TurnRequest
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.roles import Role
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings

MOST = 5


async def opened(settings: StoreSettings) -> StoreService:
    backend = MemoryRows()
    await backend.open()
    return StoreService(backend, settings)


def new_job() -> JobDraft:
    return JobDraft(new_response_id(RandomIds()), DISPATCH_QUEUE, b"p")


async def test_jobs_above_a_tenants_limit_are_rejected_for_that_tenant_only() -> None:
    store = await opened(StoreSettings(jobs_per_tenant=MOST))
    jobs = [new_job() for _ in range(MOST)]
    for job in jobs:
        await store.enqueue_job("attacker", job)
    with pytest.raises(RequestRateExceeded) as refused:
        await store.enqueue_job("attacker", new_job())
    assert int(refused.value.facts["retry_after_ms"]) > 0
    await store.enqueue_job("attacker", jobs[0])  # enqueued again: this job is counted already
    await store.enqueue_job("victim", new_job())
    claimed = await store.claim_job("attacker", [DISPATCH_QUEUE], holder="h")
    assert claimed is not None
    await store.settle_job("attacker", claimed.fence, JobOutcome.SUCCEEDED)
    await store.enqueue_job("attacker", new_job())


def test_open_jobs_per_tenant_are_limited_by_default() -> None:
    assert StoreSettings().jobs_per_tenant > 0


async def test_a_turn_of_a_full_session_is_rejected_before_it_begins() -> None:
    store = await opened(StoreSettings(max_session_responses=2))
    session = new_conversation_id(RandomIds())
    parent: str | None = None
    for _ in range(2):
        turn_id = new_response_id(RandomIds(), relative=session)
        start = await store.begin_turn("t", TurnRequest(session_id=session, holder=turn_id))
        assert start.lease is not None
        record = Record(turn_id, Status.COMPLETED, b"{}", parent_id=parent, session_id=session)
        await store.commit_turn("t", TurnCommit(record, start.lease.fence))
        parent = turn_id
    with pytest.raises(LimitExceeded, match="which is the limit"):
        await store.begin_turn("t", TurnRequest(session_id=session, holder="another"))
    assert (await store.describe_session("t", session)).lease is None
    assert parent is not None
    await store.begin_turn("t", TurnRequest(session_id=session, holder=parent))  # the holder is the queued turn itself


def test_take_quota_requires_the_gateway_role() -> None:
    (method,) = [each for each in STORE.methods.values() if each.row.port is Quotas.take_quota]
    assert method.row.roles == {Role.GATEWAY}
