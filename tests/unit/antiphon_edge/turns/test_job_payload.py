from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.errors import DataDamaged
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.jobs import Job
from antiphon_core.ports.store import NO_PRECONDITION, UNFINISHED, Fence, Lease
from antiphon_core.ports.translator import Turn
from antiphon_core.telemetry.correlation import Correlation
from antiphon_core.telemetry.trace_context import TraceContext
from antiphon_edge.turns import job_payload
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.leases import JobLease

RESPONSE_ID = "resp_" + "a" * 48
REQUEST = b'{"model":"m","temperature":0.1}'
TURN = Turn(RESPONSE_ID, 1_700_000_000, REQUEST, b'[{"id":"msg_1"}]', '["ä"]'.encode(), tenant="acme")


def job_with(payload: bytes) -> Job:
    return Job(RESPONSE_ID, "responses", payload, 1, 3, False, Fence(RESPONSE_ID, 1), 0)


def accepted_of(job: Job) -> Awaitable[AcceptedTurn]:
    jobs: Any = None
    return job_payload.accepted_of("acme", job, JobLease(jobs, "acme", job))


@pytest.mark.parametrize("session_id", [None, "talk"])
async def test_the_payload_of_a_turn_is_read_back_as_that_turn_without_its_lease(session_id: str | None) -> None:
    lease = Lease(Fence(session_id, 7), RESPONSE_ID, 0) if session_id is not None else None
    accepted = AcceptedTurn("acme", TURN, parent_id="resp_" + "b" * 48, lease=lease)
    job = job_with(job_payload.payload_of(accepted))
    again = await accepted_of(job)
    assert (again.tenant, again.turn, again.parent_id) == ("acme", TURN, accepted.parent_id)
    assert again.lease == (None if session_id is None else Lease(Fence(session_id, 0), RESPONSE_ID, 0))
    assert (again.keep, again.logged, again.key, again.fence) == (True, True, None, None)
    assert again.is_from_job
    assert again.precondition.statuses == UNFINISHED


async def test_a_keyed_turn_writes_its_record_without_a_precondition_on_its_status() -> None:
    job = replace(job_with(job_payload.payload_of(AcceptedTurn("acme", TURN))), queue=f"turn.{RESPONSE_ID}")
    assert (await accepted_of(job)).precondition == NO_PRECONDITION


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"5", dumps({})])
async def test_a_payload_that_is_no_turn_is_damaged(payload: bytes) -> None:
    with pytest.raises(DataDamaged):
        await accepted_of(job_with(payload))


async def test_a_job_remembers_the_request_that_it_was_made_for() -> None:
    trace = TraceContext("1" * 32, "2" * 16, is_sampled=True)
    accepted = AcceptedTurn("acme", TURN, made_for=Correlation("req_1", trace=trace), accepted_at_ms=7)
    again = await accepted_of(job_with(job_payload.payload_of(accepted)))
    assert again.made_for == Correlation("req_1", RESPONSE_ID, RESPONSE_ID, trace)
    assert (again.accepted_at_ms, again.model) == (7, "m")


async def test_a_job_of_an_earlier_release_has_no_request() -> None:
    facts: Object = {"created_at": 1, "parent_id": None, "session_id": None, "request": {}, "history": [], "input": []}
    again = await accepted_of(job_with(dumps(facts)))
    assert again.made_for == Correlation(response_id=RESPONSE_ID, job_id=RESPONSE_ID)
