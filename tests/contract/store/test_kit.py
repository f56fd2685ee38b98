"""The kit finds defects: each store here breaks one promise, and the suite for that promise fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MethodType
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ResponseNotFound, StoreUnavailable
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


class TakesLeasesOfRejectedTurns(MemoryStore):
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


class WorksAfterClose(MemoryStore):
    async def acquire_session(self, tenant: str, session_id: str, **options: Any) -> Lease:
        try:
            await self.rows.ready()
        except StoreUnavailable:
            await self.open()
        return await self._inner.acquire_session(tenant, session_id, **options)


Check = Callable[[Subject], Awaitable[None]]

NOTICED: list[tuple[type[MemoryStore], Check]] = [
    (ForgetsTheFence, testing.TurnSuite().test_a_commit_under_an_expired_lease_writes_nothing),
    (KeepsTheLease, testing.TurnSuite().test_each_turn_of_a_session_continues_its_head),
    (ReusesTokens, testing.LeaseSuite().test_tokens_grow_over_release_and_expiry),
    (NeverExpires, testing.RetentionSuite().test_an_expired_response_is_unreadable),
    (CutsChains, testing.LineageSuite().test_a_chain_over_the_depth_limit_is_rejected),
    (TakesLeasesOfRejectedTurns, testing.TurnSuite().test_a_turn_with_a_too_long_history_takes_no_lease),
    (
        broken_stores.ContinuesRunningResponses,
        testing.IdempotentTurnSuite().test_a_turn_behind_a_response_that_runs_claims_no_key,
    ),
    (
        broken_stores.ReadsBeforeItChecks,
        testing.TurnSuite().test_a_turn_racing_the_end_of_a_response_reads_it_whole_or_is_rejected,
    ),
    (MixesTenants, testing.TenancySuite().test_another_tenants_response_does_not_exist),
    (DeletesDescendants, testing.RemovalSuite().test_descendants_of_a_deleted_response_keep_working),
    (ReadsThenWrites, testing.RaceSuite().test_one_of_two_concurrent_records_with_one_id_is_stored),
    (ForgetsTheHolder, testing.LeaseSuite().test_the_first_lease_has_the_first_token),
    (
        broken_stores.ChangesAnyStatus,
        testing.LineageStatusSuite().test_a_status_update_with_a_failed_precondition_is_rejected,
    ),
    (broken_stores.ReversesChildren, testing.LineageTreeSuite().test_children_and_siblings_are_in_order_of_creation),
    (broken_stores.ListsInOneOrder, testing.LineageListSuite().test_a_session_lists_its_readable_responses_only),
    (broken_stores.FindsItemsInAnyOrder, testing.LineageItemSuite().test_items_are_found_in_any_response),
    (broken_stores.ForksTheHead, testing.LineageForkSuite().test_a_response_of_the_named_session_may_be_forked),
    (broken_stores.ForksAnew, testing.LineageForkSuite().test_a_repeated_fork_returns_the_first_fork),
    (broken_stores.AppendsAnywhere, testing.EventLogAppendSuite().test_a_repeated_append_changes_nothing),
    (broken_stores.NeverClosesLogs, testing.EventLogAppendSuite().test_an_append_after_the_terminal_event_is_rejected),
    (broken_stores.ForgetsTheLastEvents, testing.LogEndSuite().test_a_commit_writes_the_last_events_and_closes_the_log),
    (
        broken_stores.ForgetsTheJobOfATurn,
        QueuedTurnSuite().test_accepting_a_queued_turn_writes_record_events_job_and_lease,
    ),
    (
        broken_stores.QueuesJobsOfRejectedTurns,
        lambda subject: QueuedTurnSuite().test_a_rejected_queued_turn_leaves_nothing(subject, "fence"),
    ),
    (broken_stores.NeverListsTheTenant, QueuedTurnSuite().test_workers_find_the_job_of_a_queued_turn),
    (broken_stores.GivesJobsTwice, testing.JobLeaseSuite().test_one_of_many_claimers_gets_the_job),
    (broken_stores.HidesCancellation, testing.JobCancelSuite().test_the_cancellation_of_a_held_job_reaches_its_holder),
    (
        broken_stores.AddsTwice,
        testing.ConversationItemSuite().test_items_added_again_under_an_idempotency_key_are_stored_once,
    ),
    (
        broken_stores.KeepsRemovedItems,
        testing.ConversationItemSuite().test_a_removed_item_is_removed_from_this_context_only,
    ),
    (broken_stores.AddsDuringTurns, testing.ConversationItemSuite().test_a_turn_locks_its_conversation),
    (broken_stores.ForgetsResults, testing.IdempotentTurnSuite().test_a_committed_keyed_turn_is_replayed),
    (broken_stores.ClaimsInTwoSteps, testing.IdempotentTurnSuite().test_one_of_many_concurrent_keyed_requests_runs),
    (broken_stores.ChangesVersions, testing.PromptSuite().test_a_stored_prompt_version_never_changes),
    (broken_stores.GivesApprovalsTwice, testing.ApprovalSuite().test_of_two_answers_at_once_one_takes_the_approval),
    (broken_stores.KeepsDeletedPrompts, testing.PromptSuite().test_a_deleted_prompt_is_gone_with_all_its_versions),
    (broken_stores.ChecksThenDraws, testing.QuotaSuite().test_of_concurrent_draws_only_the_capacity_succeeds),
    (broken_stores.ForgetsDebts, testing.QuotaSuite().test_a_bucket_in_debt_rejects_draws_until_it_has_filled),
    (
        broken_stores.CountsRepeatedHolds,
        testing.StreamSlotSuite().test_a_repeated_hold_counts_once_and_draws_nothing,
    ),
    (broken_stores.NeverReleasesSlots, testing.StreamSlotSuite().test_a_slot_released_twice_frees_one_slot),
    (broken_stores.NeverExpiresSlots, testing.StreamSlotSuite().test_slots_expire),
    (broken_stores.SharesQuotasOfTenants, testing.QuotaSuite().test_tenants_share_no_buckets_and_no_stream_slots),
    (broken_stores.SweepsAllTenants, testing.SweepSuite().test_a_sweep_reclaims_nothing_of_other_tenants),
    (broken_stores.SweepsNothing, testing.SweepSuite().test_expired_responses_are_reclaimed),
]


WITHOUT_A_SUBJECT = {"lifecycle", "persistence"}  # their suites open backends themselves
HISTORIES = {"linearizability"}  # its checks have their tests in tests/unit/antiphon_store/testing


def test_every_topic_has_a_broken_store() -> None:
    noticed = {TOPIC_OF[type(check.__self__)] for _, check in NOTICED if isinstance(check, MethodType)}
    assert noticed == set(TOPICS) - WITHOUT_A_SUBJECT - HISTORIES


@pytest.mark.parametrize(("broken", "check"), NOTICED, ids=lambda value: getattr(value, "__name__", ""))
async def test_a_broken_store_fails_its_suite(clock: ManualClock, broken: type[MemoryStore], check: Check) -> None:
    await check(await subject_on(MemoryStore(clock, SETTINGS), clock))
    with pytest.raises((Exception, pytest.fail.Exception)):
        await check(await subject_on(broken(clock, SETTINGS), clock))


async def subject_on(store: MemoryStore, clock: ManualClock) -> Subject:
    await store.open()
    return Subject(store=store, peer=store, elapse=elapse(clock))


async def test_a_store_that_works_after_close_fails_its_suite(clock: ManualClock) -> None:
    for store, noticed in ((MemoryStore(clock), False), (WorksAfterClose(clock), True)):
        await store.open()
        check = testing.LifecycleSuite().test_a_closed_store_is_unavailable
        try:
            await check(store)
        except AssertionError:
            assert noticed
        else:
            assert not noticed
