"""The suites of the kit by topic, and the capabilities that an implementation may lack.

An implementation runs every suite of every topic. It may leave out only suites and tests that need a capability which
it lacks (`needs`), and a backend of `StoreService` those of `SERVICE_SUITES`. A new suite goes into a row of `TOPICS`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from antiphon_store.testing.added_items import AddedItemSuite
from antiphon_store.testing.approvals import ApprovalSuite
from antiphon_store.testing.arguments import ArgumentSuite
from antiphon_store.testing.conversation_arguments import ConversationArgumentSuite
from antiphon_store.testing.conversations import ConversationItemSuite, ConversationSuite
from antiphon_store.testing.event_logs import (
    EventLogAppendSuite,
    EventLogArgumentSuite,
    EventLogFollowSuite,
    EventLogSuite,
)
from antiphon_store.testing.histories import LinearizabilitySuite
from antiphon_store.testing.idempotency import IdempotencyArgumentSuite, IdempotentTurnSuite, IdempotentWriteSuite
from antiphon_store.testing.job_arguments import JobArgumentSuite
from antiphon_store.testing.jobs import (
    JobCancelSuite,
    JobLeaseSuite,
    JobStateSuite,
    JobSuite,
    TenantLineSuite,
)
from antiphon_store.testing.kept_lineages import KeptLineageSuite
from antiphon_store.testing.leases import LeaseSuite
from antiphon_store.testing.lifecycle import LifecycleSuite
from antiphon_store.testing.lineage import LineageSuite
from antiphon_store.testing.lineage_arguments import LineageArgumentSuite
from antiphon_store.testing.lineage_forks import LineageForkSuite
from antiphon_store.testing.lineage_races import LineageRaceSuite
from antiphon_store.testing.lineage_records import (
    LineageBatchSuite,
    LineageItemSuite,
    LineageListSuite,
    LineagePageLimitSuite,
    LineageStatusSuite,
)
from antiphon_store.testing.lineage_trees import LineageTreeSuite
from antiphon_store.testing.persistence import PersistenceSuite
from antiphon_store.testing.prompts import PromptSuite
from antiphon_store.testing.queued_turns import QueuedTurnSuite
from antiphon_store.testing.quotas import QuotaArgumentSuite, QuotaSuite, SharedQuotaSuite, StreamSlotSuite
from antiphon_store.testing.races import RaceSuite
from antiphon_store.testing.records import ItemsSuite, RecordSuite
from antiphon_store.testing.removal import RemovalSuite
from antiphon_store.testing.replacement import ReplacementSuite
from antiphon_store.testing.retention import RetentionSuite
from antiphon_store.testing.session_limits import SessionLimitSuite
from antiphon_store.testing.sweeping import SweepSuite, TenantListSuite
from antiphon_store.testing.tenancy import TenancySuite
from antiphon_store.testing.turn_ends import JobTurnSuite, LogEndSuite
from antiphon_store.testing.turns import TurnSuite

Suite = type[Any]

TOPICS: dict[str, tuple[Suite, ...]] = {
    "records": (RecordSuite, ItemsSuite, ReplacementSuite, RemovalSuite, TenancySuite, ArgumentSuite),
    "chains": (LineageSuite,),
    "leases": (LeaseSuite,),
    "turns": (TurnSuite, KeptLineageSuite),
    "status": (LineageStatusSuite,),
    "trees": (LineageTreeSuite,),
    "lists and batches": (LineageListSuite, LineageBatchSuite, LineagePageLimitSuite, LineageArgumentSuite),
    "items by id": (LineageItemSuite, AddedItemSuite),
    "forks": (LineageForkSuite,),
    "event logs": (EventLogSuite, EventLogAppendSuite, EventLogFollowSuite, EventLogArgumentSuite, LogEndSuite),
    "jobs": (
        JobSuite,
        JobLeaseSuite,
        TenantLineSuite,
        JobCancelSuite,
        JobStateSuite,
        JobArgumentSuite,
        JobTurnSuite,
        QueuedTurnSuite,
    ),
    "conversations": (ConversationSuite, ConversationItemSuite, ConversationArgumentSuite),
    "prompts": (PromptSuite,),
    "approvals": (ApprovalSuite,),
    "idempotency keys": (IdempotentTurnSuite, IdempotentWriteSuite, IdempotencyArgumentSuite),
    "retention": (RetentionSuite, SessionLimitSuite),
    "sweeping": (SweepSuite, TenantListSuite),
    "quotas": (QuotaSuite, StreamSlotSuite, SharedQuotaSuite, QuotaArgumentSuite),
    "races": (RaceSuite, LineageRaceSuite),
    "linearizability": (LinearizabilitySuite,),
    "lifecycle": (LifecycleSuite,),
    "persistence": (PersistenceSuite,),
}


SERVICE_SUITES: tuple[Suite, ...] = (
    ArgumentSuite,
    LineageArgumentSuite,
    LineagePageLimitSuite,
    EventLogArgumentSuite,
    JobArgumentSuite,
    ConversationArgumentSuite,
    IdempotencyArgumentSuite,
    QuotaArgumentSuite,
)
"""Suites of checks that the service makes itself, before it asks its backend or on its answer. Their results do not
depend on the backend, so it is enough to run them over one, and once more over gRPC."""


class Capability(StrEnum):
    """A capability that an implementation may lack."""

    DURABLE_DATA = "durable data"  # data survives the process of the store
    LISTS = "lists and batches"
    ITEMS_BY_ID = "items by id"
    FORKS = "forks"
    JOBS = "jobs"
    CONVERSATIONS = "conversations"
    IDEMPOTENCY_KEYS = "idempotency keys"
    SWEEPING = "sweeping"
    EXACT_HISTORY_BYTES = "exact bytes of histories"  # `max_bytes` of a history is exact to the byte
    SHARED_QUOTAS = "shared quotas"  # all processes over one database count together


Part = Suite | Callable[..., Any]

NEEDS: dict[Capability, tuple[Part, ...]] = {
    Capability.DURABLE_DATA: (PersistenceSuite,),
    Capability.LISTS: TOPICS["lists and batches"],
    Capability.ITEMS_BY_ID: (*TOPICS["items by id"], PersistenceSuite.test_items_are_found_by_id_after_a_restart),
    Capability.FORKS: (*TOPICS["forks"], LineageRaceSuite, PersistenceSuite.test_forks_survive_a_restart),
    Capability.JOBS: (*TOPICS["jobs"], PersistenceSuite.test_jobs_survive_a_restart),
    Capability.CONVERSATIONS: (*TOPICS["conversations"], PersistenceSuite.test_conversations_survive_a_restart),
    Capability.IDEMPOTENCY_KEYS: (
        *TOPICS["idempotency keys"],
        PersistenceSuite.test_idempotency_keys_survive_a_restart,
    ),
    Capability.SWEEPING: TOPICS["sweeping"],
    Capability.EXACT_HISTORY_BYTES: (LineageSuite.test_a_chain_over_the_byte_limit_is_rejected,),
    Capability.SHARED_QUOTAS: (SharedQuotaSuite,),
}
"""Suites, and single tests of suites, that need a capability."""


def needs(part: Part) -> frozenset[Capability]:
    """The capabilities that a suite, or a test of one, needs."""
    return frozenset(capability for capability, parts in NEEDS.items() if part in parts)
