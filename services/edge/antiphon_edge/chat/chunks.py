"""Converts events to the chunks of a streamed chat completion. A table maps each type of event to its conversion.

Events without a chunk are not parsed, and of the terminal event only the response without its output is: at the end of
a stream several events repeat the whole text, with the log probabilities of every token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from antiphon_core import events
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.translator import Batch
from antiphon_edge.chat.completions import call_of, finish_reason_of, id_of, is_call, logprobs_of, usage_of
from antiphon_edge.chat.error_translator import ErrorTranslator

_TEXTS = {text.delta: text for text in events.TEXTS if text.chat}


def frame(data: Object) -> bytes:
    """A server-sent event in the form of chat completions: without an `event` field."""
    return b"data: " + dumps(data) + b"\n\n"


class ChunkStream:
    """Converts the stream of one response to chunks. Feed it all frames, from the first one on, any number at a time.

    With `include_usage` a last chunk has the usage and no choice; the other chunks have `"usage": null`."""

    def __init__(self, *, include_usage: bool, errors: ErrorTranslator | None = None) -> None:
        """`errors` gives parameters in errors their names in the chat request."""
        self._include_usage = include_usage
        self._errors = errors
        self._head: Object = {}
        self._calls: dict[int, int] = {}
        """The index of each call in `tool_calls`, by its `output_index`."""

    def of_batch(self, batch: Batch) -> bytes:
        """The chunks for a batch, as frames; empty if there are none."""
        return self.feed(batch.frames, ended=batch.final.body if batch.final is not None else None)

    def feed(self, frames: bytes, *, ended: bytes | None = None) -> bytes:
        """The chunks for some frames, as frames; empty if there are none. `ended` is the response of their terminal
        event as JSON without the output; without it, the event is parsed."""
        return b"".join(self._of_frame(given, ended) for given in frames.split(b"\n\n"))

    def _of_frame(self, given: bytes, ended: bytes | None) -> bytes:
        line, _, data = given.partition(b"\n")
        make = self._CHUNKS.get(line)
        if make is None:
            return b""
        if make is ChunkStream._end and ended is not None:
            return self._end({"response": loads(ended)})
        return make(self, loads(data.removeprefix(b"data: ")))

    def _begin(self, event: Object) -> bytes:
        response = event["response"]
        self._head = {
            "id": id_of(response["id"]),
            "object": "chat.completion.chunk",
            "created": response["created_at"],
            "model": response["model"],
            "service_tier": response["service_tier"],
            "system_fingerprint": None,
        }
        return self._delta({"role": "assistant", "content": "", "refusal": None})

    def _item(self, event: Object) -> bytes:
        if not is_call(event["item"]):
            return b""
        index = self._calls[event["output_index"]] = len(self._calls)
        return self._delta({"tool_calls": [{"index": index, **call_of(event["item"])}]})

    def _text(self, event: Object) -> bytes:
        text = _TEXTS[event["type"]]
        *call, member = text.chat
        if not call:
            logprobs = logprobs_of(event["logprobs"]) if text.has_logprobs else None
            return self._delta({member: event["delta"]}, logprobs=logprobs)
        index = self._calls[event["output_index"]]
        return self._delta({"tool_calls": [{"index": index, call[0]: {member: event["delta"]}}]})

    def _end(self, event: Object) -> bytes:
        response = event["response"]
        last = self._delta({}, finish_reason=finish_reason_of(response, has_calls=bool(self._calls)))
        if not self._include_usage:
            return last
        return last + frame(self._head | {"choices": [], "usage": usage_of(response["usage"])})

    def _error(self, event: Object) -> bytes:
        """The error envelope, which SDKs look for in every chunk. No chunk with a finish reason follows an error."""
        error: Object = event["error"]
        return frame({"error": error if self._errors is None else self._errors.in_envelope(error)})

    def _delta(self, delta: Object, *, finish_reason: str | None = None, logprobs: Object | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        usage = {"usage": None} if self._include_usage else {}
        return frame(self._head | {"choices": [choice], **usage})

    _CHUNKS: ClassVar[dict[bytes, Callable[[ChunkStream, Object], bytes]]] = {
        f"event: {event_type}".encode(): make
        for event_type, make in (
            (events.CREATED, _begin),
            *dict.fromkeys(_TEXTS, _text).items(),
            (events.OUTPUT_ITEM_ADDED, _item),
            (events.COMPLETED, _end),
            (events.INCOMPLETE, _end),
            (events.ERROR, _error),
        )
    }
    """The conversions by the first line of a frame."""
