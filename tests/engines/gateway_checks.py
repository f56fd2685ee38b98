"""Checks of the whole gateway, `antiphon up --openai`, before each real server."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError

from tests.engines.cases import CALL_OPENERS
from tests.engines.servers import Server
from tests.support.system import System
from tests.support.waiting import PAUSE_S, WAIT_MAX_S

FUNCTION = {
    "type": "function",
    "name": "get_weather",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
SCHEMA = {"type": "object", "properties": {"is_warm": {"type": "boolean"}}, "required": ["is_warm"]}
LONG = "lorem ipsum dolor " * 60


@dataclass(frozen=True)
class Tried:
    """The gateway and the server behind it."""

    system: System
    server: Server

    def ask(self, given: object, **members: object) -> tuple[int, dict[str, Any]]:
        """The status and the answer to a request."""
        try:
            with self.open(given, **members) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, json.load(error)

    def answered(self, given: object, **members: object) -> dict[str, Any]:
        status, answer = self.ask(given, **members)
        assert status == 200, answer
        return answer

    def open(self, given: object, **members: object) -> Any:
        body = {"model": self.system.model, "input": given, "temperature": 0, **members}
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.system.base_url}/responses", json.dumps(body).encode(), head)
        return urllib.request.urlopen(request, timeout=2 * WAIT_MAX_S)


def chained_turns(tried: Tried) -> None:
    first = tried.answered("My name is Ada.", max_output_tokens=16)
    second = tried.answered("And yours?", max_output_tokens=16, previous_response_id=first["id"])
    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]
    assert text_of(second)


def tool_loop(tried: Tried) -> None:
    forced = {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "get_weather"}}
    called = tried.answered(CALL_OPENERS, max_output_tokens=64, parallel_tool_calls=False, **forced)
    calls = [item for item in called["output"] if item["type"] == "function_call"]
    assert calls, f"no call, but {[item['type'] for item in called['output']]}"
    assert calls[0]["status"] == "completed", "the call is cut off: its schema did not guide the server"
    assert json.loads(calls[0]["arguments"])["city"] in ("Rome", "Oslo")
    output = {"type": "function_call_output", "call_id": calls[0]["call_id"], "output": "Sunny, 20 degrees"}
    told = tried.answered(
        [output], max_output_tokens=16, previous_response_id=called["id"], tools=[FUNCTION], tool_choice="none"
    )
    assert text_of(told)


def json_schema(tried: Tried) -> None:
    written = {"type": "json_schema", "name": "weather", "schema": SCHEMA}
    answer = tried.answered("Is it warm?", max_output_tokens=64, text={"format": written})
    assert isinstance(json.loads(text_of(answer))["is_warm"], bool)


def length(tried: Tried) -> None:
    answer = tried.answered("Tell a long story.", max_output_tokens=16)
    assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def context_length(tried: Tried) -> None:
    status, answer = tried.ask("word " * 5000, max_output_tokens=16)
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded"), (status, answer)


def impossible_image(tried: Tried) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    status, answer = tried.ask([{"role": "user", "content": [image]}], max_output_tokens=16)
    assert status == 400, (status, answer)


def cached_tokens(tried: Tried) -> None:
    """A prefix that the server has is counted as cached, and by as much as the server itself counts."""
    tried.answered(LONG, max_output_tokens=16)
    name = tried.server.kind.cached
    before = tried.server.metric(name) if name else 0
    told = tried.answered(LONG, max_output_tokens=16)["usage"]["input_tokens_details"]["cached_tokens"]
    assert told > 0
    assert not name or told == tried.server.metric(name) - before


def cancellation(tried: Tried) -> None:
    """A client that leaves a stream frees the server."""
    running = tried.server.kind.running
    with tried.open("Count to a thousand.", stream=True, max_output_tokens=1500) as stream:
        while b"output_text.delta" not in stream.readline():
            pass
        assert tried.server.metric(running) == 1
        started_s = time.monotonic()
    while tried.server.metric(running):
        assert time.monotonic() - started_s < WAIT_MAX_S, "the request still runs"
        time.sleep(PAUSE_S)


CHECKS: Mapping[str, Callable[[Tried], None]] = {
    "Chained turns": chained_turns,
    "Forced call, and its output": tool_loop,
    "JSON schema": json_schema,
    "Length": length,
    "Context length": context_length,
    "Image, without a model for it": impossible_image,
    "Cached tokens": cached_tokens,
    "Cancellation": cancellation,
}


def text_of(answer: Mapping[str, Any]) -> str:
    contents = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
    return "".join(part.get("text", "") for part in contents)
