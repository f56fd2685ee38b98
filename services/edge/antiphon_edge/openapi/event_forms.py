"""JSON schemas of the events of a stream, from the table of events."""

from __future__ import annotations

from antiphon_core import events
from antiphon_core.events import EventKind, Target
from antiphon_core.jsons import Object
from antiphon_edge.operations.forms import (
    INTEGER,
    STRING,
    any_of,
    array,
    const,
    doc,
    frame,
    nullable,
    record,
    schema_reference,
)

_NUMBER = doc(INTEGER, "Increases by one with each event, from 0. `starting_after` takes it.")
_INDEX: Object = {"output_index": doc(INTEGER, "The index of the item in `output`.")}
_OF_ITEM: Object = {"item_id": doc(STRING, "The item's id.")} | _INDEX
_AT: dict[Target, Object] = {
    Target.RESPONSE: {},
    Target.ITEM: _OF_ITEM,
    Target.CONTENT: _OF_ITEM | {"content_index": doc(INTEGER, "The index of the part in the item's `content`.")},
    Target.SUMMARY: _OF_ITEM | {"summary_index": doc(INTEGER, "The index of the part in the item's `summary`.")},
}
_PART = "The part: empty when it is added, complete when done."
_CONTENT: dict[tuple[Target, str], Object] = {
    (Target.RESPONSE, "response"): doc(
        schema_reference("Response"), "The response. `output` is empty until the last event."
    ),
    (Target.ITEM, "item"): doc(schema_reference("OutputItem"), "The item: begun when it is added, complete when done."),
    (Target.CONTENT, "part"): doc(any_of("OutputText", "Refusal", "ReasoningText"), _PART),
    (Target.SUMMARY, "part"): doc(schema_reference("SummaryText"), _PART),
}
_LOGPROBS: Object = {"logprobs": doc(array({"type": "object"}), "Log probabilities of the tokens, if requested.")}
_ERROR: Object = {
    "code": doc(nullable(STRING), "The code of the error."),
    "message": doc(STRING, "A description of the error, for people."),
    "param": doc(nullable(STRING), "The path of the parameter that caused the error, if there is one."),
}


def _members_of(kind: EventKind) -> Object:
    if kind.type == events.ERROR:
        return _ERROR
    if kind.text is not None:
        of_text = {"delta": doc(STRING, "The text to append.")}
        if not kind.is_delta:
            of_text = {kind.text.member: doc(STRING, "All deltas, concatenated.")}
        return _AT[kind.target] | of_text | (_LOGPROBS if kind.text.has_logprobs else {})
    content = {kind.content: _CONTENT[kind.target, kind.content]} if kind.content else {}
    return (_INDEX if kind.content == "item" else _AT[kind.target]) | content


MEMBERS = {kind.type: _members_of(kind) for kind in events.KINDS.values() if kind.type != events.CANCELLED}
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
