"""The events of a stream, as JSON schemas: one row for each type, with the members it has besides its number."""

from __future__ import annotations

from antiphon_core import events
from antiphon_core.jsons import Object
from antiphon_edge.openapi.forms import INTEGER, STRING, any_of, array, const, frame, named, nullable, record

_OF_ITEM: Object = {"item_id": STRING, "output_index": INTEGER}
_OF_PART: Object = _OF_ITEM | {"content_index": INTEGER}
_LOGPROBS: Object = {"logprobs": array({"type": "object"})}
_RESPONSE: Object = {"response": named("Response")}
_ITEM: Object = {"output_index": INTEGER, "item": named("OutputItem")}
_PART: Object = _OF_PART | {"part": any_of("OutputText", "ReasoningText")}
_DELTA: Object = {"delta": STRING}

MEMBERS: dict[str, Object] = {
    events.CREATED: _RESPONSE,
    events.QUEUED: _RESPONSE,
    events.IN_PROGRESS: _RESPONSE,
    events.OUTPUT_ITEM_ADDED: _ITEM,
    events.OUTPUT_ITEM_DONE: _ITEM,
    events.CONTENT_PART_ADDED: _PART,
    events.CONTENT_PART_DONE: _PART,
    events.OUTPUT_TEXT_DELTA: _OF_PART | _DELTA | _LOGPROBS,
    events.OUTPUT_TEXT_DONE: _OF_PART | {"text": STRING} | _LOGPROBS,
    events.REASONING_TEXT_DELTA: _OF_PART | _DELTA,
    events.REASONING_TEXT_DONE: _OF_PART | {"text": STRING},
    events.FUNCTION_CALL_ARGUMENTS_DELTA: _OF_ITEM | _DELTA,
    events.FUNCTION_CALL_ARGUMENTS_DONE: _OF_ITEM | {"arguments": STRING},
    events.CUSTOM_TOOL_CALL_INPUT_DELTA: _OF_ITEM | _DELTA,
    events.CUSTOM_TOOL_CALL_INPUT_DONE: _OF_ITEM | {"input": STRING},
    events.COMPACTING: _OF_ITEM,
    events.COMPLETED: _RESPONSE,
    events.INCOMPLETE: _RESPONSE,
    events.FAILED: _RESPONSE,
    events.ERROR: {"code": nullable(STRING), "message": STRING, "param": nullable(STRING)},
}
"""By type: what clients are told, and so not events.CANCELLED. In an event `type` and `sequence_number` come first."""


def name_of(event_type: str) -> str:
    """The name of an event's schema: `response.output_text.delta` is `ResponseOutputTextDeltaEvent`."""
    words = event_type.replace(".", "_").split("_")
    return "".join(word.capitalize() for word in words) + "Event"


SCHEMAS: dict[str, Object] = {
    name_of(event_type): record({"type": const(event_type), "sequence_number": INTEGER} | members)
    for event_type, members in MEMBERS.items()
} | {
    "StreamEvent": any_of(*map(name_of, MEMBERS)),
    "StreamFrame": frame("StreamEvent", "`event` repeats the type of the event in `data`. Last comes [DONE]."),
}
