"""All operations of the store over one row backend."""

from __future__ import annotations

from antiphon_store.backends.base import Durability
from antiphon_store.engine.conversations import ConversationOperations, QuotaOperations
from antiphon_store.engine.jobs import EventLogOperations, JobOperations
from antiphon_store.engine.lineage import LineageOperations
from antiphon_store.engine.reclaiming import Reclaiming
from antiphon_store.engine.records import KeyedOperations, RecordOperations, SessionOperations
from antiphon_store.engine.tenant_line import TenantLine
from antiphon_store.engine.trees import Trees
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.runner import DecisionRunner


class RowEngine:
    """Implements `backends.engine.StoreEngine`: each operation is a method of a part."""

    def __init__(self, rows: RowBackend) -> None:
        self._rows = rows
        runner = DecisionRunner(rows)
        trees = Trees(runner)
        reclaiming = Reclaiming(rows, runner)
        records = RecordOperations(rows, trees, reclaiming)
        sessions = SessionOperations(trees, records)
        keyed = KeyedOperations(runner, sessions, records, trees)
        lineage = LineageOperations(rows, runner, trees)
        jobs = JobOperations(rows, trees, TenantLine(rows, runner))
        logs = EventLogOperations(trees)
        conversations = ConversationOperations(trees)

        self.open, self.close, self.ready = rows.open, rows.close, rows.ready
        self.put, self.fetch, self.remove = records.put, records.fetch, records.remove
        self.require_room, self.count_jobs = records.require_room, jobs.count_jobs
        self.ancestry, self.change_status = records.ancestry, records.change_status
        self.acquire_lease, self.renew_lease = sessions.acquire_lease, sessions.renew_lease
        self.release_lease, self.describe_session = sessions.release_lease, sessions.describe_session
        self.begin_turn, self.commit_turn = sessions.begin_turn, sessions.commit_turn
        self.begin_turn_once, self.commit_turn_once = keyed.begin_turn_once, keyed.commit_turn_once
        self.put_once, self.forget_key = keyed.put_once, keyed.forget_key
        self.fetch_many, self.session_records = lineage.fetch_many, lineage.session_records
        self.find_items, self.fork, self.subtree = lineage.find_items, lineage.fork, lineage.subtree
        self.children, self.siblings = lineage.children, lineage.siblings
        self.append_events, self.read_log = logs.append_events, logs.read_log
        self.enqueue_job, self.claim_job = jobs.enqueue_job, jobs.claim_job
        self.heartbeat_job, self.settle_job = jobs.heartbeat_job, jobs.settle_job
        self.cancel_job, self.describe_job = jobs.cancel_job, jobs.describe_job
        self.queue_head = jobs.queue_head
        self.create_conversation = conversations.create_conversation
        self.fetch_conversation = conversations.fetch_conversation
        self.update_conversation = conversations.update_conversation
        self.remove_conversation = conversations.remove_conversation
        self.add_items, self.conversation_items = conversations.add_items, conversations.conversation_items
        self.remove_item = conversations.remove_item
        self.sweep, self.tenants = reclaiming.sweep, reclaiming.tenants
        self.spend = QuotaOperations(runner).spend

    @property
    def durability(self) -> Durability:
        return self._rows.durability
