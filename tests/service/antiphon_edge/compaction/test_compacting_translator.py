from __future__ import annotations

import pytest

from antiphon_core.jsons import Object, loads
from antiphon_core.ports.translator import Turn
from tests.support.edge import RunningEdge
from tests.support.scripted_system import MODEL, scripted_system

LONG: Object = {
    "context_management": [{"type": "compaction", "compact_threshold": 3}]
}  # the scripted translator counts 3 tokens


def types(turn: Turn) -> list[str]:
    return [item["type"] for item in [*loads(turn.history), *loads(turn.input)]]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_stored_chain_goes_on_from_its_compaction(edge: RunningEdge, stream: bool) -> None:
    first = (await edge.create(input="one")).json
    answer = await edge.create(input="two", previous_response_id=first["id"], stream=stream, **LONG)
    second = answer.events[-1]["response"] if stream else answer.json
    assert [item["type"] for item in second["output"]] == ["compaction", "message"]
    assert second["output"][0]["encrypted_content"].startswith("v1.")
    assert (await edge.ask("GET", f"/v1/responses/{second['id']}")).json == second
    await edge.create(input="three", previous_response_id=second["id"])
    # one, two, their summary, the answer, three
    assert types(edge.translator.turns[-1]) == ["message", "message", "compaction", "message", "message"]


async def test_a_trigger_works_over_http_and_its_output_is_the_next_input(edge: RunningEdge) -> None:
    trigger = [{"role": "user", "content": "one"}, {"type": "compaction_trigger"}]
    made = (await edge.create(input=trigger, store=False)).json
    (item,) = made["output"]
    answer = await edge.create(input=[{"type": "compaction", "encrypted_content": item["encrypted_content"]}])
    assert answer.status == 200
    empty = await edge.create(input=trigger[1:])
    assert (empty.status, empty.error["code"]) == (400, "empty_array")
    misplaced = await edge.create(input=list(reversed(trigger)))
    assert (misplaced.status, misplaced.error["param"]) == (400, "input[0]")


async def test_configuration_updates_apply_to_this_and_later_turns(edge: RunningEdge) -> None:
    update = {"type": "configuration_update", "reasoning": {"effort": "high"}}
    first = (await edge.create(input=[update, {"role": "user", "content": "one"}])).json
    assert first["reasoning"]["effort"] == "high"
    second = (await edge.create(previous_response_id=first["id"], reasoning={"effort": "low"})).json
    assert second["reasoning"]["effort"] == "high"
    assert (await edge.create(reasoning={"effort": "low"})).json["reasoning"]["effort"] == "low"


async def test_a_background_compaction_that_is_wrong_is_rejected_and_not_queued(edge: RunningEdge) -> None:
    trigger, message = {"type": "compaction_trigger"}, {"role": "user", "content": "hi"}
    for items, param in (([trigger, message], "input[0]"), ([trigger], "input")):
        answer = await edge.create(input=items, background=True)
        assert (answer.status, answer.error["param"]) == (400, param)
    assert not edge.backend.stored()


async def test_a_conversation_over_the_context_is_compacted_with_truncation() -> None:
    turns = [{"role": "user", "content": "say a. " * 20}, {"role": "assistant", "content": "x" * 200}] * 10
    items = [*turns, {"role": "user", "content": "hi"}]
    members = {"truncation": "auto", "context_management": [{"type": "compaction", "compact_threshold": 1_000}]}
    async with scripted_system(context_length=2_000) as system:
        answer = await system.http.post("/v1/responses", {"model": MODEL, "input": items} | members)
        assert answer.status == 200, answer.body
        assert [item["type"] for item in answer.json["output"]] == ["compaction", "message"]
        del members["truncation"]
        for background in (False, True):
            body = {"model": MODEL, "input": items, "background": background} | members
            answer = await system.http.post("/v1/responses", body)
            assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")
