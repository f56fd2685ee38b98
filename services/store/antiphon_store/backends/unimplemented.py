"""What an engine answers for a topic that it lacks: Unimplemented, by the name of the RPC. Nothing is ever ignored."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.errors import Unimplemented
from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import Job, JobDescription, JobDraft, JobOutcome, JobPulse
from antiphon_core.ports.lineage import Fork, ForkSource, ResolvedItem, TreeNode
from antiphon_core.ports.retention import Sweeping
from antiphon_core.ports.store import Fence, Order, Precondition, Record, Stamp, Status, TurnRequest, TurnStart
from antiphon_store.backends.base import Write
from antiphon_store.backends.conversations import Addition, Founding
from antiphon_store.backends.roles.event_logs import LogPage
from antiphon_store.backends.roles.lineage import Position, Slice, Twig


class ConversationsNotYet:
    """`roles.conversations.ConversationAtoms` of an engine without conversations."""

    async def create_conversation(self, tenant: str, founding: Founding) -> Conversation:
        raise _missing("CreateConversation")

    async def fetch_conversation(self, tenant: str, conversation_id: str) -> Conversation:
        raise _missing("GetConversation")

    async def update_conversation(
        self, tenant: str, conversation_id: str, metadata: bytes, expected_version: int | None
    ) -> Conversation:
        raise _missing("UpdateConversation")

    async def remove_conversation(self, tenant: str, conversation_id: str) -> None:
        raise _missing("DeleteConversation")

    async def add_items(self, tenant: str, conversation_id: str, addition: Addition) -> bytes:
        raise _missing("AddConversationItems")

    async def conversation_items(self, tenant: str, conversation_id: str) -> bytes:
        raise _missing("ListConversationItems")

    async def remove_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        raise _missing("DeleteConversationItem")


class LineageNotYet:
    """The atoms of `roles.lineage` on an engine without them."""

    async def fetch_many(self, tenant: str, ids: Sequence[str], *, max_bytes: int) -> Sequence[Record]:
        raise _missing("BatchGet")

    async def change_status(self, tenant: str, response_id: str, status: Status, precondition: Precondition) -> Stamp:
        raise _missing("UpdateStatus")

    async def session_records(
        self, tenant: str, session_id: str, *, after: Position | None, limit: int, order: Order, max_bytes: int
    ) -> Slice[Record]:
        raise _missing("List")

    async def find_items(self, tenant: str, item_ids: Sequence[str], *, max_bytes: int) -> Sequence[ResolvedItem]:
        raise _missing("ResolveItems")

    async def fork(self, tenant: str, source: ForkSource, new_session_id: str) -> Fork:
        raise _missing("Fork")

    async def subtree(self, tenant: str, response_id: str, *, from_root: bool, max_nodes: int) -> Sequence[Twig]:
        raise _missing("Tree")

    async def children(self, tenant: str, response_id: str, *, after: Position | None, limit: int) -> Slice[TreeNode]:
        raise _missing("Children")

    async def siblings(self, tenant: str, response_id: str, *, after: Position | None, limit: int) -> Slice[TreeNode]:
        raise _missing("Siblings")


class EventLogNotYet:
    """`roles.event_logs.EventLogAtoms` of an engine without event logs."""

    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None, ttl_ms: int) -> int:
        raise _missing("AppendEvents")

    async def read_log(self, tenant: str, response_id: str, *, position: int, max_bytes: int) -> LogPage:
        raise _missing("ReadEvents")


class JobNotYet:
    """`roles.jobs.JobAtoms` of an engine without jobs."""

    async def enqueue_job(self, tenant: str, draft: JobDraft, *, retention_ms: int) -> None:
        raise _missing("EnqueueJob")

    async def claim_job(self, tenant: str, queues: Sequence[str], *, holder: str, lease_ttl_ms: int) -> Job | None:
        raise _missing("ClaimJob")

    async def heartbeat_job(self, tenant: str, fence: Fence, *, lease_ttl_ms: int) -> JobPulse:
        raise _missing("HeartbeatJob")

    async def settle_job(self, tenant: str, fence: Fence, outcome: JobOutcome, reason: str) -> None:
        raise _missing("SettleJob")

    async def cancel_job(self, tenant: str, job_id: str) -> bool:
        raise _missing("CancelJob")

    async def describe_job(self, tenant: str, job_id: str) -> JobDescription:
        raise _missing("Jobs")


class IdempotencyNotYet:
    """`roles.idempotency.IdempotencyAtoms` of an engine that remembers no keys."""

    async def begin_turn_once(self, tenant: str, request: TurnRequest, *, claim_ttl_ms: int) -> TurnStart:
        raise _missing("BeginTurn.idempotency_key")

    async def commit_turn_once(self, tenant: str, write: Write, fence: Fence | None, *, key: str) -> Stamp:
        raise _missing("CommitTurn.idempotency_key")

    async def put_once(self, tenant: str, write: Write, *, key: str, fingerprint: bytes) -> Stamp:
        raise _missing("Put.idempotency_key")

    async def forget_key(self, tenant: str, key: str, response_id: str) -> None:
        raise _missing("AbortTurn.idempotency_key")


class RetentionNotYet:
    """`roles.retention.RetentionAtoms` of an engine that reclaims nothing."""

    async def sweep(self, tenant: str, *, limit: int) -> Sweeping:
        raise _missing("Sweep")


def _missing(rpc: str) -> Unimplemented:
    return Unimplemented.of(f"{rpc} on this store's engine")
