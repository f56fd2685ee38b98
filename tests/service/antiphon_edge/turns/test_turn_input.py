from __future__ import annotations

import pytest

from antiphon_core.errors import ItemNotFound, TooLarge
from antiphon_core.jsons import Object, loads
from antiphon_edge.turns import turn_input
from antiphon_edge.turns.turn_input import look_up_references
from tests.support.edge import RunningEdge

WORDS: Object = {"role": "user", "content": "y"}


def reference(item_id: str) -> Object:
    return {"type": "item_reference", "id": item_id}


async def test_item_reference_is_replaced_by_its_item(edge: RunningEdge) -> None:
    made = (await edge.create(input="x")).json
    record = await edge.store.get("default", made["id"])
    (said,) = loads(record.input_items)
    given = [WORDS, reference(said["id"]), WORDS, reference(made["output"][0]["id"]), reference(said["id"])]
    found, _ = await look_up_references(edge.store, "default", given, field="items")
    assert found == [WORDS, said, WORDS, made["output"][0], said]


async def test_an_item_counts_as_often_as_it_is_referred_to(edge: RunningEdge, monkeypatch: pytest.MonkeyPatch) -> None:
    made = (await edge.create()).json["output"][0]["id"]
    once = await look_up_references(edge.store, "default", [reference(made)], field="items")
    twice = await look_up_references(edge.store, "default", [reference(made)] * 2, field="items")
    assert twice.added_bytes == 2 * once.added_bytes
    monkeypatch.setattr(turn_input, "RPC_MESSAGE_BYTES_MAX", 5_000)
    with pytest.raises(TooLarge, match="'items' refers to are"):
        await look_up_references(edge.store, "default", [reference(made)] * 100, field="items")


async def test_unknown_item_and_item_of_another_tenant_are_not_found(edge: RunningEdge) -> None:
    made = (await edge.create()).json
    known = made["output"][0]["id"]
    for tenant, item_id in (("default", "msg_unknown"), ("other", known)):
        with pytest.raises(ItemNotFound) as caught:
            await look_up_references(edge.store, tenant, [reference(item_id)], field="items")
        assert caught.value.field == "items"
        assert caught.value.message.startswith(f"Item with id '{item_id}' not found.")


async def test_without_references_the_store_is_not_asked(edge: RunningEdge) -> None:
    store = edge.store
    store.resolve_items = None  # type: ignore[assignment,method-assign]
    assert (await look_up_references(store, "default", [WORDS], field="items")).items == [WORDS]
