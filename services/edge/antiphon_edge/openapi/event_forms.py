"""The events of a stream, as JSON schemas: one row for each type, with the members it has besides its number."""

from __future__ import annotations

from antiphon_core import events
from antiphon_core.jsons import Object
from antiphon_edge.openapi.forms import INTEGER, STRING, any_of, array, const, frame, named, nullable, record, said

_NUMBER = said(INTEGER, "One more than that of the event before; the first is 0. `starting_after` takes it.")
_INDEX: Object = {"output_index": said(INTEGER, "Where the item stands in `output`.")}
_OF_ITEM: Object = {"item_id": said(STRING, "The item's id.")} | _INDEX
_OF_PART: Object = _OF_ITEM | {"content_index": said(INTEGER, "Where the part stands in the item's `content`.")}
_LOGPROBS: Object = {"logprobs": said(array({"type": "object"}), "Of the tokens of this text, where asked for.")}
_RESPONSE: Object = {"response": said(named("Response"), "As it is now; its `output` is empty until its last event.")}
_ITEM: Object = _INDEX | {"item": said(named("OutputItem"), "As it is now: begun when it is added, whole when done.")}
_PART: Object = _OF_PART | {
    "part": said(any_of("OutputText", "ReasoningText"), "As it is now: empty when it is added, whole when done.")
}
_OF_SUMMARY: Object = _OF_ITEM | {"summary_index": said(INTEGER, "Where the part stands in the item's `summary`.")}
_SUMMARY: Object = _OF_SUMMARY | {
    "part": said(named("SummaryText"), "As it is now: empty when it is added, whole when done.")
}
_DELTA: Object = {"delta": said(STRING, "What follows on what came before.")}
_WHOLE = said(STRING, "All deltas joined.")

MEMBERS: dict[str, Object] = {
    events.CREATED: _RESPONSE,
    events.QUEUED: _RESPONSE,
    events.IN_PROGRESS: _RESPONSE,
    events.OUTPUT_ITEM_ADDED: _ITEM,
    events.OUTPUT_ITEM_DONE: _ITEM,
    events.CONTENT_PART_ADDED: _PART,
    events.CONTENT_PART_DONE: _PART,
    events.OUTPUT_TEXT_DELTA: _OF_PART | _DELTA | _LOGPROBS,
    events.OUTPUT_TEXT_DONE: _OF_PART | {"text": _WHOLE} | _LOGPROBS,
    events.REASONING_TEXT_DELTA: _OF_PART | _DELTA,
    events.REASONING_TEXT_DONE: _OF_PART | {"text": _WHOLE},
    events.REASONING_SUMMARY_PART_ADDED: _SUMMARY,
    events.REASONING_SUMMARY_PART_DONE: _SUMMARY,
    events.REASONING_SUMMARY_TEXT_DELTA: _OF_SUMMARY | _DELTA,
    events.REASONING_SUMMARY_TEXT_DONE: _OF_SUMMARY | {"text": _WHOLE},
    events.FUNCTION_CALL_ARGUMENTS_DELTA: _OF_ITEM | _DELTA,
    events.FUNCTION_CALL_ARGUMENTS_DONE: _OF_ITEM | {"arguments": _WHOLE},
    events.CUSTOM_TOOL_CALL_INPUT_DELTA: _OF_ITEM | _DELTA,
    events.CUSTOM_TOOL_CALL_INPUT_DONE: _OF_ITEM | {"input": _WHOLE},
    events.COMPACTING: _OF_ITEM,
    events.COMPLETED: _RESPONSE,
    events.INCOMPLETE: _RESPONSE,
    events.FAILED: _RESPONSE,
    events.ERROR: {
        "code": said(nullable(STRING), "What went wrong."),
        "message": said(STRING, "The same for people."),
        "param": said(nullable(STRING), "The path of the culprit, if it is in the request."),
    },
}
"""By type: what clients are told, and so not events.CANCELLED. In an event `type` and `sequence_number` come first."""


def name_of(event_type: str) -> str:
    """The name of an event's schema: `response.output_text.delta` is `ResponseOutputTextDeltaEvent`."""
    words = event_type.replace(".", "_").split("_")
    return "".join(word.capitalize() for word in words) + "Event"


SCHEMAS: dict[str, Object] = {
    name_of(event_type): record({"type": const(event_type), "sequence_number": _NUMBER} | members)
    for event_type, members in MEMBERS.items()
} | {
    "StreamEvent": any_of(*map(name_of, MEMBERS)),
    "StreamFrame": frame("StreamEvent", "`event` repeats the type of the event in `data`. Last comes [DONE]."),
}
