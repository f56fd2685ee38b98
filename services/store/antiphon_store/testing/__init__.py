"""The conformance kit: what every backend, and every way to reach the store, has to do.

Plain pytest classes over one fixture, `subject`. To run them on an implementation, write that fixture and subclass:

    @pytest.fixture
    async def subject() -> AsyncIterator[Subject]: ...

    class TestRecords(RecordSuite): ...

Some suites take `rows`, a `store` or something else instead; their modules say so. `TOPICS` lists all suites by topic.
Suites never ask what they run on: an implementation leaves out what `NEEDS` a capability that it lacks, and says why.

Needs pytest and pytest-asyncio; `model` needs hypothesis as well and is imported by its own name.
"""

# ruff: noqa: E402 - the suites' assertions are to explain themselves, which is arranged before they are imported

import pytest

_SUITES = (
    "added_items arguments calls conversation_arguments conversations event_logs histories idempotency job_arguments "
    "jobs leases lifecycle lineage lineage_arguments lineage_forks lineage_races lineage_records lineage_trees "
    "persistence prompts quotas races reading records removal replacement retention session_limits subject sweeping "
    "tenancy turn_ends turns"
)
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _SUITES.split()))

from antiphon_store.testing.added_items import AddedItemSuite
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
from antiphon_store.testing.jobs import JobCancelSuite, JobLeaseSuite, JobStateSuite, JobSuite
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
    LineageStatusSuite,
)
from antiphon_store.testing.lineage_trees import LineageTreeSuite
from antiphon_store.testing.persistence import PersistenceSuite
from antiphon_store.testing.prompts import PromptSuite
from antiphon_store.testing.quotas import PlaceSuite, QuotaArgumentSuite, QuotaSuite, SharedQuotaSuite
from antiphon_store.testing.races import RaceSuite
from antiphon_store.testing.records import ItemsSuite, RecordSuite
from antiphon_store.testing.removal import RemovalSuite
from antiphon_store.testing.replacement import ReplacementSuite
from antiphon_store.testing.retention import RetentionSuite
from antiphon_store.testing.session_limits import SessionLimitSuite
from antiphon_store.testing.subject import Subject
from antiphon_store.testing.sweeping import SweepSuite, TenantListSuite
from antiphon_store.testing.tenancy import TenancySuite
from antiphon_store.testing.topics import NEEDS, TOPICS, Capability
from antiphon_store.testing.turn_ends import JobTurnSuite, LogEndSuite
from antiphon_store.testing.turns import TurnSuite

__all__ = [
    "NEEDS",
    "TOPICS",
    "AddedItemSuite",
    "ArgumentSuite",
    "Capability",
    "ConversationArgumentSuite",
    "ConversationItemSuite",
    "ConversationSuite",
    "EventLogAppendSuite",
    "EventLogArgumentSuite",
    "EventLogFollowSuite",
    "EventLogSuite",
    "IdempotencyArgumentSuite",
    "IdempotentTurnSuite",
    "IdempotentWriteSuite",
    "ItemsSuite",
    "JobArgumentSuite",
    "JobCancelSuite",
    "JobLeaseSuite",
    "JobStateSuite",
    "JobSuite",
    "JobTurnSuite",
    "LeaseSuite",
    "LifecycleSuite",
    "LineageArgumentSuite",
    "LineageBatchSuite",
    "LineageForkSuite",
    "LineageItemSuite",
    "LineageListSuite",
    "LineageRaceSuite",
    "LineageStatusSuite",
    "LineageSuite",
    "LineageTreeSuite",
    "LinearizabilitySuite",
    "LogEndSuite",
    "PersistenceSuite",
    "PlaceSuite",
    "PromptSuite",
    "QuotaArgumentSuite",
    "QuotaSuite",
    "RaceSuite",
    "RecordSuite",
    "RemovalSuite",
    "ReplacementSuite",
    "RetentionSuite",
    "SessionLimitSuite",
    "SharedQuotaSuite",
    "Subject",
    "SweepSuite",
    "TenancySuite",
    "TenantListSuite",
    "TurnSuite",
]
