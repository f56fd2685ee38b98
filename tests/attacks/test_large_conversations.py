"""A tenant asks again and again for one item of a conversation of megabytes: such a request counts as short work, so
the store reads no more than the response that has the item."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antiphon_core.errors import ItemNotFound
from antiphon_core.ids import RandomIds, new_conversation_id
from antiphon_core.jsons import dumps, loads
from antiphon_store.rows.model import Applied, ChainRows, Outcome, Partition, Program, Row, size_of
from antiphon_store.service import StoreService
from tests.support.rows import SpiedRows

TENANT = "attacker"
ADDITIONS, BYTES = 40, 50_000


class CountedRows(SpiedRows):
    """Rows that count the bytes of the payloads that are read."""

    bytes_read = 0

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        outcome = await super().transact(partition, program)
        if isinstance(outcome, Applied):
            self.bytes_read += sum(map(bytes_in, outcome.answers))
        else:
            self.bytes_read += sum(map(size_of, outcome.rows.values()))
        return outcome


def bytes_in(answer: Any) -> int:
    if isinstance(answer, ChainRows):
        return sum(map(len, (*answer.items, *answer.bodies)))
    return size_of(answer) if isinstance(answer, Row) else 0


Ask = Callable[[StoreService, str, str], Awaitable[Any]]
REQUESTS: dict[str, Ask] = {
    "get": lambda store, talk, item: store.get_conversation_item(TENANT, talk, item),
    "delete": lambda store, talk, item: store.delete_conversation_item(TENANT, talk, item),
}


@pytest.mark.parametrize("request_name", REQUESTS)
async def test_one_item_of_a_large_conversation_is_read_without_the_others(request_name: str) -> None:
    rows, ask = CountedRows(), REQUESTS[request_name]
    await rows.open()
    store, talk = StoreService(rows), new_conversation_id(RandomIds())
    await store.create_conversation(TENANT, conversation_id=talk, metadata=b"{}", items=b"[]")
    for number in range(ADDITIONS):
        items = [{"id": f"item-{number}", "type": "message", "content": "x" * BYTES}]
        await store.add_conversation_items(TENANT, talk, dumps(items))
    rows.bytes_read = 0
    await store.list_conversation_items(TENANT, talk, limit=1)
    assert rows.bytes_read > ADDITIONS * BYTES  # a page needs them all, and counts as long work
    for number in (0, ADDITIONS // 2, ADDITIONS - 1):
        rows.bytes_read = 0
        found = await ask(store, talk, f"item-{number}")
        assert BYTES < rows.bytes_read < 2 * BYTES
        assert request_name != "get" or loads(found)["id"] == f"item-{number}"
    rows.bytes_read = 0
    with pytest.raises(ItemNotFound):
        await ask(store, talk, "item-of-nobody")
    assert rows.bytes_read < BYTES
    await rows.close()


async def test_an_item_of_another_conversation_is_not_found_and_not_read() -> None:
    rows = CountedRows()
    await rows.open()
    store = StoreService(rows)
    talks = [new_conversation_id(RandomIds()) for _ in range(2)]
    for talk in talks:
        items = dumps([{"id": "same", "type": "message", "content": talk + "x" * BYTES}])
        await store.create_conversation(TENANT, conversation_id=talk, metadata=b"{}", items=items)
    for talk in talks:
        assert loads(await store.get_conversation_item(TENANT, talk, "same"))["content"].startswith(talk)
    other = dumps([{"id": "other", "type": "message", "content": "x" * BYTES}])
    await store.add_conversation_items(TENANT, talks[0], other)
    rows.bytes_read = 0
    with pytest.raises(ItemNotFound):
        await store.get_conversation_item(TENANT, talks[1], "other")
    assert rows.bytes_read < BYTES
    await rows.close()
