from __future__ import annotations

import pytest

from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.sealed import compaction as sealed_compaction
from antiphon_edge.sealed.compaction import CompactionSealer
from antiphon_edge.sealed.sealing import Sealer

ITEM: Object = {
    "id": "cmp_1",
    "type": "compaction",
    "encrypted_content": "",
    "summary": [{"type": "summary_text", "text": "so far"}],
}
OTHER: Object = {"id": "msg_1", "type": "message", "content": []}


@pytest.fixture
def sealer() -> Sealer:
    return Sealer(SealingKeys.ephemeral(), ttl_s=60, clock=SystemClock())


def test_compaction_is_opened_from_its_encrypted_content_alone(sealer: Sealer) -> None:
    item = sealed_compaction.seal_item(ITEM, sealer, "t")
    bare = {"type": "compaction", "encrypted_content": item["encrypted_content"]}
    assert sealed_compaction.open_items([OTHER, bare], sealer, "t") == [OTHER, bare | {"summary": ITEM["summary"]}]


def test_sealed_summary_replaces_a_changed_summary_beside_it(sealer: Sealer) -> None:
    item = sealed_compaction.seal_item(ITEM, sealer, "t") | {"summary": [{"type": "summary_text", "text": "a lie"}]}
    assert sealed_compaction.open_items([item], sealer, "t")[0]["summary"] == ITEM["summary"]


@pytest.mark.parametrize("what", ["foreign", "reasoning", "tenant", "empty"])
def test_unreadable_encrypted_content_is_rejected_with_its_path(sealer: Sealer, what: str) -> None:
    blobs = {
        "foreign": "gAAAAABpM0Yj",
        "reasoning": sealer.seal("t", "so far"),
        "tenant": sealer.seal("other", "so far", purpose="compaction"),
        "empty": "",
    }
    with pytest.raises(InvalidRequest) as raised:
        sealed_compaction.open_items([ITEM | {"encrypted_content": blobs[what]}], sealer, "t", where="items")
    assert (raised.value.field, raised.value.code) == ("items[0].encrypted_content", "invalid_encrypted_content")


def test_compaction_has_one_seal_in_events_and_record(sealer: Sealer) -> None:
    change = CompactionSealer(sealer, "t")
    added: Object = {"type": events.OUTPUT_ITEM_ADDED, "item": ITEM | {"summary": []}}
    done: Object = {"type": events.OUTPUT_ITEM_DONE, "item": ITEM}
    ended: Object = {"type": events.COMPLETED, "response": {"output": [ITEM, OTHER]}}
    told = change(Batch(0, 2, events.encode(added) + events.encode(done)))
    last = change(Batch(2, 1, events.encode(ended), Final(Status.COMPLETED, b"{}", dumps([ITEM, OTHER]))))
    assert events.decode(told.frames)[0] == added
    item = events.decode(told.frames)[1]["item"]
    assert sealer.open("t", item["encrypted_content"], purpose="compaction") == "so far"
    assert last.final is not None
    assert events.decode(last.frames)[0]["response"]["output"] == [item, OTHER] == loads(last.final.output_items)


def test_batches_without_a_compaction_are_left_alone(sealer: Sealer) -> None:
    batch = Batch(0, 1, events.encode({"type": events.OUTPUT_ITEM_DONE, "item": OTHER}))
    assert CompactionSealer(sealer, "t")(batch) is batch
