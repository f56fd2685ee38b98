"""JSON schemas of the events of a stream: one row for each type of event, with its own members."""

from __future__ import annotations

from antiphon_core import events
from antiphon_core.jsons import Object
from antiphon_edge.openapi.forms import INTEGER, STRING, any_of, array, const, doc, frame, named, nullable, record

_NUMBER = doc(INTEGER, "Increases by one with each event, from 0. `starting_after` takes it.")
_INDEX: Object = {"output_index": doc(INTEGER, "The index of the item in `output`.")}
_OF_ITEM: Object = {"item_id": doc(STRING, "The item's id.")} | _INDEX
_OF_PART: Object = _OF_ITEM | {"content_index": doc(INTEGER, "The index of the part in the item's `content`.")}
_LOGPROBS: Object = {"logprobs": doc(array({"type": "object"}), "Log probabilities of the tokens, if requested.")}
_RESPONSE: Object = {"response": doc(named("Response"), "The response. `output` is empty until the last event.")}
_ITEM: Object = _INDEX | {"item": doc(named("OutputItem"), "The item: begun when it is added, complete when done.")}
_PART: Object = _OF_PART | {
    "part": doc(
        any_of("OutputText", "Refusal", "ReasoningText"), "The part: empty when it is added, complete when done."
    )
}
_OF_SUMMARY: Object = _OF_ITEM | {"summary_index": doc(INTEGER, "The index of the part in the item's `summary`.")}
_SUMMARY: Object = _OF_SUMMARY | {
    "part": doc(named("SummaryText"), "The part: empty when it is added, complete when done.")
}
_DELTA: Object = {"delta": doc(STRING, "The text to append.")}
_WHOLE = doc(STRING, "All deltas, concatenated.")

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
    events.REFUSAL_DELTA: _OF_PART | _DELTA,
    events.REFUSAL_DONE: _OF_PART | {"refusal": _WHOLE},
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
    events.KEEP_ALIVE: {},  # repeats the number of the last event
    events.ERROR: {
        "code": doc(nullable(STRING), "The code of the error."),
        "message": doc(STRING, "A description of the error, for people."),
        "param": doc(nullable(STRING), "The path of the parameter that caused the error, if there is one."),
    },
}
"""The members of each type of event, after `type` and `sequence_number`. Clients are never sent events.CANCELLED."""


def name_of(event_type: str) -> str:
    """The name of the schema of an event: ResponseOutputTextDeltaEvent for `response.output_text.delta`."""
    words = event_type.replace(".", "_").split("_")
    return "".join(word.capitalize() for word in words) + "Event"


SCHEMAS: dict[str, Object] = {
    name_of(event_type): record({"type": const(event_type), "sequence_number": _NUMBER} | members)
    for event_type, members in MEMBERS.items()
} | {
    "StreamEvent": any_of(*map(name_of, MEMBERS)),
    "StreamFrame": frame("StreamEvent", "`event` is the type of the event in `data`. The last frame is [DONE]."),
}
