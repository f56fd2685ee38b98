"""The events of a response: their names, and their frames as server-sent events.

A frame is a line `event: <type>`, a line `data: <JSON>` and a blank line. The JSON has `type` and `sequence_number`.
The process that makes an event also makes its frame; from there on the frame is passed on as bytes (docs/adr/0002).
"""

from __future__ import annotations

from antiphon_core.error_forms import envelope
from antiphon_core.errors import AntiphonError
from antiphon_core.jsons import Object, dumps, loads

CREATED = "response.created"
IN_PROGRESS = "response.in_progress"
OUTPUT_ITEM_ADDED = "response.output_item.added"
OUTPUT_ITEM_DONE = "response.output_item.done"
CONTENT_PART_ADDED = "response.content_part.added"
CONTENT_PART_DONE = "response.content_part.done"
OUTPUT_TEXT_DELTA = "response.output_text.delta"
OUTPUT_TEXT_DONE = "response.output_text.done"
REFUSAL_DELTA = "response.refusal.delta"
REFUSAL_DONE = "response.refusal.done"
REASONING_TEXT_DELTA = "response.reasoning_text.delta"
REASONING_TEXT_DONE = "response.reasoning_text.done"
REASONING_SUMMARY_PART_ADDED = "response.reasoning_summary_part.added"
REASONING_SUMMARY_PART_DONE = "response.reasoning_summary_part.done"
REASONING_SUMMARY_TEXT_DELTA = "response.reasoning_summary_text.delta"
REASONING_SUMMARY_TEXT_DONE = "response.reasoning_summary_text.done"
FUNCTION_CALL_ARGUMENTS_DELTA = "response.function_call_arguments.delta"
FUNCTION_CALL_ARGUMENTS_DONE = "response.function_call_arguments.done"
CUSTOM_TOOL_CALL_INPUT_DELTA = "response.custom_tool_call_input.delta"
CUSTOM_TOOL_CALL_INPUT_DONE = "response.custom_tool_call_input.done"
COMPACTING = "response.compaction.compacting"
COMPLETED = "response.completed"
INCOMPLETE = "response.incomplete"
FAILED = "response.failed"
CANCELLED = "response.cancelled"  # Antiphon's own, in event logs only: OpenAI has no event for a cancellation
QUEUED = "response.queued"
ERROR = "error"
KEEP_ALIVE = "keepalive"

TERMINAL = frozenset({COMPLETED, INCOMPLETE, FAILED, CANCELLED})

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
