"""The kinds of output items: the form of each, and the events that open, extend and close it.

There is one `ItemKind` per kind. The machine decides when an item opens, grows and closes; this table alone defines
what that means for a message or a function call. A new kind is a new row.

Members that differ between items of a kind (the name of a function, its call id, the phase of a message) are given when
an item opens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from antiphon_core import events
from antiphon_core.events import Text, frame
from antiphon_core.items import ID_PREFIX
from antiphon_core.jsons import Fragment, Object, dumps, loads
from antiphon_core.request.client_items import CALL_TYPES
from antiphon_core.request.server_items import REQUEST, SEARCH
from antiphon_translator.output.citations import Cite

Event = Object
EventBuilder = Callable[["OpenItem"], Event]


@dataclass(frozen=True, slots=True)
class ItemKind:
    """One kind of item.

    `blank` are the members of an item as it begins, `with_text(members, item)` are its members with the text of its
    deltas. `opening` and `closing` build the events before and behind the deltas, in order. `delta` builds an example
    of a delta event, with `sequence_number` before `delta`. `leaving` builds the event behind the deltas of an item
    that stays open when the model has written it, because a call of the server follows.
    """

    id_prefix: str
    blank: Object
    opening: tuple[EventBuilder, ...]
    delta: Callable[[OpenItem], Event]
    closing: tuple[EventBuilder, ...]
    with_text: Callable[[Object, OpenItem], Object]
    leaving: EventBuilder | None = None


class OpenItem:
    """The item that is being written. `status` is its current status or, while it is closed, its last one.

    Text and log probabilities are kept as JSON: they are written once, for their delta events. The closing events and
    the record, which repeat all of them, copy the bytes. Writing 8 MB of them again each time took up to 0.4 s, on the
    event loop where the model goes on with another item. Once the item is closed, `text`, `logprobs` and the item as an
    object are made once for all of them."""

    __slots__ = (
        "_closed",
        "_delta_frame",
        "_logprobs",
        "_members",
        "_text",
        "annotations",
        "id",
        "kind",
        "logprobs",
        "output_index",
        "status",
        "text",
    )

    def __init__(self, kind: ItemKind, item_id: str, *, output_index: int, members: Object | None = None) -> None:
        self.kind = kind
        self.id = item_id
        self.output_index = output_index
        self.status = "in_progress"
        self._members = members or {}
        # JSON without its delimiters: a list of pieces, or a StringIO, takes 65 more bytes for each piece
        self._text = bytearray()
        self._logprobs = bytearray()
        self._delta_frame = _frame_template(kind.delta(self))
        self._closed: Object | None = None
        self.annotations: Sequence[Object] = ()
        """The citations in its text."""
        self.text, self.logprobs = _NO_TEXT, _NO_LOGPROBS
        """All of the text, and the log probabilities of its tokens if they are wanted, as of the last `join`."""

    def join(self) -> None:
        """Puts text and log probabilities so far together."""
        self.text = Fragment(b"".join((b'"', self._text, b'"')))
        self.logprobs = Fragment(b"".join((b"[", self._logprobs, b"]")))

    def annotate(self, cite: Cite) -> None:
        """Finds the citations in its text, before it is closed."""
        self.annotations = cite(loads(b"".join((b'"', self._text, b'"'))))

    def close(self, status: str) -> None:
        """Ends the item: nothing is appended any more."""
        self.status = status
        self._closed = self.as_object()

    @property
    def size_bytes(self) -> int:
        """The size of its text and its log probabilities."""
        return len(self._text) + len(self._logprobs)

    def append(self, text: str, sequence_number: int) -> bytes:
        """Takes the next piece of text and returns the frame of its delta event.

        This is the only event per token, so it is formatted from bytes, without a dict.
        """
        written = dumps(text)
        self._text += written[1:-1]
        return self._delta_frame % (sequence_number, written)

    def append_scored(self, text: str, logprobs: Sequence[Object], sequence_number: int) -> bytes:
        """Takes the next piece of text and returns the frame of its delta event, with the log probabilities of its
        tokens. Only messages have log probabilities."""
        written, scores = dumps(text), dumps(logprobs)
        self._text += written[1:-1]
        if logprobs:
            self._logprobs += b"," + scores[1:-1] if self._logprobs else scores[1:-1]
        delta = {"sequence_number": sequence_number, "delta": Fragment(written), "logprobs": Fragment(scores)}
        return events.encode(self.kind.delta(self) | delta)

    def initial_item(self) -> Object:
        """The item as it began."""
        return {"id": self.id, **self.kind.blank, **self._members}

    def as_object(self) -> Object:
        """The item with its text so far, as a fragment of JSON."""
        if self._closed is not None:
            return self._closed
        self.join()
        return self.kind.with_text(self.initial_item(), self) | {"status": self.status}


def _frame_template(example: Event) -> bytes:
    """The frame of a delta event, with placeholders for its sequence number and its text, in this order."""
    members = [
        dumps(name) + b":" + _PLACEHOLDERS.get(name, dumps(value).replace(b"%", b"%%"))
        for name, value in example.items()
    ]
    return frame(example["type"], b"{" + b",".join(members) + b"}")


_NO_TEXT, _NO_LOGPROBS = Fragment(b'""'), Fragment(b"[]")
_PLACEHOLDERS = {"sequence_number": b"%d", "delta": b"%b"}


# ---- Parts of rows ----


def _item_added(item: OpenItem) -> Event:
    return {"type": events.OUTPUT_ITEM_ADDED, "output_index": item.output_index, "item": item.initial_item()}


def _item_done(item: OpenItem) -> Event:
    return {"type": events.OUTPUT_ITEM_DONE, "output_index": item.output_index, "item": item.as_object()}


def _of_item(item: OpenItem, event_type: str, **members: object) -> Event:
    return {"type": event_type, "item_id": item.id, "output_index": item.output_index, **members}


def _in_part(text: Text, *, id_prefix: str, blank: Object) -> ItemKind:
    """A kind of item with a single part, in which its text grows."""
    added, done = events.PART_EVENTS[text.target]
    (parts, index) = text.target.value[-1]
    at = {index: 0}

    def part(written: str | Fragment, logprobs: Fragment = _NO_LOGPROBS, annotations: Sequence[Object] = ()) -> Object:
        scored: Object = {"annotations": [*annotations], "logprobs": logprobs} if text.has_logprobs else {}
        return {"type": text.owner, text.member: written} | scored

    def scores(logprobs: object) -> Object:
        return {"logprobs": logprobs} if text.has_logprobs else {}

    return ItemKind(
        id_prefix=id_prefix,
        blank=blank,
        opening=(_item_added, lambda item: _of_item(item, added, **at, part=part(""))),
        delta=lambda item: _of_item(item, text.delta, **at, sequence_number=0, delta="", **scores([])),
        closing=(
            lambda item: _of_item(item, text.done, **at, **{text.member: item.text}, **scores(item.logprobs)),
            lambda item: _of_item(item, done, **at, part=part(item.text, item.logprobs, item.annotations)),
            _item_done,
        ),
        with_text=lambda members, item: members | {parts: [part(item.text, item.logprobs, item.annotations)]},
    )


def _in_item(text: Text, *, id_prefix: str, named: bool = False) -> ItemKind:
    """A kind of item that has its text in a member. With `named` the end of the text repeats the name of the item."""

    def end_event(item: OpenItem) -> Event:
        name = {"name": item.initial_item()["name"]} if named else {}
        return _of_item(item, text.done, **name, **{text.member: item.text})

    return ItemKind(
        id_prefix=id_prefix,
        blank={"type": text.owner, "status": "in_progress", text.member: ""},
        opening=(_item_added,),
        delta=lambda item: _of_item(item, text.delta, sequence_number=0, delta=""),
        closing=(end_event, _item_done),
        with_text=lambda members, item: members | {text.member: item.text},
    )


# ---- The rows ----

_MESSAGE: Object = {"type": "message", "status": "in_progress", "role": "assistant", "content": []}
_REASONING: Object = {"type": "reasoning", "status": "in_progress", "summary": [], "content": []}

MESSAGE = _in_part(events.ANSWER, id_prefix="msg", blank=_MESSAGE)
REFUSAL = _in_part(events.REFUSAL, id_prefix="msg", blank=_MESSAGE)
"""A message in which the model refuses to answer. Text before it is a message of its own: an item has one part."""
REASONING = _in_part(events.REASONING, id_prefix="rs", blank=_REASONING)
REASONING_SUMMARY = _in_part(events.SUMMARY, id_prefix="rs", blank=_REASONING)
"""Reasoning, in a response to a request for a summary of it."""
FUNCTION_CALL = _in_item(events.ARGUMENTS, id_prefix="fc", named=True)
CUSTOM_TOOL_CALL = _in_item(events.INPUT, id_prefix="ctc")


def _server_call(text: Text, *, id_prefix: str, progress: tuple[str, str]) -> ItemKind:
    """A call that the server runs. `progress` are the events that begin it, and that end a call which cannot run."""
    begun, failed = progress

    def end_event(item: OpenItem) -> Event:
        return _of_item(item, text.done, **{text.member: item.text})

    return ItemKind(
        id_prefix=id_prefix,
        blank={"type": text.owner, "status": "in_progress", text.member: ""}
        | dict.fromkeys(("output", "error", "approval_request_id")),
        opening=(_item_added, lambda item: _of_item(item, begun)),
        delta=lambda item: _of_item(item, text.delta, sequence_number=0, delta=""),
        closing=(end_event, lambda item: _of_item(item, failed), _item_done),
        with_text=lambda members, item: members | {text.member: item.text},
        leaving=end_event,
    )


MCP_CALL = _server_call(
    events.MCP_ARGUMENTS,
    id_prefix=ID_PREFIX["mcp_call"],
    progress=(events.MCP_CALL_IN_PROGRESS, events.MCP_CALL_FAILED),
)


def announcement(item: Object, output_index: int) -> list[Event]:
    """The events of an item that no model writes piece by piece: a list of tools, a request for an approval, or a call
    that was approved or searches the web, which stays open."""
    if item["type"] == REQUEST:
        return [
            {"type": event, "output_index": output_index, "item": item}
            for event in (events.OUTPUT_ITEM_ADDED, events.OUTPUT_ITEM_DONE)
        ]
    at: Object = {"item_id": item["id"], "output_index": output_index}
    if item["type"] == SEARCH:
        return [
            {"type": events.OUTPUT_ITEM_ADDED, "output_index": output_index, "item": item},
            {"type": events.WEB_SEARCH_CALL_IN_PROGRESS, **at},
            {"type": events.WEB_SEARCH_CALL_SEARCHING, **at},
        ]
    return _call_announcement(item, at) if item["type"] == "mcp_call" else _list_announcement(item, at)


def annotation_event(item: OpenItem, number: int, annotation: Object) -> Event:
    """The event of a citation in a message."""
    place = {"content_index": 0, "annotation_index": number}
    return _of_item(item, events.ANNOTATION_ADDED, **place, annotation=annotation)


def _call_announcement(item: Object, at: Object) -> list[Event]:
    arguments = item["arguments"]
    return [
        {"type": events.OUTPUT_ITEM_ADDED, "output_index": at["output_index"], "item": item | {"arguments": ""}},
        {"type": events.MCP_CALL_IN_PROGRESS, **at},
        {"type": events.MCP_ARGUMENTS.delta, **at, "delta": arguments},
        {"type": events.MCP_ARGUMENTS.done, **at, "arguments": arguments},
    ]


def _list_announcement(item: Object, at: Object) -> list[Event]:
    end = events.MCP_LIST_TOOLS_FAILED if item.get("error") else events.MCP_LIST_TOOLS_COMPLETED
    return [
        {"type": events.OUTPUT_ITEM_ADDED, "output_index": at["output_index"], "item": item | {"tools": []}},
        {"type": events.MCP_LIST_TOOLS_IN_PROGRESS, **at},
        {"type": end, **at},
        {"type": events.OUTPUT_ITEM_DONE, "output_index": at["output_index"], "item": item},
    ]


def _client_call(call_type: str, id_prefix: str) -> ItemKind:
    """A call that is sent when it is complete: its `delta` is never used."""
    return ItemKind(
        id_prefix=id_prefix,
        blank={"type": call_type, "status": "in_progress"},
        opening=(_item_added,),
        delta=lambda item: _of_item(item, events.ARGUMENTS.delta, sequence_number=0, delta=""),
        closing=(_item_done,),
        with_text=lambda members, _item: members,
    )


CLIENT_CALLS = {call_type: _client_call(call_type, ID_PREFIX[call_type]) for call_type in CALL_TYPES}
"""The calls of OpenAI's tools that the client runs, by their type."""
