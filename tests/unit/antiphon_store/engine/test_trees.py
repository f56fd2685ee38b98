"""In which tree an operation runs: names, pointers, and ids of other trees."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antiphon_core.errors import AlreadyExists, InvalidRequest, SessionLocked
from antiphon_core.ids import session_tag, tree_tag
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import Fence, Order, Precondition, Record, Status, TurnStart
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.rows.model import Kind, Partition, Program, Put
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from antiphon_store.values import Write
from tests.support.rows import SpiedRows

T, _ASCENDING = "t", Order.ASCENDING
NAMES = ["any-name", "a", "conv_short", "resp_" + "0" * 47, "X" * 128]


async def begin(engine: StoreEngine, session_id: str, **options: Any) -> tuple[TurnStart, Fence]:
    start = await engine.begin_turn(T, turn_in(session_id, **options))
    assert start.lease is not None
    return start, start.lease.fence


async def turn(engine: StoreEngine, session_id: str, parent: Record | None = None, tag: str | None = None) -> Record:
    _, fence = await begin(engine, session_id)
    home = f"conv_{session_tag(T, session_id)}{'0' * 32}"
    record = draft(parent, session_id=session_id, tag=tag or home)
    await engine.commit_turn(T, Write(record), fence)
    return record


@pytest.mark.parametrize("name", [*NAMES, "conv_" + "1" * 48])
async def test_turns_of_a_session_of_any_name_lie_in_its_tree(engine: StoreEngine, rows: SpiedRows, name: str) -> None:
    rows.forget_calls()
    first = await turn(engine, name)
    second = await turn(engine, name, first)
    assert {partition for partition, _ in rows.programs} == {Partition(T, session_tag(T, name))}
    assert (await engine.describe_session(T, name)).head_id == second.id


async def test_names_of_two_tenants_are_two_sessions(engine: StoreEngine) -> None:
    await turn(engine, "name")
    assert (await engine.describe_session("other", "name")).head_id is None


async def test_a_fork_sends_a_name_to_the_tree_of_its_source(engine: StoreEngine, rows: SpiedRows) -> None:
    source = draft()
    await engine.put(T, Write(source))
    await engine.fork(T, ForkSource(None, source.id), "name")
    rows.forget_calls()
    start, fence = await begin(engine, "name")
    assert start.history.head_id == source.id
    record = draft(source, session_id="name")
    await engine.commit_turn(T, Write(record), fence)
    assert {partition.tree for partition, _ in rows.programs} == {tree_tag(source.id)}
    assert (await engine.session_records(T, "name", after=None, limit=9, order=_ASCENDING, max_bytes=9999)).values


async def test_another_process_finds_a_name_that_was_sent_elsewhere(engine: StoreEngine, rows: SpiedRows) -> None:
    source = draft()
    await engine.put(T, Write(source))
    await engine.fork(T, ForkSource(None, source.id), "name")
    steps: list[Callable[[StoreEngine], Awaitable[object]]] = [
        lambda other: other.describe_session(T, "name"),
        lambda other: other.acquire_lease(T, "name", holder="h", ttl_ms=1),
        lambda other: other.begin_turn(T, turn_in("name", holder="h")),
        lambda other: other.session_records(T, "name", after=None, limit=9, order=_ASCENDING, max_bytes=9999),
    ]
    for step in steps:
        await step(StoreEngine(rows))
    assert (await StoreEngine(rows).describe_session(T, "name")).head_id == source.id
    other, record = StoreEngine(rows), draft(source, session_id="name")
    fence = (await engine.describe_session(T, "name")).last_fence
    await other.commit_turn(T, Write(record), Fence("name", fence))
    assert (await engine.describe_session(T, "name")).head_id == record.id


async def test_where_a_name_was_sent_is_remembered(engine: StoreEngine, rows: SpiedRows) -> None:
    source = draft()
    await engine.put(T, Write(source))
    await engine.fork(T, ForkSource(None, source.id), "name")
    other = StoreEngine(rows)
    await other.describe_session(T, "name")
    rows.forget_calls()
    await other.describe_session(T, "name")
    assert {partition.tree for partition, _ in rows.programs} == {tree_tag(source.id)}


async def test_a_name_in_use_is_sent_nowhere(engine: StoreEngine) -> None:
    source = draft()
    await engine.put(T, Write(source))
    own = await turn(engine, "used")
    with pytest.raises(AlreadyExists):
        await engine.fork(T, ForkSource(None, source.id), "used")
    await engine.acquire_lease(T, "held", holder="h", ttl_ms=1000)
    with pytest.raises(SessionLocked):
        await engine.fork(T, ForkSource(None, source.id), "held")
    assert (await engine.describe_session(T, "used")).head_id == own.id


async def test_a_name_that_was_sent_to_one_tree_is_not_forked_into_from_another(engine: StoreEngine) -> None:
    first, second = draft(), draft()
    at_home = draft(tag=f"conv_{session_tag(T, 'name')}{'0' * 32}")
    for record in (first, second, at_home):
        await engine.put(T, Write(record))
    made = await engine.fork(T, ForkSource(None, first.id), "name")
    for source in (second, at_home):
        with pytest.raises(AlreadyExists):
            await engine.fork(T, ForkSource(None, source.id), "name")
    assert await engine.fork(T, ForkSource(None, first.id), "name") == made
    assert (await engine.describe_session(T, "name")).head_id == first.id


async def test_a_turn_at_home_keeps_a_name_from_being_sent_away(engine: StoreEngine, rows: SpiedRows) -> None:
    """The pointer and the lease are of one row set: of a fork and a turn that meet, one sees the other."""
    source = draft()
    await engine.put(T, Write(source))

    async def begin_meanwhile(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Put) and each.ref.kind is Kind.POINTER for each in program.changes):
            rows.before_transact = None
            await engine.acquire_lease(T, "name", holder="h", ttl_ms=1000)

    rows.before_transact = begin_meanwhile
    with pytest.raises(SessionLocked):
        await engine.fork(T, ForkSource(None, source.id), "name")
    assert (await engine.describe_session(T, "name")).lease is not None


STRANGE = new_session_id()
RECORD = draft()
FENCED = Precondition(fence=Fence(STRANGE, 1))
APART = [
    (lambda e: e.put(T, Write(draft(session_id="strange"))), "record.session_id"),
    (lambda e: e.put(T, Write(RECORD, FENCED)), "precondition.fence.session_id"),
    (lambda e: e.commit_turn(T, Write(RECORD), Fence(STRANGE, 1)), "fence.session_id"),
    (lambda e: e.remove(T, RECORD.id, precondition=FENCED), "precondition.fence.session_id"),
    (lambda e: e.change_status(T, RECORD.id, Status.FAILED, precondition=FENCED), "precondition.fence.session_id"),
]


@pytest.mark.parametrize(("step", "field"), APART)
async def test_ids_of_another_tree_are_refused_by_their_field(engine: StoreEngine, step: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await step(engine)
    assert caught.value.field == field


async def test_a_tagged_session_of_another_tree_is_not_forked_into(engine: StoreEngine) -> None:
    await engine.put(T, Write(RECORD))
    with pytest.raises(InvalidRequest) as caught:
        await engine.fork(T, ForkSource(None, RECORD.id), STRANGE)
    assert caught.value.field == "new_session_id"
    await engine.remove(T, RECORD.id)
