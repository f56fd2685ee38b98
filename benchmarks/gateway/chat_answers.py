"""The streams of the fake chat engine. Each delta is one chunk of an HTTP response.

The engine serves chat completions, and the Responses API for peers that pass requests on unchanged. An answer of the
Responses API contains `RESPONSE_KEY`, which the engine replaces by a new text for each response, because peers store
responses under the engine's ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from antiphon_core.jsons import Object, dumps

MODEL = "bench"
PROMPT_TOKENS = 11
RESPONSE_KEY = b"0k0e0y0_00000000"
_KEY = RESPONSE_KEY.decode()


def chunk(data: bytes) -> bytes:
    """One chunk of a response with `Transfer-Encoding: chunked`."""
    return b"%x\r\n%s\r\n" % (len(data), data)


@lru_cache(maxsize=8)
def chat_stream(deltas: int) -> Sequence[bytes]:
    """A stream of `/v1/chat/completions`."""
    parts: list[Object] = [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    parts += ({"delta": {"content": word(number)}, "finish_reason": None} for number in range(deltas))
    parts += [{"delta": {}, "finish_reason": "stop"}]
    chunks = [_chat_chunk([{"index": 0, "logprobs": None} | part]) for part in parts]
    usage = {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": deltas,
        "total_tokens": PROMPT_TOKENS + deltas,
    }
    return [*chunks, _chat_chunk([], usage=usage), chunk(b"data: [DONE]\n\n")]


def word(number: int) -> str:
    """The text of one delta."""
    return f" word{number}"


def _chat_chunk(choices: list[Object], **members: object) -> bytes:
    head: Object = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": MODEL}
    return chunk(b"data: " + dumps(head | {"choices": choices} | members) + b"\n\n")


@lru_cache(maxsize=8)
def responses_stream(deltas: int) -> Sequence[bytes]:
    """A stream of `/v1/responses`, with `RESPONSE_KEY` in all ids."""
    item_id = f"msg_{_KEY}"
    text = "".join(map(word, range(deltas)))
    place: Object = {"item_id": item_id, "output_index": 0, "content_index": 0}
    item: Object = {"id": item_id, "type": "message", "role": "assistant"}
    part: Object = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    done = item | {"status": "completed", "content": [part]}
    events: list[tuple[str, Object]] = [
        ("created", {"response": _response("in_progress", [], 0)}),
        ("in_progress", {"response": _response("in_progress", [], 0)}),
        ("output_item.added", {"output_index": 0, "item": item | {"status": "in_progress", "content": []}}),
        ("content_part.added", place | {"part": part | {"text": ""}}),
        *(("output_text.delta", place | {"delta": word(number), "logprobs": []}) for number in range(deltas)),
        ("output_text.done", place | {"text": text, "logprobs": []}),
        ("content_part.done", place | {"part": part}),
        ("output_item.done", {"output_index": 0, "item": done}),
        ("completed", {"response": _response("completed", [done], deltas)}),
    ]
    return [_event(f"response.{kind}", number, members) for number, (kind, members) in enumerate(events)]


def _event(kind: str, number: int, members: Object) -> bytes:
    data = dumps({"type": kind, "sequence_number": number} | members)
    return chunk(b"event: %s\ndata: %s\n\n" % (kind.encode(), data))


def _response(status: str, output: list[Object], tokens: int) -> Object:
    usage = {
        "input_tokens": PROMPT_TOKENS,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": PROMPT_TOKENS + tokens,
    }
    return {
        "id": f"resp_{_KEY}",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": status,
        "model": MODEL,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if output else None,
    }
