"""The table of methods: one row for each RPC of each service.

Names and messages come from the descriptors. A row adds the method of the port that the RPC calls, the roles that may
call it, its deadline, and how it is repeated. The table drives servers, clients, metrics and tests
(docs/adr/0072-two-store-apis-and-one-table.md).
"""

from __future__ import annotations

import antiphon_protos.antiphon.store.internal.v1
import antiphon_protos.antiphon.store.v1
import antiphon_protos.antiphon.tools.v1
import antiphon_protos.antiphon.translator.v1  # noqa: F401 - each adds its files to the pool
from antiphon_core.ports.approvals import Approvals
from antiphon_core.ports.conversations import ConversationStore as Conversations
from antiphon_core.ports.event_logs import EventLogs
from antiphon_core.ports.jobs import Jobs
from antiphon_core.ports.lineage import LineageStore as Lineage
from antiphon_core.ports.prompts import PromptStore as Prompts
from antiphon_core.ports.quotas import Quotas
from antiphon_core.ports.retention import Retention
from antiphon_core.ports.store import ResponseStore as Store
from antiphon_core.ports.tools import Tools
from antiphon_core.ports.translator import Translator
from antiphon_core.ports.web_search import WebSearch
from antiphon_core.retrying import Retry
from antiphon_core.rpc.roles import Role, Roles
from antiphon_core.rpc.services import Api, Repeat, Row, make_service
from antiphon_protos.google_proto_descriptor_pool import default_google_proto_descriptor_pool as _pool

_READ: Roles = frozenset({Role.READER, Role.WRITER, Role.GATEWAY})
_WRITE: Roles = frozenset({Role.WRITER, Role.GATEWAY})
_TURN: Roles = frozenset({Role.GATEWAY})
_OPERATE: Roles = frozenset({Role.OPERATOR})

_POINT_S = 5.0  # one look-up or one small write
_SCAN_S = 15.0  # may read a whole chain or tree
_WAIT_S = 75.0  # waits for a lease or a job, LEASE_WAIT_MS_MAX at most

_PUBLIC: dict[str, tuple[Row, ...]] = {
    "Responses": (
        Row("PutResponseRecord", Store.put, _WRITE, _POINT_S),
        Row("GetResponseRecord", Store.get, _READ, _POINT_S),
        Row("BatchGetResponseRecords", Lineage.batch_get, _READ, _SCAN_S),
        Row("UpdateResponseRecordStatus", Lineage.update_status, _WRITE, _POINT_S),
        Row("DeleteResponseRecord", Store.delete, _WRITE, _POINT_S),
        Row("ListResponseRecords", Lineage.list_responses, _READ, _SCAN_S),
        Row("ListInputItems", Store.list_items, _READ, _POINT_S),
        Row("ResolveItems", Lineage.resolve_items, _READ, _POINT_S),
    ),
    "Trees": (
        Row("GetChain", Store.chain, _READ, _SCAN_S),
        Row("Fork", Lineage.fork, _WRITE, _POINT_S, Repeat.NAMED),
        Row("ListTree", Lineage.tree, _READ, _SCAN_S),
        Row("ListChildren", Lineage.children, _READ, _POINT_S),
        Row("ListSiblings", Lineage.siblings, _READ, _POINT_S),
        Row("ListLeaves", Lineage.leaves, _READ, _SCAN_S),
    ),
    "Sessions": (
        Row("AcquireSession", Store.acquire_session, _WRITE, _WAIT_S, fails_fast=False),
        Row("TryAcquireSession", Store.acquire_session, _WRITE, _POINT_S, fails_fast=False),
        Row("RenewSession", Store.renew_session, _WRITE, _POINT_S, retry=Retry.ONCE),
        Row("ReleaseSession", Store.release_session, _WRITE, _POINT_S, fails_fast=False),
        Row("DescribeSession", Store.describe_session, _READ | _OPERATE, _POINT_S),
    ),
    "Conversations": (
        Row("CreateConversation", Conversations.create_conversation, _WRITE, _POINT_S, Repeat.NAMED),
        Row("GetConversation", Conversations.get_conversation, _READ, _POINT_S),
        Row("UpdateConversation", Conversations.update_conversation, _WRITE, _POINT_S),
        Row("DeleteConversation", Conversations.delete_conversation, _WRITE, _POINT_S),
        Row("AddConversationItems", Conversations.add_conversation_items, _WRITE, _POINT_S, Repeat.ITEMS),
        Row("ListConversationItems", Conversations.list_conversation_items, _READ, _POINT_S),
        Row("GetConversationItem", Conversations.get_conversation_item, _READ, _POINT_S),
        Row("DeleteConversationItem", Conversations.delete_conversation_item, _WRITE, _POINT_S),
    ),
}

