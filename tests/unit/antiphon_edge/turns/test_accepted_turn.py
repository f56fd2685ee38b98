from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.errors import DataDamaged
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.jobs import Job
from antiphon_core.ports.store import NO_PRECONDITION, UNFINISHED, Fence, Lease, Record, Status
from antiphon_core.ports.translator import Turn
from antiphon_core.telemetry.correlation import Correlation
from antiphon_core.telemetry.trace_context import TraceContext
from antiphon_edge.turns.accepted_turn import AcceptedTurn, accepted_of, payload_of
from antiphon_edge.turns.leases import JobLease

RESPONSE_ID = new_response_id(RandomIds())
TURN = Turn(RESPONSE_ID, 1, b"{}", input=b'[{"id":"msg_1"}]')


def test_record_of_an_ended_turn_has_its_input_output_parent_and_session() -> None:
    accepted = AcceptedTurn("t", TURN, parent_id="resp_0", lease=Lease(Fence("s", 3), RESPONSE_ID, 9))
    assert accepted.record(Status.FAILED, b'{"a":1}', b"[]") == Record(
        id=RESPONSE_ID,
        status=Status.FAILED,
        body=b'{"a":1}',
        input_items=TURN.input,
        output_items=b"[]",
        parent_id="resp_0",
        session_id="s",
    )


def test_record_of_a_turn_without_a_lease_has_no_session() -> None:
    record = AcceptedTurn("t", TURN).record(Status.QUEUED, b"{}", b"[]")
    assert (record.session_id, record.parent_id, record.status) == (None, None, Status.QUEUED)


def test_turn_made_a_root_has_its_history_in_its_input() -> None:
    turn = Turn(RESPONSE_ID, 1, b"{}", history=b'[{"id":"msg_0"}]', input=TURN.input)
    root = AcceptedTurn("t", turn, parent_id="resp_0", key="k").as_root()
    record = root.record(Status.QUEUED, b"{}", b"[]")
    assert (record.parent_id, record.input_items) == (None, b'[{"id":"msg_0"},{"id":"msg_1"}]')
    assert (root.turn.history, root.key, root.response_id) == (b"[]", "k", RESPONSE_ID)


REQUEST = b'{"model":"m","temperature":0.1}'
QUEUED = Turn(
    RESPONSE_ID, 1_700_000_000, REQUEST, b'[{"id":"msg_1"}]', '["ä"]'.encode(), tenant="acme", lineages=(b"\xff", b"")
)


def job_with(payload: bytes) -> Job:
    return Job(RESPONSE_ID, "responses", payload, 1, 3, False, Fence(RESPONSE_ID, 1), 0)


def decoded(job: Job) -> Awaitable[AcceptedTurn]:
    jobs: Any = None
    return accepted_of("acme", job, JobLease(jobs, "acme", job))


@pytest.mark.parametrize("session_id", [None, "talk"])
async def test_the_payload_of_a_turn_is_read_back_as_that_turn_without_its_lease(session_id: str | None) -> None:
    lease = Lease(Fence(session_id, 7), RESPONSE_ID, 0) if session_id is not None else None
    accepted = AcceptedTurn("acme", QUEUED, parent_id="resp_" + "b" * 48, lease=lease)
    job = job_with(payload_of(accepted))
    again = await decoded(job)
    assert (again.tenant, again.turn, again.parent_id) == ("acme", QUEUED, accepted.parent_id)
    assert again.lease == (None if session_id is None else Lease(Fence(session_id, 0), RESPONSE_ID, 0))
    assert (again.is_stored, again.has_log, again.key, again.fence) == (True, True, None, None)
    assert again.is_from_job
    assert again.precondition.statuses == UNFINISHED


async def test_a_keyed_turn_writes_its_record_without_a_precondition_on_its_status() -> None:
    job = replace(job_with(payload_of(AcceptedTurn("acme", QUEUED))), queue=f"turn.{RESPONSE_ID}")
    assert (await decoded(job)).precondition == NO_PRECONDITION


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"5", dumps({})])
async def test_a_payload_that_is_no_turn_is_damaged(payload: bytes) -> None:
    with pytest.raises(DataDamaged):
        await decoded(job_with(payload))


async def test_a_job_remembers_the_request_that_it_was_made_for() -> None:
    trace = TraceContext("1" * 32, "2" * 16, is_sampled=True)
    accepted = AcceptedTurn("acme", QUEUED, made_for=Correlation("req_1", trace=trace), accepted_at_ms=7)
    again = await decoded(job_with(payload_of(accepted)))
    assert again.made_for == Correlation("req_1", RESPONSE_ID, RESPONSE_ID, trace)
    assert (again.accepted_at_ms, again.model) == (7, "m")


async def test_a_job_of_an_earlier_release_has_no_request() -> None:
    facts: Object = {"created_at": 1, "parent_id": None, "session_id": None, "request": {}, "history": [], "input": []}
    again = await decoded(job_with(dumps(facts)))
    assert again.made_for == Correlation(response_id=RESPONSE_ID, job_id=RESPONSE_ID)
