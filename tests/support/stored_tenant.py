"""A tenant that has something of every kind of row, and what a store answers about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.event_logs import Checkpoint, EventAppend
from antiphon_core.ports.jobs import JobDraft
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.spending import Draw, Spend
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Order, Precondition, Record, Status
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.testing.conversations import new_id
from antiphon_store.testing.idempotency import keyed
from antiphon_store.testing.subject import draft, new_session_id, turn_in, untagged_session_id
from antiphon_store.values import Addition, Founding, Write

DAY_MS = 86_400_000
BOUNDS = {"max_depth": 100, "max_bytes": 2**20}
PROMPT = f"pmpt_{'1' * 48}"
KEY = "once \N{SNOWMAN}"


class StoredTenant:
    """Fills a store, and asks it."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.session, self.fork, self.talk = new_session_id(), untagged_session_id(), new_id()
        self.line: list[Record] = []
        self.branch, self.running, self.deleted, self.once = (draft() for _ in range(4))

    async def fill(self, engine: StoreEngine) -> None:
        tenant = self.tenant
        for _ in range(3):
            await self._turn(engine)
        self.branch = draft(self.line[0])
        await engine.put(tenant, _write(self.branch))
        self.deleted = draft(self.line[1])
        await engine.put(tenant, _write(self.deleted))
        await engine.remove(tenant, self.deleted.id)
        await engine.fork(tenant, ForkSource(self.session, None), self.fork)
        await self._run_job(engine)
        await self._talk(engine)
        await engine.begin_turn(tenant, keyed(self.once, key=KEY), claim_ttl_ms=1000)
        await engine.commit_turn(tenant, _write(self.once), None, key=KEY)
        await engine.spend(tenant, Spend([Draw("requests", 1, 1, 9, 9)]))

    async def _turn(self, engine: StoreEngine) -> None:
        start = await engine.begin_turn(self.tenant, turn_in(self.session))
        assert start.lease is not None
        parent = self.line[-1] if self.line else None
        record = draft(parent, tag=self.session, session_id=self.session)
        await engine.commit_turn(self.tenant, _write(record), start.lease.fence)
        self.line.append(record)

    async def _run_job(self, engine: StoreEngine) -> None:
        """A running response with a log and a held job, and a job that waits."""
        self.running = draft(self.line[-1], status=Status.IN_PROGRESS)
        await engine.put(self.tenant, _write(self.running))
        for number, frames in enumerate([b"data: {}\n\n", b"\xff\x00 no text"]):
            append = EventAppend(self.running.id, number, 1, frames, checkpoint=Checkpoint(number, (1, 2)))
            await engine.append_events(self.tenant, append, fence=None, ttl_ms=DAY_MS)
        await engine.enqueue_job(self.tenant, JobDraft(self.running.id, "q", b"held"), retention_ms=DAY_MS)
        await engine.claim_job(self.tenant, ["q"], holder="worker", lease_ttl_ms=DAY_MS)
        await engine.enqueue_job(self.tenant, JobDraft(self.line[0].id, "q", b"waits"), retention_ms=DAY_MS)
        changed = replace(self.branch, output_items=dumps([{"id": "later", "type": "message"}]))
        await engine.put(self.tenant, _write(changed, Precondition(version=1)))

    async def _talk(self, engine: StoreEngine) -> None:
        items = dumps([{"id": "added-1", "type": "message"}, {"id": "added-2", "type": "message"}])
        first = Addition(items, "digest", "salt")
        await engine.create_conversation(self.tenant, self.talk, Founding(b'{"a":"b"}', "origin", "one", first))
        await engine.remove_item(self.tenant, self.talk, "added-1")
        for version in (1, 2):
            await engine.put_prompt(self.tenant, PROMPT, version, b"%d" % version)

    async def answers(self, engine: StoreEngine) -> dict[str, Any]:
        """Asks the store about everything, without changing anything."""
        tenant, newest = self.tenant, self.line[-1].id
        listed = await engine.session_records(
            tenant, self.session, after=None, limit=2, order=Order.DESCENDING, max_bytes=2**20
        )
        items = ["added-1", "added-2", "later", *(each["id"] for each in loads(self.line[1].output_items))]
        return {
            "chain": await engine.ancestry(tenant, newest, **BOUNDS),
            "branch": await engine.ancestry(tenant, self.branch.id, **BOUNDS),
            "session": await engine.describe_session(tenant, self.session),
            "fork": await engine.describe_session(tenant, self.fork),
            "list": listed,
            "tree": (await engine.tree(tenant, newest, from_root=True, after=None, limit=99)).values,
            "children": await engine.children(tenant, self.line[0].id, after=None, limit=9),
            "siblings": await engine.siblings(tenant, self.branch.id, after=None, limit=9),
            "items": await engine.find_items(tenant, items, max_bytes=2**20),
            "log": await engine.read_log(tenant, self.running.id, position=0, max_bytes=2**20),
            "jobs": [await engine.describe_job(tenant, each) for each in (self.running.id, self.line[0].id)],
            "prompts": [await engine.fetch_prompt(tenant, PROMPT, version) for version in (None, 1)],
            "list of prompts": await engine.list_prompts(tenant),
            "conversation": await engine.fetch_conversation(tenant, self.talk),
            "context": await engine.conversation_items(tenant, self.talk),
            "key": await engine.begin_turn(tenant, keyed(draft(), key=KEY), claim_ttl_ms=1000),
        }

    async def next_steps(self, engine: StoreEngine) -> list[Any]:
        """Goes on with the session and with the jobs, and sweeps: the outcomes."""
        tenant = self.tenant
        start = await engine.begin_turn(tenant, turn_in(self.session))
        own = await engine.claim_job(tenant, ["q"], holder="worker", lease_ttl_ms=DAY_MS)
        other = await engine.claim_job(tenant, ["q"], holder="another", lease_ttl_ms=DAY_MS)
        swept = await engine.sweep(tenant, limit=100)
        assert start.lease is not None
        assert start.lease.fence == Fence(self.session, 4)
        assert own is not None
        assert other is not None
        assert (own.id, other.id) == (self.running.id, self.line[0].id)
        assert swept.records == 1, swept
        return [start.history, own, other, swept]


def _write(record: Record, precondition: Precondition = NO_PRECONDITION) -> Write:
    ids = [item["id"] for part in (record.input_items, record.output_items) for item in loads(part)]
    return Write(record, precondition, ttl_ms=DAY_MS, item_ids=tuple(ids))
