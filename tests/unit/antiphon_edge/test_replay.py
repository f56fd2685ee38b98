from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon_core import events, response
from antiphon_core.errors import AntiphonError, ContextLengthExceeded, EngineFault
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.store import Record, Status
from antiphon_edge.replay import end_of, frames_of
from tests.support.pushed import generated
from tests.support.reasoning_model import CALL, EXEC, WEATHER, log_of_play, reasoning_model
from tests.support.schema import validate_event
from tests.support.served_models import turn
from tests.support.server_tools import SEARCH, listed, server_call
from tests.support.thinking_edges import PausableEngine, losable

RESPONSE_ID = "resp_" + "0" * 48
SAID = ("<think>", "Hm.", "</think>", "I look.", *CALL, "Done.")
CUSTOM = ("<tool_call>", '{"name": "exec", "arguments": {"input": "ls"}}', "</tool_call>")


def record_of(ended: Object) -> Record:
    body, output_items = response.split(ended)
    return Record(ended["id"], Status(ended["status"]), body, output_items=output_items)


def replayed(ended: Object) -> list[Object]:
    return [event for frame in frames_of(record_of(ended)) for event in events.decode(frame)]


async def streamed(*said: str, **request: Any) -> list[Object]:
    batches = generated(losable(PausableEngine(*said)), turn("Hi", **({"tools": [WEATHER, EXEC]} | request)))
    return [event async for batch in batches for event in events.decode(batch.frames)]


def without_cuts(log: list[Object]) -> list[Object]:
    """The log with each text in one delta, and no numbers."""
    joined: list[Object] = []
    for event in log:
        named = {name: value for name, value in event.items() if name != "sequence_number"}
        if "delta" in event and joined and joined[-1]["type"] == event["type"]:
            joined[-1]["delta"] += event["delta"]
        else:
            joined.append(named)
    return joined


@pytest.mark.parametrize("said", [SAID, CUSTOM, ("Ja.",), ()])
async def test_a_replay_of_a_stored_response_is_its_stream_with_each_text_in_one_piece(said: tuple[str, ...]) -> None:
    log = await streamed(*said)
    found = replayed(log[-1]["response"])
    assert without_cuts(found) == without_cuts(log)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert fold(found) == log[-1]["response"]


def test_a_replay_contains_the_events_of_the_reasoning_summary() -> None:
    log = log_of_play(
        *SAID, served=replace(reasoning_model(), can_reason=True), tools=[WEATHER], reasoning={"summary": "auto"}
    )
    assert "response.reasoning_summary_text.done" in [event["type"] for event in log]
    found = replayed(log[-1]["response"])
    assert without_cuts(found) == without_cuts(log)
    assert fold(found) == log[-1]["response"]


async def test_a_replay_of_an_incomplete_response_ends_as_incomplete() -> None:
    log = await streamed(*SAID, max_output_tokens=8, tools=[WEATHER])
    ended = log[-1]["response"]
    assert ended["status"] == "incomplete"
    found = replayed(ended)
    assert (found[-1]["type"], fold(found)) == (events.INCOMPLETE, ended)
    assert found[0]["response"]["incomplete_details"] is None
    for event in found:
        if not event["type"].startswith("response.reasoning_text"):  # OpenAI and Open Responses differ in these events
            validate_event(event)


ITEM: Object = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "incomplete",
    "content": [{"type": "output_text", "text": "Ja", "annotations": [], "logprobs": []}],
}


@pytest.mark.parametrize(
    "error", [EngineFault("broken"), ContextLengthExceeded.of(input_tokens=9, context_length=8)], ids=repr
)
@pytest.mark.parametrize("output", [[], [ITEM]])
def test_a_replay_of_a_failed_response_ends_with_error_and_failed(output: list[Object], error: AntiphonError) -> None:
    born = response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1) | {"output": output}
    ended = response.fail(born, error)
    found = replayed(ended)
    assert [event["type"] for event in found[-2:]] == [events.ERROR, events.FAILED]
    assert found[-2] == events.error_event(len(found) - 2, error)
    assert fold(found) == ended


def test_end_of_a_response_is_the_end_of_its_replay_with_other_numbers() -> None:
    for status, count in (("completed", 1), ("failed", 2)):
        skeleton = response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1)
        ended = (
            skeleton | {"status": "completed"}
            if status == "completed"
            else response.fail(skeleton, EngineFault("It broke."))
        )
        last = [event for frame in end_of(record_of(ended), 7) for event in events.decode(frame)]
        assert [event.pop("sequence_number") for event in last] == list(range(7, 7 + count))
        assert last == [{k: v for k, v in each.items() if k != "sequence_number"} for each in replayed(ended)[-count:]]


def test_a_replay_of_a_cancelled_response_ends_as_cancelled() -> None:
    ended = response.cancel(response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1))
    assert replayed(ended)[-1] == {"type": events.CANCELLED, "response": ended, "sequence_number": 2}


def test_a_replay_of_a_refusal_has_its_events() -> None:
    refused = ITEM | {"status": "completed", "content": [{"type": "refusal", "refusal": "No."}]}
    body = response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1)
    ended = body | {"status": "completed", "output": [refused]}
    found = replayed(ended)
    assert fold(found) == ended
    told = {event["type"]: event for event in found}
    assert (told[events.REFUSAL_DELTA]["delta"], told[events.REFUSAL_DONE]["refusal"]) == ("No.", "No.")


def test_a_replay_sends_unstreamed_parts_and_items_whole() -> None:
    message = ITEM | {"status": "completed", "content": [{"type": "audio", "data": "x"}]}
    other = {"id": "ig_1", "type": "image_generation_call"}
    body = response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1)
    ended = body | {"status": "completed", "output": [message, other]}
    found = replayed(ended)
    assert fold(found) == ended
    added = [event["item"] for event in found if event["type"] == events.OUTPUT_ITEM_ADDED]
    assert "status" not in added[1]
    assert loads(frames_of(record_of(ended))[-1].split(b"data: ")[1])["response"] == ended


def test_a_replay_has_the_events_of_calls_that_the_server_ran() -> None:
    failed = server_call("mcp_2", status="incomplete", output=None, error={"type": "http_error"})
    output = [listed(SEARCH), server_call(), failed]
    body = response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1)
    completed = body | {"status": "completed", "output": output}
    types = [event["type"].removeprefix("response.") for event in replayed(completed)]
    call = ["output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done"]
    assert types[2:-1] == [
        *("output_item.added", "mcp_list_tools.in_progress", "mcp_list_tools.completed", "output_item.done"),
        *(*call, "mcp_call.completed", "output_item.done"),
        *(*call, "mcp_call.failed", "output_item.done"),
    ]
    assert fold(replayed(completed)) == completed
