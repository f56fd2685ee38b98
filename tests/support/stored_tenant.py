"""A tenant with rows of every kind, and the answers of a store about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from antiphon_core.jsons import dumps, loads
from antiphon_core.limits import LEASE_TTL_MS_MAX
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch
from antiphon_core.ports.jobs import JobDraft
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.quotas import Draw, QuotaRequest
from antiphon_core.ports.store import ApprovalDraft, Fence, Order, Precondition, Record, Status, TurnCommit
from antiphon_store.service import StoreService
from antiphon_store.testing import approvals
from antiphon_store.testing.conversations import new_id
from antiphon_store.testing.idempotency import keyed_request
from antiphon_store.testing.subject import draft, new_session_id, turn_in, untagged_session_id

PROMPT = f"pmpt_{'1' * 48}"
KEY = "once \N{SNOWMAN}"


class StoredTenant:
    """Fills a store with a tenant, and queries it."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.session, self.fork, self.talk = new_session_id(), untagged_session_id(), new_id()
        self.line: list[Record] = []
        self.branch, self.running, self.deleted, self.once = (draft() for _ in range(4))

    async def fill(self, store: StoreService) -> None:
        tenant = self.tenant
        for _ in range(3):
            await self._turn(store)
        self.branch = draft(self.line[0])
        await store.put(tenant, self.branch)
        self.deleted = draft(self.line[1])
        await store.put(tenant, self.deleted)
        await store.delete(tenant, self.deleted.id)
        await store.fork(tenant, ForkSource(self.session, None), new_session_id=self.fork)
        await self._run_job(store)
        await self._talk(store)
        await store.begin_turn(tenant, keyed_request(self.once, key=KEY))
        await store.commit_turn(tenant, TurnCommit(self.once, idempotency_key=KEY))
        await store.take_quota(tenant, QuotaRequest([Draw("requests", 1, 1, 9, 9)]))

    async def _turn(self, store: StoreService) -> None:
        start = await store.begin_turn(self.tenant, turn_in(self.session))
        assert start.lease is not None
        parent = self.line[-1] if self.line else None
        record = draft(parent, tag=self.session, session_id=self.session)
        lineage, key = f"lineage of {record.id}".encode(), record.id[-16:].encode()
        asked = [ApprovalDraft(approvals.new_id(record), b'{"call":1}')]
        await store.commit_turn(
            self.tenant, TurnCommit(record, start.lease.fence, lineage=lineage, lineage_key=key, approvals=asked)
        )
        if parent is None:  # those of later turns stay open
            await store.begin_turn(self.tenant, approvals.answer(record, asked))
        self.line.append(record)

    async def _run_job(self, store: StoreService) -> None:
        """Stores a running response with a log and a claimed job, and a queued job."""
        self.running = draft(self.line[-1], status=Status.IN_PROGRESS)
        await store.put(self.tenant, self.running)
        for number, frames in enumerate([b"data: {}\n\n", b"\xff\x00 no text\n\n"]):
            append = EventAppend(self.running.id, number, 1, frames, checkpoint=Checkpoint(number, (1, 2)))
            await store.append_events(self.tenant, append)
        await store.enqueue_job(self.tenant, JobDraft(self.running.id, "q", b"held"))
        await store.claim_job(self.tenant, ["q"], holder="worker", lease_ttl_ms=LEASE_TTL_MS_MAX)
        await store.enqueue_job(self.tenant, JobDraft(self.line[0].id, "q", b"waits"))
        changed = replace(self.branch, output_items=dumps([{"id": "later", "type": "message"}]))
        await store.put(self.tenant, changed, precondition=Precondition(version=1))

    async def _talk(self, store: StoreService) -> None:
        items = dumps([{"id": "added-1", "type": "message"}, {"id": "added-2", "type": "message"}])
        await store.create_conversation(self.tenant, conversation_id=self.talk, metadata=b'{"a":"b"}', items=items)
        await store.delete_conversation_item(self.tenant, self.talk, "added-1")
        for version in (1, 2):
            await store.put_prompt(self.tenant, PROMPT, version, b"%d" % version)

    def queries(self, store: StoreService) -> dict[str, Callable[[], Awaitable[Any]]]:
        """Every query about the tenant, by name."""
        tenant, newest = self.tenant, self.line[-1].id
        items = ["added-1", "added-2", "later", *(each["id"] for each in loads(self.line[1].output_items))]

        async def log() -> list[EventBatch]:
            return [batch async for batch in store.read_events(tenant, self.running.id)]

        return {
            "chain": lambda: store.chain(tenant, newest),
            "branch": lambda: store.chain(tenant, self.branch.id),
            "session": lambda: store.describe_session(tenant, self.session),
            "fork": lambda: store.describe_session(tenant, self.fork),
            "list": lambda: store.list_responses(tenant, self.session, limit=2, order=Order.DESCENDING),
            "tree": lambda: store.tree(tenant, newest, from_root=True, max_nodes=99),
            "leaves": lambda: store.leaves(tenant, newest, limit=9),
            "children": lambda: store.children(tenant, self.line[0].id, limit=9),
            "siblings": lambda: store.siblings(tenant, self.branch.id, limit=9),
            "items": lambda: store.resolve_items(tenant, items),
            "log": log,
            "held job": lambda: store.describe_job(tenant, self.running.id),
            "waiting job": lambda: store.describe_job(tenant, self.line[0].id),
            "prompt": lambda: store.get_prompt(tenant, PROMPT, version=None),
            "first prompt": lambda: store.get_prompt(tenant, PROMPT, version=1),
            "list of prompts": lambda: store.list_prompts(tenant),
            "approvals": lambda: store.list_approvals(tenant, limit=9),
            "conversation": lambda: store.get_conversation(tenant, self.talk),
            "context": lambda: store.list_conversation_items(tenant, self.talk),
            "key": lambda: store.begin_turn(tenant, keyed_request(draft(), key=KEY)),
        }

    async def answers(self, store: StoreService) -> dict[str, Any]:
        """Queries the store about everything without changes."""
        return {name: await query() for name, query in self.queries(store).items()}

    async def next_steps(self, store: StoreService) -> list[Any]:
        """Continues the session and the jobs, and sweeps. Returns the outcomes."""
        tenant = self.tenant
        start = await store.begin_turn(tenant, turn_in(self.session))
        own = await store.claim_job(tenant, ["q"], holder="worker", lease_ttl_ms=LEASE_TTL_MS_MAX)
        other = await store.claim_job(tenant, ["q"], holder="another", lease_ttl_ms=LEASE_TTL_MS_MAX)
        swept = await store.sweep(tenant, limit=100)
        assert start.lease is not None
        assert start.lease.fence == Fence(self.session, 4)
        assert own is not None
        assert other is not None
        assert (own.id, other.id) == (self.running.id, self.line[0].id)
        assert swept.records == 1, swept
        return [start.history, own, other, swept]
