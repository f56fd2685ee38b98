"""Decisions that run inside the backend: in one step, and without changes if they raise."""

from __future__ import annotations

from functools import partial

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ChainTooLong, InternalError, SessionLocked
from antiphon_core.ports.store import TurnRequest
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.decisions import leases, records, turns
from antiphon_store.decisions.records import CrowdedSession, Write
from antiphon_store.rows.model import Delete, Kind, Partition, Program, Ref
from antiphon_store.rows.view import Finish, View
from antiphon_store.testing.subject import draft, new_session_id

TREE = Partition("t", "tree")


@pytest.fixture
async def rows(clock: ManualClock) -> MemoryRows:
    made = MemoryRows(clock)
    await made.open()
    return made


async def test_a_local_decision_reads_the_row_instead_of_assuming_it(rows: MemoryRows) -> None:
    take = partial(leases.acquire, session_id="s", ttl_ms=1000)
    first = await rows.decide(TREE, partial(take, holder="a"), only_reads=False)
    with pytest.raises(SessionLocked):
        await rows.decide(TREE, partial(take, holder="b"), only_reads=False)
    again = await rows.decide(TREE, partial(take, holder="a"), only_reads=False)
    assert again == first


async def test_a_decision_that_raises_changes_nothing(rows: MemoryRows) -> None:
    def decide(view: View) -> Finish[None]:
        view.set(Kind.SESSION, "s", holder="nobody")
        raise SessionLocked.of("s")

    with pytest.raises(SessionLocked):
        await rows.decide(TREE, decide, only_reads=False)
    described = await rows.decide(TREE, lambda view: _row(view, "s"), only_reads=True)
    assert described is None


async def test_a_local_read_of_a_chain_over_its_bound_raises_chain_too_long(rows: MemoryRows) -> None:
    session_id = new_session_id()
    root = draft(tag=session_id)
    child = draft(root)
    for record in (root, child):
        await rows.decide(TREE, partial(records.put, write=Write(record)), only_reads=False)
    begin = partial(turns.begin_behind, response_id=child.id, request=TurnRequest(max_depth=1))
    with pytest.raises(ChainTooLong):
        await rows.decide(TREE, begin, only_reads=True)


async def test_a_local_write_beyond_the_session_limit_raises_crowded_session(rows: MemoryRows) -> None:
    session_id = new_session_id()
    writes = [Write(draft(session_id=session_id), session_responses_max=1) for _ in range(2)]
    await rows.decide(TREE, partial(records.put, write=writes[0]), only_reads=False)
    with pytest.raises(CrowdedSession):
        await rows.decide(TREE, partial(records.put, write=writes[1]), only_reads=False)


def _row(view: View, session_id: str) -> Finish[object]:
    row = view.need(Kind.SESSION, session_id)
    return lambda _answers: row


@pytest.mark.parametrize("missing", [0, 1])
async def test_a_local_chain_with_a_missing_response_is_an_error_that_names_its_last_one(
    rows: MemoryRows, missing: int
) -> None:
    line = [draft()]
    line += [draft(line[0])]
    line += [draft(line[1])]
    for record in line:
        await rows.decide(TREE, partial(records.put, write=Write(record)), only_reads=False)
    await rows.transact(TREE, Program(changes=[Delete(Ref(Kind.NODE, line[missing].id))]))
    begin = partial(turns.begin_behind, response_id=line[2].id, request=TurnRequest())
    with pytest.raises(InternalError, match=f"'{line[2].id}' is damaged"):
        await rows.decide(TREE, begin, only_reads=True)
