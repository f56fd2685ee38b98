"""The kit notices: each store here breaks one promise, and the suite that stands for it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MethodType
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ResponseNotFound
from antiphon_core.ports.store import Fence, Lease, Record, Session, Stamp, TurnCommit, TurnRequest, TurnStart
from antiphon_store import testing
from antiphon_store.rows.model import Add, Delete, Kind, Put, Ref, Set
from antiphon_store.testing import Subject
from antiphon_store.testing.queued_turns import QueuedTurnSuite
from antiphon_store.testing.topics import TOPICS
from tests.contract.store import broken_stores
from tests.contract.store.conftest import SETTINGS, TOPIC_OF, elapse
from tests.support.stores import MemoryStore, tree_of


class ForgetsTheFence(MemoryStore):
    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        return await self._inner.commit_turn(tenant, replace(commit, fence=None))


class KeepsTheLease(MemoryStore):
    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        assert commit.fence is not None
        tree, session_id = tree_of(commit.record.id), commit.fence.session_id
        before = await self.rows.row(tenant, tree, Kind.SESSION, session_id)
        stamp = await self._inner.commit_turn(tenant, commit)
        if before is not None:
            await self.rows.change(tenant, tree, Put(Ref(Kind.SESSION, session_id), before.fields))
        return stamp


class ReusesTokens(MemoryStore):
    async def release_session(self, tenant: str, fence: Fence) -> bool:
        released = await self._inner.release_session(tenant, fence)
        if released:
            session = Set(Ref(Kind.SESSION, fence.session_id), {"fence": Add(-1)})
            await self.rows.change(tenant, tree_of(fence.session_id), session)
        return released


class NeverExpires(MemoryStore):
    async def put(self, tenant: str, record: Record, **options: Any) -> Stamp:
        return await self._inner.put(tenant, record, **options | {"ttl_ms": None})


class CutsChains(MemoryStore):
    async def chain(self, tenant: str, response_id: str, *, max_depth: int = 1000, **_options: Any) -> Sequence[Record]:
        return (await self._inner.chain(tenant, response_id))[-max_depth:]


class TakesTheLeaseForNothing(MemoryStore):
    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        if request.session_id is not None:
            await self.acquire_session(tenant, request.session_id, holder=request.holder, ttl_ms=request.lease_ttl_ms)
        return await self._inner.begin_turn(tenant, request)


class MixesTenants(MemoryStore):
    async def get(self, tenant: str, response_id: str) -> Record:
        for owner, _ in list(self.rows.trees):
            with suppress(ResponseNotFound):
                return await self._inner.get(owner, response_id)
        return await self._inner.get(tenant, response_id)


class DeletesDescendants(MemoryStore):
    async def delete(self, tenant: str, response_id: str, **options: Any) -> None:
        for child in (await self.children(tenant, response_id)).nodes:
            await self.delete(tenant, child.id)
        await self._inner.delete(tenant, response_id, **options)


class ReadsThenWrites(MemoryStore):
    async def put(self, tenant: str, record: Record, **options: Any) -> Stamp:
        tree = tree_of(record.id)
        existing = await self.rows.row(tenant, tree, Kind.NODE, record.id)
        await asyncio.sleep(0)
        if existing is None:
            await self.rows.change(tenant, tree, Delete(Ref(Kind.NODE, record.id)))
        return await self._inner.put(tenant, record, **options)


class ForgetsTheHolder(MemoryStore):
    async def describe_session(self, tenant: str, session_id: str) -> Session:
        return replace(await self._inner.describe_session(tenant, session_id), lease=None)


class LeaksClosing(MemoryStore):
    async def acquire_session(self, tenant: str, session_id: str, **options: Any) -> Lease:
        if not self.rows._open:
            await self.open()
        return await self._inner.acquire_session(tenant, session_id, **options)


Check = Callable[[Subject], Awaitable[None]]

NOTICED: list[tuple[type[MemoryStore], Check]] = [
    (ForgetsTheFence, testing.TurnSuite().test_a_commit_under_an_expired_lease_writes_nothing),
    (KeepsTheLease, testing.TurnSuite().test_a_session_remembers_its_turns),
    (ReusesTokens, testing.LeaseSuite().test_tokens_grow_over_release_and_expiry),
    (NeverExpires, testing.RetentionSuite().test_a_lifetime_ends_on_time),
    (CutsChains, testing.LineageSuite().test_too_many_responses_are_refused),
    (TakesTheLeaseForNothing, testing.TurnSuite().test_a_history_that_is_too_long_takes_no_lease),
    (
        broken_stores.ContinuesWhatRuns,
        testing.IdempotentTurnSuite().test_a_turn_behind_a_response_that_runs_claims_no_key,
    ),
    (
        broken_stores.ReadsBeforeItLooks,
        testing.TurnSuite().test_a_response_that_ends_meanwhile_is_continued_whole_or_not,
    ),
    (MixesTenants, testing.TenancySuite().test_another_tenants_response_does_not_exist),
    (DeletesDescendants, testing.RemovalSuite().test_descendants_of_a_deleted_response_keep_working),
    (ReadsThenWrites, testing.RaceSuite().test_of_two_different_records_with_one_id_one_is_stored),
    (ForgetsTheHolder, testing.LeaseSuite().test_the_first_lease_has_the_first_token),
    (
        broken_stores.ChangesAnyStatus,
        testing.LineageStatusSuite().test_a_condition_that_does_not_hold_rejects_the_change,
    ),
    (broken_stores.TurnsChildrenAround, testing.LineageTreeSuite().test_children_and_siblings_are_in_order_of_creation),
    (broken_stores.ListsInOneOrder, testing.LineageListSuite().test_a_session_lists_what_was_made_in_it),
    (broken_stores.FindsItemsInAnyOrder, testing.LineageItemSuite().test_items_are_found_in_any_response),
    (broken_stores.ForksTheHead, testing.LineageForkSuite().test_a_response_of_the_named_session_may_be_forked),
    (broken_stores.ForksAnew, testing.LineageForkSuite().test_a_fork_can_be_repeated_whatever_happened_since),
    (broken_stores.AppendsAnywhere, testing.EventLogAppendSuite().test_a_repeated_append_changes_nothing),
    (broken_stores.NeverClosesLogs, testing.EventLogAppendSuite().test_after_its_end_a_log_is_closed),
    (broken_stores.ForgetsTheLastEvents, testing.LogEndSuite().test_the_last_events_come_with_the_record),
    (broken_stores.ForgetsTheJobOfATurn, QueuedTurnSuite().test_record_events_job_and_lease_are_written_together),
    (
        broken_stores.QueuesBesideARefusedTurn,
        lambda subject: QueuedTurnSuite().test_a_refused_turn_leaves_nothing(subject, "fence"),
    ),
    (broken_stores.NeverHandsIn, QueuedTurnSuite().test_workers_find_the_job),
    (broken_stores.GivesJobsTwice, testing.JobLeaseSuite().test_one_of_many_claimers_gets_the_job),
    (broken_stores.HidesCancellation, testing.JobCancelSuite().test_the_holder_sees_the_cancellation),
    (broken_stores.AddsTwice, testing.ConversationItemSuite().test_the_same_key_again_adds_once),
    (
        broken_stores.KeepsRemovedItems,
        testing.ConversationItemSuite().test_a_removed_item_is_removed_from_this_context_only,
    ),
    (broken_stores.AddsDuringTurns, testing.ConversationItemSuite().test_a_turn_locks_its_conversation),
    (broken_stores.ForgetsResults, testing.IdempotentTurnSuite().test_after_the_commit_the_result_is_replayed),
    (broken_stores.ClaimsInTwoSteps, testing.IdempotentTurnSuite().test_of_many_concurrent_requests_one_runs),
    (broken_stores.ChangesVersions, testing.PromptSuite().test_a_version_never_changes),
    (broken_stores.KeepsDeletedPrompts, testing.PromptSuite().test_a_deleted_prompt_is_gone_with_all_its_versions),
    (broken_stores.LooksThenSpends, testing.QuotaSuite().test_of_concurrent_draws_only_the_capacity_succeeds),
    (broken_stores.ForgetsDebts, testing.QuotaSuite().test_a_debt_fills_up_first),
    (
        broken_stores.CountsRepetitions,
        testing.StreamSlotSuite().test_a_repeated_hold_counts_once_and_draws_nothing,
    ),
    (broken_stores.NeverGivesPlacesBack, testing.StreamSlotSuite().test_a_slot_is_released_once),
    (broken_stores.LetsPlacesLast, testing.StreamSlotSuite().test_slots_expire),
    (broken_stores.CountsForAllTenants, testing.QuotaSuite().test_tenants_do_not_see_each_other),
    (broken_stores.SweepsForEverybody, testing.SweepSuite().test_a_sweep_reclaims_nothing_of_other_tenants),
    (broken_stores.SweepsNothing, testing.SweepSuite().test_expired_responses_are_reclaimed),
]


WITHOUT_A_SUBJECT = {"lifecycle", "persistence"}  # their suites open backends themselves
HISTORIES = {"linearizability"}  # what it notices: tests/unit/antiphon_store/testing


def test_a_store_is_broken_in_every_topic() -> None:
    noticed = {TOPIC_OF[type(check.__self__)] for _, check in NOTICED if isinstance(check, MethodType)}
    assert noticed == set(TOPICS) - WITHOUT_A_SUBJECT - HISTORIES


@pytest.mark.parametrize(("broken", "check"), NOTICED, ids=lambda value: getattr(value, "__name__", ""))
async def test_a_broken_promise_is_noticed(clock: ManualClock, broken: type[MemoryStore], check: Check) -> None:
    await check(await subject_on(MemoryStore(clock, SETTINGS), clock))
    with pytest.raises((Exception, pytest.fail.Exception)):
        await check(await subject_on(broken(clock, SETTINGS), clock))


async def subject_on(store: MemoryStore, clock: ManualClock) -> Subject:
    await store.open()
    return Subject(store=store, peer=store, elapse=elapse(clock))


async def test_use_after_close_is_noticed(clock: ManualClock) -> None:
    for store, noticed in ((MemoryStore(clock), False), (LeaksClosing(clock), True)):
        await store.open()
        check = testing.LifecycleSuite().test_after_it_was_closed_it_is_unavailable
        try:
            await check(store)
        except AssertionError:
            assert noticed
        else:
            assert not noticed
