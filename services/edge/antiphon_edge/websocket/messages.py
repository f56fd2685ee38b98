"""The messages of a WebSocket connection. Each is a text with one JSON object.

A client sends `response.create`: the body of POST /v1/responses with up to three more members. `generate: false` is the
same as `prewarm` in `prompt_cache_options`: a response without output. `stream_id` names the lane of the response, and
is repeated in all its events. `stream`, which some clients send, is ignored. `response.cancel`, an addition of
Antiphon, cancels the running response of a lane. The server sends the events of a stream without SSE frames. An error
outside of a stream is an `error` event with an HTTP status.
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
from antiphon_core.request.hosted_tools import NONE_RUN_HERE, HostedTools

CREATE = "response.create"
CANCEL = "response.cancel"
STEER = "response.steer"

_STREAM_ID = re.compile(rf"[A-Za-z0-9_.-]{{1,{STREAM_ID_CHARS_MAX}}}")


@dataclass(frozen=True, slots=True)
class Create:
    """A request for a response, not validated yet. `body` is the body that POST /v1/responses would get."""

    body: Object
    generates: object
    stream_id: str | None
    size_bytes: int
    work_bytes: int

    @property
    def previous_id(self) -> str | None:
        given = self.body.get("previous_response_id")
        return given if isinstance(given, str) else None

    def request(self, *, hosted: HostedTools = NONE_RUN_HERE) -> CreateRequest:
        """Validates the request. InvalidRequest: as for a body, or a parameter is not supported over a WebSocket."""
        if not (self.generates is None or isinstance(self.generates, bool)):
            raise InvalidRequest("'generate' must be a boolean.", field="generate", code="invalid_type")
        if self.body.get("background") is True:
            raise InvalidRequest(
                "Unsupported parameter: 'background' over a WebSocket. Create the response with POST /v1/responses.",
                field="background",
                code="unsupported_parameter",
            )
        return CreateRequest.of(self.body, work_bytes=self.work_bytes, hosted=hosted)


@dataclass(frozen=True, slots=True)
class Cancel:
    """A request to cancel the running response of a lane; with `response_id` only if the response has this id."""

    stream_id: str | None
    response_id: str | None


@dataclass(frozen=True, slots=True)
class Steer:
    """A request to steer a running response, which is not supported."""

    previous_response_id: str
    input: str | list[Object]


Message: TypeAlias = Create | Cancel | Steer


def parse(text: str) -> Message:
    """Parses a message of a client. InvalidRequest: it is malformed, or its type is unknown."""
    raw = text.encode()
    given = parse_object(raw, field="message")
    given_type = given.pop("type", None)
    if given_type == CREATE:
        return _create(given, raw)
    if given_type == CANCEL:
        return _cancel(given)
    if given_type == STEER:
        return _steer(given)
    allowed = f"'type' must be one of '{CREATE}', '{CANCEL}' or '{STEER}'"
    if given_type is None:
        raise InvalidRequest(f"{allowed}, and it is missing.", field="type", code="missing_required_parameter")
    raise InvalidRequest(f"{allowed}, not {given_type!r}.", field="type", code="invalid_value")


def messages_of(frames: bytes, stream_id: str | None) -> list[bytes]:
    """The events in `frames`, as messages of a lane."""
    return [_with_stream_id(event, stream_id) for event in events.bare(events.for_clients(frames))]


def error(fault: AntiphonError, stream_id: str | None = None) -> bytes:
    """An error as an event. Its code is always a string, as Open Responses requires."""
    body: Object = dict(envelope(fault)["error"])
    body["code"] = body["code"] or body["type"]
    event = {"type": events.ERROR, "status": row_of(fault).http_status, "error": body}
    return _with_stream_id(dumps(event), stream_id)


def steer_failed(steer: Steer, stream_id: str | None = None) -> bytes:
    """The answer to a steer, on the lane of its response. It returns the input, so that the client can send it with its
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
    return _with_stream_id(event, stream_id)


def _create(given: Object, raw: bytes) -> Create:
    stream_id = _stream_id(given)
    given.pop("stream", None)
    generates = given.pop("generate", None)
    if generates is False:
        _add_prewarm(given)
    if _is_prewarm(given):
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


def _add_prewarm(given: Object) -> None:
    """Adds `prewarm` to the cache options, unless these are invalid."""
    options = given.get("prompt_cache_options") or {}
    if isinstance(options, dict):
        given["prompt_cache_options"] = options | {"prewarm": True}


def _is_prewarm(given: Object) -> bool:
    options = given.get("prompt_cache_options")
    return isinstance(options, dict) and options.get("prewarm") is True


def _steer(given: Object) -> Steer:
    previous, steering = given.get("previous_response_id"), given.get("input")
    for name, value, kinds in (("previous_response_id", previous, str), ("input", steering, (str, list))):
        if value is None:
            message = f"Missing required parameter: '{name}'."
            raise InvalidRequest(message, field=name, code="missing_required_parameter")
        if not isinstance(value, kinds):
            raise InvalidRequest(f"Invalid type for '{name}'.", field=name, code="invalid_type")
    return Steer(str(previous), steering if isinstance(steering, list) else str(steering))


def _with_stream_id(event: bytes, stream_id: str | None) -> bytes:
    return event if stream_id is None else with_member(event, "stream_id", dumps(stream_id))
