"""The tree in which an operation runs: names, pointers, and ids of other trees."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antiphon_core.errors import AlreadyExists, InvalidRequest, SessionLocked
from antiphon_core.ids import session_tag, tree_tag
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import Fence, Precondition, Record, Status, TurnCommit, TurnStart
from antiphon_store.rows.model import Kind, Partition, Program, Put
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from tests.support.rows import SpiedRows

T = "t"
NAMES = ["any-name", "a", "conv_short", "resp_" + "0" * 47, "X" * 128]


async def begin(store: StoreService, session_id: str, **options: Any) -> tuple[TurnStart, Fence]:
    start = await store.begin_turn(T, turn_in(session_id, **options))
    assert start.lease is not None
    return start, start.lease.fence


async def turn(store: StoreService, session_id: str, parent: Record | None = None, tag: str | None = None) -> Record:
    _, fence = await begin(store, session_id)
    home = f"conv_{session_tag(T, session_id)}{'0' * 32}"
    record = draft(parent, session_id=session_id, tag=tag or home)
    await store.commit_turn(T, TurnCommit(record, fence))
    return record


@pytest.mark.parametrize("name", [*NAMES, "conv_" + "1" * 48])
async def test_turns_of_a_session_of_any_name_lie_in_its_tree(store: StoreService, rows: SpiedRows, name: str) -> None:
    rows.forget_calls()
    first = await turn(store, name)
    second = await turn(store, name, first)
    assert {partition for partition, _ in rows.programs} == {Partition(T, session_tag(T, name))}
    assert (await store.describe_session(T, name)).head_id == second.id


async def test_one_session_name_of_two_tenants_is_two_sessions(store: StoreService) -> None:
    await turn(store, "name")
    assert (await store.describe_session("other", "name")).head_id is None


async def test_a_forked_session_name_leads_to_the_tree_of_its_source(store: StoreService, rows: SpiedRows) -> None:
    source = draft()
    await store.put(T, source)
    await store.fork(T, ForkSource(None, source.id), new_session_id="name")
    rows.forget_calls()
    start, fence = await begin(store, "name")
    assert start.history.head_id == source.id
    record = draft(source, session_id="name")
    await store.commit_turn(T, TurnCommit(record, fence))
    assert {partition.tree for partition, _ in rows.programs} == {tree_tag(source.id)}
    assert (await store.list_responses(T, "name")).records


async def test_another_process_follows_the_pointer_of_a_forked_session_name(
    store: StoreService, rows: SpiedRows
) -> None:
    source = draft()
    await store.put(T, source)
    await store.fork(T, ForkSource(None, source.id), new_session_id="name")
    steps: list[Callable[[StoreService], Awaitable[object]]] = [
        lambda other: other.describe_session(T, "name"),
        lambda other: other.acquire_session(T, "name", holder="h", ttl_ms=100),
        lambda other: other.begin_turn(T, turn_in("name", holder="h")),
        lambda other: other.list_responses(T, "name"),
    ]
    for step in steps:
        await step(StoreService(rows))
    assert (await StoreService(rows).describe_session(T, "name")).head_id == source.id
    other, record = StoreService(rows), draft(source, session_id="name")
    fence = (await store.describe_session(T, "name")).last_fence
    await other.commit_turn(T, TurnCommit(record, Fence("name", fence)))
    assert (await store.describe_session(T, "name")).head_id == record.id


async def test_the_tree_of_a_forked_session_name_is_remembered(store: StoreService, rows: SpiedRows) -> None:
    source = draft()
    await store.put(T, source)
    await store.fork(T, ForkSource(None, source.id), new_session_id="name")
    other = StoreService(rows)
    await other.describe_session(T, "name")
    rows.forget_calls()
    await other.describe_session(T, "name")
    assert {partition.tree for partition, _ in rows.programs} == {tree_tag(source.id)}


async def test_a_fork_into_a_used_session_name_is_rejected(store: StoreService) -> None:
    source = draft()
    await store.put(T, source)
    own = await turn(store, "used")
    with pytest.raises(AlreadyExists):
        await store.fork(T, ForkSource(None, source.id), new_session_id="used")
    await store.acquire_session(T, "held", holder="h", ttl_ms=1000)
    with pytest.raises(SessionLocked):
        await store.fork(T, ForkSource(None, source.id), new_session_id="held")
    assert (await store.describe_session(T, "used")).head_id == own.id


async def test_a_fork_into_a_session_name_of_another_fork_is_rejected(store: StoreService) -> None:
    first, second = draft(), draft()
    at_home = draft(tag=f"conv_{session_tag(T, 'name')}{'0' * 32}")
    for record in (first, second, at_home):
        await store.put(T, record)
    made = await store.fork(T, ForkSource(None, first.id), new_session_id="name")
    for source in (second, at_home):
        with pytest.raises(AlreadyExists):
            await store.fork(T, ForkSource(None, source.id), new_session_id="name")
    assert await store.fork(T, ForkSource(None, first.id), new_session_id="name") == made
    assert (await store.describe_session(T, "name")).head_id == first.id


async def test_a_fork_into_a_session_name_that_is_leased_meanwhile_is_rejected(
    store: StoreService, rows: SpiedRows
) -> None:
    """The pointer and the lease are in one partition, so a concurrent fork and turn see each other."""
    source = draft()
    await store.put(T, source)

    async def begin_meanwhile(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Put) and each.ref.kind is Kind.POINTER for each in program.changes):
            rows.before_transact = None
            await store.acquire_session(T, "name", holder="h", ttl_ms=1000)

    rows.before_transact = begin_meanwhile
    with pytest.raises(SessionLocked):
        await store.fork(T, ForkSource(None, source.id), new_session_id="name")
    assert (await store.describe_session(T, "name")).lease is not None


STRANGE = new_session_id()
RECORD = draft()
FENCED = Precondition(fence=Fence(STRANGE, 1))
APART = [
    (lambda e: e.put(T, draft(session_id="strange")), "record.session_id"),
    (lambda e: e.put(T, RECORD, precondition=FENCED), "precondition.fence.session_id"),
    (lambda e: e.commit_turn(T, TurnCommit(RECORD, Fence(STRANGE, 1))), "fence.session_id"),
    (lambda e: e.delete(T, RECORD.id, precondition=FENCED), "precondition.fence.session_id"),
    (lambda e: e.update_status(T, RECORD.id, Status.FAILED, precondition=FENCED), "precondition.fence.session_id"),
]


@pytest.mark.parametrize(("step", "field"), APART)
async def test_ids_of_another_tree_are_refused_by_their_field(store: StoreService, step: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await step(store)
    assert caught.value.field == field


async def test_a_tagged_session_of_another_tree_is_not_forked_into(store: StoreService) -> None:
    await store.put(T, RECORD)
    with pytest.raises(InvalidRequest) as caught:
        await store.fork(T, ForkSource(None, RECORD.id), new_session_id=STRANGE)
    assert caught.value.field == "new_session_id"
    await store.delete(T, RECORD.id)
