from __future__ import annotations

from typing import Any

import pytest
from openresponses_types.types import WebSocketErrorEvent

from antiphon_core import events
from antiphon_core.errors import AntiphonError, InternalError, InvalidRequest, ItemNotFound, PreviousResponseNotFound
from antiphon_core.jsons import dumps, loads
from antiphon_edge.websocket import messages as socket_messages
from antiphon_edge.websocket.messages import Cancel, Create, Steer


def create(**members: Any) -> Create:
    parsed = socket_messages.parse(dumps({"type": "response.create", "model": "m", "input": "hi"} | members).decode())
    assert isinstance(parsed, Create)
    return parsed


def test_create_message_is_split_into_a_request_body_and_its_own_members() -> None:
    parsed = create(stream=True, stream_id="lane.1", generate=False, previous_response_id="resp_x")
    warming = {"prompt_cache_options": {"prewarm": True}}
    assert parsed.body == {"model": "m", "input": "hi", "previous_response_id": "resp_x"} | warming
    assert (parsed.stream_id, parsed.generates, parsed.previous_id) == ("lane.1", False, "resp_x")
    assert parsed.request().input == "hi"


def test_a_warm_up_needs_no_input() -> None:
    text = dumps({"type": "response.create", "model": "m", "generate": False}).decode()
    parsed = socket_messages.parse(text)
    assert isinstance(parsed, Create)
    assert parsed.request().input == []
    assert parsed.size_bytes == len(text)


@pytest.mark.parametrize(
    ("members", "field", "code"),
    [
        ({"generate": "no"}, "generate", "invalid_type"),
        ({"generate": 0}, "generate", "invalid_type"),
        ({"prompt_cache_options": {"prewarm": 1}}, "prompt_cache_options.prewarm", "invalid_type"),
        ({"background": True}, "background", "unsupported_parameter"),
        ({"background": 5}, "background", "invalid_type"),
        ({"background": "yes"}, "background", "invalid_type"),
        ({"input": 42}, "input", "invalid_type"),
        ({"model": None}, "model", "invalid_type"),
        ({"foo": 1}, "foo", "unknown_parameter"),
    ],
)
def test_invalid_member_of_a_create_is_rejected_by_name(members: Any, field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        create(**members).request()
    assert (raised.value.field, raised.value.code) == (field, code)


@pytest.mark.parametrize(
    ("members", "options"),
    [
        ({"generate": False}, {"prewarm": True}),
        ({"generate": False, "prompt_cache_options": {"mode": "explicit"}}, {"mode": "explicit", "prewarm": True}),
        ({"generate": True, "prompt_cache_options": {"prewarm": True}}, {"prewarm": True}),
        ({"prompt_cache_options": {"prewarm": False}}, {"prewarm": False}),
    ],
)
def test_generate_false_is_the_prewarm_option(members: Any, options: Any) -> None:
    assert create(**members).request().as_json()["prompt_cache_options"] == options


@pytest.mark.parametrize("members", [{"background": False}, {"background": None}, {"generate": None}, {"stream": None}])
def test_null_and_false_members_are_accepted(members: Any) -> None:
    assert create(**members).request().model == "m"


@pytest.mark.parametrize(
    ("text", "field", "code"),
    [
        ("{", "message", None),
        ("[]", "message", "invalid_type"),
        ("{}", "type", "missing_required_parameter"),
        ('{"type": "response.delete"}', "type", "invalid_value"),
        ('{"type": "response.cancel", "stream_id": ""}', "stream_id", "invalid_stream_id"),
        ('{"type": "response.cancel", "response_id": 7}', "response_id", "invalid_type"),
        ('{"type": "response.cancel", "id": "resp_1"}', "id", "unknown_parameter"),
        ('{"type": ["response.create"]}', "type", "invalid_value"),
        ('{"type": "response.create", "stream_id": ""}', "stream_id", "invalid_stream_id"),
        ('{"type": "response.create", "stream_id": "a b"}', "stream_id", "invalid_stream_id"),
        ('{"type": "response.create", "stream_id": 7}', "stream_id", "invalid_stream_id"),
        ('{"type": "response.steer", "input": "x"}', "previous_response_id", "missing_required_parameter"),
        ('{"type": "response.steer", "previous_response_id": "r"}', "input", "missing_required_parameter"),
        ('{"type": "response.steer", "previous_response_id": "r", "input": 3}', "input", "invalid_type"),
    ],
)
def test_invalid_message_is_rejected(text: str, field: str, code: str | None) -> None:
    with pytest.raises(InvalidRequest) as raised:
        socket_messages.parse(text)
    assert (raised.value.field, raised.value.code) == (field, code)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("", Cancel(None, None)),
        (', "stream_id": "x", "response_id": "resp_1"', Cancel("x", "resp_1")),
        (', "stream_id": null, "response_id": null', Cancel(None, None)),
    ],
)
def test_a_cancel_names_a_lane_and_perhaps_a_response(members: str, expected: Cancel) -> None:
    assert socket_messages.parse(f'{{"type": "response.cancel"{members}}}') == expected


def test_steer_is_returned_in_its_failed_event() -> None:
    steer = socket_messages.parse('{"type": "response.steer", "previous_response_id": "resp_1", "input": "stop"}')
    assert steer == Steer("resp_1", "stop")
    event = loads(socket_messages.steer_failed(steer))
    assert (event["type"], event["sequence_number"]) == ("response.steer.failed", 0)
    assert event["steer"] == {"previous_response_id": "resp_1", "input": "stop"}
    assert (event["error"]["type"], event["error"]["code"]) == ("invalid_request_error", "steering_not_supported")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (PreviousResponseNotFound.of("resp_1"), 400, "previous_response_not_found"),
        (InvalidRequest("no"), 400, "invalid_request_error"),
        (ItemNotFound.of("msg_1"), 404, "invalid_request_error"),
        (InternalError("oh"), 500, "server_error"),
    ],
)
def test_an_error_has_a_status_and_always_a_code(error: AntiphonError, status: int, code: str) -> None:
    event = loads(socket_messages.error(error))
    WebSocketErrorEvent.model_validate(event)
    assert (event["type"], event["status"], event["error"]["code"]) == ("error", status, code)
    assert (event["error"]["message"], event["error"]["param"]) == (error.message, error.field)


def test_frames_become_messages_with_their_lane() -> None:
    first, second = {"type": "a", "n": "data: {"}, {"type": "b"}
    frames = events.encode(first) + events.KEEP_ALIVE_FRAME + events.encode(second) + events.DONE_FRAME
    assert [loads(message) for message in socket_messages.messages_of(frames, None)] == [first, second]
    assert [loads(message)["stream_id"] for message in socket_messages.messages_of(frames, "x")] == ["x", "x"]
    assert loads(socket_messages.error(InvalidRequest("no"), "x"))["stream_id"] == "x"


def test_no_message_says_that_a_response_was_cancelled() -> None:
    """OpenAI's API has no event for a cancellation: the stream just ends."""
    frames = events.encode({"type": "a"}) + events.encode({"type": events.CANCELLED})
    assert [loads(message) for message in socket_messages.messages_of(frames, None)] == [{"type": "a"}]