_INTERNAL: dict[str, tuple[Row, ...]] = {
    "Turns": (
        Row("BeginTurn", Store.begin_turn, _TURN, _WAIT_S, fails_fast=False),
        Row("CommitTurn", Store.commit_turn, _TURN, _POINT_S, retry=Retry.KEEP),
        Row("AbortTurn", Store.abort_turn, _TURN, _POINT_S, fails_fast=False),
    ),
    "EventLogs": (
        Row("AppendEvents", EventLogs.append_events, _TURN, _POINT_S, retry=Retry.KEEP),
        Row("AppendToLogs", EventLogs.append_events, _TURN, _POINT_S, retry=Retry.KEEP),
        Row("ReadEvents", EventLogs.read_events, _TURN, None, is_checked_again=True),
    ),
    "Jobs": (
        Row("EnqueueJob", Jobs.enqueue_job, _TURN, _POINT_S),
        Row("ClaimJob", Jobs.claim_job, _TURN, _WAIT_S, Repeat.HELD, fails_fast=False),
        Row("HeartbeatJob", Jobs.heartbeat_job, _TURN, _POINT_S, retry=Retry.ONCE, fails_fast=False),
        Row("SettleJob", Jobs.settle_job, _TURN, _POINT_S, fails_fast=False),
        Row("CancelJob", Jobs.cancel_job, _TURN | _OPERATE, _POINT_S),
        Row("DescribeJob", Jobs.describe_job, _TURN | _OPERATE, _POINT_S),
    ),
    "Prompts": (
        Row("PutPrompt", Prompts.put_prompt, _TURN, _POINT_S),
        Row("GetPrompt", Prompts.get_prompt, _TURN, _POINT_S),
        Row("ListPrompts", Prompts.list_prompts, _TURN, _SCAN_S),
        Row("DeletePrompt", Prompts.delete_prompt, _TURN, _POINT_S),
    ),
    "Approvals": (
        Row("ListApprovals", Approvals.list_approvals, _TURN, _SCAN_S),
        Row("HoldApprovals", Approvals.hold_approvals, _TURN, _POINT_S),
        Row("ReturnApprovals", Approvals.return_approvals, _TURN, _POINT_S),
    ),
    "Quotas": (Row("TakeQuota", Quotas.take_quota, _TURN, _POINT_S, Repeat.KEYED, fails_fast=False),),
    "Retention": (Row("Sweep", Retention.sweep, _OPERATE, _SCAN_S),),
}

_TRANSLATOR: dict[str, tuple[Row, ...]] = {
    "TranslatorService": (
        Row("Generate", Translator.generate, _TURN, None),
        Row("CountTokens", Translator.count_tokens, _TURN, _SCAN_S),
        Row("CheckTurn", Translator.check, _TURN, _SCAN_S),
        Row("ExplainCache", Translator.explain_cache, _TURN, _SCAN_S),
        Row("ListModels", Translator.models, _TURN, _POINT_S),
    ),
}

_TOOLS: dict[str, tuple[Row, ...]] = {
    "ToolService": (
        Row("ListTools", Tools.list_tools, _TURN, _WAIT_S),
        Row("CallTool", Tools.call_tool, _TURN, None, Repeat.KEYED),
        Row("CancelCall", Tools.call_tool, _TURN, _POINT_S),
        Row("Search", WebSearch.search, _TURN, _WAIT_S),
    ),
}

_NEED_ROOM = frozenset({"Turns"})
"""Services that need room for new data. While the store is full, they report NOT_SERVING; the others still read, change
and delete data."""


def _api(tables: dict[str, dict[str, tuple[Row, ...]]]) -> Api:
    """The API with the services of `tables`: package -> service name -> rows."""
    return Api(
        [
            make_service(_pool.FindServiceByName(f"{package}.{name}"), rows, needs_room=name in _NEED_ROOM)
            for package, services in tables.items()
            for name, rows in services.items()
        ]
    )


STORE = _api({"antiphon.store.v1": _PUBLIC, "antiphon.store.internal.v1": _INTERNAL})
TRANSLATOR = _api({"antiphon.translator.v1": _TRANSLATOR})
TOOLS = _api({"antiphon.tools.v1": _TOOLS})
APIS = (STORE, TRANSLATOR, TOOLS)
