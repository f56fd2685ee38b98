"""The conformance kit: test suites for every backend of the store and for every client of it.

A suite is a plain pytest class over one fixture, `subject`. To run it on an implementation, write the fixture and
subclass the suite:

    @pytest.fixture
    async def subject() -> AsyncIterator[Subject]: ...

    class TestRecords(RecordSuite): ...

Some suites use other fixtures, such as `rows` or `store`; their modules say so. `TOPICS` lists all suites by topic. An
implementation runs every suite, except the suites and tests that need a capability which it lacks (`NEEDS`). The
suites in `SERVICE_SUITES` need only one backend, because the service checks arguments itself.

Suites that repeat something have class attributes for the amounts, such as `RaceSuite.rounds`. A subclass may set
larger ones.

Needs pytest and pytest-asyncio. `model` and `lineage_model` need hypothesis as well, and are imported by their modules.
"""

# ruff: noqa: E402 - pytest must rewrite the suites' assertions, so that failures show values, before the imports

from pkgutil import iter_modules

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))

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
from antiphon_store.testing.jobs import JobCancelSuite, JobLeaseSuite, JobStateSuite, JobSuite, TenantLineSuite
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
from antiphon_store.testing.subject import Subject
from antiphon_store.testing.sweeping import SweepSuite, TenantListSuite
from antiphon_store.testing.tenancy import TenancySuite
from antiphon_store.testing.topics import NEEDS, SERVICE_SUITES, TOPICS, Capability
from antiphon_store.testing.turn_ends import JobTurnSuite, LogEndSuite
from antiphon_store.testing.turns import TurnSuite

__all__ = [
    "NEEDS",
    "SERVICE_SUITES",
    "TOPICS",
    "AddedItemSuite",
    "ApprovalSuite",
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
    "KeptLineageSuite",
    "LeaseSuite",
    "LifecycleSuite",
    "LineageArgumentSuite",
    "LineageBatchSuite",
    "LineageForkSuite",
    "LineageItemSuite",
    "LineageListSuite",
    "LineagePageLimitSuite",
    "LineageRaceSuite",
    "LineageStatusSuite",
    "LineageSuite",
    "LineageTreeSuite",
    "LinearizabilitySuite",
    "LogEndSuite",
    "PersistenceSuite",
    "PromptSuite",
    "QueuedTurnSuite",
    "QuotaArgumentSuite",
    "QuotaSuite",
    "RaceSuite",
    "RecordSuite",
    "RemovalSuite",
    "ReplacementSuite",
    "RetentionSuite",
    "SessionLimitSuite",
    "SharedQuotaSuite",
    "StreamSlotSuite",
    "Subject",
    "SweepSuite",
    "TenancySuite",
    "TenantLineSuite",
    "TenantListSuite",
    "TurnSuite",
]
