"""Cases of rows in PostgreSQL only: concurrent programs, and text that PostgreSQL cannot store unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.model import (
    Add,
    Applied,
    Chain,
    Condition,
    Get,
    Grow,
    Guard,
    Index,
    Kind,
    Partition,
    Payload,
    Program,
    Ref,
    Rejection,
    Row,
    Set,
    Span,
)

HERE = Partition("tenant", "tree")
NODE = {"parent": None, "session": "s", "expires": None, "size": 1}
PROGRAMS = 40


@pytest.fixture
async def rows(url: str, schema: str) -> AsyncIterator[PostgresRows]:
    opened = PostgresRows(url, database_schema=schema, durability=Durability.PROCESS)
    await opened.open()
    await asyncio.gather(*[opened.transact(HERE, Program(reads=[Get(Ref(Kind.KEY, "none"))])) for _ in range(200)])
    yield opened  # with the maximum number of connections
    await opened.close()


async def row_of(rows: PostgresRows, ref: Ref) -> Row | None:
    outcome = await rows.transact(HERE, Program(reads=[Get(ref)]))
    assert isinstance(outcome, Applied)
    row: Row | None = outcome.answers[0]
    return row


async def test_concurrent_programs_each_add_to_a_counter(rows: PostgresRows) -> None:
    session = Ref(Kind.SESSION, "s")
    await asyncio.gather(
        *[rows.transact(HERE, Program(changes=[Set(session, {"n": Add(1)})])) for _ in range(PROGRAMS)]
    )
    row = await row_of(rows, session)
    assert row is not None
    assert row.fields == {"n": PROGRAMS, "v": PROGRAMS}


async def test_of_programs_at_once_with_one_guard_one_is_applied(rows: PostgresRows) -> None:
    for number in range(10):
        session = Ref(Kind.SESSION, f"s{number}")
        await rows.transact(HERE, Program(changes=[Set(session, {"n": 0})]))
        program = Program([Guard(session, Condition.IS, "holder", None)], [Set(session, {"holder": "a"})])
        outcomes = await asyncio.gather(*[rows.transact(HERE, program) for _ in range(PROGRAMS)])
        assert sum(isinstance(each, Applied) for each in outcomes) == 1


async def test_a_guarded_row_does_not_change_under_a_program(rows: PostgresRows) -> None:
    closed, other = Ref(Kind.SESSION, "closed"), Ref(Kind.SESSION, "other")
    append = Program([Guard(closed, Condition.IS, "closed", None)], [Set(other, {"n": Add(1)})])
    close = Program(changes=[Set(closed, {"closed": 1, "seen": Add(0)})], reads=[Get(other)])
    *appends, end = await asyncio.gather(
        *[rows.transact(HERE, append) for _ in range(PROGRAMS)], rows.transact(HERE, close)
    )
    row = await row_of(rows, other)
    applied = sum(isinstance(each, Applied) for each in appends)
    assert isinstance(end, Applied)
    assert (row.fields["n"] if row is not None else 0) == applied
    assert (end.answers[0].fields["n"] if end.answers[0] is not None else 0) == applied


async def test_children_made_at_once_each_have_the_chain_of_their_parent(rows: PostgresRows) -> None:
    await rows.transact(HERE, Program(changes=[Grow("root", None, NODE)]))
    guard = Guard(Ref(Kind.NODE, "root"), Condition.PRESENT)
    names = [f"child {number}" for number in range(PROGRAMS)]
    children = [Program([guard], [Grow(name, "root", {**NODE, "parent": "root"})]) for name in names]
    await asyncio.gather(*[rows.transact(HERE, each) for each in children])
    chains = Program(reads=[Chain(name, Payload.ALL, 10, 100) for name in names])
    outcome = await rows.transact(HERE, chains)
    assert isinstance(outcome, Applied)
    assert [chain.ids for chain in outcome.answers] == [["root", name] for name in names]
    _, listed = await rows.page(HERE, Index.MADE, "s", Span(100))
    assert len(listed) == PROGRAMS + 1


async def test_text_with_nul_comes_back_as_it_is(rows: PostgresRows) -> None:
    ref, text = Ref(Kind.SESSION, "a\x00\x01b"), "\x00\\u0000\x01\x02"
    await rows.transact(HERE, Program(changes=[Set(ref, {text: text})]))
    refused = await rows.transact(HERE, Program([Guard(ref, Condition.IS, text, "other")], [Set(ref, {})]))
    assert isinstance(refused, Rejection)
    assert refused.rows == {ref: Row({text: text, "v": 1})}
    assert await row_of(rows, ref) == Row({text: text, "v": 1})
