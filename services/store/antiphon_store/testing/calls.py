"""One call of each operation, for tests that go through all of them: before opening, after closing, on a wrapper."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from inspect import Parameter, signature
from typing import Any

from antiphon_core.ports.event_logs import EventAppend, EventBatch
from antiphon_core.ports.jobs import JobDraft, JobOutcome
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.quotas import Draw, Hold, QuotaRequest
from antiphon_core.ports.store import Fence, Status, TurnCommit, TurnRequest
from antiphon_store.testing.operations import OPERATIONS, Operation
from antiphon_store.testing.subject import draft, turn_in

TENANT, KEY, HASH = "t", "k", b"\x00" * 32
SESSION, CONVERSATION = (f"conv_{'0' * 47}{digit}" for digit in "13")  # of one tree
RECORD = draft(tag=SESSION, session_id=SESSION)
FENCE = Fence(SESSION, 1)
JOB = JobDraft(RECORD.id, "q", b"payload")
KEYED_TURN = TurnRequest(idempotency_key=KEY, fingerprint=HASH, response_id=RECORD.id)

Call = Callable[[Any], Awaitable[object]]


async def _first_of(reading: AsyncGenerator[EventBatch, None]) -> EventBatch:
    async with aclosing(reading):
        return await anext(reading)


CALLS: dict[str, Call] = {
    "begin_turn in a session": lambda s: s.begin_turn(TENANT, turn_in(SESSION)),
    "begin_turn of nothing": lambda s: s.begin_turn(TENANT, TurnRequest()),
    "begin_turn under a key": lambda s: s.begin_turn(TENANT, KEYED_TURN),
    "commit_turn in a session": lambda s: s.commit_turn(TENANT, TurnCommit(RECORD, FENCE)),
    "commit_turn under a key": lambda s: s.commit_turn(TENANT, TurnCommit(RECORD, idempotency_key=KEY)),
    "put under a key": lambda s: s.put(TENANT, RECORD, idempotency_key="k2"),
    "abort_turn under a key": lambda s: s.abort_turn(TENANT, None, idempotency_key=KEY, response_id=RECORD.id),
    "create_conversation": lambda s: s.create_conversation(TENANT, conversation_id=CONVERSATION),
    "read_events": lambda s: _first_of(s.read_events(TENANT, RECORD.id)),
    "heartbeat_job": lambda s: s.heartbeat_job(TENANT, Fence(JOB.id, 1)),
    "settle_job": lambda s: s.settle_job(TENANT, Fence(JOB.id, 1), JobOutcome.SUCCEEDED),
}


# The required arguments of the other operations, by name.
EXAMPLES: dict[str, Any] = {
    "approval_ids": [f"mcpr_{RECORD.id.removeprefix('resp_')}"],
    "append": EventAppend(RECORD.id, 0, 1, b"data: {}\n\n"),
    "commit": TurnCommit(RECORD),
    "content": b"{}",
    "conversation_id": CONVERSATION,
    "draft": JOB,
    "fence": FENCE,
    "holder": "h",
    "ids": [RECORD.id],
    "item_id": "msg_1",
    "item_ids": ["msg_1"],
    "items": b'[{"id":"msg_1"}]',
    "job_id": JOB.id,
    "limit": 9,
    "metadata": b'{"a":"b"}',
    "prompt_id": f"pmpt_{'0' * 48}",
    "queues": ["q"],
    "record": RECORD,
    "request": TurnRequest(previous_response_id=RECORD.id),
    "response_id": RECORD.id,
    "session_id": SESSION,
    "source": ForkSource(up_to_response_id=RECORD.id),
    "quota_request": QuotaRequest([Draw("requests", 1, 1, 20, 20)], Hold(["place"], 1000), ["another"]),
    "status": Status.FAILED,
    "tenant": TENANT,
    "version": 1,
}


def _call_of(operation: Operation) -> Call:
    """Makes a call of an operation with its required arguments."""
    _self, *parameters = signature(operation.declaration).parameters.values()
    needed = {each.name: EXAMPLES[each.name] for each in parameters if each.default is Parameter.empty}
    return lambda s: getattr(s, operation.name)(**needed)


def operation_of(call: str) -> str:
    """The name of the operation that this entry of `CALLS` calls."""
    return call.partition(" ")[0]


CALLS |= {name: _call_of(each) for name, each in OPERATIONS.items() if name not in CALLS}
