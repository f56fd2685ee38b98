from __future__ import annotations

from antiphon_core import events
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final
from antiphon_edge.sealed.output_items import change_output

MARK = b'"type":"note"'
NOTE: Object = {"id": "n_1", "type": "note"}
OTHER: Object = {"id": "m_1", "type": "message"}


def batch_of(*told: Object, final: bool = False) -> Batch:
    frames = b"".join(events.encode({"sequence_number": number} | event) for number, event in enumerate(told))
    end = Final(Status.COMPLETED, b"{}", dumps([NOTE, OTHER])) if final else None
    return Batch(0, len(told), frames, end)


def loud(item: Object) -> Object:
    return item | {"said": "loud"} if item["type"] == "note" else item


def test_item_is_changed_in_its_done_event_and_not_before() -> None:
    added: Object = {"type": events.OUTPUT_ITEM_ADDED, "item": NOTE}
    done: Object = {"type": events.OUTPUT_ITEM_DONE, "item": NOTE}
    told = events.decode(change_output(batch_of(added, done), MARK, loud).frames)
    assert [event["item"] for event in told] == [NOTE, NOTE | {"said": "loud"}]


def test_an_item_is_changed_in_the_end_of_the_stream_and_in_the_record() -> None:
    ended: Object = {"type": events.COMPLETED, "response": {"output": [NOTE, OTHER]}}
    made = change_output(batch_of(ended, final=True), MARK, loud)
    (told,) = events.decode(made.frames)
    assert made.final is not None
    assert told["response"]["output"] == loads(made.final.output_items) == [NOTE | {"said": "loud"}, OTHER]


def test_batch_without_the_item_is_passed_on_unchanged() -> None:
    for event in (
        {"type": events.OUTPUT_ITEM_DONE, "item": OTHER},
        {"type": events.OUTPUT_ITEM_ADDED, "item": NOTE},
        {"type": events.OUTPUT_TEXT_DELTA, "delta": MARK.decode()},
    ):
        batch = batch_of(event)
        assert change_output(batch, MARK, loud) is batch
