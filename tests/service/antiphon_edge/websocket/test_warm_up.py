from __future__ import annotations

import pytest
from openresponses_types.types import ResponseResource

from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.errors import ModelNotFound
from antiphon_core.fold import fold
from antiphon_core.jsons import loads
from antiphon_core.ports.translator import Turn
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.websocket import warm_up
from antiphon_edge.websocket.warm_up import WarmUps
from tests.support.edge import RunningEdge
from tests.support.translators import ScriptedTranslator

RESPONSE_ID = "resp_" + "1" * 48


def accepted_turn(*, is_stored: bool = True) -> AcceptedTurn:
    return AcceptedTurn("t", Turn(RESPONSE_ID, 7, b'{"model":"m","instructions":"be brief"}'), is_stored=is_stored)


def test_a_warm_up_is_a_whole_response_without_output() -> None:
    batch, final = warm_up.whole(accepted_turn(), now_s=8)
    told = events.decode(batch.frames)
    assert [event["type"] for event in told] == [events.CREATED, events.IN_PROGRESS, events.COMPLETED]
    assert [event["sequence_number"] for event in told] == [0, 1, 2]
    assert (batch.first_sequence, batch.count, batch.final) == (0, 3, final)
    response = told[-1]["response"]
    ResponseResource.model_validate(response)
    assert (response["output"], response["usage"]["total_tokens"], response["completed_at"]) == ([], 0, 8)
    assert fold(told) == response == loads(final.body) | {"output": loads(final.output_items)}


@pytest.mark.parametrize("is_stored", [True, False])
async def test_warm_up_is_stored_only_if_it_is_to_be_kept(edge: RunningEdge, is_stored: bool) -> None:
    warm_ups = WarmUps(edge.store, edge.translator, clock=SystemClock())
    await warm_ups.run(accepted_turn(is_stored=is_stored))
    records = await edge.store.batch_get("t", [RESPONSE_ID])
    assert len(records) == is_stored


async def test_warm_up_of_an_unknown_model_is_rejected_by_name(edge: RunningEdge) -> None:
    warm_ups = WarmUps(edge.store, ScriptedTranslator(), clock=SystemClock())
    await warm_ups.require_model("m")
    with pytest.raises(ModelNotFound, match="'other'"):
        await warm_ups.require_model("other")
