"""Makes the events of a stored response again, for a client that asks for its stream when the event log is gone.

Each text is one delta; otherwise the events are those of the original stream, and they fold to the response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from antiphon_core import events
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.store import Record
from antiphon_core.request.context import COMPACTION
from antiphon_core.response import error_of

_TEXTS = {text.owner: text for text in events.TEXTS}
_NOT_ENDED: Object = {"status": "in_progress", "completed_at": None, "error": None, "incomplete_details": None}


def frames_of(record: Record) -> list[bytes]:
    """The frames of a finished response, from response.created to the terminal event."""
    return _frame_events(_events(_response(record)), 0)


def end_of(record: Record, first_sequence: int) -> list[bytes]:
    """The frames that end a finished response, the first with this sequence number: the terminal event, and the error
    of a failed response before it."""
    return _frame_events(_end(_response(record)), first_sequence)


def _response(record: Record) -> Object:
    response: Object = loads(record.body) | {"output": loads(record.output_items)}
    return response


def _frame_events(log: Iterator[Object], first_sequence: int) -> list[bytes]:
    return [events.encode(event | {"sequence_number": number}) for number, event in enumerate(log, first_sequence)]


def _events(response: Object) -> Iterator[Object]:
    created = response | _NOT_ENDED | {"output": [], "usage": None}
    yield {"type": events.CREATED, "response": created}
    yield {"type": events.IN_PROGRESS, "response": created}
    for index, item in enumerate(response["output"]):
        yield from _item(item, index)
    yield from _end(response)


def _end(response: Object) -> Iterator[Object]:
    if response["status"] == "failed":
        yield events.error_event(0, error_of(response))
    yield {"type": f"response.{response['status']}", "response": response}


def _item(item: Object, index: int) -> Iterator[Object]:
    place = {"item_id": item["id"], "output_index": index}
    content_events = _CONTENT_EVENTS.get(item["type"])
    in_progress = {"status": "in_progress"} if "status" in item else {}
    empty = item | in_progress | _EMPTY_CONTENT.get(item["type"], {})
    if item["type"] == COMPACTION:
        empty.pop("summary", None)
    yield {"type": events.OUTPUT_ITEM_ADDED, "output_index": index, "item": empty}
    if content_events is not None:
        yield from content_events(item, place)
    yield {"type": events.OUTPUT_ITEM_DONE, "output_index": index, "item": item}


def _parts(item: Object, place: Object) -> Iterator[Object]:
    for index, part in enumerate(item.get("content") or ()):
        at = place | {"content_index": index}
        if part["type"] in _TEXTS:
            yield from _text(part, at)
        else:
            yield {"type": events.CONTENT_PART_ADDED, "part": part, **at}
        yield {"type": events.CONTENT_PART_DONE, "part": part, **at}


def _reasoning(item: Object, place: Object) -> Iterator[Object]:
    """The events of a reasoning item, which may have a summary, content, both or neither."""
    for index, part in enumerate(item.get("summary") or ()):
        at = place | {"summary_index": index}
        yield {"type": events.REASONING_SUMMARY_PART_ADDED, "part": part | {"text": ""}, **at}
        if part["text"]:
            yield {"type": events.REASONING_SUMMARY_TEXT_DELTA, "delta": part["text"], **at}
        yield {"type": events.REASONING_SUMMARY_TEXT_DONE, "text": part["text"], **at}
        yield {"type": events.REASONING_SUMMARY_PART_DONE, "part": part, **at}
    yield from _parts(item, place)


def _text(part: Object, at: Object) -> Iterator[Object]:
    text = _TEXTS[part["type"]]
    written = part[text.member]
    logprobs = {"logprobs": part["logprobs"]} if "logprobs" in part else {}
    empty: Object = {text.member: ""} | ({"logprobs": []} if logprobs else {})
    empty |= {"annotations": []} if "annotations" in part else {}
    yield {"type": events.CONTENT_PART_ADDED, "part": part | empty, **at}
    if written:
        yield {"type": text.delta, "delta": written, **logprobs, **at}
    for number, annotation in enumerate(part.get("annotations") or ()):
        yield {"type": events.ANNOTATION_ADDED, "annotation_index": number, "annotation": annotation, **at}
    yield {"type": text.done, text.member: written, **logprobs, **at}


def _member(item: Object, place: Object) -> Iterator[Object]:
    text = _TEXTS[item["type"]]
    written = item[text.member]
    if written:
        yield {"type": text.delta, "delta": written, **place}
    function = {"name": item["name"]} if text is events.ARGUMENTS else {}
    yield {"type": text.done, **function, text.member: written, **place}


def _progress(*types: str) -> Callable[[Object, Object], Iterator[Object]]:
    """The events of an item that tell how far the server was with it."""

    def events_of(_item: Object, place: Object) -> Iterator[Object]:
        for event_type in types:
            yield {"type": event_type, **place}

    return events_of


def _list_tools(item: Object, place: Object) -> Iterator[Object]:
    yield {"type": events.MCP_LIST_TOOLS_IN_PROGRESS, **place}
    yield {"type": events.MCP_LIST_TOOLS_FAILED if item.get("error") else events.MCP_LIST_TOOLS_COMPLETED, **place}


def _mcp_call(item: Object, place: Object) -> Iterator[Object]:
    yield {"type": events.MCP_CALL_IN_PROGRESS, **place}
    yield from _member(item, place)
    yield {"type": events.MCP_CALL_COMPLETED if item["status"] == "completed" else events.MCP_CALL_FAILED, **place}


def _search(item: Object, place: Object) -> Iterator[Object]:
    yield {"type": events.WEB_SEARCH_CALL_IN_PROGRESS, **place}
    yield {"type": events.WEB_SEARCH_CALL_SEARCHING, **place}
    if item.get("status") in (None, "completed"):
        yield {"type": events.WEB_SEARCH_CALL_COMPLETED, **place}


_CONTENT_EVENTS: dict[str, Callable[[Object, Object], Iterator[Object]]] = {
    "message": _parts,
    "reasoning": _reasoning,
    "function_call": _member,
    "custom_tool_call": _member,
    COMPACTION: _progress(events.COMPACTING),
    "mcp_list_tools": _list_tools,
    "mcp_call": _mcp_call,
    "web_search_call": _search,
}
_EMPTY_CONTENT: dict[str, Object] = {
    "message": {"content": []},
    "reasoning": {"summary": [], "content": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
    COMPACTION: {"encrypted_content": ""},
    "mcp_list_tools": {"tools": []},
    "mcp_call": {"arguments": "", "output": None, "error": None},
}
