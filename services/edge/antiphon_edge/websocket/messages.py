"""The messages of a WebSocket connection: JSON texts, one event each.

A client sends `response.create`: the body of POST /v1/responses, and three members more. `generate: false` asks for a
response without output, and so does `prewarm` in the `prompt_cache_options`; `stream_id` names the lane of the response
and is echoed on every event, and `stream`, which some clients send, says nothing here. `response.cancel`, which is
Antiphon's own, stops the response that runs on a lane. The server sends the events of a stream without their frames;
what goes wrong outside of one is an `error` with an HTTP status.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from antiphon_core import events
from antiphon_core.error_forms import envelope
from antiphon_core.errors import AntiphonError, InvalidRequest, row_of
from antiphon_core.jsons import Object, dumps, parse_object, with_member, work_bytes
from antiphon_core.limits import STREAM_ID_CHARS_MAX
from antiphon_core.request.body import CreateRequest

CREATE = "response.create"
CANCEL = "response.cancel"
STEER = "response.steer"

_STREAM_ID = re.compile(rf"[A-Za-z0-9_.-]{{1,{STREAM_ID_CHARS_MAX}}}")


@dataclass(frozen=True, slots=True)
class Create:
    """A response that a client asks for, not looked at yet: `body` is what POST /v1/responses would get."""

    body: Object
    generates: object
    stream_id: str | None
    size_bytes: int
    work_bytes: int

    @property
    def previous_id(self) -> str | None:
        given = self.body.get("previous_response_id")
        return given if isinstance(given, str) else None

    def request(self, *, drops_hosted: bool = False) -> CreateRequest:
        """InvalidRequest, as for a body; and what cannot be asked for over a WebSocket."""
        if not (self.generates is None or isinstance(self.generates, bool)):
            raise InvalidRequest("'generate' must be a boolean.", field="generate", code="invalid_type")
        if self.body.get("background") is True:
            raise InvalidRequest(
                "Unsupported parameter: 'background' over a WebSocket. Create the response with POST /v1/responses.",
                field="background",
                code="unsupported_parameter",
            )
        return CreateRequest.of(self.body, work_bytes=self.work_bytes, drops_hosted=drops_hosted)


@dataclass(frozen=True, slots=True)
class Cancel:
    """A wish to stop the response that runs on a lane; with a `response_id` only if it is that one."""

    stream_id: str | None
    response_id: str | None


@dataclass(frozen=True, slots=True)
class Steer:
    """A wish to change a response while it runs."""

    previous_response_id: str
    input: str | list[Object]


Message: TypeAlias = Create | Cancel | Steer


def parse(text: str) -> Message:
    """Parses a message of a client. InvalidRequest: it is none of the messages that a client may send."""
    raw = text.encode()
    given = parse_object(raw, field="message")
    given_type = given.pop("type", None)
    if given_type == CREATE:
        return _create(given, raw)
    if given_type == CANCEL:
        return _cancel(given)
    if given_type == STEER:
        return _steer(given)
    raise InvalidRequest(
        f"'type' must be one of '{CREATE}', '{CANCEL}' or '{STEER}', not {given_type!r}.",
        field="type",
        code="invalid_value",
    )


def messages_of(frames: bytes, stream_id: str | None) -> list[bytes]:
    """The events in `frames`, as messages of a lane."""
    return [_of_stream(event, stream_id) for event in events.bare(events.for_clients(frames))]


def error(fault: AntiphonError, stream_id: str | None = None) -> bytes:
    """An error as an event. Its code is always a string, as Open Responses wants it."""
    body: Object = dict(envelope(fault)["error"])
    body["code"] = body["code"] or body["type"]
    event = {"type": events.ERROR, "status": row_of(fault).http_status, "error": body}
    return _of_stream(dumps(event), stream_id)


def steer_failed(steer: Steer, stream_id: str | None = None) -> bytes:
    """The answer to a steer, on the lane of its response. The input goes back, so that the client can bring it with its
    next turn."""
    event = dumps(
        {
            "type": "response.steer.failed",
            "sequence_number": 0,
            "steer": {"previous_response_id": steer.previous_response_id, "input": steer.input},
            "error": {
                "type": "invalid_request_error",
                "code": "steering_not_supported",
                "message": "Responses cannot be steered on this server. Send the input with your next "
                "'response.create'.",
            },
        }
    )
    return _of_stream(event, stream_id)


def _create(given: Object, raw: bytes) -> Create:
    stream_id = _stream_id(given)
    given.pop("stream", None)
    generates = given.pop("generate", None)
    if _prewarms(given):
        generates = False
    if generates is False:
        given.setdefault("input", [])
    return Create(given, generates, stream_id, len(raw), work_bytes(raw))


def _stream_id(given: Object) -> str | None:
    stream_id = given.pop("stream_id", None)
    if stream_id is None or (isinstance(stream_id, str) and _STREAM_ID.fullmatch(stream_id)):
        return stream_id
    raise InvalidRequest(
        "The 'stream_id' field must be a non-empty string with at most 256 characters and may only contain "
        "letters, numbers, underscores, hyphens, and periods.",
        field="stream_id",
        code="invalid_stream_id",
    )


def _cancel(given: Object) -> Cancel:
    stream_id, response_id = _stream_id(given), given.pop("response_id", None)
    if not (response_id is None or isinstance(response_id, str)):
        raise InvalidRequest("Invalid type for 'response_id'.", field="response_id", code="invalid_type")
    for name in given:
        raise InvalidRequest(f"Unknown parameter: '{name}'.", field=name, code="unknown_parameter")
    return Cancel(stream_id, response_id)


def _prewarms(given: Object) -> bool:
    """Whether only a cache is to be prepared; the wish is taken out, as it is granted here."""
    caching = given.get("prompt_cache_options")
    if not isinstance(caching, dict) or caching.get("prewarm") is not True:
        return False
    given["prompt_cache_options"] = {name: value for name, value in caching.items() if name != "prewarm"}
    return True


def _steer(given: Object) -> Steer:
    previous, steering = given.get("previous_response_id"), given.get("input")
    for name, value, kinds in (("previous_response_id", previous, str), ("input", steering, (str, list))):
        if value is None:
            message = f"Missing required parameter: '{name}'."
            raise InvalidRequest(message, field=name, code="missing_required_parameter")
        if not isinstance(value, kinds):
            raise InvalidRequest(f"Invalid type for '{name}'.", field=name, code="invalid_type")
    return Steer(str(previous), steering if isinstance(steering, list) else str(steering))


def _of_stream(event: bytes, stream_id: str | None) -> bytes:
    return event if stream_id is None else with_member(event, "stream_id", dumps(stream_id))
