"""Reads of several responses."""

from __future__ import annotations

import pytest

from antiphon_core.errors import LimitExceeded
from antiphon_core.ports.store import Record
from antiphon_store.rows.model import Get
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft, new_session_id
from antiphon_store.topics.topic import ROWS_AT_ONCE
from tests.support.rows import SpiedRows

T = "t"


async def put(store: StoreService, *records: Record) -> None:
    for each in records:
        await store.put(T, each)


async def test_responses_of_many_trees_take_one_program_for_each_tree(store: StoreService, rows: SpiedRows) -> None:
    one, two = draft(), draft()
    more = [draft(one) for _ in range(3)]
    await put(store, one, two, *more)
    rows.forget_calls()
    ids = [more[2].id, two.id, draft().id, one.id, more[0].id]
    found = await store.batch_get(T, ids)
    assert [each.id for each in found] == [more[2].id, two.id, one.id, more[0].id]
    assert len(rows.calls) == 3
    store.page_bytes_max = sum(len(each.body + each.input_items + each.output_items) for each in found)
    assert await store.batch_get(T, ids) == found
    store.page_bytes_max -= 1
    with pytest.raises(LimitExceeded) as caught:
        await store.batch_get(T, ids)
    assert (caught.value.field, caught.value.facts["limit"]) == ("ids", f"{store.page_bytes_max} bytes")


async def test_responses_are_read_a_few_at_a_time_until_an_answer_is_too_large(
    store: StoreService, rows: SpiedRows
) -> None:
    records = [draft() for _ in range(3 * ROWS_AT_ONCE)]
    for each in records:
        await store.put(T, each)
    ids = [each.id for each in records]
    assert [each.id for each in await store.batch_get(T, [*ids, *ids])] == ids
    store.page_bytes_max = sum(each.size_bytes for each in records[:ROWS_AT_ONCE]) + 1
    rows.forget_calls()
    with pytest.raises(LimitExceeded, match="'ids'"):
        await store.batch_get(T, ids)
    read = {get.ref.id for _partition, program in rows.programs for get in program.reads if isinstance(get, Get)}
    assert read == set(ids[: 2 * ROWS_AT_ONCE])


async def test_a_list_reads_a_few_responses_at_a_time(store: StoreService, rows: SpiedRows) -> None:
    session_id = new_session_id()
    for _ in range(ROWS_AT_ONCE + 2):
        await store.put(T, draft(session_id=session_id, tag=session_id))
    rows.forget_calls()
    assert len((await store.list_responses(T, session_id, limit=ROWS_AT_ONCE + 1)).records) == ROWS_AT_ONCE + 1
    assert rows.calls.count("page") == 2
