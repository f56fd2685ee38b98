"""The conformance kit: what every backend, and every way to reach the store, has to do.

Plain pytest classes over one fixture, `subject`. To run them on an implementation, write that fixture and subclass:

    @pytest.fixture
    async def subject() -> AsyncIterator[Subject]: ...

    class TestRecords(RecordSuite): ...

Suites never ask what they run on. An implementation that cannot do something overrides that one test and says why.
Needs pytest and pytest-asyncio; `model` needs hypothesis as well and is imported by its own name.
"""

# ruff: noqa: E402 - the suites' assertions are to explain themselves, which is arranged before they are imported

import pytest

_SUITES = (
    "arguments conversations event_logs idempotency jobs leases lifecycle lineage "
    "lineage_arguments lineage_forks lineage_races lineage_records lineage_trees "
    "races records removal replacement retention subject sweeping tenancy turns"
)
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _SUITES.split()))

from antiphon_store.testing.arguments import ArgumentSuite
from antiphon_store.testing.conversations import (
    ConversationArgumentSuite,
    ConversationItemSuite,
    ConversationSuite,
)
from antiphon_store.testing.event_logs import (
    EventLogAppendSuite,
    EventLogArgumentSuite,
    EventLogFollowSuite,
    EventLogSuite,
)
from antiphon_store.testing.idempotency import IdempotencyArgumentSuite, IdempotentTurnSuite, IdempotentWriteSuite
from antiphon_store.testing.jobs import JobArgumentSuite, JobCancelSuite, JobLeaseSuite, JobStateSuite, JobSuite
from antiphon_store.testing.leases import LeaseSuite
from antiphon_store.testing.lifecycle import LifecycleSuite, PersistenceSuite
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
from antiphon_store.testing.races import RaceSuite
from antiphon_store.testing.records import ItemsSuite, RecordSuite
from antiphon_store.testing.removal import RemovalSuite
from antiphon_store.testing.replacement import ReplacementSuite
from antiphon_store.testing.retention import RetentionSuite
from antiphon_store.testing.subject import Subject
from antiphon_store.testing.sweeping import SweepSuite
from antiphon_store.testing.tenancy import TenancySuite
from antiphon_store.testing.turns import TurnSuite

__all__ = [
    "ArgumentSuite",
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
    "PersistenceSuite",
    "RaceSuite",
    "RecordSuite",
    "RemovalSuite",
    "ReplacementSuite",
    "RetentionSuite",
    "Subject",
    "SweepSuite",
    "TenancySuite",
    "TurnSuite",
]
