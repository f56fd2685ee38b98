from __future__ import annotations

import pytest

from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Turn
from antiphon_edge.sealed import items as sealed_items
from antiphon_edge.sealed.reasoning import unchanged
from antiphon_edge.sealed.sealing import Sealer, SealingKeys
from antiphon_edge.turns.accepted_turn import AcceptedTurn

THOUGHT: Object = {"id": "rs_1", "type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}
COMPACTION: Object = {"id": "cmp_1", "type": "compaction", "encrypted_content": "", "summary": [{"text": "so far"}]}


@pytest.fixture
def sealer() -> Sealer:
    return Sealer(SealingKeys.ephemeral(), ttl_s=60, clock=SystemClock())


def begun(request: Object, *, keep: bool = True, given: bytes = b"[]") -> AcceptedTurn:
    return AcceptedTurn("t", Turn("resp_1", 0, dumps(request), input=given), keep=keep)


def last() -> Batch:
    output = [COMPACTION, THOUGHT]
    frames = events.encode({"type": events.COMPLETED, "response": {"output": output}})
    return Batch(0, 1, frames, Final(Status.COMPLETED, b"{}", dumps(output)))


def sealed_members(batch: Batch) -> set[str]:
    response = events.decode(batch.frames)[0]["response"]
    found = {item["type"] for item in response["output"] if item.get("encrypted_content")}
    return found | ({"context"} if "encrypted_context" in response else set())


@pytest.mark.parametrize(
    ("request_", "keep", "sealed"),
    [
        ({"include": ["reasoning.encrypted_content"]}, True, {"reasoning"}),
        ({"include": ["reasoning.encrypted_content"]}, False, {"reasoning", "context"}),
        ({"context_management": [{"type": "compaction"}]}, True, {"compaction"}),
        (
            {"context_management": [{"type": "compaction"}], "include": ["reasoning.encrypted_content"]},
            False,
            {"reasoning", "compaction", "context"},
        ),
    ],
)
def test_a_turn_is_sealed_as_it_asked(sealer: Sealer, request_: Object, keep: bool, sealed: set[str]) -> None:
    assert sealed_members(sealed_items.changes_of(begun(request_, keep=keep), sealer)(last())) == sealed


def test_who_is_remembered_elsewhere_gets_no_context(sealer: Sealer) -> None:
    turn = begun({"include": ["reasoning.encrypted_content"]}, keep=False)
    assert sealed_members(sealed_items.changes_of(turn, sealer, with_context=False)(last())) == {"reasoning"}


def test_a_trigger_asks_for_a_compaction_too(sealer: Sealer) -> None:
    change = sealed_items.changes_of(begun({}, given=b'[{"type":"compaction_trigger"}]'), sealer)
    assert sealed_members(change(last())) == {"compaction"}


def test_who_asks_for_nothing_pays_nothing(sealer: Sealer) -> None:
    assert sealed_items.changes_of(begun({"model": "m"}), sealer) is unchanged


@pytest.mark.parametrize("item_type", ["reasoning", "compaction"])
def test_whatever_is_sealed_is_opened_on_its_way_in(sealer: Sealer, item_type: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        sealed_items.opened([{"type": item_type, "encrypted_content": "garbled"}], sealer, "t", where="items")
    assert raised.value.field == "items[0].encrypted_content"
