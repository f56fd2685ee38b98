"""Lookups of many items: how often and where their responses are read."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from antiphon_core.jsons import dumps, loads
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_core.ports.store import Record
from antiphon_store.rows.model import Get, Payload
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from antiphon_store.topics import item_lookups
from antiphon_store.topics.item_lookups import RESPONSES_AT_ONCE
from tests.support.rows import SpiedRows

T = "t"


async def put_items(store: StoreService, *names: str, text: str = "") -> Record:
    record = draft(input_items=dumps([{"id": name, "text": text} for name in names]), output_items=b"[]")
    await store.put(T, record)
    return record


def reads_of_nodes(rows: SpiedRows) -> Counter[str]:
    """The number of reads of each node with its payloads."""
    reads = [read for _partition, program in rows.programs for read in program.reads if isinstance(read, Get)]
    return Counter(read.ref.id for read in reads if read.payload is Payload.ALL)


async def test_a_response_is_read_once_for_all_items_that_are_looked_up_in_it(
    store: StoreService, rows: SpiedRows
) -> None:
    names = [f"item{number}" for number in range(50)]
    record = await put_items(store, *names)
    rows.forget_calls()
    found = await store.resolve_items(T, ["no", *names])
    assert ([each.id for each in found.items], found.missing_ids) == (names, ("no",))
    assert {each.response_id for each in found.items} == {record.id}
    assert reads_of_nodes(rows) == {record.id: 1}


async def test_items_of_many_responses_are_found_in_the_order_of_the_request(store: StoreService) -> None:
    names = [f"item{number}" for number in range(3 * RESPONSES_AT_ONCE + 1)]
    records = [await put_items(store, name) for name in names]
    found = await store.resolve_items(T, names[::-1])
    assert [(each.id, each.response_id) for each in found.items] == [
        (name, record.id) for name, record in zip(names[::-1], records[::-1], strict=True)
    ]


async def test_an_item_is_found_behind_many_deleted_responses_with_its_id(store: StoreService) -> None:
    records = [await put_items(store, "a", f"b{number}") for number in range(20)]
    order = sorted(records, key=lambda record: record.id)  # all were created in one millisecond
    for record in order[:-1]:
        await store.delete(T, record.id)
    found = await store.resolve_items(T, ["a", "b0"])
    assert {each.id: each.response_id for each in found.items}["a"] == order[-1].id


async def test_large_responses_are_parsed_outside_of_the_event_loop(
    store: StoreService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_items(store, "small")
    await put_items(store, "large", text="x" * INLINE_BYTES_MAX)
    threads: list[int] = []

    def spied(part: bytes) -> object:
        threads.append(threading.get_ident())
        return loads(part)

    monkeypatch.setattr(item_lookups, "loads", spied)
    await store.resolve_items(T, ["small"])
    assert set(threads) == {threading.get_ident()}
    threads.clear()
    await store.resolve_items(T, ["large"])
    assert threads
    assert threading.get_ident() not in threads
