from __future__ import annotations

import pytest

from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Turn
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.sealed import items as sealed_items
from antiphon_edge.sealed.sealing import Sealer

THOUGHT: Object = {"id": "rs_1", "type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}
COMPACTION: Object = {"id": "cmp_1", "type": "compaction", "encrypted_content": "", "summary": [{"text": "so far"}]}


@pytest.fixture
def sealer() -> Sealer:
    return Sealer(SealingKeys.ephemeral(), ttl_s=60, clock=SystemClock())


def turn_of(request: Object, *, given: bytes = b"[]") -> Turn:
    return Turn("resp_1", 0, dumps(request), input=given)


def last() -> Batch:
    output = [COMPACTION, THOUGHT]
    frames = events.encode({"type": events.COMPLETED, "response": {"output": output}})
    return Batch(0, 1, frames, Final(Status.COMPLETED, b"{}", dumps(output)))


def sealed_members(batch: Batch) -> set[str]:
    response = events.decode(batch.frames)[0]["response"]
    found = {item["type"] for item in response["output"] if item.get("encrypted_content")}
    return found | ({"context"} if "encrypted_context" in response else set())


@pytest.mark.parametrize(
    ("request_", "with_context", "sealed"),
    [
        ({"include": ["reasoning.encrypted_content"]}, False, {"reasoning"}),
        ({"include": ["reasoning.encrypted_content"]}, True, {"reasoning", "context"}),
        ({"context_management": [{"type": "compaction"}]}, False, {"compaction"}),
        (
            {"context_management": [{"type": "compaction"}], "include": ["reasoning.encrypted_content"]},
            True,
            {"reasoning", "compaction", "context"},
        ),
    ],
)
def test_a_turn_is_sealed_as_its_request_asks(
    sealer: Sealer, request_: Object, with_context: bool, sealed: set[str]
) -> None:
    change = sealed_items.changes_of("t", turn_of(request_), sealer, with_context=with_context)
    assert change is not None
    assert sealed_members(change(last())) == sealed


def test_compaction_made_by_a_trigger_is_sealed(sealer: Sealer) -> None:
    change = sealed_items.changes_of("t", turn_of({}, given=b'[{"type":"compaction_trigger"}]'), sealer)
    assert change is not None
    assert sealed_members(change(last())) == {"compaction"}


def test_a_plain_turn_is_not_changed(sealer: Sealer) -> None:
    assert sealed_items.changes_of("t", turn_of({"model": "m"}), sealer) is None


@pytest.mark.parametrize("item_type", ["reasoning", "compaction"])
def test_input_item_with_garbled_encrypted_content_is_rejected(sealer: Sealer, item_type: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        sealed_items.open_items([{"type": item_type, "encrypted_content": "garbled"}], sealer, "t", where="items")
    assert raised.value.field == "items[0].encrypted_content"
