"""One call of each atom, for tests that go through all of them: before opening, after closing, on a wrapper."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import Parameter, signature
from typing import Any

from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import JobDraft, JobOutcome
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.spending import Draw, Hold, Spend
from antiphon_core.ports.store import Fence, Order, Status, TurnRequest
from antiphon_store.testing.atoms import ATOMS, Atom
from antiphon_store.testing.subject import draft, turn_in
from antiphon_store.values import Addition, Founding, Write

TENANT, KEY, HASH = "t", "k", b"\x00" * 32
SESSION, OTHER_SESSION, CONVERSATION = (f"conv_{'0' * 47}{digit}" for digit in "123")  # of one tree
PROMPT = f"pmpt_{'0' * 48}"
RECORD = draft(tag=SESSION)
FENCE = Fence(SESSION, 1)
JOB = JobDraft(RECORD.id, "q", b"payload")
FOUNDING = Founding(b"{}", "origin", "incarnation")
ADDITION = Addition(b'[{"id":"msg_1"}]', "digest", "salt")
KEYED_TURN = TurnRequest(idempotency_key=KEY, fingerprint=HASH, response_id=RECORD.id)

Call = Callable[[Any], Awaitable[object]]

CALLS: dict[str, Call] = {
    "ready": lambda b: b.ready(),
    "put": lambda b: b.put(TENANT, Write(RECORD)),
    "ancestry": lambda b: b.ancestry(TENANT, RECORD.id, max_depth=9, max_bytes=9999),
    "acquire_lease": lambda b: b.acquire_lease(TENANT, SESSION, holder="h", ttl_ms=1000),
    "renew_lease": lambda b: b.renew_lease(TENANT, FENCE, ttl_ms=1000),
    "begin_turn": lambda b: b.begin_turn(TENANT, TurnRequest(previous_response_id=RECORD.id)),
    "begin_turn in a session": lambda b: b.begin_turn(TENANT, turn_in(SESSION)),
    "begin_turn of nothing": lambda b: b.begin_turn(TENANT, TurnRequest()),
    "require_room": lambda b: b.require_room(TENANT, SESSION, holder=RECORD.id, most=1),
    "commit_turn": lambda b: b.commit_turn(TENANT, Write(RECORD), None),
    "commit_turn in a session": lambda b: b.commit_turn(TENANT, Write(RECORD), FENCE),
    # Lineage
    "fetch_many": lambda b: b.fetch_many(TENANT, [RECORD.id], max_bytes=9999),
    "change_status": lambda b: b.change_status(TENANT, RECORD.id, Status.FAILED),
    "session_records": lambda b: b.session_records(
        TENANT, SESSION, after=None, limit=1, order=Order.ASCENDING, max_bytes=9999
    ),
    "find_items": lambda b: b.find_items(TENANT, ["msg_1"], max_bytes=9999),
    "fork": lambda b: b.fork(TENANT, ForkSource(up_to_response_id=RECORD.id), OTHER_SESSION),
    "tree": lambda b: b.tree(TENANT, RECORD.id, from_root=True, after=None, limit=9),
    "leaves": lambda b: b.leaves(TENANT, RECORD.id, after=None, limit=9),
    "children": lambda b: b.children(TENANT, RECORD.id, after=None, limit=1),
    "siblings": lambda b: b.siblings(TENANT, RECORD.id, after=None, limit=1),
    # Event logs
    "append_events": lambda b: b.append_events(
        TENANT, EventAppend(RECORD.id, 0, 1, b"data: {}\n\n"), fence=None, ttl_ms=60_000
    ),
    "read_log": lambda b: b.read_log(TENANT, RECORD.id, position=0, max_bytes=9999),
    # Jobs
    "enqueue_job": lambda b: b.enqueue_job(TENANT, JOB, retention_ms=60_000),
    "hand_in": lambda b: b.hand_in(TENANT),
    "claim_job": lambda b: b.claim_job(TENANT, ["q"], holder="h", lease_ttl_ms=1000),
    "heartbeat_job": lambda b: b.heartbeat_job(TENANT, Fence(JOB.id, 1), lease_ttl_ms=1000),
    "settle_job": lambda b: b.settle_job(TENANT, Fence(JOB.id, 1), JobOutcome.SUCCEEDED, ""),
    "count_jobs": lambda b: b.count_jobs(TENANT, "q", limit=9),
    "queue_head": lambda b: b.queue_head(limit=9),
    # Conversations
    "create_conversation": lambda b: b.create_conversation(TENANT, CONVERSATION, FOUNDING),
    "update_conversation": lambda b: b.update_conversation(TENANT, CONVERSATION, b'{"a":"b"}', None),
    "add_items": lambda b: b.add_items(TENANT, CONVERSATION, ADDITION),
    "conversation_items": lambda b: b.conversation_items(TENANT, CONVERSATION),
    "remove_item": lambda b: b.remove_item(TENANT, CONVERSATION, "msg_1"),
    "remove_conversation": lambda b: b.remove_conversation(TENANT, CONVERSATION),
    # Prompts
    "put_prompt": lambda b: b.put_prompt(TENANT, PROMPT, 1, b"{}"),
    "fetch_prompt": lambda b: b.fetch_prompt(TENANT, PROMPT, None),
    # Idempotency keys
    "begin_turn under a key": lambda b: b.begin_turn(TENANT, KEYED_TURN, claim_ttl_ms=60_000),
    "commit_turn under a key": lambda b: b.commit_turn(TENANT, Write(RECORD), None, key=KEY),
    "put under a key": lambda b: b.put(TENANT, Write(RECORD), key="k2"),
    "forget_key": lambda b: b.forget_key(TENANT, KEY, RECORD.id),
    # Quotas
    "spend": lambda b: b.spend(TENANT, Spend([Draw("requests", 1, 1, 20, 20)], Hold(["place"], 1000), ["another"])),
    # Retention
    "sweep": lambda b: b.sweep(TENANT, limit=1),
    "tenants": lambda b: b.tenants(),
    "remove": lambda b: b.remove(TENANT, RECORD.id),
}


# Arguments of operations that are not written out above, by name, else by type.
EXAMPLES: dict[str, Any] = {
    "tenant": TENANT,
    "session_id": SESSION,
    "conversation_id": CONVERSATION,
    "prompt_id": PROMPT,
    "fence": FENCE,
    "holder": "h",
    "str": RECORD.id,
    "int": 1000,
}


def _made(atom: Atom) -> Call:
    """A call of an operation with arguments that fit."""
    _self, *parameters = signature(atom.declaration).parameters.values()
    named = [each for each in parameters if each.name != "tenant"]
    values = {each.name: EXAMPLES.get(each.name, EXAMPLES.get(each.annotation)) for each in named}
    by_place = [values[each.name] for each in named if each.kind is not Parameter.KEYWORD_ONLY]
    by_name = {each.name: values[each.name] for each in named if each.kind is Parameter.KEYWORD_ONLY}
    return lambda b: getattr(b, atom.name)(TENANT, *by_place, **by_name)


def atom_of(call: str) -> str:
    """The name of the atom that this entry of `CALLS` calls."""
    return call.partition(" ")[0]


CALLS |= {name: _made(atom) for name, atom in ATOMS.items() if name not in map(atom_of, CALLS)}
