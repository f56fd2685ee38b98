"""The events of a response: one table of their types, and their frames as server-sent events.

A frame is a line `event: <type>`, a line `data: <JSON>` and a blank line. The JSON has `type` and `sequence_number`.
The process that makes an event also makes its frame; from there on the frame is passed on as bytes (docs/adr/0002).

The fold, replay, the chunks of chat completions, the API's description and the console all read the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from antiphon_core.error_forms import envelope
from antiphon_core.errors import AntiphonError
from antiphon_core.jsons import Object, dumps, loads


class Target(Enum):
    """The part of a response that an event concerns: the lists on the way to it, each with the member of the event that
    is the index in the list."""

    RESPONSE = ()
    ITEM = (("output", "output_index"),)
    CONTENT = (*ITEM, ("content", "content_index"))
    SUMMARY = (*ITEM, ("summary", "summary_index"))


@dataclass(frozen=True, slots=True)
class Text:
    """A text that grows while a response is written: each `delta` event appends to it, and `done` repeats it.

    `owner` is the type of the item or part at `target` that has the text in `member`. `chat` is the way to the text in
    the delta of a chat completion's chunk; a text of a call is in one of its `tool_calls`.
    """

    delta: str
    done: str
    target: Target
    owner: str
    member: str
    chat: tuple[str, ...] = ()
    has_logprobs: bool = False


@dataclass(frozen=True, slots=True)
class EventKind:
    """A type of event. It puts its member `content` at its target, appends to `text` if it is a delta, or changes
    nothing. `is_last`: no event follows it."""

    type: str
    target: Target = Target.RESPONSE
    content: str = ""
    text: Text | None = None
    is_last: bool = False
    is_delta: bool = False


CREATED = "response.created"
QUEUED = "response.queued"
IN_PROGRESS = "response.in_progress"
OUTPUT_ITEM_ADDED = "response.output_item.added"
OUTPUT_ITEM_DONE = "response.output_item.done"
CONTENT_PART_ADDED = "response.content_part.added"
CONTENT_PART_DONE = "response.content_part.done"
REASONING_SUMMARY_PART_ADDED = "response.reasoning_summary_part.added"
REASONING_SUMMARY_PART_DONE = "response.reasoning_summary_part.done"
OUTPUT_TEXT_DELTA = "response.output_text.delta"
OUTPUT_TEXT_DONE = "response.output_text.done"
ANNOTATION_ADDED = "response.output_text.annotation.added"
REFUSAL_DELTA = "response.refusal.delta"
REFUSAL_DONE = "response.refusal.done"
REASONING_TEXT_DELTA = "response.reasoning_text.delta"
REASONING_TEXT_DONE = "response.reasoning_text.done"
REASONING_SUMMARY_TEXT_DELTA = "response.reasoning_summary_text.delta"
REASONING_SUMMARY_TEXT_DONE = "response.reasoning_summary_text.done"
FUNCTION_CALL_ARGUMENTS_DELTA = "response.function_call_arguments.delta"
FUNCTION_CALL_ARGUMENTS_DONE = "response.function_call_arguments.done"
CUSTOM_TOOL_CALL_INPUT_DELTA = "response.custom_tool_call_input.delta"
CUSTOM_TOOL_CALL_INPUT_DONE = "response.custom_tool_call_input.done"
MCP_CALL_ARGUMENTS_DELTA = "response.mcp_call_arguments.delta"
MCP_CALL_ARGUMENTS_DONE = "response.mcp_call_arguments.done"
MCP_CALL_IN_PROGRESS = "response.mcp_call.in_progress"
MCP_CALL_COMPLETED = "response.mcp_call.completed"
MCP_CALL_FAILED = "response.mcp_call.failed"
MCP_LIST_TOOLS_IN_PROGRESS = "response.mcp_list_tools.in_progress"
MCP_LIST_TOOLS_COMPLETED = "response.mcp_list_tools.completed"
MCP_LIST_TOOLS_FAILED = "response.mcp_list_tools.failed"
WEB_SEARCH_CALL_IN_PROGRESS = "response.web_search_call.in_progress"
WEB_SEARCH_CALL_SEARCHING = "response.web_search_call.searching"
WEB_SEARCH_CALL_COMPLETED = "response.web_search_call.completed"
COMPACTING = "response.compaction.compacting"
COMPLETED = "response.completed"
INCOMPLETE = "response.incomplete"
FAILED = "response.failed"
CANCELLED = "response.cancelled"  # Antiphon's own, in event logs only: OpenAI has no event for a cancellation
KEEP_ALIVE = "keepalive"
ERROR = "error"

ANSWER = Text(
    OUTPUT_TEXT_DELTA, OUTPUT_TEXT_DONE, Target.CONTENT, "output_text", "text", chat=("content",), has_logprobs=True
)
REFUSAL = Text(REFUSAL_DELTA, REFUSAL_DONE, Target.CONTENT, "refusal", "refusal", chat=("refusal",))
REASONING = Text(
    REASONING_TEXT_DELTA, REASONING_TEXT_DONE, Target.CONTENT, "reasoning_text", "text", chat=("reasoning_content",)
)
SUMMARY = Text(REASONING_SUMMARY_TEXT_DELTA, REASONING_SUMMARY_TEXT_DONE, Target.SUMMARY, "summary_text", "text")
ARGUMENTS = Text(
    FUNCTION_CALL_ARGUMENTS_DELTA,
    FUNCTION_CALL_ARGUMENTS_DONE,
    Target.ITEM,
    "function_call",
    "arguments",
    chat=("function", "arguments"),
)
INPUT = Text(
    CUSTOM_TOOL_CALL_INPUT_DELTA,
    CUSTOM_TOOL_CALL_INPUT_DONE,
    Target.ITEM,
    "custom_tool_call",
    "input",
    chat=("custom", "input"),
)
MCP_ARGUMENTS = Text(MCP_CALL_ARGUMENTS_DELTA, MCP_CALL_ARGUMENTS_DONE, Target.ITEM, "mcp_call", "arguments")
TEXTS = (ANSWER, REFUSAL, REASONING, SUMMARY, ARGUMENTS, INPUT, MCP_ARGUMENTS)

PROGRESS = (
    MCP_CALL_IN_PROGRESS,
    MCP_CALL_COMPLETED,
    MCP_CALL_FAILED,
    MCP_LIST_TOOLS_IN_PROGRESS,
    MCP_LIST_TOOLS_COMPLETED,
    MCP_LIST_TOOLS_FAILED,
    WEB_SEARCH_CALL_IN_PROGRESS,
    WEB_SEARCH_CALL_SEARCHING,
    WEB_SEARCH_CALL_COMPLETED,
)
"""The events that tell how far the server is with a tool. `output_item.done` has the result."""

PART_EVENTS: Mapping[Target, tuple[str, str]] = {
    Target.CONTENT: (CONTENT_PART_ADDED, CONTENT_PART_DONE),
    Target.SUMMARY: (REASONING_SUMMARY_PART_ADDED, REASONING_SUMMARY_PART_DONE),
}
"""The events that begin and end a part."""

KINDS: Mapping[str, EventKind] = {
    kind.type: kind
    for kind in (
        EventKind(CREATED, content="response"),
        EventKind(QUEUED, content="response"),
        EventKind(IN_PROGRESS, content="response"),
        EventKind(OUTPUT_ITEM_ADDED, Target.ITEM, content="item"),
        EventKind(OUTPUT_ITEM_DONE, Target.ITEM, content="item"),
        *(EventKind(each, target, content="part") for target, types in PART_EVENTS.items() for each in types),
        *chain.from_iterable(
            (
                EventKind(text.delta, text.target, text=text, is_delta=True),
                EventKind(text.done, text.target, text=text),
            )
            for text in TEXTS
        ),
        EventKind(COMPACTING, Target.ITEM),
        EventKind(ANNOTATION_ADDED, Target.CONTENT),
        *(EventKind(each, Target.ITEM) for each in PROGRESS),
        EventKind(COMPLETED, content="response", is_last=True),
        EventKind(INCOMPLETE, content="response", is_last=True),
        EventKind(FAILED, content="response", is_last=True),
        EventKind(CANCELLED, content="response", is_last=True),
        EventKind(KEEP_ALIVE),
        EventKind(ERROR),
    )
}
"""All events, by their type."""

TERMINAL = frozenset(kind.type for kind in KINDS.values() if kind.is_last)

# Open Responses requires it after the terminal event. OpenAI does not send it; all clients that were tested accept it.
DONE_FRAME = b"data: [DONE]\n\n"
KEEP_ALIVE_FRAME = b": keep-alive\n\n"
_CANCELLED_LINE = f"event: {CANCELLED}\n".encode()


def frame(event_type: str, data: bytes) -> bytes:
    """One server-sent event from its JSON bytes."""
    return b"event: " + event_type.encode() + b"\ndata: " + data + b"\n\n"


def encode(event: Object) -> bytes:
    """One server-sent event from its JSON object."""
    return frame(event["type"], dumps(event))


def decode(frames: bytes) -> list[Object]:
    """Parses the events in `frames`; comments and [DONE] are skipped."""
    return [loads(data) for data in bare(frames)]


def frames_of(frames: bytes) -> list[bytes]:
    """The frames of several events, one by one. JSON has no line feeds, so a blank line is always the end of one."""
    return [each + b"\n\n" for each in frames.split(b"\n\n") if each]


def bare(frames: bytes) -> list[bytes]:
    """The JSON of each event in `frames`, for transports such as WebSocket that frame messages themselves."""
    marker = b"data: {"
    return [line[len(marker) - 1 :] for line in frames.split(b"\n") if line.startswith(marker)]


def keep_alive_event(sent: bytes) -> bytes:
    """The `keepalive` event of OpenAI, which is not documented, for a silence after the frames `sent`. It repeats the
    sequence number of the last event, so that the numbers of events stay dense and a client can resume behind it. A
    comment if there was no event."""
    last = decode(sent[sent.rfind(b"\nevent: ") + 1 :])  # JSON has no line feeds
    if not last:
        return KEEP_ALIVE_FRAME
    return encode({"type": KEEP_ALIVE, "sequence_number": last[-1]["sequence_number"]})


def for_clients(frames: bytes) -> bytes:
    """Removes CANCELLED, which is always the last event of a log: for clients a cancelled stream just ends. JSON has no
    line feeds, so no text within an event can be taken for it."""
    return frames.partition(_CANCELLED_LINE)[0]


def error_event(sequence_number: int, error: AntiphonError) -> Object:
    """The `error` event, with the members of both specifications: flat as in OpenAI's, nested as in Open Responses'.

    Every client that was tested reads the message from one of the two. Codex reads neither, which is why
    `response.failed` always follows. The code is always a string, as Open Responses requires.
    """
    body = dict(envelope(error)["error"])
    body["code"] = body["code"] or body["type"]
    flat = {name: body[name] for name in ("code", "message", "param")}
    return {"type": ERROR, "sequence_number": sequence_number, **flat, "error": body}
